package actors

import (
	"bytes"
	"errors"
	"io"
	"strings"
)

const (
	evidenceMax     = 512       // bytes of an error body kept in the event
	errorMax        = 256 << 10 // bytes of an error body that are read and passed on
	decodedErrorMax = 1 << 20   // bytes of its plain form that are looked at
	ruleMax         = 64 << 10  // bytes of it that the operator's rules see
)

// Room is memory for whole answers that are not long. A connection lends it to each of its requests in turn: from its call
// until its answer has been written, the answer owns what is in it. The zero value has none yet.
type Room struct{ b []byte }

const (
	roomMax  = 8 << 10 // bytes of an answer that is read into a Room
	roomStep = 1 << 10 // by which one grows, since answers are rarely as long as the last
)

// take is the room, empty, with space for n bytes; what is long has memory of its own. A nil Room has no memory.
func (r *Room) take(n int) []byte {
	if r == nil || n > roomMax {
		return make([]byte, 0, n)
	}
	if cap(r.b) < n {
		r.b = make([]byte, 0, (n+roomStep-1)/roomStep*roomStep)
	}
	return r.b[:0]
}

// readAll reads the whole body, at most max bytes, into the room as far as it can.
func readAll(in Incoming, limit int, room *Room) ([]byte, error) {
	n := in.Length()
	if n < 0 {
		n = 1024
	}
	b := room.take(min(n, limit) + 1)
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		k, err := in.Read(b[len(b):min(cap(b), limit+1)])
		b = b[:len(b)+k]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return b, err
		}
		if len(b) > limit {
			return b[:limit], &SendError{Phase: PhaseMalformed, Err: errors.New("the answer is too large")}
		}
	}
}

// decoded is the plain form of a body, at most max bytes of it; the body itself when it is not compressed or can not
// be read.
func decoded(in Incoming, body []byte, limit int64) []byte {
	if in.Header("Content-Encoding") == "" {
		return body
	}
	r, err := in.Decode(bytes.NewReader(body))
	if err != nil {
		return body
	}
	plain, err := io.ReadAll(io.LimitReader(r, limit))
	if err != nil && len(plain) == 0 {
		return body
	}
	return plain
}

func clip(s string) string { return clipTo(s, evidenceMax) }

// clipTo is the start of s as valid text. It never cuts a character in two.
func clipTo(s string, n int) string {
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "")
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
