package events

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// scratch are the walkers that write. Each puts one payload behind the other into memory that it allocates for many: a
// payload belongs to whoever has its row, and its walker only ever writes behind it.
var scratch = sync.Pool{New: func() any { return &members{} }}

// A walker allocates leafSize at once, and anew when less than leafLeast of it is left: most payloads are smaller.
const (
	leafSize  = 32 << 10
	leafLeast = 2 << 10
)

// begin begins a payload.
func (m *members) begin() {
	if cap(m.out)-len(m.out) < leafLeast {
		m.out = make([]byte, 0, leafSize)
	}
	m.from = len(m.out)
	m.out, m.tags = append(m.out, '['), m.tags[:0]
}

// next begins a fact.
func (m *members) next(tag string) {
	if len(m.tags) > 0 {
		m.out, m.tags = append(m.out, ','), append(m.tags, ' ')
	}
	m.tags = append(m.tags, tag...)
}

// take ends the payload and gives it away.
func (m *members) take() []byte {
	m.out = append(m.out, ']')
	payload := m.out[m.from:len(m.out):len(m.out)]
	if cap(m.out) > leafSize { // it did not fit: what was before it has been copied along
		payload, m.out = bytes.Clone(payload), nil
	}
	return payload
}

// room lengthens out by n bytes and returns them, to be filled.
func (m *members) room(n int) []byte {
	from := len(m.out)
	if cap(m.out)-from < n {
		m.out = append(m.out, make([]byte, n)...)
	} else {
		m.out = m.out[:from+n]
	}
	return m.out[from:]
}

// writeText writes a member that is a JSON string: as it is when it is plain, else by the library's rules.
func (m *members) writeText(quoted, s string) {
	from, n := len(m.out), len(quoted)
	b := m.room(n + len(s) + 2)
	copy(b, quoted)
	b[n], b[len(b)-1] = '"', '"'
	if !copyPlain(b[n+1:], s) {
		m.out, _ = jsontext.AppendQuote(m.out[:from+n], s) // the error tells of replaced invalid UTF-8, which is wanted
	}
}

// writeInteger writes a member that is a whole number.
func (m *members) writeInteger(quoted string, v int64) {
	if v < 0 {
		m.out = strconv.AppendInt(append(m.out, quoted...), v, 10)
		return
	}
	u := uint64(v)
	b := m.room(len(quoted) + digits(u))
	copy(b, quoted)
	i := len(b) - 1
	for ; u > 9; i-- {
		tens := u / 10
		b[i] = '0' + byte(u-10*tens)
		u = tens
	}
	b[i] = '0' + byte(u)
}

// digits is how many a number has.
func digits(u uint64) int {
	n := 1
	for ; u > 999; n += 3 {
		u /= 1000
	}
	switch {
	case u > 99:
		return n + 2
	case u > 9:
		return n + 1
	}
	return n
}

// plain are the bytes that stand for themselves in a JSON string: printable ASCII without quote and backslash.
var plain = func() (is [256]bool) {
	for c := ' '; c < 0x80; c++ {
		is[c] = c != '"' && c != '\\'
	}
	return is
}()

// copyPlain copies a text into b, which has room for it, and says that all its bytes are plain; else b holds a part of it. It
// looks at eight bytes at a time: a byte of odd gets its high bit where that of the text is not ASCII, or where a subtraction
// borrows, since it is below a space, a quote or a backslash. What odd says of the bytes above the first such one may be
// wrong, and does not matter.
func copyPlain(b []byte, s string) bool {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	for ; len(s) >= 8; b, s = b[8:], s[8:] {
		x := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		odd := x | (x - ' '*ones) | ((x ^ '"'*ones) - ones) | ((x ^ '\\'*ones) - ones)
		if odd&high != 0 {
			return false
		}
		binary.LittleEndian.PutUint64(b, x)
	}
	for i := 0; i < len(s); i++ {
		if !plain[s[i]] {
			return false
		}
		b[i] = s[i]
	}
	return true
}
