package events

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// ErrFact is wrapped by errors about facts that the catalogue does not know or whose JSON is broken.
var ErrFact = errors.New("not a fact of the catalogue")

// DecodeError names the row that a store could not decode; reading may go on after Last.
type DecodeError struct {
	Position, Last Position // of the row's first and last fact
	Stream         string
	Err            error // wraps ErrFact
}

// Error says which row and why.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("event at position %d in stream %s: %s", e.Position, e.Stream, e.Err)
}

// Unwrap is the reason.
func (e *DecodeError) Unwrap() error { return e.Err }

// timeLayout is the one form of a time in payloads: RFC 3339, UTC, microseconds.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// generic are the rules by which facts become JSON: struct tags as encoding/json reads them (omitempty drops zero
// numbers and false), maps in order of their keys, empty arrays and objects for nil ones, invalid UTF-8 replaced
// (texts from the network end up in facts), times as timeLayout.
var generic = json.JoinOptions(
	jsonv1.OmitEmptyWithLegacySemantics(true),
	json.Deterministic(true),
	jsontext.AllowInvalidUTF8(true),
	json.WithMarshalers(json.MarshalToFunc(func(e *jsontext.Encoder, t time.Time) error {
		return e.WriteToken(jsontext.String(t.UTC().Format(timeLayout)))
	})),
)

// Encode sets Types and Payload from Facts. An error wraps ErrFact and names the fact's place in the row.
func Encode(r *Row) error { return known.encode(r) }

func (c *catalogue) encode(r *Row) error {
	if len(r.Facts) == 0 {
		return fmt.Errorf("%w: the row has none", ErrFact)
	}
	m := scratch.Get().(*members)
	defer scratch.Put(m)
	m.begin()
	for i, f := range r.Facts {
		l := c.byType[reflect.TypeOf(f)]
		if l == nil {
			return fmt.Errorf("%w: fact %d is a %T", ErrFact, i, f)
		}
		m.next(l.tag)
		if err := l.encode(m, f); err != nil {
			return fmt.Errorf("%w: fact %d, %s: %w", ErrFact, i, l.name, err)
		}
	}
	r.Types, r.Payload = c.joined(m.tags), m.take()
	return nil
}

// Decode reads what Encode wrote: one fact per type. Fields that this version does not know are passed over. An error
// wraps ErrFact and names the type and the fact's place in the row.
func Decode(types string, payload []byte) ([]Fact, error) { return known.decode(types, payload) }

func (c *catalogue) decode(types string, payload []byte) ([]Fact, error) {
	facts := make([]Fact, 0, strings.Count(types, " ")+1)
	m := members{rest: string(payload), reading: true}
	m.mark('[')
	for name, schema := range EachType(types) {
		i := len(facts)
		if i > 0 {
			m.mark(',')
		}
		object := m.rest
		f, err := c.decodeOne(name, schema, &m)
		if m.bad {
			return nil, fmt.Errorf("%w: fact %d, %s: the payload has no JSON object there: %.40q", ErrFact, i, name, object)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: fact %d, %s: %w", ErrFact, i, name, err)
		}
		facts = append(facts, f)
	}
	m.mark(']')
	if m.bad || m.rest != "" {
		return nil, fmt.Errorf("%w: the payload does not end after the facts of %q", ErrFact, types)
	}
	return facts, nil
}

// decodeOne reads the object that comes next; m turns bad when there is none.
func (c *catalogue) decodeOne(name string, schema int, m *members) (Fact, error) {
	l, err := c.readable(name, schema)
	if err != nil || m.bad {
		return nil, err
	}
	start := m.rest
	if l.walk != nil && schema == l.schema {
		f := l.empty()
		if l.walk(m, f); !m.bad {
			return f, nil
		}
	}
	end := objectEnd(start)
	m.bad, m.rest = end == 0, start[end:]
	object, err := c.lift(l, schema, []byte(start[:end]))
	if err != nil || m.bad {
		return nil, err
	}
	f := l.empty()
	if l.walk != nil && schema < l.schema { // members that an upcaster left where they were are read as fast as new ones
		lifted := members{rest: string(object), reading: true}
		if l.walk(&lifted, f); !lifted.bad && lifted.rest == "" {
			return f, nil
		}
		f = l.empty()
	}
	return f, json.Unmarshal(object, f)
}

// readable is the line of facts of this name and schema, or why they can not be read.
func (c *catalogue) readable(name string, schema int) (*line, error) {
	l := c.byName[name]
	switch {
	case l == nil:
		return nil, errors.New("unknown type")
	case schema < 1 || schema > l.schema:
		return nil, fmt.Errorf("schema %d is unknown, this version knows 1 to %d", schema, l.schema)
	}
	return l, nil
}

// lift brings an object from the schema it was written in to the one of today.
func (c *catalogue) lift(l *line, schema int, object []byte) ([]byte, error) {
	for ; schema < l.schema; schema++ {
		up := c.upcasters[versioned{l.name, schema}]
		if up == nil {
			return nil, fmt.Errorf("no way from schema %d to %d", schema, schema+1)
		}
		var err error
		if object, err = up(object); err != nil {
			return nil, fmt.Errorf("from schema %d to %d: %w", schema, schema+1, err)
		}
	}
	return object, nil
}

// encode appends one fact to m.
func (l *line) encode(m *members, f Fact) error {
	if l.walk != nil {
		l.walk(m, f)
		return nil
	}
	b, err := json.Marshal(f, generic)
	m.out = append(m.out, b...)
	return err
}

// Objects splits a payload into the JSON objects of its facts without decoding them; they alias the payload.
func Objects(payload []byte) ([]jsontext.Value, error) {
	var values []jsontext.Value
	rest := payload
	for before := byte('['); len(rest) > 0 && rest[0] == before; before = ',' {
		end := 1 + objectEnd(rest[1:])
		if end == 1 {
			break
		}
		values = append(values, rest[1:end])
		if rest = rest[end:]; string(rest) == "]" {
			return values, nil
		}
	}
	return nil, fmt.Errorf("%w: the payload is no array of JSON objects", ErrFact)
}

// objectEnd is the length of the object at the start of b, 0 when there is none.
func objectEnd[T ~string | ~[]byte](b T) int {
	if len(b) == 0 || b[0] != '{' {
		return 0
	}
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i + 1
			}
		case '"':
			n := stringEnd(b[i:])
			if n == 0 {
				return 0
			}
			i += n - 1
		}
	}
	return 0
}

// stringEnd is the length of the string literal at the start of b with its quotes, 0 when it does not end.
func stringEnd[T ~string | ~[]byte](b T) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return 0
}
