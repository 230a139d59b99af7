package dialect

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// messageMax bounds what is kept of an upstream's error text, in bytes.
const messageMax = 2048

// StreamError is an error that an upstream reported, in its own words. The zero value is none.
type StreamError struct {
	Type    string // OpenAI and Anthropic: error.type; Gemini: error.status
	Code    string // error.code, or the reason in its details
	Message string // cut to 2 KiB
	Status  int    // the HTTP status that it stands for; 0 if unknown
}

// read reads the value of an error member; false if it is null or no error at all. A string is its message.
func (e *StreamError) read(c *cursor) bool {
	if c.peek() != '{' {
		if raw := c.raw(); len(raw) > 0 {
			e.Message = clip(raw)
			return true
		}
		return false
	}
	*e = StreamError{}
	for key := range c.members() {
		e.member(c, key)
	}
	if e.Status == 0 {
		e.Status = statusOf(e.Type, e.Code)
	}
	return true
}

func (e *StreamError) member(c *cursor, key []byte) {
	switch string(key) {
	case "type":
		e.Type = clip(c.raw())
	case "message":
		e.Message = clip(c.raw())
	case "code":
		e.wordOrStatus(c, &e.Code)
	case "status", "status_code":
		if e.wordOrStatus(c, &e.Type) {
			return
		}
	case "details":
		e.details(c)
	default:
		c.skip()
	}
}

// wordOrStatus reads a value that is a name with some providers and an HTTP status with others.
func (e *StreamError) wordOrStatus(c *cursor, name *string) bool {
	span := c.skip()
	if span.Empty() {
		return false
	}
	if raw := span.Of(c.b); raw[0] == '"' {
		if text := clip(raw[1 : len(raw)-1]); *name == "" {
			*name = text
		}
		return true
	} else if n, ok := count(raw); ok {
		if n >= 400 && n <= 599 {
			e.Status = int(n)
		}
		if name == &e.Code {
			e.Code = strconv.FormatInt(n, 10)
		}
	}
	return false
}

// details reads the finer code: Anthropic's details.error_code, Google's reason in a list of details.
func (e *StreamError) details(c *cursor) {
	if c.peek() != '[' {
		e.detail(c)
		return
	}
	c.array()
	for c.element() {
		e.detail(c)
	}
}

func (e *StreamError) detail(c *cursor) {
	for key := range c.members() {
		raw := c.raw()
		if name := string(key); len(raw) > 0 && (name == "error_code" || name == "reason") {
			e.Code = clip(raw)
		}
	}
}

// readWhole reads the error from an event that is named an error but has no error member.
func (e *StreamError) readWhole(data []byte) {
	c := cursor{b: data}
	if e.read(&c); e.Message == "" {
		e.Message = cut(string(data))
	}
}

// clip is the start of a JSON string's content.
func clip(raw []byte) string {
	if bound := 6 * messageMax; len(raw) > bound { // a byte takes at most six
		i := 0
		for i < bound {
			i += max(1, escapeLen(raw[i:min(i+6, len(raw))]))
		}
		return cut(strings.ToValidUTF8(string(plain(raw[:i])), ""))
	}
	return cut(string(plain(raw)))
}

// cut bounds a text at a character's boundary.
func cut(text string) string {
	if len(text) <= messageMax {
		return text
	}
	end := messageMax
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// statuses is what error types and codes stand for where no status comes with them.
var statuses = map[string]int{
	"invalid_request_error": 400, "context_length_exceeded": 400, "string_above_max_length": 400,
	"INVALID_ARGUMENT": 400, "FAILED_PRECONDITION": 400, "invalid_prompt": 400,
	"authentication_error": 401, "invalid_api_key": 401, "UNAUTHENTICATED": 401,
	"billing_error":    402,
	"permission_error": 403, "PERMISSION_DENIED": 403,
	"not_found_error": 404, "model_not_found": 404, "NOT_FOUND": 404,
	"conflict_error": 409, "request_too_large": 413,
	"rate_limit_error": 429, "rate_limit_exceeded": 429, "insufficient_quota": 429, "RESOURCE_EXHAUSTED": 429,
	"tokens": 429, "requests": 429, "too_many_requests": 429,
	"api_error": 500, "server_error": 500, "internal_error": 500, "INTERNAL": 500,
	"overloaded": 503, "service_unavailable": 503, "UNAVAILABLE": 503,
	"timeout_error": 504, "DEADLINE_EXCEEDED": 504,
	"overloaded_error": 529,
}

// statusOf is the status of an error's code or type, the finer one first; 0 if neither is known.
func statusOf(kind, code string) int {
	if status := statuses[code]; status != 0 {
		return status
	}
	return statuses[kind]
}
