package projections

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

const requestStream = events.RequestStreams

// spareMax bounds the ended requests whose memory is used again.
const spareMax = 4096

// folder folds committed rows in order of position. It keeps one story per open request, shared by all projections.
type folder struct {
	store       events.Store
	projections []tracked
	at          events.Position // of the last fact that was folded
	facts       int64
	bad         int64                     // rows that could not be decoded
	spoiled     func(*events.DecodeError) // is told of each; nil: nobody
	gone        gone                      // requests that are passed over
	open        map[string]*open          // by stream
	ended       []*open                   // may still be read by changes that are not stored
	spare       []*open
	names       []string        // of facts that are decoded; nil: all
	from        *source         // being read; nil when nothing is
	page        []events.Stored // of it, what is not folded yet
	bads        []*events.DecodeError
	out         Changes
}

// tracked is a projection and how far its stored rows are.
type tracked struct {
	Projection
	done events.Position
}

// open is a request that has not ended.
type open struct {
	story request.Story
	first events.Position
}

func newFolder(store events.Store, projections []tracked) *folder {
	return &folder{store: store, projections: projections, names: needs(projections), open: map[string]*open{}}
}

// row folds one committed row. One that has been folded before changes nothing. On an error nothing was folded.
func (f *folder) row(ctx context.Context, c *events.Committed) error {
	if c.Last() <= f.at {
		return nil
	}
	var o *open
	place := Place{At: c.At, Stream: c.Stream, Node: c.Node}
	var story *request.Story
	if strings.HasPrefix(c.Stream, requestStream) {
		var err error
		if o, err = f.request(ctx, c); err != nil {
			return err
		}
		story, place.First = &o.story, o.first
		if f.gone.holds(o.first) {
			f.forget(c.Stream, o)
			f.at = c.Last()
			return nil
		}
	}
	for i, fact := range c.Facts {
		if fact == nil { // not needed
			continue
		}
		if story != nil {
			story.Evolve(fact, c.At)
		}
		place.Position, place.More = c.Position+events.Position(i), slices.ContainsFunc(c.Facts[i+1:], needed)
		for p := range f.projections {
			if place.Position > f.projections[p].done {
				f.projections[p].Fold(story, fact, place, &f.out)
			}
		}
	}
	if o != nil && (o.story.Ended() || o.first == 0) {
		f.forget(c.Stream, o)
	}
	f.facts += int64(len(c.Facts))
	f.at = c.Last()
	return nil
}

func needed(f events.Fact) bool { return f != nil }

// request is the open request of a row's stream. A row that is not the first of its stream and yet belongs to no open
// request comes after the end of one (a late correction), or after a beginning that retention has removed: that story
// is read from the store, as far as it is there, and forgotten again.
func (f *folder) request(ctx context.Context, c *events.Committed) (*open, error) {
	if o := f.open[c.Stream]; o != nil {
		return o, nil
	}
	o := f.fresh()
	o.story.ID = c.Request
	if o.story.ID == "" {
		o.story.ID = strings.TrimPrefix(c.Stream, requestStream)
	}
	if c.Version == 0 {
		o.first = c.Position
	} else if err := f.recall(ctx, c, o); err != nil {
		return nil, err
	}
	f.open[c.Stream] = o
	return o, nil
}

// recall folds what the stream told before the row.
func (f *folder) recall(ctx context.Context, c *events.Committed, o *open) error {
	err := f.store.Stream(ctx, c.Stream, 0, func(earlier *events.Committed) bool {
		if earlier.Position >= c.Position {
			return false
		}
		if earlier.Version == 0 {
			o.first = earlier.Position
		}
		for _, fact := range earlier.Facts {
			o.story.Evolve(fact, earlier.At)
		}
		return true
	})
	_, err = undecodable(err)
	return err
}

func (f *folder) fresh() *open {
	if n := len(f.spare); n > 0 {
		o := f.spare[n-1]
		f.spare = f.spare[:n-1]
		return o
	}
	return &open{}
}

