package projections_test

import (
	"context"
	"testing"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/lawtest"
	"github.com/penstock/penstock/projections/requestlog"
	"github.com/penstock/penstock/projections/stats"
)

// figures are the sums that the facts of a history tell.
type figures struct {
	requests, settledSent, attempts int64
	cost                            money.Amount
}

func audit(history []events.Append) figures {
	var b figures
	for _, a := range history {
		for _, fact := range a.Rows[0].Facts {
			switch f := fact.(type) {
			case *request.Admitted, *request.Rejected:
				b.requests++
			case *request.Dispatched:
				b.attempts++
			case *request.Failed:
				b.cost += f.Cost
			case *request.Settled:
				b.cost += f.Cost
				if f.Sent {
					b.settledSent++
				}
			}
		}
	}
	return b
}

// Pains 2 and 20: there is one settled number. Log, bill, sums by day and statistics agree on it to the last digit.
func TestEveryProjectionTellsTheSameMoney(t *testing.T) {
	ctx := context.Background()
	for seed := range uint64(8) {
		list, err := lawtest.History{Seed: 50 + seed, Requests: 150}.Appends()
		noErr(t, err)
		want := audit(list)
		store, m := memory.NewStore(), memory.NewReadModel(all...)
		lawtest.Commits(t, store, list, 9)
		lawtest.Start(t, projections.Options{Store: store, Model: m, Projections: all})

		entries, err := m.Requests(ctx, requestlog.Query{Limit: 1000})
		noErr(t, err)
		var logged money.Amount
		for _, e := range entries {
			logged += e.Cost
			if e.State != requestlog.Done {
				t.Errorf("seed %d: %s is in progress, but everything has ended", seed, e.RequestID)
			}
		}
		total, err := m.BilledTotal(ctx)
		noErr(t, err)
		bill, err := m.Bill(ctx, billing.Query{})
		noErr(t, err)
		byUpstream, err := m.Bill(ctx, billing.Query{By: []string{"upstream", "day"}})
		noErr(t, err)
		overview, err := m.Overview(ctx, stats.Query{})
		noErr(t, err)
		if logged != want.cost || total != want.cost || bill[0].Cost != want.cost || overview.Cost != want.cost {
			t.Errorf("seed %d: log %v, entries %v, bill %v, stats %v, facts %v", seed, logged, total, bill[0].Cost, overview.Cost, want.cost)
		}
		var sum billing.Line
		for _, l := range byUpstream {
			sum.Requests, sum.Attempts, sum.Cost = sum.Requests+l.Requests, sum.Attempts+l.Attempts, sum.Cost+l.Cost
		}
		if sum.Cost != want.cost || sum.Attempts != want.attempts || sum.Requests != want.settledSent {
			t.Errorf("seed %d: by upstream %+v, facts %+v", seed, sum, want)
		}
		if bill[0].Attempts != want.attempts || overview.Attempts != want.attempts || overview.Requests != want.requests ||
			int64(len(entries)) != want.requests || bill[0].Requests != want.settledSent {
			t.Errorf("seed %d: bill %+v, stats %+v, %d entries, facts %+v", seed, bill[0], overview, len(entries), want)
		}
	}
}
