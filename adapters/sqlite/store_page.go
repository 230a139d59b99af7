package sqlite

import (
	"bytes"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/events"
)

// A page's body is written and read here and nowhere else; migration 0006 says what it looks like. Reading understands only the
// form that writing gives.

// pageMax is the size of a body from which on a commit goes on in another page, in bytes: whoever wants one row reads all of its page.
var pageMax = 64 << 10

// page is a page as it is stored. The zero value is none.
type page struct {
	first        int64
	body, hashes []byte
}

// appendRow appends a row of n facts as it stands in a body.
func appendRow(b []byte, at events.Position, n, version int64, r *events.Row) []byte {
	b = strconv.AppendInt(append(b, '['), int64(at), 10)
	b = strconv.AppendInt(append(b, ','), n, 10)
	b = appendText(append(b, ','), r.Stream)
	b = strconv.AppendInt(append(b, ','), version, 10)
	if r.Terminal {
		b = append(b, ",1,"...)
	} else {
		b = append(b, ",0,"...)
	}
	b = strconv.AppendInt(b, r.At.UnixMicro(), 10)
	b = appendText(append(b, ','), r.Types)
	if request, known := aboutOf(r.Stream); known && request == r.Request {
		b = append(b, ",null"...)
	} else if known {
		b = appendText(append(b, ','), r.Request)
	} else {
		b = appendIfAny(b, r.Request)
	}
	b = appendIfAny(b, r.Key)
	b = appendIfAny(b, r.Upstream)
	b = appendIfAny(b, r.Node)
	b = strconv.AppendInt(append(b, ','), int64(len(r.Payload)), 10)
	b = append(append(b, ','), r.Payload...)
	return append(b, ']')
}

func appendIfAny(b []byte, s string) []byte {
	if s == "" {
		return append(b, ",null"...)
	}
	return appendText(append(b, ','), s)
}

// The bytes that have a short form behind a backslash, and it.
const (
	escapes = "\"\\/\b\f\n\r\t"
	escaped = `"\/bfnrt`
)

// appendText appends a JSON string, as json_quote does. Bytes that are no UTF-8 stay what they are: they were hashed.
func appendText(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[from:i]...)
		from = i + 1
		if short := strings.IndexByte(escapes, c); short >= 0 {
			b = append(b, '\\', escaped[short])
		} else {
			b = hex.AppendEncode(append(b, `\u00`...), []byte{c})
		}
	}
	return append(append(b, s[from:]...), '"')
}

// row is a row of a page. Its texts alias the body, nil is null; a text that was escaped stands by itself.
type row struct {
	position, n, version, at                           int64
	terminal                                           bool
	stream, types, about, key, upstream, node, payload []byte
	hash                                               []byte // nil where the page has none for it
	raw                                                []byte // all of it, as it stands in the body
	damaged                                            bool
}

// hashSize is the size of a row's hash; a page has those of its rows one behind the other.
const hashSize = 32

// damagedTypes are those of what cannot be read: no fact has that name.
const damagedTypes = "damaged"

// reading goes through the rows of a body. Where somebody has changed it so that it cannot be read on, the last row is one that
// is damaged, and stands for all that is left.
type reading struct {
	rest, hashes []byte
	next         int64 // where a row must begin that follows on the one before
	begun        bool
	done         bool
	bad          bool
}

func (p page) rows() reading { return reading{rest: p.body, hashes: p.hashes, next: p.first} }

// row reads the next row; false: there is none.
func (p *reading) row(r *row) bool {
	if p.done {
		return false
	}
	if !p.begun {
		if p.mark('['); len(p.rest) == 1 && p.rest[0] == ']' {
			p.done = true
			return false
		}
	} else if p.mark(','); len(p.rest) > 0 && p.rest[0] == '\n' {
		p.rest = p.rest[1:]
	}
	p.begun = true
	start := p.rest
	p.mark('[')
	r.position = p.number()
	if p.bad {
		r.position = p.next
	}
	r.n = p.number()
	r.stream = p.text()
	r.version = p.number()
	r.terminal = p.number() == 1
	r.at = p.number()
	r.types = p.text()
	r.about, r.key, r.upstream, r.node = p.text(), p.text(), p.text(), p.text()
	length := p.number()
	if p.bad || length < 0 || length >= int64(len(p.rest)) {
		return p.damaged(r, start)
	}
	r.payload, p.rest = p.rest[:length:length], p.rest[length:]
	if p.mark(']'); p.bad || len(p.rest) == 0 || p.rest[0] != ',' && (p.rest[0] != ']' || len(p.rest) > 1) {
		return p.damaged(r, start)
	}
	r.raw = start[:len(start)-len(p.rest)]
	r.hash, r.damaged = nil, false
	if len(p.hashes) >= hashSize {
		r.hash, p.hashes = p.hashes[:hashSize:hashSize], p.hashes[hashSize:]
	}
	p.next = r.position + r.n
	p.done = p.rest[0] == ']'
	return true
}

