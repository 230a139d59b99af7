package events

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"
)

// The form of a segment of the spool: a heading (the text, and 32 bytes that name the store, see originOf), then frames until
// its end or until a place where none can be read. A frame is the length of its body, the CRC-32C of that length and the body (4 bytes each, little-endian), and the body:
// one append, with all that is needed to make it again. Places that were never written are zero, and no frame. The length of the
// first frame of each write has frameFirst set: what is in front of it was on disk before it was written.
const (
	spoolHeading = "penstock spool1\n"
	frames0      = len(spoolHeading) + 32 // where the first frame is
	frameHead    = 8
	frameMax     = 1 << 30 // bytes of a body; what claims more is no frame
	frameFirst   = 1 << 31
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errNoFrame says that no whole frame is at a place.
var errNoFrame = errors.New("no frame")

// spooled is one append of the spool.
type spooled struct {
	Append
	n    int64 // the place of the append in the journal that wrote it
	size int64 // of its frame

	unnumbered bool // it is one row that the store is to number
}

// appendFrame writes an encoded append behind b, the first of a write at its beginning.
func appendFrame(b []byte, n int64, a *Append) []byte {
	at := len(b)
	b = append(b, make([]byte, frameHead)...)
	b = binary.AppendVarint(b, n)
	b = binary.AppendUvarint(b, uint64(len(a.Rows)))
	for i := range a.Rows {
		r := &a.Rows[i]
		b = appendShort(b, r.Stream)
		b = binary.AppendVarint(b, r.Version)
		if r.Terminal {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
		b = binary.AppendVarint(b, r.At.UnixMicro())
		for _, s := range []string{r.Node, r.Request, r.Key, r.Upstream, r.Types} {
			b = appendShort(b, s)
		}
		b = appendShort(b, r.Payload)
	}
	b = binary.AppendUvarint(b, uint64(len(a.Secrets)))
	for i := range a.Secrets {
		s := &a.Secrets[i]
		b = appendShort(b, s.ID)
		b = binary.AppendVarint(b, s.Version)
		b = appendShort(b, s.Sealed)
		b = appendShort(b, s.Digest)
	}
	head, length := b[at:at+frameHead], uint32(len(b)-at-frameHead)
	if at == 0 {
		length |= frameFirst
	}
	binary.LittleEndian.PutUint32(head, length)
	binary.LittleEndian.PutUint32(head[4:], frameSum(head[:4], b[at+frameHead:]))
	return b
}

func frameSum(length, body []byte) uint32 {
	return crc32.Update(crc32.Checksum(length, castagnoli), castagnoli, body)
}

func appendShort[T ~string | ~[]byte](b []byte, s T) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// frameAt is the body of the frame at the start of b, which it aliases. more > 0: b must be that long to tell. The error
// is errNoFrame.
func frameAt(b []byte) (body []byte, more int, err error) {
	if len(b) < frameHead {
		return nil, frameHead, nil
	}
	length := binary.LittleEndian.Uint32(b) &^ frameFirst
	if length == 0 || length > frameMax {
		return nil, 0, errNoFrame
	}
	end := frameHead + int(length)
	if len(b) < end {
		return nil, end, nil
	}
	body = b[frameHead:end]
	if frameSum(b[:4], body) != binary.LittleEndian.Uint32(b[4:]) {
		return nil, 0, errNoFrame
	}
	return body, 0, nil
}

// firstFrame is where the first whole frame is that begins a write, -1 when there is none.
func firstFrame(b []byte) int {
	for at := 0; at+frameHead < len(b); at++ {
		if length := binary.LittleEndian.Uint32(b[at:]); length < frameFirst || length&^frameFirst > uint32(len(b)-at-frameHead) {
			continue
		}
		if body, more, err := frameAt(b[at:]); err == nil && more == 0 && body != nil {
			return at
		}
	}
	return -1
}

// decodeFrame makes the append again, facts included. The error wraps ErrFact.
func decodeFrame(body []byte) (spooled, error) {
	f := fields{rest: body}
	s := spooled{n: f.number(), size: int64(frameHead + len(body))}
	for range f.count() {
		r := Row{Stream: f.text(), Version: f.number(), Terminal: f.number1() == 1, At: time.UnixMicro(f.number()).UTC()}
		r.Node, r.Request, r.Key, r.Upstream, r.Types = f.text(), f.text(), f.text(), f.text(), f.text()
		r.Payload = []byte(f.text())
		if f.bad {
			break
		}
		var err error
		if r.Facts, err = Decode(r.Types, r.Payload); err != nil {
			return s, fmt.Errorf("stream %s: %w", r.Stream, err)
		}
		s.Rows = append(s.Rows, r)
	}
	for range f.count() {
		s.Secrets = append(s.Secrets, Secret{ID: f.text(), Version: f.number(), Sealed: []byte(f.text()), Digest: []byte(f.text())})
	}
	if f.bad || len(f.rest) > 0 || len(s.Rows) == 0 {
		return s, fmt.Errorf("%w: the frame is whole, but no append of this version", ErrFact)
	}
	s.unnumbered = len(s.Rows) == 1 && s.Rows[0].Version == AnyVersion
	return s, nil
}

// fields reads a body. What is not there reads as zero and makes it bad.
type fields struct {
	rest []byte
	bad  bool
}

func (f *fields) number() int64 {
	v, n := binary.Varint(f.rest)
	return took(f, v, n)
}

func (f *fields) count() uint64 {
	v, n := binary.Uvarint(f.rest)
	return took(f, v, n)
}

func took[T int64 | uint64](f *fields, v T, n int) T {
	if n <= 0 || f.bad {
		f.bad, f.rest = true, nil
		return 0
	}
	f.rest = f.rest[n:]
	return v
}

// number1 is a number of one byte.
func (f *fields) number1() byte {
	if len(f.rest) == 0 {
		f.bad = true
		return 0
	}
	b := f.rest[0]
	f.rest = f.rest[1:]
	return b
}

func (f *fields) text() string {
	n := f.count()
	if n > uint64(len(f.rest)) {
		f.bad, f.rest = true, nil
		return ""
	}
	s := string(f.rest[:n])
	f.rest = f.rest[n:]
	return s
}
