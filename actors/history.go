package actors

import (
	"context"
	"slices"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/domain/dialect"
	"github.com/penstock/penstock/domain/limit"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// Used is what one request has used, by its facts; or what a later repricing makes of it: then only the difference of its cost.
type Used struct {
	Key, User, Group string
	PaidBy           string    // of the user's own money: see request.Admitted
	Arrived          time.Time // to the millisecond
	Settled          time.Time
	Sent             bool
	Estimate         int64 // tokens that it was charged on arrival
	Tokens           int64 // really used, over all attempts; negative: not known
	Cost             money.Amount
	Upstreams        []UsedUpstream // one for each attempt
	summed           bool           // a sum over a closed day, or a difference: no rate knows it
	partial          bool           // its beginning was not read
}

// UsedUpstream is what an attempt has cost at its upstream.
type UsedUpstream struct {
	Upstream string
	Cost     money.Amount
}

// History tells of all requests that were settled at or after a time, each with its moment; and, when the past is wanted whole,
// of what was settled before, too, as far as possible in sums. yield keeps nothing.
type History func(past limit.Past, yield func(*Used)) error

// longest is how long before its settlement a request has usually begun; of one that began earlier, its stream is read again.
const longest = 24 * time.Hour

// ReadHistory is the History of a store. The zero Past is everything, one by one. A row that cannot be read tells nothing.
func ReadHistory(ctx context.Context, store events.Store, past limit.Past, yield func(*Used)) error {
	h := historian{open: map[string]*Used{}, since: past.Since, yield: yield, again: map[string]*reread{}}
	if past.Whole {
		h.since = time.Time{}
	}
	q := events.Query{StreamPrefix: events.RequestStreams}
	through, err := h.closed(ctx, store, past)
	if err != nil {
		return err
	}
	if q.After = events.Position(through); !h.since.IsZero() {
		q.Since = h.since.Add(-longest)
	}
	if err := events.FindReadable(ctx, store, q, h.see, nil); err != nil {
		return errors.Wrap(err, "read what was spent")
	}
	return h.corrected(ctx, store)
}

// historian follows the streams of requests.
type historian struct {
	open  map[string]*Used
	gone  []books.Span // of days that are told by their sums
	since time.Time    // of settlements
	rows  int          // that were read
	yield func(*Used)

	again map[string]*reread // streams that are read again
}

// closed tells of days by the sums of their closings: of those whose events retention has taken away, and, when the past is
// wanted whole, of all at the beginning that ended before its moments count. It returns the position up to which requests that
// begin there are told. What was spent on a day counts as if it had been spent at its end: no limit forgets it early.
func (h *historian) closed(ctx context.Context, store events.Store, past limit.Past) (through int64, err error) {
	var closings []*books.Closed
	removed := map[string]bool{}
	err = store.Find(ctx, events.Query{Stream: books.Stream}, func(c *events.Committed) bool {
		for _, fact := range c.Facts {
			switch f := fact.(type) {
			case *books.Closed:
				closings = append(closings, f)
			case *books.Removed:
				removed[f.Day] = true
			}
		}
		return true
	})
	first := books.DayOf(past.Since)
	early := past.Whole && !past.Since.IsZero()
	for _, f := range closings {
		early = early && endsBefore(f, first)
		if !early && !removed[f.Day] {
			continue
		}
		h.gone = append(h.gone, f.Span)
		h.sums(f)
		if early {
			through = f.Last
		}
	}
	return through, errors.Wrap(err, "read what was spent on closed days")
}

// endsBefore says that all that a closing sums up was used before a day.
func endsBefore(f *books.Closed, day string) bool {
	return f.Day < day && !slices.ContainsFunc(f.Lines, func(l books.Line) bool { return l.Day >= day })
}

func (h *historian) sums(f *books.Closed) {
	for i := range f.Lines {
		l := &f.Lines[i]
		day, err := books.ParseDay(l.Day)
		end := day.Add(24*time.Hour - time.Microsecond)
		if err != nil || end.Before(h.since) {
			continue
		}
		h.yield(&Used{
			Key: l.Key, User: l.User, Group: l.Group, PaidBy: l.PaidBy, Settled: end, Cost: l.Cost,
			Upstreams: []UsedUpstream{{l.Upstream, l.UpstreamCost}}, summed: true,
		})
	}
}

func (h *historian) see(c *events.Committed) {
	h.rows++
	if h.open[c.Stream] == nil && c.Version > 0 {
		if h.reprices(c) {
			return
		}
	}
	u := h.open[c.Stream]
	if u == nil {
		u = &Used{Key: c.Key, Arrived: arrival(c.Request, c.At), summed: h.told(c), partial: c.Version > 0}
		h.open[c.Stream] = u
	}
	for _, fact := range c.Facts {
		u.take(fact)
	}
	if !c.Terminal {
		return
	}
	delete(h.open, c.Stream)
	u.Settled = c.At
	switch {
	case !u.Sent || u.summed || c.At.Before(h.since):
	case u.partial:
		h.readAgain(c).whole = true
	default:
		h.yield(u)
	}
}

// told says that the request of a row is told by the sums of its day.
func (h *historian) told(c *events.Committed) bool {
	return slices.ContainsFunc(h.gone, func(s books.Span) bool {
		return s.Holds(int64(c.Position)) || c.Version > 0 && int64(c.Position) <= s.Through // its beginning is away already
	})
}

// reprices notes the stream of a row that comes after its end: a repricing, the only fact that does.
func (h *historian) reprices(c *events.Committed) bool {
	for _, fact := range c.Facts {
		if _, ok := fact.(*request.Repriced); !ok {
			return false
		}
	}
	h.readAgain(c)
	return true
}

// difference is what a repricing makes of what a request has used.
func (u *Used) difference(f *request.Repriced) Used {
	d := Used{Key: u.Key, User: u.User, Group: u.Group, PaidBy: u.PaidBy, Sent: u.Sent, Cost: f.Cost, summed: true}
	for _, c := range f.Changes {
		i := c.N - 1
		if c.N == 0 { // of a settlement behind the end of its last attempt
			i = len(u.Upstreams) - 1
		}
		if i >= 0 && i < len(u.Upstreams) {
			d.Upstreams = append(d.Upstreams, UsedUpstream{u.Upstreams[i].Upstream, c.Is.UpstreamCost - c.Was.UpstreamCost})
		}
	}
	return d
}

func (u *Used) take(fact events.Fact) {
	switch f := fact.(type) {
	case *request.Admitted:
		u.Key, u.User, u.Group, u.PaidBy, u.Estimate = f.Key, f.User, f.Group, f.PaidBy, f.InputEstimate
		if end, _ := dialect.Route(f.Method, f.Path); end.Kind == dialect.CountTokens {
			u.Estimate = 0
		}
	case *request.Dispatched:
		u.Upstreams = append(u.Upstreams, UsedUpstream{Upstream: f.Upstream})
	case *request.Failed:
		u.spend(f.N, f.Cost, f.UpstreamCost)
		u.Tokens += f.Usage.Total()
	case *request.Settled:
		u.spend(f.Attempts, f.Cost, f.UpstreamCost)
		u.Sent = f.Sent
		if u.Tokens += f.Usage.Total(); u.Tokens == 0 && !known(f) {
			u.Tokens = -1
		}
	}
}

func (u *Used) spend(attempt int, cost, upstream money.Amount) {
	u.Cost += cost
	if attempt > 0 && attempt <= len(u.Upstreams) {
		u.Upstreams[attempt-1].Cost += upstream
	}
}

// known says that the usage of a settlement is what was used, also when that is nothing.
func known(s *request.Settled) bool { return s.UsageSource != "" && s.UsageSource != pricing.None }

// arrival is the moment that the id of a request tells, else its first row's.
func arrival(id string, first time.Time) time.Time {
	if at, known := request.TimeOf(id); known {
		return at
	}
	return first
}
