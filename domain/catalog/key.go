package catalog

import (
	"encoding/hex"
	"strings"
)

const sha256Prefix = "sha256:"

// SHA256 is the hash of a key whose hash has that form.
func (r *Key) SHA256() (sum [32]byte, ok bool) {
	text, isSHA := strings.CutPrefix(r.Hash, sha256Prefix)
	if !isSHA || len(text) != 2*len(sum) {
		return sum, false
	}
	_, err := hex.Decode(sum[:], []byte(text))
	return sum, err == nil
}

// IsBcrypt says that the hash has bcrypt's form: $2a$, $2b$ or $2y$, two digits of cost, 53 characters.
func (r *Key) IsBcrypt() bool {
	h := r.Hash
	if len(h) != 60 || h[0] != '$' || h[1] != '2' || strings.IndexByte("aby", h[2]) < 0 || h[3] != '$' || h[6] != '$' {
		return false
	}
	if cost := int(h[4]-'0')*10 + int(h[5]-'0'); h[4] < '0' || h[4] > '3' || h[5] < '0' || h[5] > '9' || cost < 4 || cost > 31 {
		return false
	}
	for i := 7; i < len(h); i++ {
		b := h[i]
		if (b < '0' || b > '9') && (b < 'a' || b > 'z') && (b < 'A' || b > 'Z') && b != '.' && b != '/' {
			return false
		}
	}
	return true
}

// AllowsModel says that the key may ask for the model: its list is empty, names it, or has a glob for it. A request
// without a model passes; the upstream will say what it thinks of that (A31, A35).
func (r *Key) AllowsModel(model string) bool {
	if len(r.Models) == 0 || model == "" {
		return true
	}
	for _, pattern := range r.Models {
		if pattern == model || isGlob(pattern) && globMatch(pattern, model) {
			return true
		}
	}
	return false
}
