package projections

import (
	"context"
	"errors"
	"strings"

	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

const requestStream = events.RequestStreams

// pageRows is how many rows are read from the store before they are folded: no read stays open meanwhile.
const pageRows = 512

// spareMax bounds the ended requests whose memory is used again.
const spareMax = 4096

// folder folds committed rows in order of position. It keeps one story per open request, shared by all projections.
type folder struct {
	store       events.Store
	projections []tracked
	at          events.Position // of the last fact that was folded
	facts       int64
	bad         int64            // rows that could not be decoded
	gone        gone             // requests that are passed over
	open        map[string]*open // by stream
	ended       []*open          // may still be read by changes that are not stored
	spare       []*open
	page        []events.Committed
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
	return &folder{store: store, projections: projections, open: map[string]*open{}}
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
		if story != nil {
			story.Evolve(fact, c.At)
		}
		place.Position, place.More = c.Position+events.Position(i), i+1 < len(c.Facts)
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
// are gathered than rows allows. more says that it ended for that.
func (f *folder) pull(ctx context.Context, to events.Position, rows int) (more bool, err error) {
	for {
		page := f.page[:0]
		err := f.store.After(ctx, f.at, func(c *events.Committed) bool {
			if c.Position > to {
				return false
			}
			page = append(page, *c)
			return len(page) < pageRows
		})
		bad, err := undecodable(err)
		if err != nil {
			return false, err
		}
		for i := range page {
			if err := f.row(ctx, &page[i]); err != nil {
				return false, err
			}
		}
		full := len(page) == pageRows
		if bad != nil && bad.Position > f.at && bad.Position <= to {
			f.bad, f.at, full = f.bad+1, bad.Last, true
		}
		clear(page)
		f.page = page
		switch {
		case f.out.Len() >= rows:
			return true, nil
		case !full:
			return false, nil
		}
	}
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
