package actors

import (
	"context"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// reread is a stream that is read again: what is told of it in the end was not known from its last rows.
type reread struct {
	id    string // of the request
	whole bool   // more than its repricings is to be told
	used  *Used
	diffs []Used
}

// readAgain notes the stream of a row.
func (h *historian) readAgain(c *events.Committed) *reread {
	r := h.again[c.Stream]
	if r == nil {
		r = &reread{id: c.Request}
		h.again[c.Stream] = r
	}
	return r
}

// rowsForAStream is how many rows can be read one behind the other while the rows of one stream are looked for.
var rowsForAStream = 50

// setBack is by how much the clock may have been set back while a request began.
const setBack = time.Hour

// corrected tells of the differences of repricings, which count when the request was settled, and of requests that are longer
// than what was read. Whose they are is told by their streams: by each of a few; all of a day's would take longer, one by one, than to
// read that day again.
func (h *historian) corrected(ctx context.Context, store events.Store) error {
	if len(h.again)*rowsForAStream > h.rows {
		return h.sweep(ctx, store)
	}
	for stream, r := range h.again {
		if err := events.FindReadable(ctx, store, events.Query{Stream: stream}, r.see(h), nil); err != nil {
			return errors.Wrapf(err, "read what %s costs", stream)
		}
		h.tell(r)
	}
	return nil
}

// sweep reads all rows from where the first of these requests can have begun.
func (h *historian) sweep(ctx context.Context, store events.Store) error {
	var first time.Time
	for _, r := range h.again {
		if at := arrival(r.id, time.Time{}); first.IsZero() || at.Before(first) {
			if first = at; at.IsZero() {
				break
			}
		}
	}
	q := events.Query{StreamPrefix: events.RequestStreams}
	if !first.IsZero() {
		q.Since = first.Add(-setBack)
	}
	err := events.FindReadable(ctx, store, q, func(c *events.Committed) {
		if r := h.again[c.Stream]; r != nil {
			r.see(h)(c)
		}
	}, nil)
	if err != nil {
		return errors.Wrap(err, "read what repriced requests cost")
	}
	for _, r := range h.again {
		h.tell(r)
	}
	return nil
}

// see folds the rows of the stream.
func (r *reread) see(h *historian) func(*events.Committed) {
	return func(c *events.Committed) {
		if r.used == nil {
			r.used = &Used{Key: c.Key, Arrived: arrival(c.Request, c.At), summed: h.told(c)}
		}
		for _, fact := range c.Facts {
			if f, ok := fact.(*request.Repriced); ok {
				r.diffs = append(r.diffs, r.used.difference(f))
			} else {
				r.used.take(fact)
			}
		}
		if c.Terminal {
			r.used.Settled = c.At
		}
	}
}

// tell tells what a stream has come to.
func (h *historian) tell(r *reread) {
	u := r.used
	if u == nil || u.summed || u.Settled.Before(h.since) {
		return
	}
	if r.whole {
		h.yield(u)
	}
	for i := range r.diffs {
		r.diffs[i].Settled = u.Settled
		h.yield(&r.diffs[i])
	}
}
