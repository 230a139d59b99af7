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
	if m.bigMedia() {
		s.output = 0
	}
	switch m.d {
	case OpenAIResponses:
		m.bigResponses(&s)
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

// bigResponses reads the end of a response, which repeats what has come, or a picture that is done.
func (m *Meter) bigResponses(s *step) {
	s.report = report{}
	for i, kind := range terminals {
		if !typed(m.head, kind) {
			continue
		}
		s.content, s.terminal, s.finished, s.failed, s.output = false, true, true, i == 2, 0
		s.fault.Type = kind
	}
	if m.bigPicture() && typed(m.head, "response.output_item.done") {
		s.acts.images++
	}
	m.bigUsage(s, `"usage"`)
}

// bigPicture says that the event is of a picture that OpenAI's tool has made.
func (m *Meter) bigPicture() bool {
	picture := []byte(`"image_generation_call"`)
	return bytes.Contains(m.head, picture) || bytes.Contains(m.tail, picture)
}

// mediaMembers hold pictures and sound, which are no text.
var mediaMembers = [...]string{`"inlineData"`, `"inline_data"`, `"partial_image_b64"`, `"b64_json"`, `"image_url"`, `"audio"`}

// bigMedia says that the event is a picture or sound: its bytes say nothing of the tokens that it has cost.
func (m *Meter) bigMedia() bool {
	for _, name := range mediaMembers {
		if findMember(m.head, 0, name) >= 0 {
			return true
		}
	}
	return m.d == OpenAIResponses && m.bigPicture()
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
