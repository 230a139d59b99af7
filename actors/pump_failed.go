package actors

import (
	"bytes"
	"math"

	"github.com/penstock/penstock/domain/dialect"
)

// endWithFailure ends what is ready, of which the part from there on is new, where the stream says that it has failed; told: it had
// said so before.
func (s *stream) endWithFailure(from int, told bool) {
	if s.plain && s.meter.Failed() {
		end := from + s.untilFailure(s.ready[from:], told)
		s.ready = append(s.ready[:from], s.l.withoutSecret(s.ready[from:end])...)
	}
}

// untilFailure is the length of whole events up to the one that says that the stream has failed, which may lack its last blank line.
// Some upstreams send their mark of a complete answer all the same. An array passes with its bracket, without which it is no JSON.
func (s *stream) untilFailure(b []byte, told bool) int {
	if s.format == dialect.JSONArray {
		return len(b)
	}
	n := 0
	if !told {
		if n = s.failing(b, math.MaxInt64); n == 0 {
			return len(b)
		}
	}
	if s.l.c.Endpoint.Dialect == dialect.OpenAIResponses {
		n += s.failing(b[n:], 1)
	}
	return n
}

// failing is the length of whole events up to the first one that says that the stream has failed; 0 if none of so many does.
func (s *stream) failing(b []byte, most int64) int {
	m := new(dialect.Meter)
	m.Reset(s.l.c.Endpoint.Dialect, s.format)
	for n := 0; m.Events() < most; {
		i := bytes.IndexByte(b[n:], '\n')
		if i < 0 {
			break
		}
		m.Feed(b[n : n+i+1])
		if n += i + 1; m.Failed() {
			return n
		}
	}
	return 0
}

// hasLastWord says that something of use follows the event that says that the stream has failed: OpenAI's response.failed, which
// Codex waits for and which says what is to be paid, or the bracket of an array.
func (s *stream) hasLastWord() bool {
	return s.format == dialect.JSONArray || s.l.c.Endpoint.Dialect == dialect.OpenAIResponses && !s.meter.Terminal()
}
