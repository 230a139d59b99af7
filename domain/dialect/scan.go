package dialect

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// depthMax bounds the nesting of what clients and upstreams send; real bodies stay below 40.
const depthMax = 512

// Why a text is no JSON. The texts are shown to clients.
const (
	badEnd      = "unexpected end of JSON"
	badValue    = "a JSON value was expected"
	badKey      = "a member name in double quotes was expected"
	badColon    = "a colon was expected"
	badComma    = "a comma or a closing bracket was expected"
	badString   = "unterminated string"
	badEscape   = "invalid escape sequence"
	badControl  = "control character inside a string"
	badUTF8     = "invalid UTF-8"
	badNumber   = "invalid number"
	badDepth    = "nested deeper than 512 levels"
	badTrailing = "data after the end of the JSON value"
)

const (
	everyByte = 0x0101010101010101
	highBits  = 0x8080808080808080
)

func skipSpace(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// stops marks the bytes of a word that end a run of plain string bytes: a quote, a backslash or a control character.
func stops(w uint64) uint64 { return marks(w) & highBits }

// marks is stops in the top bits of its bytes; the other bits mean nothing. All stops are below 0x80, and so is each byte that
// a subtraction can borrow for; so the lowest marked byte is always a true one. With its second bit turned over, a quote is
// 0x20 and stands right behind the control characters, which stay among themselves: one subtraction finds both.
func marks(w uint64) uint64 {
	low, slash := w^(2*everyByte), w^('\\'*everyByte)
	return ((low - 0x21*everyByte) | (slash - everyByte)) &^ w
}

// stop finds the next byte from i that ends a run of plain string bytes. It is len(b) if there is none. Eight bytes are looked
// at in one step, and four times as many once a run turns out to be long. high collects the words, so that its top bits tell
// whether the run was pure ASCII.
func stop(b []byte, i int, high uint64) (int, uint64) {
	for far := i + 32; i+8 <= len(b); {
		w := binary.LittleEndian.Uint64(b[i:])
		if hit := stops(w); hit != 0 {
			return stopIn(w, hit, i, high)
		}
		high |= w
		if i += 8; i < far {
			continue
		}
		for ; i+32 <= len(b); i += 32 {
			block := b[i : i+32]
			w0, w1 := binary.LittleEndian.Uint64(block), binary.LittleEndian.Uint64(block[8:])
			w2, w3 := binary.LittleEndian.Uint64(block[16:]), binary.LittleEndian.Uint64(block[24:])
			m0, m1, m2, m3 := marks(w0), marks(w1), marks(w2), marks(w3)
			switch {
			case (m0|m1|m2|m3)&highBits == 0:
				high |= w0 | w1 | w2 | w3
			case m0&highBits != 0:
				return stopIn(w0, m0&highBits, i, high)
			case m1&highBits != 0:
				return stopIn(w1, m1&highBits, i+8, high|w0)
			case m2&highBits != 0:
				return stopIn(w2, m2&highBits, i+16, high|w0|w1)
			default:
				return stopIn(w3, m3&highBits, i+24, high|w0|w1|w2)
			}
		}
	}
	for ; i < len(b); i++ {
		c := b[i]
		if c == '"' || c == '\\' || c < 0x20 {
			break
		}
		high |= uint64(c)
	}
	return i, high
}

// stopIn is the lowest stop that hit marks in the word w at i, with the bytes before it in high.
func stopIn(w, hit uint64, i int, high uint64) (int, uint64) {
	n := bits.TrailingZeros64(hit)
	return i + n>>3, high | w&(1<<n-1)
}

// scanString reads a string whose opening quote is before i. end is behind the closing quote; reason is not empty if
// the string is invalid, and then end is where.
func scanString(b []byte, i int) (end int, reason string) {
	start, high := i, uint64(0)
	for {
		i, high = stop(b, i, high)
		if i >= len(b) {
			return i, badString
		}
		switch b[i] {
		case '"':
			if high&highBits != 0 && !utf8.Valid(b[start:i]) {
				return start, badUTF8
			}
			return i + 1, ""
		case '\\':
			if i+1 < len(b) && unescaped[b[i+1]] != 0 {
				i += 2
				continue
			}
			n := escapeLen(b[i:])
			if n == 0 {
				return i, badEscape
			}
			i += n
		default:
			return i, badControl
		}
	}
}

// escapeLen is the length of the escape sequence at the start of b, 0 if it is none.
func escapeLen(b []byte) int {
	if len(b) < 2 || b[0] != '\\' {
		return 0
	}
	if unescaped[b[1]] != 0 {
		return 2
	}
	if b[1] == 'u' {
		if _, ok := hex4(b[2:]); ok {
			return 6
		}
	}
	return 0
}

// hex4 reads four hexadecimal digits.
func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

func digits(b []byte, i int) int {
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	return i
}

// scanNumber reads a number at i.
func scanNumber(b []byte, i int) (end int, reason string) {
	if i < len(b) && b[i] == '-' {
		i++
	}
	from := i
	if i = digits(b, i); i == from || b[from] == '0' && i > from+1 {
		return from, badNumber
	}
	if i < len(b) && b[i] == '.' {
		from = i + 1
		if i = digits(b, from); i == from {
			return i, badNumber
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		from = i + 1
		if from < len(b) && (b[from] == '+' || b[from] == '-') {
			from++
		}
		if i = digits(b, from); i == from {
			return i, badNumber
		}
	}
	return i, ""
}

// scanScalar reads a string, number or literal at i.
func scanScalar(b []byte, i int) (end int, reason string) {
	if i >= len(b) {
		return i, badEnd
	}
	word := ""
	switch c := b[i]; c {
	case '"':
		return scanString(b, i+1)
	case 't':
		word = "true"
	case 'f':
		word = "false"
	case 'n':
		word = "null"
	default:
		if c == '-' || c >= '0' && c <= '9' {
			return scanNumber(b, i)
		}
		return i, badValue
	}
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return i, badValue
	}
	return i + len(word), ""
}

// scanKey reads a member's name and its colon at i; end is behind the colon. simple: the name is as it is written, without
// escapes.
func scanKey(b []byte, i int) (key Span, end int, simple bool, reason string) {
	if i >= len(b) || b[i] != '"' {
		return Span{}, i, false, badKey
	}
	end, high := stop(b, i+1, 0)
	if simple = end < len(b) && b[end] == '"'; simple && high&highBits == 0 {
		end++
	} else if end, reason = scanString(b, i+1); reason != "" {
		return Span{}, end, false, reason
	}
	key = Span{i + 1, end - 1}
	if end < len(b) && b[end] == ':' {
		return key, end + 1, simple, ""
	}
	if end = skipSpace(b, end); end >= len(b) || b[end] != ':' {
		return Span{}, end, false, badColon
	}
	return key, end + 1, simple, ""
}

// scanValue reads one whole value at i (after spaces), which lies inside depth open containers. It walks without
// recursion; one bit per level remembers whether an object or an array is open.
func scanValue(b []byte, i, depth int) (end int, reason string) {
	var objects [depthMax / 64]uint64
	base := depth
	for {
		if i = skipSpace(b, i); i < len(b) && (b[i] == '{' || b[i] == '[') {
			if depth >= depthMax {
				return i, badDepth
			}
			opened := b[i]
			word, bit := depth>>6, uint64(1)<<(depth&63)
			depth++
			i = skipSpace(b, i+1)
			closes := i < len(b) && b[i] == opened+2
			if opened == '[' {
				objects[word] &^= bit
				if !closes {
					continue
				}
			} else {
				objects[word] |= bit
				if !closes {
					if _, i, _, reason = scanKey(b, i); reason != "" {
						return i, reason
					}
					continue
				}
			}
		} else if i, reason = scanScalar(b, i); reason != "" {
			return i, reason
		}
		// a value has ended, or an empty container is about to: close what closes, then go on to the next value
		if i, depth, reason = closeAll(b, i, depth, base, &objects); reason != "" || depth == base {
			return i, reason
		}
	}
}

// closeAll closes the containers that end at i. If one stays open, it steps over the comma (and the next key) to the
// next value.
func closeAll(b []byte, i, depth, base int, objects *[depthMax / 64]uint64) (int, int, string) {
	for depth > base {
		if i = skipSpace(b, i); i >= len(b) {
			return i, depth, badEnd
		}
		object := objects[(depth-1)>>6]>>((depth-1)&63)&1 == 1
		switch c := b[i]; {
		case c == ',':
			i++
			if object {
				var reason string
				_, i, _, reason = scanKey(b, skipSpace(b, i))
				return i, depth, reason
			}
			return i, depth, ""
		case c == '}' && object, c == ']' && !object:
			i++
			depth--
		default:
			return i, depth, badComma
		}
	}
	return i, depth, ""
}
