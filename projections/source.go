package projections

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/penstock/penstock/events"
)

// pagesAhead bounds the pages that are read and decoded before they are folded, and so the memory of a long read.
const pagesAhead = 4

// Selective is a Projection that does something about facts of some names only. When every projection of a fold is one,
// other facts are not decoded when they are read, and Fold does not see them. A story tells its admission, its dispatches and its settlement in any case,
// unless Needs names no fact of requests; what else it tells must be named.
type Selective interface {
	Projection
	Needs() []string // names of the catalogue
}

// skeleton are the facts without which a story has no beginning, no attempts or no end.
var skeleton = []string{"request.admitted", "attempt.dispatched", "request.settled"}

// needs are the names of the facts that a fold of these projections needs, nil for all.
func needs(list []tracked) []string {
	names := []string{}
	for _, t := range list {
		s, ok := t.Projection.(Selective)
		if !ok {
			return nil
		}
		names = append(names, s.Needs()...)
	}
	if slices.ContainsFunc(names, followed) {
		names = append(names, skeleton...)
	}
	return names
}

// followed says that the story of a request must be followed to its end for such a fact. For what is told behind the end, it is
// read from the store.
func followed(name string) bool {
	return (strings.HasPrefix(name, "request.") || strings.HasPrefix(name, "attempt.")) && name != repricedType
}

// source reads stored rows beside the folding, decoded and in order, from behind one position up to another one as far
// as the store has them.
type source struct {
	at, to events.Position // what is folded of it; where it ends
	pages  chan *decoding
	end    context.CancelFunc
	failed error // set before pages is closed
}

// decoding is a page on its way.
type decoding struct {
	rows []events.Stored
	bad  []*events.DecodeError // by row; nil when all are fine
	done chan struct{}
}

// newSource begins to read. close must be called.
func newSource(ctx context.Context, store events.Store, after, to events.Position, names []string) *source {
	ctx, cancel := context.WithCancel(ctx)
	s := &source{at: after, to: to, pages: make(chan *decoding, pagesAhead), end: cancel}
	decoders := make(chan *events.Decoder, max(1, min(pagesAhead, runtime.GOMAXPROCS(0))))
	for range cap(decoders) {
		decoders <- events.NewDecoder(names)
	}
	go s.read(ctx, store, events.NewDecoder(names), decoders)
	return s
}

func (s *source) read(ctx context.Context, store events.Store, need *events.Decoder, decoders chan *events.Decoder) {
	defer close(s.pages)
	var under sync.WaitGroup
	defer under.Wait()
	after := s.at
	for {
		err := events.ScanAll(ctx, store, after, need.Wants, func(rows []events.Stored) bool {
			more := true
			for i := range rows {
				if rows[i].Position > s.to {
					rows, more = rows[:i], false
					break
				}
			}
			if len(rows) == 0 {
				return more
			}
			after = rows[len(rows)-1].End()
			return s.hand(ctx, rows, decoders, &under) && more
		})
		bad, err := undecodable(err) // of a store that decodes by itself; it is passed over as any other
		if bad == nil || bad.Position > s.to || bad.Last <= after {
			s.failed = err
			return
		}
		row := events.Stored{N: int64(bad.Last-bad.Position) + 1}
		row.Position = bad.Position
		d := &decoding{rows: []events.Stored{row}, bad: []*events.DecodeError{bad}, done: make(chan struct{})}
		close(d.done)
		select {
		case s.pages <- d:
		case <-ctx.Done():
			s.failed = ctx.Err()
			return
		}
		after = bad.Last
	}
}

// hand sends a page on its way and has it decoded meanwhile.
func (s *source) hand(ctx context.Context, rows []events.Stored, decoders chan *events.Decoder, under *sync.WaitGroup) bool {
	d := &decoding{rows: rows, done: make(chan struct{})}
	select {
	case s.pages <- d:
	case <-ctx.Done():
		return false
	}
	decoder := <-decoders
	under.Go(func() {
		defer close(d.done)
		d.decode(decoder)
		decoders <- decoder
	})
	return true
}

func (d *decoding) decode(with *events.Decoder) {
	for i := range d.rows {
		r := &d.rows[i]
		if r.Facts != nil || !with.Wants(r.Types) {
			continue
		}
		if err := with.Decode(r); err != nil {
			if d.bad == nil {
				d.bad = make([]*events.DecodeError, len(d.rows))
			}
			d.bad[i], _ = undecodable(err)
		}
	}
}

// next is the next page, nil at the end.
func (s *source) next(ctx context.Context) (*decoding, error) {
	select {
	case d, more := <-s.pages:
		if !more {
			return nil, s.failed
		}
		<-d.done
		return d, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// close ends the reading and waits until it has ended.
func (s *source) close() {
	s.end()
	for range s.pages {
	}
}
