package dialect

import (
	"strconv"
	"unicode/utf8"
)

// Request is what the gateway needs to know of a request body (A26). Spans are offsets into the scanned body.
type Request struct {
	Model           string
	ModelSpan       Span // the value of "model" with its quotes; empty if there is none (A31: that is no error)
	Stream          bool
	IncludeUsage    bool   // chat: stream_options.include_usage is true
	StreamOptions   Span   // chat: the value of "stream_options", an object or null; empty if there is none
	ObjectEnd       int    // offset of the brace that closes the top-level object
	Session         string // what the client groups its requests by; "" if it does not say
	MaxOutput       int64  // bound on the output tokens of one answer that the client asked for; 0 if none, or if readers may differ on it
	Choices         int64  // answers that the client asked for, in all; 0 if it does not say, below 0 if readers may differ on it
	ServiceTier     string
	ReasoningEffort string

	Background         bool   // responses: the answer is to be fetched later
	Continuation       string // responses: previous_response_id, or the id of the conversation; only the account that has it can go on
	EncryptedReasoning bool   // responses: the input holds reasoning that only the account that wrote it can read
	EncryptedOther     bool   // responses: the same of an item that cannot be left out, such as a compaction
	Instructions       Span   // the value of the system prompt where it has a member of its own
	Lead               Span   // the first messages, up to the first one of the user

	includeUsage Span // the value of include_usage
}

// BodyError says why a request body cannot be taken.
type BodyError struct {
	Field  string // dotted path of the field, at most fieldMax bytes of it; "" when it is not inside one
	Reason string // for the client
	Offset int    // in the body, in bytes
}

func (e *BodyError) Error() string {
	at := " (at byte " + strconv.Itoa(e.Offset) + ")"
	if e.Field == "" {
		return "request body: " + e.Reason + at
	}
	return "request body: " + e.Field + ": " + e.Reason + at
}

// requestScan is the state of one ScanRequest.
type requestScan struct {
	cursor
	r     Request
	d     Dialect
	field string // dotted path of a field with a wrong value
	bound bounds
	// the places a session may come from, as written, in descending order of trust
	cacheKey, metaSession, conversation, previous, userID []byte
}

// ScanRequest reads a request body in one pass. It accepts exactly the RFC 8259 texts in valid UTF-8 that are an
// object, nest at most 512 levels and have no top-level member twice (however it is escaped: readers differ on which
// one wins, which would let a caller show one model to us and another one to the upstream), nor one that only some
// readers take for a member that decides what the request may do and costs. The error is a *BodyError.
func ScanRequest(body []byte, d Dialect) (Request, error) {
	s := requestScan{cursor: cursor{b: body}, d: d}
	if s.peek() != '{' {
		return Request{}, &BodyError{Reason: "a JSON object was expected", Offset: s.i}
	}
	var seen keySet
	var key Span
	s.object()
	for {
		k, simple, ok := s.memberSpan()
		if !ok {
			break
		}
		key = k
		name := key.Of(body)
		if !simple {
			name = plain(name)
		}
		if !seen.add(name) {
			return Request{}, &BodyError{Field: fieldName(name), Reason: "the member occurs twice", Offset: key.Start - 1}
		}
		s.value(name)
	}
	s.r.ObjectEnd = s.i - 1
	if !s.end() {
		return Request{}, s.fault(key)
	}
	s.r.Session = s.session()
	s.r.MaxOutput, s.r.Choices = s.bound.output(), s.bound.choices()
	return s.r, nil
}

// fault makes the error of a scan that stopped inside or behind the member with that key.
func (s *requestScan) fault(key Span) *BodyError {
	if s.field == "" && s.depth > 0 && !key.Empty() && s.i >= key.End {
		s.field = fieldName(plain(key.Of(s.b)))
	}
	return &BodyError{Field: s.field, Reason: s.reason, Offset: s.i}
}

// fieldMax is how much of a member's name stands in an error: a client chooses names, and may choose long ones.
const fieldMax = 64

func fieldName(name []byte) string {
	if len(name) <= fieldMax {
		return string(name)
	}
	n := fieldMax - len("…")
	for n > 0 && !utf8.RuneStart(name[n]) {
		n--
	}
	return string(name[:n]) + "…"
}