func (p *reading) damaged(r *row, rest []byte) bool {
	*r = row{position: r.position, n: 1, types: []byte(damagedTypes), raw: rest, damaged: true}
	p.done = true
	return true
}

func (p *reading) mark(c byte) {
	if len(p.rest) == 0 || p.rest[0] != c {
		p.bad = true
		return
	}
	p.rest = p.rest[1:]
}

// number reads an integer and the comma behind it.
func (p *reading) number() (n int64) {
	b := p.rest
	i, negative := 0, len(b) > 0 && b[0] == '-'
	if negative {
		i = 1
	}
	from := i
	for i < len(b) && b[i]-'0' <= 9 {
		n = 10*n + int64(b[i]-'0')
		i++
	}
	if i == from || i-from > 18 || i == len(b) || b[i] != ',' {
		p.bad = true
		return 0
	}
	p.rest = b[i+1:]
	if negative {
		return -n
	}
	return n
}

// text reads a string or null and the comma behind it.
func (p *reading) text() []byte {
	b := p.rest
	if len(b) > 5 && string(b[:5]) == "null," {
		p.rest = b[5:]
		return nil
	}
	if len(b) == 0 || b[0] != '"' {
		p.bad = true
		return nil
	}
	end := 1 + bytes.IndexByte(b[1:], '"')
	if end > 0 && bytes.IndexByte(b[1:end], '\\') >= 0 {
		return p.escaped()
	}
	if end <= 0 || end+1 >= len(b) || b[end+1] != ',' {
		p.bad = true
		return nil
	}
	p.rest = b[end+2:]
	return b[1:end:end]
}

// escaped is text for a string with escapes, as appendText or SQLite's json_quote has written it.
func (p *reading) escaped() []byte {
	text := []byte{}
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; c {
		case '"':
			p.rest = p.rest[i+1:]
			p.mark(',')
			return text
		case '\\':
			if i++; i == len(p.rest) {
				break
			}
			if short := strings.IndexByte(escaped, p.rest[i]); short >= 0 {
				text = append(text, escapes[short])
				continue
			}
			if len(p.rest)-i < 5 || string(p.rest[i:i+3]) != "u00" {
				p.bad = true
				return nil
			}
			one, err := hex.AppendDecode(text, p.rest[i+3:i+5])
			if err != nil {
				p.bad = true
				return nil
			}
			text = one
			i += 4
		default:
			text = append(text, c)
		}
	}
	p.bad = true
	return nil
}

// request is the request that the row is about; "" for none.
func (r *row) request() []byte {
	if r.about != nil {
		return r.about
	}
	request, is := bytes.CutPrefix(r.stream, []byte(events.RequestStreams))
	if !is {
		return nil
	}
	return request
}

// sum is the hash, zero where there is none.
func (r *row) sum() (sum [hashSize]byte) {
	copy(sum[:], r.hash)
	return sum
}

// stored is a copy of the row, without its payload.
func (r *row) stored(texts interned) (s events.Stored) {
	s.Position, s.N, s.Version = events.Position(r.position), r.n, r.version
	s.Terminal = r.terminal
	s.Stream = string(r.stream)
	s.At = time.UnixMicro(r.at).UTC()
	s.Types = texts.of(r.types)
	if r.about != nil {
		s.Request = string(r.about)
	} else {
		s.Request, _ = aboutOf(s.Stream)
	}
	s.Key, s.Upstream, s.Node = texts.of(r.key), texts.of(r.upstream), texts.of(r.node)
	s.Hash = r.sum()
	return s
}

// whole is a copy of the row.
func (r *row) whole(texts interned) events.Stored {
	s := r.stored(texts)
	s.Payload = bytes.Clone(r.payload)
	return s
}

// end is the position of the row's last fact.
func (r *row) end() int64 { return r.position + r.n - 1 }
