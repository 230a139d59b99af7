package dialect

import "github.com/penstock/penstock/domain/pricing"

// Answer is what a whole body says: an answer that was not streamed, or an error body.
type Answer struct {
	Usage        pricing.Usage
	HasUsage     bool
	Model        string
	ID           string
	ServiceTier  string
	FinishReason string // the dialect's own word; Responses: the status, or the reason why it is incomplete
	ErrorType    string // as in StreamError
	ErrorCode    string
	ErrorMessage string
	IsObject     bool // a valid JSON object, or an array of error objects; if false, all else is zero
	HasContent   bool // the model produced something; for the pass-through endpoints: there is data
}

// answerScan is the state of one ReadAnswer.
type answerScan struct {
	step
	d        Dialect
	reason   []byte // why the answer ended
	status   []byte // Responses
	detail   StreamError
	anything bool
}

// ReadAnswer reads the body of an answer or of an error. It never fails; see Answer.IsObject.
func ReadAnswer(d Dialect, body []byte) Answer {
	s := answerScan{d: d}
	c := cursor{b: body}
	switch c.peek() {
	case '{':
		s.object(&c)
	case '[':
		if !s.errors(&c) {
			return Answer{}
		}
	default:
		return Answer{}
	}
	if !c.end() {
		return Answer{}
	}
	return s.answer()
}

// errors reads an array of error objects, of which the first counts; false if it is any other array.
func (s *answerScan) errors(c *cursor) bool {
	c.array()
	for first := true; c.element(); first = false {
		if !first {
			c.skip()
			continue
		}
		if c.peek() != '{' {
			return false
		}
		s.object(c)
	}
	return s.failed
}

func (s *answerScan) object(c *cursor) {
	c.object()
	for {
		key, ok := c.member()
		if !ok {
			return
		}
		s.member(c, key)
	}
}

// member reads one top-level member. The dialects share the names of only a few, so that one table serves all.
func (s *answerScan) member(c *cursor, key []byte) {
	switch string(key) {
	case "id":
		s.id = c.raw()
	case "model":
		s.model = c.raw()
	case "service_tier":
		s.tier = c.raw()
	case "usage":
		s.usage(c)
	case "choices":
		s.choices(c)
	case "output":
		s.outputItems(c)
	case "status":
		s.status = c.raw()
	case "incomplete_details":
		s.incomplete(c)
	case "content":
		s.content = anyBlock(c) || s.content
	case "stop_reason":
		s.reason = c.raw()
	case "candidates":
		s.candidates(c)
	case "promptFeedback":
		s.feedback(c)
	case "data", "results", "embedding", "embeddings", "text", "input_tokens", "totalTokens":
		s.anything = notEmpty(c) || s.anything
	case "error":
		s.failed = s.fault.read(c) || s.failed
	case "message", "detail": // error bodies of proxies and frameworks
		s.detail.Message = clip(c.raw())
	default:
		if s.d == Gemini {
			s.geminiMember(c, key)
		} else {
			c.skip()
		}
	}
}

func (s *answerScan) usage(c *cursor) {
	if s.d == AnthropicMessages {
		if tier := s.report.readAnthropic(c); tier != nil {
			s.tier = tier
		}
		return
	}
	s.report.readOpenAI(c)
}

// choices reads the choices of a chat answer; the first one's reason counts.
func (s *answerScan) choices(c *cursor) {
	if !c.array() {
		return
	}
	for c.element() {
		start := c.i
		chatChoice(c, &s.step)
		if s.reason == nil && c.reason == "" {
			s.reason = memberOf(c.b[start:c.i], "finish_reason")
		}
	}
}

// candidates reads Gemini's candidates; the first one's reason counts.
func (s *answerScan) candidates(c *cursor) {
	if !c.array() {
		return
	}
	for c.element() {
		start := c.i
		s.candidate(c)
		if s.reason == nil && c.reason == "" {
			s.reason = memberOf(c.b[start:c.i], "finishReason")
		}
	}
}

func (s *answerScan) feedback(c *cursor) {
	c.peek()
	start := c.i
	s.promptFeedback(c)
	if reason := memberOf(c.b[start:c.i], "blockReason"); c.reason == "" && reason != nil {
		s.reason = reason
	}
}

func (s *answerScan) incomplete(c *cursor) {
	c.peek()
	start := c.i
	if c.skip(); c.reason == "" {
		s.reason = memberOf(c.b[start:c.i], "reason")
	}
}

// memberOf is the string value of a member of the object in b, nil if there is none.
func memberOf(b []byte, name string) []byte {
	c := cursor{b: b}
	if !c.object() {
		return nil
	}
	for {
		key, ok := c.member()
		if !ok {
			return nil
		}
		if raw := c.raw(); string(key) == name {
			return raw
		}
	}
}

// outputItems reads the output of a response: text, a refusal, or any act of the model but reasoning.
func (s *answerScan) outputItems(c *cursor) {
	if !c.array() {
		return
	}
	for c.element() {
		var e responsesEvent
		e.readItem(c)
		s.content = s.content || e.itemText || call(e.item)
	}
}

// anyBlock says that a message's content has more than empty texts and thoughts.
func anyBlock(c *cursor) bool {
	if !c.array() {
		return false
	}
	found := false
	for c.element() {
		var e messagesEvent
		e.readBlock(c)
		found = found || e.content || e.whole()
	}
	return found
}

// notEmpty steps over one value and says that it is neither null nor empty.
func notEmpty(c *cursor) bool {
	span := c.skip()
	if span.Empty() {
		return false
	}
	switch c.b[span.Start] {
	case 'n':
		return false
	case '[', '{', '"':
		return skipSpace(c.b, span.Start+1) < span.End-1
	}
	return true
}

// answer makes the result once the whole body was valid.
func (s *answerScan) answer() Answer {
	a := Answer{
		IsObject: true, HasContent: s.content || s.anything && !s.failed,
		HasUsage: s.report.has,
		Model:    word512(s.model), ID: word512(s.id), ServiceTier: word512(s.tier),
	}
	if a.HasUsage {
		a.Usage = s.report.usage(s.d)
	}
	if s.reason == nil && s.d == OpenAIResponses {
		s.reason = s.status
	}
	a.FinishReason = word512(s.reason)
	if !s.failed && !a.HasContent && !a.HasUsage && s.detail.Message != "" {
		s.fault.Message = s.detail.Message
	}
	a.ErrorType, a.ErrorCode, a.ErrorMessage = s.fault.Type, s.fault.Code, s.fault.Message
	return a
}

// word512 is a name as a string; "" for what is too long to be one.
func word512(raw []byte) string {
	if len(raw) > 512 {
		return ""
	}
	return string(plain(raw))
}