func (f *folder) forget(stream string, o *open) {
	delete(f.open, stream)
	switch {
	case f.out.Len() == 0:
		f.reuse(o)
	case len(f.ended) < spareMax:
		f.ended = append(f.ended, o)
	}
}

func (f *folder) reuse(o *open) {
	if len(f.spare) < spareMax {
		attempts := o.story.Attempts
		clear(attempts)
		*o = open{story: request.Story{Attempts: attempts[:0]}}
		f.spare = append(f.spare, o)
	}
}

// pull folds stored rows after f.at that begin at or before the position to, until there are none or more changes
// are gathered than rows allows. more says that it ended for that: the next pull goes on with what was read ahead. After
// the last one, or instead of it, drop must be called.
func (f *folder) pull(ctx context.Context, to events.Position, rows int) (more bool, err error) {
	if f.from != nil && (f.from.to != to || f.from.at != f.at) {
		f.drop()
	}
	if f.from == nil {
		f.from = newSource(ctx, f.store, f.at, to, f.names)
	}
	for {
		if len(f.page) == 0 {
			if more, err = f.turn(ctx); err != nil || !more {
				f.drop()
				return false, err
			}
		}
		if err := f.foldPage(ctx, rows); err != nil {
			f.drop()
			return false, err
		}
		f.from.at = f.at
		if f.out.Len() >= rows {
			return true, nil
		}
	}
}

// turn gets the next page; false: there is none.
func (f *folder) turn(ctx context.Context) (bool, error) {
	d, err := f.from.next(ctx)
	if d == nil {
		return false, err
	}
	f.page, f.bads = d.rows, d.bad
	return true, nil
}

// foldPage folds what is left of the page, at least a row and until enough changes are gathered.
func (f *folder) foldPage(ctx context.Context, rows int) error {
	for more := true; more && len(f.page) > 0; more = f.out.Len() < rows {
		r := &f.page[0]
		switch {
		case f.bads != nil && f.bads[0] != nil:
			if r.End() > f.at {
				f.passOver(f.bads[0])
				f.at = r.End()
			}
		case r.Facts == nil: // nothing in it is needed
			if r.End() > f.at {
				f.facts, f.at = f.facts+r.N, r.End()
			}
		default:
			if err := f.row(ctx, &r.Committed); err != nil {
				return err
			}
		}
		f.page = f.page[1:]
		if f.bads != nil {
			f.bads = f.bads[1:]
		}
	}
	return nil
}

// passOver counts a row that can not be decoded.
func (f *folder) passOver(bad *events.DecodeError) {
	f.bad++
	if f.spoiled != nil {
		f.spoiled(bad)
	}
}

// drop ends what is being read.
func (f *folder) drop() {
	if f.from != nil {
		f.from.close()
	}
	f.from, f.page, f.bads = nil, nil, nil
}

// undecodable tells an error about a row that can not be read, which is passed over and counted, from one of the store.
func undecodable(err error) (*events.DecodeError, error) {
	var bad *events.DecodeError
	if errors.As(err, &bad) {
		return bad, nil
	}
	return nil, err
}

// steps are those of the checkpoints of all projections that are behind f.at.
func (f *folder) steps() []Step {
	var steps []Step
	for i := range f.projections {
		if p := &f.projections[i]; p.done < f.at {
			steps = append(steps, Step{Projection: p.Name(), Version: p.Version(), From: p.done, To: f.at})
		}
	}
	return steps
}

// commit stores what was folded. On an error everything is kept for the next call.
func (f *folder) commit(ctx context.Context, model ReadModel) error {
	steps := f.steps()
	if len(steps) == 0 {
		return nil
	}
	if err := model.Commit(ctx, &f.out, steps); err != nil {
		return err
	}
	f.out.Reset()
	for _, o := range f.ended {
		f.reuse(o)
	}
	clear(f.ended)
	f.ended = f.ended[:0]
	for i := range f.projections {
		f.projections[i].done = max(f.projections[i].done, f.at)
	}
	return nil
}
