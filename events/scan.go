package events

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unsafe"
)

// Scanner is a Store that also reads rows without decoding them, for long reads: what decodes them works beside the
// reading, and decodes only what is needed.
type Scanner interface {
	// Scan reads what After reads, with the same head, page by page. Of each row Position, N, Stream, Version, At, Types,
	// Node and Payload are set, the last one only where need accepts the types. The pages belong to whom they are given.
	Scan(ctx context.Context, after Position, need func(types string) bool, yield func([]Stored) bool) error
}

// Stored is a row as a store found it, not yet decoded.
type Stored struct {
	Committed
	N int64 // facts
}

// End is the position of the row's last fact.
func (s *Stored) End() Position { return s.Position + Position(s.N) - 1 }

// Decode sets the row's Facts. An error is a *DecodeError.
func (s *Stored) Decode() (err error) {
	s.Facts, err = Decode(s.Types, s.Payload)
	return s.damaged(err)
}

// damaged says of which row an error of its facts is; nil stays nil.
func (s *Stored) damaged(err error) error {
	if err == nil {
		return nil
	}
	return &DecodeError{Position: s.Position, Last: s.End(), Stream: s.Stream, Err: err}
}

// HandOn decodes the rows of a page and yields them, as all readings of a Store do. more is false when yield has ended it,
// and with an error.
func HandOn(page []Stored, yield func(*Committed) bool) (more bool, err error) {
	for i := range page {
		if err := page[i].Decode(); err != nil {
			return false, err
		}
		if !yield(&page[i].Committed) {
			return false, nil
		}
	}
	return true, nil
}

// Decoder decodes facts of some names only. One goroutine may use it.
type Decoder struct {
	all   bool
	names map[string]bool
	plans map[string]*plan // by types
}

// plan says how rows of one Row.Types are decoded.
type plan struct {
	steps []step
	last  int   // steps that follow are not wanted; 0: none is
	err   error // of every such row
}

type step struct {
	name   string
	schema int
	want   bool
}

// NewDecoder makes a decoder of facts of these names; nil is all.
func NewDecoder(names []string) *Decoder {
	d := &Decoder{all: names == nil, names: make(map[string]bool, len(names)), plans: map[string]*plan{}}
	for _, n := range names {
		d.names[n] = true
	}
	return d
}

// Wants says that rows of these types have something to decode, if only an error.
func (d *Decoder) Wants(types string) bool {
	p := d.plan(types)
	return p.last > 0 || p.err != nil
}

// Decode sets the row's Facts: one per fact of the row, nil for those that are not wanted. The texts of facts share the
// memory of the payload, which must not be changed any more. An error is a *DecodeError.
func (d *Decoder) Decode(s *Stored) error {
	p := d.plan(s.Types)
	err := p.err
	if err == nil && int64(len(p.steps)) != s.N {
		err = fmt.Errorf("%w: %d facts of types %q", ErrFact, s.N, s.Types)
	}
	if err == nil {
		s.Facts, err = p.decode(unsafe.String(unsafe.SliceData(s.Payload), len(s.Payload)))
	}
	return s.damaged(err)
}

func (d *Decoder) plan(types string) *plan {
	if p := d.plans[types]; p != nil {
		return p
	}
	p := &plan{}
	for name, schema := range EachType(types) {
		want := d.all || d.names[name]
		p.steps = append(p.steps, step{strings.Clone(name), schema, want})
		if want {
			p.last = len(p.steps)
		}
		if _, err := known.readable(name, schema); err != nil && p.err == nil {
			p.err = fmt.Errorf("%w: fact %d, %s: %w", ErrFact, len(p.steps)-1, name, err)
		}
	}
	d.plans[strings.Clone(types)] = p
	return p
}

// decode reads the wanted facts of a payload. What stands behind the last of them is not looked at.
func (p *plan) decode(payload string) ([]Fact, error) {
	facts := make([]Fact, len(p.steps))
	if p.last == 0 {
		return facts, nil
	}
	m := members{rest: payload, reading: true}
	m.mark('[')
	for i := range p.steps[:p.last] {
		s := &p.steps[i]
		if i > 0 {
			m.mark(',')
		}
		object := m.rest
		var err error
		if s.want {
			facts[i], err = known.decodeOne(s.name, s.schema, &m)
		} else {
			m.skip()
		}
		if m.bad {
			return nil, fmt.Errorf("%w: fact %d, %s: the payload has no JSON object there: %.40q", ErrFact, i, s.name, object)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: fact %d, %s: %w", ErrFact, i, s.name, err)
		}
	}
	if p.last == len(p.steps) {
		if m.mark(']'); m.bad || m.rest != "" {
			return nil, fmt.Errorf("%w: the payload does not end after its facts", ErrFact)
		}
	}
	return facts, nil
}

// skip passes an object without reading it.
func (m *members) skip() {
	end := 0
	if !m.bad {
		end = objectEnd(m.rest)
	}
	m.bad = end == 0
	m.rest = m.rest[end:]
}

// ScanAll is Scan of any store. Where it is no Scanner, facts come decoded, and pages are small.
func ScanAll(ctx context.Context, s Store, after Position, need func(types string) bool, yield func([]Stored) bool) error {
	if scanner, ok := s.(Scanner); ok {
		return scanner.Scan(ctx, after, need, yield)
	}
	const pageRows = 512
	for {
		page := make([]Stored, 0, pageRows)
		err := s.After(ctx, after, func(c *Committed) bool {
			page = append(page, Stored{Committed: *c, N: int64(len(c.Facts))})
			return len(page) < pageRows
		})
		if len(page) > 0 {
			after = page[len(page)-1].End()
			if !yield(slices.Clip(page)) {
				return nil
			}
		}
		if err != nil || len(page) < pageRows {
			return err
		}
	}
}
