package dialect

import (
	"bytes"

	"github.com/penstock/penstock/domain/pricing"
)

// terminals are the types of Responses events that end a stream, as their data starts with them.
var terminals = [...]string{"response.completed", "response.incomplete", "response.failed"}

// readBig reads an event that was too large to be held, from what was kept of its start and its end: a picture, or a
// whole response that ends its stream. Reports stand at the end, so the bill does not depend on an answer's size.
func (m *Meter) readBig() {
	s := step{yield: yield{content: true, output: heldMax}, report: m.report}
	switch m.d {
	case OpenAIResponses:
		s.report = report{}
		for i, kind := range terminals {
			if !typed(m.head, kind) {
				continue
			}
			s.content, s.terminal, s.finished, s.failed = false, true, true, i == 2
			s.fault.Type = kind
		}
		m.bigUsage(&s, `"usage"`)
	case AnthropicMessages:
		m.bigUsage(&s, `"usage"`)
	case Gemini:
		s.finished = findMember(m.tail, 0, `"finishReason"`) >= 0 || findMember(m.head, 0, `"finishReason"`) >= 0
		s.seen = m.candidates.seen | 1
		if s.said = s.seen; s.finished { // of how many candidates the event was is not known
			s.ended = s.seen
		}
		m.bigUsage(&s, `"usageMetadata"`)
	default:
		s.report = report{}
		s.finished = findMember(m.tail, 0, `"finish_reason"`) >= 0
		m.bigUsage(&s, `"usage"`)
	}
	m.apply(&s)
	m.head, m.tail = m.head[:0], m.tail[:0]
}

// bigUsage reads the last usage object of the tail.
func (m *Meter) bigUsage(s *step, quoted string) {
	c := cursor{b: lastObject(m.tail, quoted)}
	if c.b == nil {
		return
	}
	switch m.d {
	case AnthropicMessages:
		_, _ = s.report.laterAnthropic(&c)
	case Gemini:
		_ = s.report.readGemini(&c)
	default:
		s.report.readOpenAI(&c)
	}
	if c.reason != "" {
		return
	}
	if s.source = pricing.Partial; s.terminal || s.finished {
		s.source = pricing.Reported
	}
}

// typed says that the start of an event names it so, in its data or in its event line.
func typed(head []byte, kind string) bool {
	at := findMember(head, 0, `"type"`)
	quoted := at >= 0 && bytes.HasPrefix(head[at+1:], append([]byte(kind), '"'))
	return quoted || bytes.HasPrefix(head, append([]byte("event: "), kind...))
}
