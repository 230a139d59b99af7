package postgres

import (
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// inHex begins a text that the column could not hold as it is: its bytes follow, in hexadecimal.
const inHex = `\x`

// text is a string as a text column can hold it; plain is its inverse.
func text(s string) string {
	if isASCII(s) && s[0] != inHex[0] {
		return s
	}
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 && !strings.HasPrefix(s, inHex) {
		return s
	}
	return inHex + hex.EncodeToString([]byte(s))
}

// isASCII says that a text has bytes, all between 1 and 127, as nearly every one. It looks at eight at a time: a byte gets its
// high bit where that of the text has it, or where the subtraction borrows, since it is 0. What a borrow makes of the bytes above
// it does not matter.
func isASCII(s string) bool {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	if s == "" {
		return false
	}
	for ; len(s) >= 8; s = s[8:] {
		x := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		if (x|(x-ones))&high != 0 {
			return false
		}
	}
	for i := range len(s) {
		if s[i]-1 >= 0x7f {
			return false
		}
	}
	return true
}

func plain(b []byte) string {
	if rest, ok := strings.CutPrefix(string(b), inHex); ok {
		if raw, err := hex.DecodeString(rest); err == nil {
			return string(raw)
		}
	}
	return string(b)
}

// odd is a payload as the column can hold it that is no JSON, a case for audits: a string of its bytes in hexadecimal.
// No payload of the codec is a string.
func odd(payload []byte) []byte {
	if utf8.Valid(payload) && payload[0] != '"' && jsontext.Value(payload).IsValid(jsontext.AllowDuplicateNames(true)) {
		return payload
	}
	return []byte(`"` + hex.EncodeToString(payload) + `"`)
}

// payloadOf copies the column.
func payloadOf(b []byte) []byte {
	if n := len(b); n >= 2 && b[0] == '"' {
		if raw, err := hex.DecodeString(string(b[1 : n-1])); err == nil {
			return raw
		}
	}
	return append([]byte(nil), b...)
}
