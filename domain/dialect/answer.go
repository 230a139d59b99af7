package dialect

import "github.com/penstock/penstock/domain/pricing"

// Answer is what a whole body says: an answer that was not streamed, or an error body.
type Answer struct {
	Usage        pricing.Usage
	HasUsage     bool
	Clamped      bool // the usage was more than can be, see Meter.Clamped
	ServiceTier  string
	ID           string // Responses: what a later request names to go on from it
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
	for key := range c.members() {
		s.member(c, key)
	}
}

// member reads one top-level member. The dialects share the names of only a few, so that one table serves all.
func (s *answerScan) member(c *cursor, key []byte) {
	switch string(key) {
	case "service_tier":
		s.tier = c.raw()
	case "id":
		if raw := c.raw(); s.d == OpenAIResponses {
			s.id = raw
		}
	case "usage":
		s.usage(c)
	case "choices":
		chatChoices(c, &s.step)
	case "output":
		s.outputItems(c)
	case "content":
		s.content = anyBlock(c) || s.content
	case "candidates", "promptFeedback":
		s.geminiMember(c, key)
	case "data":
		s.anything = s.data(c) || s.anything
	case "results", "embedding", "embeddings", "text", "input_tokens", "totalTokens":
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

// outputItems reads the output of a response: text, a refusal, or any act of the model but reasoning.
func (s *answerScan) outputItems(c *cursor) {
	if !c.array() {
		return
	}
	for c.element() {
		var e responsesEvent
		e.readItem(c)
		s.content = s.content || e.itemText || call(e.item)
		e.countItem()
		s.acts.webSearches += e.acts.webSearches
		s.acts.fileSearches += e.acts.fileSearches
		s.acts.images += e.acts.images
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

// data reads the list of an answer that is no conversation, counts the pictures in it and says that it is not empty.
func (s *answerScan) data(c *cursor) bool {
	if c.peek() != '[' {
		return notEmpty(c)
	}
	c.array()
	found := false
	for c.element() {
		found = true
		picture := false
		for key := range c.members() {
			name := string(key)
			raw := c.raw()
			picture = picture || len(raw) > 0 && (name == "b64_json" || name == "url")
		}
		if picture {
			s.acts.images++
		}
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
		ServiceTier: word512(s.tier),
	}
	a.HasUsage = s.report.has && !(s.content && s.report.empty())
	if a.HasUsage = a.HasUsage || s.acts.images > 0; a.HasUsage { // pictures may be all that there is to bill
		a.Usage, a.Clamped = s.report.usage(s.d)
		s.acts.into(&a.Usage)
	}
	if s.d == OpenAIResponses {
		a.ID = word512(s.id)
	}
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
