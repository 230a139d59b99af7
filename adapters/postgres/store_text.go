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
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 && !strings.HasPrefix(s, inHex) {
		return s
	}
	return inHex + hex.EncodeToString([]byte(s))
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
