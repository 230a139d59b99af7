package dialect

import (
	"bytes"

	"github.com/penstock/penstock/domain/pricing"
)

// messagesEvent is an event of the Messages API as far as it matters.
type messagesEvent struct {
	step
	kind, block []byte
	stop        bool // delta.stop_reason is there
	usage       bool
}

// readMessages reads an event of the Messages API. The type in the data decides, the event's name only where the data
// has none.
func (m *Meter) readMessages(name, data []byte) {
	if m.content {
		var y yield
		if y.messages(data) {
			m.more(&y)
			return
		}
	}
	m.readMessagesEvent(name, data)
}

// readMessagesEvent reads a whole event.
func (m *Meter) readMessagesEvent(name, data []byte) {
	e := messagesEvent{step: step{report: m.report}}
	c := cursor{b: data}
	if c.peek() != '{' {
		return
	}
	for key := range c.members() {
		e.member(&c, key)
	}
	if !c.end() {
		return
	}
	if e.kind == nil {
		e.kind = name
	}
	if e.judge(); bytes.Equal(name, nameError) {
		e.failed = true
	}
	if e.failed && e.fault == (StreamError{}) {
		e.fault.readWhole(data)
	}
	m.apply(&e.step)
}

func (e *messagesEvent) member(c *cursor, key []byte) {
	switch string(key) {
	case "type":
		e.kind = c.raw()
	case "message":
		e.readMessage(c)
	case "content_block":
		e.readBlock(c)
	case "delta":
		e.stop = e.messagesDelta(c)
	case "usage":
		e.tier, e.usage = e.report.laterAnthropic(c)
	case "error":
		e.failed = e.fault.read(c)
	default:
		c.skip()
	}
}

// judge says what the event means, once its type is known.
func (e *messagesEvent) judge() {
	if e.usage {
		e.source = pricing.Partial
	}
	switch string(e.kind) {
	case "message_start":
	case "content_block_start":
		e.content = e.content || e.whole()
	case "content_block_delta":
	case "message_delta":
		e.content = false
		e.finished = e.stop
		if e.usage {
			e.source = pricing.Reported
		}
	case "message_stop":
		e.terminal = true
	case "error":
		e.failed = true
	default:
		e.content = false
	}
}

// whole says that a block is content before any delta: a call, a result, a redacted thought; only texts and thoughts
// start empty.
func (e *messagesEvent) whole() bool {
	return len(e.block) > 0 && string(e.block) != "text" && string(e.block) != "thinking"
}

// readMessage reads the message of message_start.
func (e *messagesEvent) readMessage(c *cursor) {
	for key := range c.members() {
		switch string(key) {
		case "id":
			e.id = c.raw()
		case "model":
			e.model = c.raw()
		case "usage":
			e.tier, e.usage = e.report.laterAnthropic(c)
		default:
			c.skip()
		}
	}
}

// readBlock reads the block of content_block_start.
func (e *messagesEvent) readBlock(c *cursor) {
	for key := range c.members() {
		switch string(key) {
		case "type":
			e.block = c.raw()
		case "text", "thinking":
			e.text(c.raw())
		default:
			c.skip()
		}
	}
}

// messagesDelta reads the delta of content_block_delta and message_delta; stop says that it has a reason to stop. A
// signature alone is no content.
func (y *yield) messagesDelta(c *cursor) (stop bool) {
	for key := range c.members() {
		switch string(key) {
		case "text", "thinking", "partial_json", "content":
			y.text(c.raw())
		case "citation":
			y.content = !c.skipNull() || y.content
		case "stop_reason":
			stop = len(c.raw()) > 0
		default:
			c.skip()
		}
	}
	return stop
}
