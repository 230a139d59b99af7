package actors

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// Open is a request that a dead process left without an end.
type Open struct {
	Stream string
	First  events.Position
	Story  request.Story
	Key    string
}

// FindOpen reads the store from its low water and finds the requests that have no end, in order of their beginning. A
// row that can not be read counts its facts and tells nothing.
func FindOpen(ctx context.Context, store events.Store) ([]Open, error) {
	low, err := store.LowWater(ctx, 0)
	if err != nil {
		return nil, errors.Wrap(err, "find open requests")
	}
	f := finder{after: max(low-1, 0), open: map[string]*Open{}}
	for {
		err := store.After(ctx, f.after, f.see)
		var bad *events.DecodeError
		if !errors.As(err, &bad) {
			return f.found(), errors.Wrap(err, "find open requests")
		}
		if o := f.open[bad.Stream]; o != nil {
			o.Story.Facts += int64(bad.Last-bad.Position) + 1
		}
		f.after = bad.Last
	}
}

// finder follows the streams of requests.
type finder struct {
	after events.Position
	open  map[string]*Open
}

func (f *finder) see(c *events.Committed) bool {
	f.after = c.Last()
	if c.Request == "" {
		return true
	}
	o := f.open[c.Stream]
	if o == nil {
		if c.Version != 0 { // its beginning lies before the low water: it has ended
			return true
		}
		o = &Open{Stream: c.Stream, First: c.Position, Key: c.Key, Story: request.Story{ID: c.Request}}
		f.open[c.Stream] = o
	}
	for _, fact := range c.Facts {
		o.Story.Evolve(fact, c.At)
	}
	if c.Terminal {
		delete(f.open, c.Stream)
	}
	return true
}

func (f *finder) found() []Open {
	var open []Open
	for _, o := range f.open {
		open = append(open, *o)
	}
	slices.SortFunc(open, func(a, b Open) int { return cmp.Compare(a.First, b.First) })
	return open
}

// Abandon settles what a dead process left open. What reached an upstream is billed as the setting abandoned_billing
// says; what did not costs nothing. It returns when all is stored.
func Abandon(journal *events.Journal, snap *catalog.Snapshot, node string, now time.Time, open []Open) error {
	pending := make([]*events.Pending, len(open))
	for i := range open {
		o := &open[i]
		row := events.Row{
			Stream: o.Stream, Version: o.Story.Facts, Terminal: true, At: now.UTC(), Node: node, Request: o.Story.ID, Key: o.Key,
			Facts: []events.Fact{abandoned(&o.Story, snap, now)},
		}
		if f := o.Story.Final(); f != nil {
			row.Upstream = f.Dispatched.Upstream
		}
		pending[i] = journal.Start(events.Append{Rows: []events.Row{row}}, events.Must)
	}
	for i, p := range pending {
		// A conflict: the request has ended after all, in a row that could not be read.
		if err := p.Wait(); err != nil && !errors.Is(err, events.ErrConflict) {
			return errors.Wrapf(err, "settle abandoned request %s", open[i].Story.ID)
		}
	}
	return nil
}

// abandoned is the settlement of one story.
func abandoned(s *request.Story, snap *catalog.Snapshot, now time.Time) *request.Settled {
	out := &request.Settled{
		Outcome: request.Abandoned, Code: "ABANDONED", Reason: "NODE_DIED", Attempts: len(s.Attempts), UsageSource: pricing.None,
		DurationUS: now.Sub(s.AdmittedAt).Microseconds(),
	}
	switch {
	case s.Resumed != nil: // a second wait is told with what follows it
		out.QueueState, out.WaitedUS = queueResumed, s.Resumed.WaitedUS
	case s.Queued != nil:
		out.QueueState = queueEvicted
	}
	final := s.Final()
	if final == nil {
		return out
	}
	out.Sent, out.Class, out.Stage = true, "abandoned", "upstream_response"
	out.AttemptUS = now.Sub(final.At).Microseconds()
	d := final.Dispatched
	u, source, tier := abandonedUsage(s, snap.Settings.AbandonedBilling)
	out.Usage, out.UsageSource, out.ServiceTier = u, source, tier
	up := snap.Upstream(d.Upstream)
	if u.IsZero() || up == nil {
		out.Unpriced = !u.IsZero()
		if out.Unpriced {
			out.UnpricedReason = pricing.PriceNotFound
		}
		return out
	}
	ask := s.Ask()
	call := pricing.Call{Model: d.PricedModel(ask.Model), UpstreamModel: d.UpstreamModel, ServiceTier: tier, At: s.AdmittedAt}
	var b bill
	b.price(snap, up, call, payer(&ask), &u)
	b.into(out)
	return out
}

// abandonedUsage is what is billed for an attempt of which the end is not known, and the tier of service that it is billed
// for. Without a progress report the input is all that can be known of it.
func abandonedUsage(s *request.Story, billing string) (_ pricing.Usage, _ pricing.Source, tier string) {
	switch {
	case billing == catalog.AbandonedNone:
		return pricing.Usage{}, pricing.None, ""
	case billing == catalog.AbandonedLastProgress && s.Progressed != nil && s.Progressed.N == len(s.Attempts):
		return s.Progressed.Usage, s.Progressed.UsageSource, s.Progressed.ServiceTier
	case s.Admitted != nil:
		return pricing.Usage{Input: s.Admitted.InputEstimate}, pricing.Estimated, ""
	}
	return pricing.Usage{}, pricing.None, ""
}