// value reads the value of one top-level member.
func (s *requestScan) value(name []byte) {
	switch string(name) {
	case "model":
		s.model()
	case "stream":
		if s.d == Gemini { // the path says it
			s.skip()
			return
		}
		s.r.Stream, _ = s.flag("stream")
	case "stream_options":
		if s.d != OpenAIChat {
			s.skip()
			return
		}
		s.streamOptions()
	case "max_tokens", "max_completion_tokens", "max_output_tokens", "n", "best_of", "prompt":
		s.bounding(name)
	case "service_tier", "serviceTier":
		s.r.ServiceTier = word(s.raw())
	case "reasoning_effort":
		s.r.ReasoningEffort = word(s.raw())
	case "reasoning", "output_config":
		s.effort()
	case "generationConfig", "generation_config":
		if s.d != Gemini { // nobody obeys it there
			s.skip()
			return
		}
		s.generationConfig()
	case "metadata":
		s.metadata()
	case "prompt_cache_key":
		s.cacheKey = s.raw()
	case "previous_response_id":
		s.previous = s.raw()
	case "background":
		span := s.skip()
		s.r.Background = s.d == OpenAIResponses && !span.Empty() && s.b[span.Start] != 'f' && s.b[span.Start] != 'n'
	case "conversation":
		s.conversation = s.idOf()
	case "messages", "input", "contents":
		s.history()
	case "system", "instructions", "systemInstruction", "system_instruction":
		s.r.Instructions = s.skip()
	default:
		s.other(name, weighty[:])
	}
}

func (s *requestScan) model() {
	if s.peek() == '"' {
		span := s.skip()
		if !span.Empty() {
			s.r.ModelSpan = span
			s.r.Model = string(plain(s.b[span.Start+1 : span.End-1]))
		}
		return
	}
	s.wrong("model", "must be a string")
}

// wrong refuses a value; a text that ends or breaks there is a fault of its own.
func (s *requestScan) wrong(field, reason string) {
	start := s.i
	if s.skip(); s.reason == "" {
		s.field = field
		s.fail(start, reason)
	}
}

// flag reads true, false or null (which is false); ok is false after anything else.
func (s *requestScan) flag(field string) (value, ok bool) {
	switch s.peek() {
	case 't', 'f', 'n':
		span := s.skip()
		return !span.Empty() && s.b[span.Start] == 't', s.reason == ""
	}
	s.wrong(field, "must be true or false")
	return false, false
}

func (s *requestScan) streamOptions() {
	switch s.peek() {
	case 'n':
		s.r.StreamOptions = s.skip()
		return
	case '{':
	default:
		s.wrong("stream_options", "must be an object")
		return
	}
	start := s.i
	s.object()
	for {
		key, ok := s.member()
		if !ok {
			break
		}
		if string(key) != "include_usage" {
			s.skip()
			continue
		}
		s.peek()
		from := s.i
		s.r.IncludeUsage, _ = s.flag("stream_options.include_usage")
		s.r.includeUsage = Span{from, s.i}
	}
	s.r.StreamOptions = Span{start, s.i}
}

// effort reads reasoning.effort (Responses) and output_config.effort (Messages).
func (s *requestScan) effort() {
	if !s.object() {
		return
	}
	for {
		key, ok := s.member()
		if !ok {
			return
		}
		if raw := s.raw(); string(key) == "effort" {
			s.r.ReasoningEffort = word(raw)
		}
	}
}

// generationConfig reads Gemini's bounds on the output and its thinking level.
func (s *requestScan) generationConfig() {
	if !s.object() {
		return
	}
	for {
		key, ok := s.member()
		if !ok {
			return
		}
		switch string(key) {
		case "maxOutputTokens", "max_output_tokens":
			s.most(&s.bound.tokens)
		case "candidateCount", "candidate_count":
			s.most(&s.bound.answers)
		case "thinkingConfig", "thinking_config":
			s.thinkingConfig()
		default:
			s.other(key, weightyConfig[:])
		}
	}
}

func (s *requestScan) thinkingConfig() {
	if !s.object() {
		return
	}
	for {
		key, ok := s.member()
		if !ok {
			return
		}
		raw := s.raw()
		if name := string(key); name == "thinkingLevel" || name == "thinking_level" {
			s.r.ReasoningEffort = word(raw)
		}
	}
}

func (s *requestScan) metadata() {
	if !s.object() {
		return
	}
	for {
		key, ok := s.member()
		if !ok {
			return
		}
		raw := s.raw()
		switch string(key) {
		case "session_id":
			s.metaSession = raw
		case "user_id":
			s.userID = raw
		}
	}
}

// words are the tiers and efforts that every request names: they are not worth an allocation.
var words = [...]string{
	"auto", "default", "flex", "priority", "scale", "fast", "standard", "standard_only", "batch",
	"none", "minimal", "low", "medium", "high", "xhigh", "max", "MINIMAL", "LOW", "MEDIUM", "HIGH",
}

// word is a short name as a string; "" for what is too long to be one.
func word(raw []byte) string {
	for _, w := range words {
		if w == string(raw) {
			return w
		}
	}
	if len(raw) > 64 {
		return ""
	}
	return string(plain(raw))
}
