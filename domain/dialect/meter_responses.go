package dialect

import (
	"bytes"

	"github.com/penstock/penstock/domain/pricing"
)

var suffixDelta = []byte(".delta")

// responsesEvent is an event of the Responses API as far as it matters.
type responsesEvent struct {
	step
	kind         []byte
	delta        bool // delta is not empty
	item         []byte
	itemText     bool
	browsing     bool        // the item is a web search that only opened a page or looked in one
	flat         StreamError // code and message beside type: the documented form of error
	flatText     bool
	partialImage bool
}

// readResponses reads an event of the Responses API. The type in the data decides, the event's name only where the data
// has none.
func (m *Meter) readResponses(name, data []byte) {
	if m.content {
		var y yield
		if y.responses(data) {
			m.more(&y)
			return
		}
	}
	m.readResponsesEvent(name, data)
}

// readResponsesEvent reads a whole event.
func (m *Meter) readResponsesEvent(name, data []byte) {
	c := cursor{b: data}
	if c.peek() != '{' {
		return
	}
	var e responsesEvent
	for key := range c.members() {
		e.member(&c, key)
	}
	if !c.end() {
		return
	}
	if e.kind == nil {
		e.kind = name
	}
	e.judge()
	m.apply(&e.step)
}

func (e *responsesEvent) member(c *cursor, key []byte) {
	switch string(key) {
	case "type":
		e.kind = c.raw()
	case "delta":
		raw := c.raw()
		e.delta = len(raw) > 0
		e.output += textLen(raw)
	case "item":
		e.readItem(c)
	case "response":
		e.readResponse(c)
	case "error":
		e.failed = e.fault.read(c)
	case "code":
		e.flat.Code = clip(c.raw())
	case "message":
		e.flat.Message = clip(c.raw())
		e.flatText = true
	case "partial_image_b64":
		e.partialImage = len(c.raw()) > 0
	default:
		c.skip()
	}
}

// judge says what the event means, once its type is known.
func (e *responsesEvent) judge() {
	switch string(e.kind) {
	case "response.completed", "response.incomplete":
		e.terminal, e.finished, e.failed = true, true, false
	case "response.failed", "response.cancelled":
		e.terminal, e.failed = true, true
		if e.fault == (StreamError{}) {
			e.fault.Type = string(e.kind)
		}
	case "error":
		if !e.failed && e.flatText {
			e.fault = e.flat
			e.fault.Status = statusOf(e.fault.Type, e.fault.Code)
		}
		e.failed = true
	case "response.output_item.added":
		e.content = call(e.item)
	case "response.output_item.done":
		e.content = call(e.item) || e.itemText
		e.countItem()
	default:
		// a top-level error object of an upstream that does not name the event; elsewhere error is a detail
		e.failed = e.failed && len(e.kind) == 0
		e.content = e.delta && bytes.HasSuffix(e.kind, suffixDelta) || e.partialImage
	}
	if e.terminal {
		e.source = pricing.Reported
	} else if e.source = pricing.Partial; len(e.kind) == 0 {
		e.source = ""
	}
}

// call says that an output item is a call (or another act) of the model: such items count even without a delta.
func call(item []byte) bool {
	return len(item) > 0 && string(item) != "message" && string(item) != "reasoning"
}

// readItem reads an output item: its type, and whether it holds text.
func (e *responsesEvent) readItem(c *cursor) {
	for key := range c.members() {
		switch string(key) {
		case "type":
			e.item = c.raw()
		case "content":
			e.itemText = anyText(c)
		case "action":
			e.browsing = browsing(c)
		default:
			c.skip()
		}
	}
}

// countItem counts a finished item that the provider bills beside tokens.
func (e *responsesEvent) countItem() {
	switch string(e.item) {
	case "web_search_call":
		if !e.browsing {
			e.acts.webSearches++
		}
	case "file_search_call":
		e.acts.fileSearches++
	case "image_generation_call":
		e.acts.images++
	}
}

// browsing says that the action of a web search is none of the kind that is billed.
func browsing(c *cursor) bool {
	found := false
	for key := range c.members() {
		if raw := c.raw(); string(key) == "type" {
			found = string(raw) == "open_page" || string(raw) == "find" || string(raw) == "find_in_page"
		}
	}
	return found
}

// anyText says that an array of content parts has a text or a refusal that is not empty.
func anyText(c *cursor) bool {
	found := false
	if !c.array() {
		return false
	}
	for c.element() {
		for key := range c.members() {
			name := string(key)
			raw := c.raw()
			found = found || len(raw) > 0 && (name == "text" || name == "refusal")
		}
	}
	return found
}

// readResponse reads the response object of a stream event.
func (e *responsesEvent) readResponse(c *cursor) {
	for key := range c.members() {
		switch string(key) {
		case "id":
			e.id = c.raw()
		case "model":
			e.model = c.raw()
		case "service_tier":
			e.tier = c.raw()
		case "usage":
			e.report.readOpenAI(c)
		case "error":
			e.failed = e.fault.read(c) || e.failed
		default:
			c.skip()
		}
	}
}
