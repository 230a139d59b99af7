package catalog

import (
	"encoding/hex"
	"slices"
	"strings"
	"time"
)

const (
	sha256Prefix  = "sha256:"
	bcryptCostMax = "15" // two digits, as in a hash; some two seconds
)

// SHA256 is the hash of a key whose hash has that form.
func (r *Key) SHA256() (sum [32]byte, ok bool) {
	text, isSHA := strings.CutPrefix(r.Hash, sha256Prefix)
	if !isSHA || len(text) != 2*len(sum) {
		return sum, false
	}
	_, err := hex.Decode(sum[:], []byte(text))
	return sum, err == nil
}

// isBcrypt says that the hash has bcrypt's form: $2a$, $2b$ or $2y$, two digits of cost, 53 characters.
func (r *Key) isBcrypt() bool {
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

// allowsModel says that the key may ask for the model: its list is empty, names it, or has a glob for it. A request
// without a model passes; the upstream will say what it thinks of that (A31, A35).
func (r *Key) allowsModel(model string) bool {
	if len(r.Models) == 0 || model == "" {
		return true
	}
	for _, pattern := range r.Models {
		if pattern == model || isGlob(pattern) && Glob(pattern, model) {
			return true
		}
	}
	return false
}

// Values of Key.Access.
const (
	Restricted   = "restricted"
	Unrestricted = "unrestricted"
)

func (c *checker) key(r Key, s *State) Resource {
	c.id(r.ID, "")
	if sum, ok := r.SHA256(); ok {
		r.Hash = sha256Prefix + hex.EncodeToString(sum[:])
	} else if !r.isBcrypt() {
		c.fail("hash", "must be sha256: and 64 hex digits, or a bcrypt hash ($2a$, $2b$ or $2y$)")
	} else if r.Hash[4:6] > bcryptCostMax {
		c.fail("hash", "has a bcrypt cost above %s: whoever tries a key would keep a processor busy for seconds, or days", bcryptCostMax)
	}
	if other, taken := s.hashes[r.Hash]; taken && other != r.ID {
		c.fail("hash", "is already the hash of key %s", other)
	}
	c.text("prefix", r.Prefix, false)
	if len(r.Prefix) > 32 {
		c.fail("prefix", "is longer than 32 bytes")
	}
	switch {
	case r.Access == "" && r.Upstreams == nil:
		r.Access = Unrestricted
	case r.Access == "":
		r.Access = Restricted // also for an empty list: nothing is allowed, not everything
	case r.Access == Unrestricted && len(r.Upstreams) > 0:
		c.fail("upstreams", "only with access: restricted")
	case r.Access != Restricted && r.Access != Unrestricted:
		c.fail("access", "must be restricted or unrestricted")
	}
	r.Upstreams = c.ids("upstreams", r.Upstreams)
	for i, m := range r.Models {
		c.text(indexed("models", i), m, true)
	}
	r.Models = emptyIsNil(slices.Clone(r.Models))
	r.Multiplier = c.multiplier("multiplier", r.Multiplier)
	r.Slots = c.slots(r.Slots)
	r.Priority, r.Weight = c.waiting(r.Priority, r.Weight)
	r.ExpiresAt = c.moment("expires_at", r.ExpiresAt)
	r.Limits = c.limits(r.Limits, true)
	c.budget(r.Budget)
	r.IPs, r.Curfew = c.ips(r.IPs), c.curfew(r.Curfew)
	r.MaxIPs, r.IPWindow = c.maxIPs(r.MaxIPs, r.IPWindow)
	return &r
}

// keyIndex finds keys by their secret.
type keyIndex struct {
	byID     map[string]*Key
	bySHA256 map[[32]byte]*Key
	bcrypt   map[string][]*Key // by prefix
	lengths  []int             // of the prefixes of bcrypt, ascending
}

// KeyBySHA256 is the key whose secret has this hash, revoked and expired ones too; nil when there is none.
func (s *Snapshot) KeyBySHA256(sum [32]byte) *Key { return s.keys.bySHA256[sum] }

// BcryptKeys is the keys with a bcrypt hash that a secret could belong to: those whose prefix the secret begins with,
// and those that have none. The secret is not kept.
func (s *Snapshot) BcryptKeys(secret []byte) []*Key {
	var found []*Key
	for _, n := range s.keys.lengths {
		if n > len(secret) {
			break
		}
		if more := s.keys.bcrypt[string(secret[:n])]; found == nil {
			found = slices.Clip(more)
		} else {
			found = append(found, more...)
		}
	}
	return found
}

func (x *keyIndex) add(k *Key) (fault string) {
	if sum, ok := k.SHA256(); ok {
		if other := x.bySHA256[sum]; other != nil {
			return "is already the hash of key " + other.ID
		}
		x.bySHA256[sum] = k
	} else if k.isBcrypt() {
		x.bcrypt[k.Prefix] = append(x.bcrypt[k.Prefix], k)
		if at, found := slices.BinarySearch(x.lengths, len(k.Prefix)); !found {
			x.lengths = slices.Insert(x.lengths, at, len(k.Prefix))
		}
	} else {
		return "is not a hash"
	}
	x.byID[k.ID] = k
	return ""
}

// Denial is why a key is not accepted; "" accepts it. The values are codes of the table of refusals.
type Denial string

// The denials.
const (
	Accepted    Denial = ""
	InvalidKey  Denial = "INVALID_API_KEY"
	ExpiredKey  Denial = "API_KEY_EXPIRED"
	DisabledKey Denial = "API_KEY_DISABLED"
)

// Authorize says whether a key whose secret was verified may be used at a time. It reads this snapshot only, so a
// revocation holds from the next request on, whatever a cache of verified secrets says (A23, A24). An owner that is
// not in force counts as disabled.
func (s *Snapshot) Authorize(k *Key, now time.Time) Denial {
	_, denied := s.Present(k, now)
	return denied
}

// Present is Authorize with what this snapshot says of the key, when it is accepted.
func (s *Snapshot) Present(k *Key, now time.Time) (*Key, Denial) {
	if k == nil {
		return nil, InvalidKey
	}
	verified := k.Hash
	k = s.keys.byID[k.ID] // what was given may be from an older snapshot
	if k == nil || k.Hash != verified || k.Revoked {
		return nil, InvalidKey
	}
	if k.ExpiresAt != nil && !now.Before(*k.ExpiresAt) {
		return nil, ExpiredKey
	}
	if k.User != "" {
		if owner := s.users[k.User]; owner == nil || owner.Disabled {
			return nil, DisabledKey
		}
	}
	return k, Accepted
}
