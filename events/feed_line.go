package events

import (
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/go-json-experiment/json/jsontext"
)

// Line is the JSON object by which the outside sees a fact: position, stream, version, type, schema, at, node, data.
// An error means that the message is none of a Feed.
func Line(m *message.Message) ([]byte, error) {
	at, err := time.Parse(time.RFC3339Nano, m.Metadata.Get(MetaAt))
	if err != nil {
		return nil, err
	}
	return LineOf(m.Metadata, m.Metadata.Get(MetaType), at, m.Payload)
}

// LineOf is Line with another type, time and data: what somebody says about a fact, in its place.
func LineOf(of message.Metadata, name string, at time.Time, data []byte) ([]byte, error) {
	b := make([]byte, 0, len(data)+256)
	var err error
	quote := func(field, text string) {
		b = append(b, field...)
		if err == nil {
			b, err = jsontext.AppendQuote(b, text)
		}
	}
	number := func(field, name string) {
		b = append(b, field...)
		if digits := of.Get(name); digits != "" {
			b = append(b, digits...)
		} else {
			b = append(b, '0')
		}
	}
	number(`{"position":`, MetaPosition)
	quote(`,"stream":`, of.Get(MetaStream))
	number(`,"version":`, MetaVersion)
	quote(`,"type":`, name)
	number(`,"schema":`, MetaSchema)
	quote(`,"at":`, at.UTC().Format(time.RFC3339Nano))
	quote(`,"node":`, of.Get(MetaNode))
	b = append(append(b, `,"data":`...), data...)
	return append(b, '}'), err
}
