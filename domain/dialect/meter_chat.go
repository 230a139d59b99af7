package dialect

import (
	"bytes"

	"github.com/penstock/penstock/domain/pricing"
)

var (
	done      = []byte("[DONE]")
	nameError = []byte("error")
)

// readChat reads a chunk of Chat Completions (and of the old completions).
func (m *Meter) readChat(name, data []byte) {
	if data[0] == '[' && bytes.Equal(bytes.TrimSpace(data), done) {
		m.terminal = true
		return
	}
	if m.content && len(name) == 0 {
		var y yield
		if y.chat(data) {
			m.more(&y)
			return
		}
	}
	m.readChunk(name, data)
}

// readChunk reads a whole chunk.
func (m *Meter) readChunk(name, data []byte) {
	var s step
	c := cursor{b: data}
	choices := -1
	if c.peek() != '{' {
		return
	}
	for key := range c.members() {
		switch string(key) {
		case "choices":
			choices = chatChoices(&c, &s)
		case "usage":
			s.report.readOpenAI(&c)
		case "error":
			s.failed = s.fault.read(&c)
		case "id":
			s.id = c.raw()
		case "model":
			s.model = c.raw()
		case "service_tier":
			s.tier = c.raw()
		default:
			c.skip()
		}
	}
	if !c.end() {
		return
	}
	if bytes.Equal(name, nameError) && !s.failed {
		s.failed = true
		s.fault.readWhole(data)
	}
	s.source = pricing.Partial
	if choices <= 0 || m.finished || s.finished {
		s.source = pricing.Reported
	}
	m.apply(&s)
}

// chatChoices reads the choices of a chunk and says how many there are.
func chatChoices(c *cursor, s *step) int {
	if !c.array() {
		return 0
	}
	n := 0
	for c.element() {
		n++
		chatChoice(c, s)
	}
	return n
}

// chatChoice reads a choice of a chunk or, with message instead of delta, of a whole answer.
func chatChoice(c *cursor, s *step) {
	for key := range c.members() {
		switch string(key) {
		case "delta", "message":
			chatDelta(c, &s.yield)
		case "finish_reason":
			s.finish(c.raw())
		case "text": // the old completions
			s.text(c.raw())
		case "error":
			s.failed = s.fault.read(c) || s.failed
		case "usage": // Moonshot's streams have it here; one of the chunk itself is the better one
			if s.report.has {
				c.skip()
			} else {
				s.report.readOpenAI(c)
			}
		default:
			c.skip()
		}
	}
}

// finish takes a chat finish reason in. "error" is how some routers end a stream that broke.
func (s *step) finish(reason []byte) {
	if string(reason) == "error" {
		if s.failed = true; s.fault.Type == "" {
			s.fault.Type = "error"
		}
		return
	}
	s.finished = s.finished || len(reason) > 0
}

// yield is what the model produced in one event.
type yield struct {
	content bool
	output  int64 // bytes of text
}

// text takes generated text in.
func (y *yield) text(raw []byte) {
	if len(raw) > 0 {
		y.content = true
		y.output += textLen(raw)
	}
}

// chatDelta reads a delta or a message.
func chatDelta(c *cursor, y *yield) {
	for key := range c.members() {
		switch string(key) {
		case "content":
			y.textOrParts(c)
		case "reasoning_content", "reasoning", "refusal":
			y.text(c.raw())
		case "tool_calls":
			if c.array() {
				for c.element() {
					chatCall(c, y)
				}
			}
		case "function_call":
			chatFunction(c, y)
		case "audio":
			y.content = !c.skipNull() || y.content
		default:
			c.skip()
		}
	}
}

// textOrParts reads a text that some upstreams send as an array of party.
func (y *yield) textOrParts(c *cursor) {
	if c.peek() != '[' {
		y.text(c.raw())
		return
	}
	if span := c.skip(); span.End-span.Start > len("[{}]") {
		y.content = true
		y.output += int64(span.End - span.Start)
	}
}

// chatCall reads one element of tool_calls: a function or a custom tool.
func chatCall(c *cursor, y *yield) {
	for key := range c.members() {
		switch string(key) {
		case "function", "custom":
			chatFunction(c, y)
		default:
			c.skip()
		}
	}
}

func chatFunction(c *cursor, y *yield) {
	for key := range c.members() {
		switch string(key) {
		case "name":
			y.content = len(c.raw()) > 0 || y.content
		case "arguments", "input":
			y.text(c.raw())
		default:
			c.skip()
		}
	}
}

// skipNull steps over one value and says that it was null.
func (c *cursor) skipNull() bool {
	span := c.skip()
	return span.Empty() || c.b[span.Start] == 'n'
}
