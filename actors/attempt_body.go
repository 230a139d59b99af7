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

// readAll reads the whole body, at most max bytes.
func readAll(in Incoming, limit int) ([]byte, error) {
	n := in.Length()
	if n < 0 {
		n = 1024
	}
	b := make([]byte, 0, min(n, limit)+1)
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
