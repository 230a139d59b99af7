package catalog

import "strings"

// maskMark is in every masked secret and in no provider's secret.
const maskMark = "***"

// Mask shows a secret to people: the first three and the last four characters, "sk-***1234" (C32). Secrets of fewer
// than 12 characters show nothing. "" stays "".
func Mask(secret string) string {
	switch {
	case secret == "":
		return ""
	case len(secret) < 12:
		return maskMark
	}
	return clean(secret[:3]) + maskMark + clean(secret[len(secret)-4:])
}

// clean keeps a cut multi-byte character from becoming invalid text.
func clean(s string) string { return strings.ToValidUTF8(s, "?") }

// isMasked says that a text is what Mask made rather than a secret.
func isMasked(s string) bool { return strings.Contains(s, maskMark) }
