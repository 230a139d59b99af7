package dialect

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// countMax bounds every count that an upstream reports: sums of it can never overflow.
const countMax = 1 << 40

// count reads a JSON number as a count: whole part, at least 0, at most countMax.
func count(b []byte) (int64, bool) {
	if len(b) == 0 || b[0] != '-' && (b[0] < '0' || b[0] > '9') {
		return 0, false
	}
	var n int64
	for _, c := range b {
		if c < '0' || c > '9' {
			return countFloat(b)
		}
		if n = n*10 + int64(c-'0'); n > countMax {
			return countMax, true
		}
	}
	return n, true
}

// countFloat is count for numbers with a sign, a fraction or an exponent, which no provider should send.
func countFloat(b []byte) (int64, bool) {
	f, _ := strconv.ParseFloat(string(b), 64) // out of range is ±Inf, which the bounds below catch
	switch {
	case f >= countMax:
		return countMax, true
	case f > 0:
		return int64(f), true
	}
	return 0, true
}

// plain is the content of a valid JSON string without escapes; raw itself if it has none.
func plain(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	return unescape(make([]byte, 0, len(raw)), raw)
}

// unescape appends the content of a valid JSON string to dst. A lone surrogate becomes U+FFFD, as other readers do.
func unescape(dst, raw []byte) []byte {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:i]...)
		raw = raw[i:]
		if raw[1] != 'u' {
			dst = append(dst, unescaped[raw[1]])
			raw = raw[2:]
			continue
		}
		r, n := escapedRune(raw)
		dst = utf8.AppendRune(dst, r)
		raw = raw[n:]
	}
}

var unescaped = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escapedRune reads the \u escape (or the pair of them) at the start of raw.
func escapedRune(raw []byte) (r rune, length int) {
	r, _ = hex4(raw[2:])
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if len(raw) >= 12 && raw[6] == '\\' && raw[7] == 'u' {
		low, _ := hex4(raw[8:])
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return utf8.RuneError, 6
}

// textLen is the number of UTF-8 bytes that a valid JSON string stands for.
func textLen(raw []byte) int64 {
	n := len(raw)
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return int64(n)
		}
		raw = raw[i:]
		if raw[1] != 'u' {
			n--
			raw = raw[2:]
			continue
		}
		r, length := escapedRune(raw)
		n -= length - utf8.RuneLen(r)
		raw = raw[length:]
	}
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string. Control characters are escaped, invalid UTF-8 becomes U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		size, escape := 1, ""
		switch {
		case c == '"':
			escape = `\"`
		case c == '\\':
			escape = `\\`
		case c == '\n':
			escape = `\n`
		case c == '\r':
			escape = `\r`
		case c == '\t':
			escape = `\t`
		case c >= utf8.RuneSelf:
			var r rune
			if r, size = utf8.DecodeRuneInString(s[i:]); r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
			escape = "\uFFFD"
		}
		dst = append(dst, s[from:i]...)
		if escape != "" {
			dst = append(dst, escape...)
		} else {
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i += size
		from = i
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}
