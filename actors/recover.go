package actors

import (
	"context"
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

// FindOpen reads the store from its low water and finds the requests that have no end, in order of their beginning.
func FindOpen(ctx context.Context, store events.Store) ([]Open, error) {
	low, err := store.LowWater(ctx, 0)
	if err != nil {
		return nil, errors.Wrap(err, "find open requests")
	}
	stories := map[string]*Open{}
	var order []string
	err = store.After(ctx, max(low-1, 0), func(c *events.Committed) bool {
		if c.Request == "" {
			return true
		}
		o := stories[c.Stream]
		if o == nil {
			if c.Version != 0 { // its beginning lies before the low water: it has ended
				return true
			}
			o = &Open{Stream: c.Stream, First: c.Position, Key: c.Key, Story: request.Story{ID: c.Request}}
			stories[c.Stream] = o
			order = append(order, c.Stream)
		}
		for _, f := range c.Facts {
			o.Story.Evolve(f, c.At)
		}
		if c.Terminal {
			delete(stories, c.Stream)
		}
		return true
	})
	if err != nil {
		return nil, errors.Wrap(err, "find open requests")
	}
	var open []Open
	for _, s := range order {
		if o := stories[s]; o != nil {
			open = append(open, *o)
		}
	}
	return open, nil
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
		if err := p.Wait(); err != nil {
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
	final := s.Final()
	if final == nil {
		return out
	}
	out.Sent, out.Class, out.Stage = true, "abandoned", "upstream_response"
	out.AttemptUS = now.Sub(final.At).Microseconds()
	d := final.Dispatched
	u, source := abandonedUsage(s, snap.Settings.AbandonedBilling)
	out.Usage, out.UsageSource = u, source
	up := snap.Upstream(d.Upstream)
	if u.IsZero() || up == nil {
		out.Unpriced = !u.IsZero()
		if out.Unpriced {
			out.UnpricedReason = unpricedReason
		}
		return out
	}
	ask := s.Ask()
	model := d.ResolvedModel
	if model == "" {
		model = ask.Model
	}
	price(snap, up, model, d.UpstreamModel, ask.Group, u, s.AdmittedAt).into(out)
	return out
}

// abandonedUsage is what is billed for an attempt of which the end is not known. Without a progress report the input
// is all that can be known of it.
func abandonedUsage(s *request.Story, billing string) (pricing.Usage, pricing.Source) {
	switch {
	case billing == catalog.AbandonedNone:
		return pricing.Usage{}, pricing.None
	case billing == catalog.AbandonedLastProgress && s.Progressed != nil && s.Progressed.N == len(s.Attempts):
		return s.Progressed.Usage, s.Progressed.UsageSource
	case s.Admitted != nil:
		return pricing.Usage{Input: s.Admitted.InputEstimate}, pricing.Estimated
	}
	return pricing.Usage{}, pricing.None
}
