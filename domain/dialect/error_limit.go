package dialect

import "strings"

// ErrorLimit is what the body of a refusal says of the limit that was met, as it is written there. The zero value says
// nothing.
type ErrorLimit struct {
	RetryDelay string // Google's RetryInfo, such as "34s"; resets_in_seconds and retry_after as a number of seconds
	ResetsAt   string // a time, or seconds since 1970
	PerMinute  bool   // Google: the quota is one of a minute
	PerDay     bool   // Google: the quota is one of a day, which comes back at midnight
	Model      string // the quota is one of this model alone
}

// ReadErrorLimit reads the body of a refusal. It never fails; what is no error says nothing.
func ReadErrorLimit(body []byte) ErrorLimit {
	var l ErrorLimit
	c := cursor{b: body}
	if c.peek() == '[' { // Google's OpenAI endpoint
		c.array()
		if !c.element() {
			return l
		}
	}
	l.object(&c, (*ErrorLimit).root)
	if c.reason != "" && c.i < len(body) { // what is merely cut off may have said enough before
		return ErrorLimit{}
	}
	return l
}

// object reads the members of one object; what is none is stepped over.
func (l *ErrorLimit) object(c *cursor, member func(*ErrorLimit, *cursor, string)) {
	for key := range c.members() {
		member(l, c, string(key))
	}
}

func (l *ErrorLimit) list(c *cursor, member func(*ErrorLimit, *cursor, string)) {
	if !c.array() {
		return
	}
	for c.element() {
		l.object(c, member)
	}
}

func (l *ErrorLimit) root(c *cursor, key string) {
	switch key {
	case "error":
		l.object(c, (*ErrorLimit).inner)
	case "retry_after", "retry_after_ms", "resets_at", "resets_in_seconds":
		l.inner(c, key)
	default:
		c.skip()
	}
}

func (l *ErrorLimit) inner(c *cursor, key string) {
	switch key {
	case "details":
		if c.peek() == '{' {
			l.object(c, (*ErrorLimit).detail)
		} else {
			l.list(c, (*ErrorLimit).detail)
		}
	case "resets_at":
		l.ResetsAt = scalar(c)
	case "resets_in_seconds", "retry_after":
		l.RetryDelay = scalar(c)
	case "retry_after_ms":
		if ms := scalar(c); ms != "" {
			l.RetryDelay = ms + "ms"
		}
	default:
		c.skip()
	}
}

func (l *ErrorLimit) detail(c *cursor, key string) {
	switch key {
	case "retryDelay":
		l.RetryDelay = scalar(c)
	case "violations":
		l.list(c, (*ErrorLimit).violation)
	default:
		c.skip()
	}
}

func (l *ErrorLimit) violation(c *cursor, key string) {
	switch key {
	case "quotaId":
		id := scalar(c)
		l.PerMinute = l.PerMinute || strings.Contains(id, "PerMinute")
		l.PerDay = l.PerDay || strings.Contains(id, "PerDay")
	case "quotaDimensions":
		l.object(c, (*ErrorLimit).dimension)
	default:
		c.skip()
	}
}

func (l *ErrorLimit) dimension(c *cursor, key string) {
	if key == "model" {
		l.Model = scalar(c)
		return
	}
	c.skip()
}

// scalar is a short string or number as text; "" for anything else.
func scalar(c *cursor) string {
	span := c.skip()
	if span.Empty() || span.End-span.Start > 256 {
		return ""
	}
	switch raw := span.Of(c.b); raw[0] {
	case '"':
		return string(plain(raw[1 : len(raw)-1]))
	case '{', '[', 'n', 't', 'f':
		return ""
	default:
		return string(raw)
	}
}
