package dialect

import "github.com/penstock/penstock/domain/pricing"

// readGemini reads a chunk of generateContent.
func (m *Meter) readGemini(data []byte) {
	s := step{report: m.report}
	c := cursor{b: data}
	if c.peek() != '{' {
		return
	}
	s.report.has = false
	for key := range c.members() {
		s.geminiMember(&c, key)
	}
	if !c.end() {
		return
	}
	if s.source = pricing.Partial; s.finished || m.finished {
		s.source = pricing.Reported
	}
	m.apply(&s)
}

// candidates are the answers in a stream of Gemini, a bit each. Each has a reason to stop of its own, which need not be its
// last word: some upstreams give one with every chunk, or before the first text.
type candidates struct {
	seen, ended uint64
	loose       bool // content came behind a reason to stop
}

// take takes in what an event says of them, and says whether all have ended.
func (c *candidates) take(s *step) bool {
	c.loose = c.loose || s.said&c.ended != 0
	c.seen |= s.seen
	c.ended = c.ended&^s.said | s.ended
	return c.seen&^c.ended == 0
}

// geminiMember reads one member of a chunk or of a whole answer.
func (s *step) geminiMember(c *cursor, key []byte) {
	switch string(key) {
	case "candidates":
		if c.array() {
			for c.element() {
				s.candidate(c)
			}
		}
	case "usageMetadata":
		if tier := s.report.readGemini(c); tier != nil {
			s.tier = tier
		}
	case "promptFeedback":
		s.promptFeedback(c)
	case "modelVersion":
		s.model = c.raw()
	case "responseId":
		s.id = c.raw()
	case "error":
		s.failed = s.fault.read(c)
	default:
		c.skip()
	}
}

func (s *step) candidate(c *cursor) {
	index, ends, before := int64(0), false, s.content
	s.content = false
	for key := range c.members() {
		switch string(key) {
		case "content":
			s.geminiContent(c)
		case "finishReason":
			ends = s.geminiFinish(c.raw())
		case "groundingMetadata":
			s.acts.grounding(c)
		case "index":
			index, _ = c.integer()
		default:
			c.skip()
		}
	}
	bit := uint64(1) << min(index, 63)
	s.seen |= bit
	if s.content {
		s.said |= bit
	}
	if ends {
		s.ended |= bit
	}
	s.content = s.content || before
}

// grounding counts the searches that an answer rests on.
func (a *acts) grounding(c *cursor) {
	for key := range c.members() {
		if string(key) != "webSearchQueries" {
			c.skip()
			continue
		}
		if c.array() {
			for c.element() {
				c.skip()
				a.webSearches++
			}
		}
	}
}

// geminiFinish takes a reason to stop in and says whether it is one.
func (s *step) geminiFinish(reason []byte) bool {
	ends := len(reason) > 0 && string(reason) != "FINISH_REASON_UNSPECIFIED"
	s.finished = s.finished || ends
	return ends
}

// promptFeedback reads why a prompt was blocked: such an answer has no candidates and is complete.
func (s *step) promptFeedback(c *cursor) {
	for key := range c.members() {
		if raw := c.raw(); string(key) == "blockReason" {
			s.finished = s.finished || len(raw) > 0
		}
	}
}

func (s *step) geminiContent(c *cursor) {
	for key := range c.members() {
		if string(key) != "parts" {
			c.skip()
		} else if c.array() {
			for c.element() {
				s.part(c)
			}
		}
	}
}

// part reads one part. A signature, or an empty text that carries one, is no content.
func (s *step) part(c *cursor) {
	for key := range c.members() {
		switch string(key) {
		case "text":
			s.text(c.raw())
		case "functionCall", "executableCode", "codeExecutionResult":
			if span := c.skip(); !span.Empty() {
				s.content = true
				s.output += int64(span.End - span.Start)
			}
		case "inlineData", "fileData":
			s.content = !c.skipNull() || s.content
		default:
			c.skip()
		}
	}
}
