package actors_test

import (
	"context"
	"testing"
	"time"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// unreadable is a store in which the rows of one stream can not be read.
type unreadable struct {
	*memory.Store
	stream string
}

func (u unreadable) After(ctx context.Context, after events.Position, yield func(*events.Committed) bool) error {
	var bad *events.DecodeError
	err := u.Store.After(ctx, after, func(c *events.Committed) bool {
		if c.Stream == u.stream {
			bad = &events.DecodeError{Position: c.Position, Last: c.Last(), Stream: c.Stream, Err: events.ErrFact}
			return false
		}
		return yield(c)
	})
	if bad != nil {
		return bad
	}
	return err
}

func admitted() *request.Admitted {
	return &request.Admitted{Ask: request.Ask{Key: "k", Model: "m"}, InputEstimate: 100, Plan: []request.Candidate{{Upstream: "a"}}}
}

func dispatchedTo(n int, up string) *request.Dispatched {
	return &request.Dispatched{N: n, Upstream: up, Account: up + "1"}
}

// crash stores what dead processes left.
func crash(t *testing.T, store events.Store, stories map[string][][]events.Fact) {
	t.Helper()
	for id, rows := range stories {
		version := int64(0)
		for _, facts := range rows {
			_, settled := facts[len(facts)-1].(*request.Settled)
			row := events.Row{Stream: "request/" + id, Version: version, Terminal: settled, At: time.Now().UTC(), Request: id, Key: "k", Facts: facts}
			if err := events.Encode(&row); err != nil {
				t.Fatal(err)
			}
			results, err := store.Append(context.Background(), []events.Append{{Rows: []events.Row{row}}}, 1)
			if err != nil || results[0].Err != nil {
				t.Fatal(err, results)
			}
			version += int64(len(facts))
		}
	}
}

// What a dead process left open is settled once, billed as the operator says: undispatched for nothing, dispatched by
// what is known of it.
func TestAbandonedRequestsAreSettled(t *testing.T) {
	progress := &request.Progressed{N: 2, Usage: pricing.Usage{Input: 90, Output: 40}, UsageSource: pricing.Partial}
	failed := &request.Failed{N: 1, Class: "http_5xx", Next: "next_upstream", UsageSource: pricing.None}
	stories := map[string][][]events.Fact{
		"plain":   {{admitted(), dispatchedTo(1, "a")}},
		"waiting": {{admitted(), &request.Queued{Upstreams: []string{"a"}}}},
		"long":    {{admitted(), dispatchedTo(1, "a")}, {failed, dispatchedTo(2, "b")}, {progress}},
		"ended":   {{admitted(), dispatchedTo(1, "a")}, {&request.Settled{Outcome: request.Completed, Attempts: 1, Sent: true, Class: "ok", UsageSource: pricing.None}}},
		"strange": {{admitted(), dispatchedTo(1, "no such upstream")}},
	}
	input := pricing.Usage{Input: 100}
	for billing, want := range map[string]map[string]pricing.Usage{
		"none":          {"plain": {}, "waiting": {}, "long": {}, "strange": {}},
		"input":         {"plain": input, "waiting": {}, "long": input, "strange": input},
		"last_progress": {"plain": input, "waiting": {}, "long": progress.Usage, "strange": input},
	} {
		t.Run(billing, func(t *testing.T) {
			r := newRig(t, append(pair(), setting("abandoned_billing", billing))...)
			crash(t, r.store, stories)
			open, err := actors.FindOpen(context.Background(), r.store)
			if err != nil || len(open) != 4 {
				t.Fatalf("%d open, %v", len(open), err)
			}
			for i := range open[1:] {
				if open[i].First >= open[i+1].First {
					t.Error("not in the order of their beginning")
				}
			}
			if err := actors.Abandon(r.journal, r.snap.Load(), "n", time.Now(), open); err != nil {
				t.Fatal(err)
			}
			for id, usage := range want {
				s := r.settlement(id)
				sent := id != "waiting"
				if s.Outcome != request.Abandoned || s.Sent != sent || s.Usage != usage || (s.Attempts > 0) != sent {
					t.Errorf("%s: %+v", id, s)
				}
				priced := costOf(usage)
				if id == "strange" {
					priced = 0
				}
				if s.Cost != priced || s.Unpriced != (id == "strange" && !usage.IsZero()) {
					t.Errorf("%s: costs %v, unpriced %v", id, s.Cost, s.Unpriced)
				}
			}
			if again, err := actors.FindOpen(context.Background(), r.store); err != nil || len(again) != 0 {
				t.Errorf("still open: %+v %v", again, err)
			}
		})
	}
}

// What a long stream told of before its process died is priced as its end would have been: by the tier of service that it was
// served in, and by what its key and its group pay (C34).
func TestAnAbandonedStreamIsPricedByWhatItToldLast(t *testing.T) {
	told := func(tier string) *request.Progressed {
		return &request.Progressed{N: 1, Usage: pricing.Usage{Input: 1000, Output: 1000}, UsageSource: pricing.Partial, ServiceTier: tier}
	}
	by := admitted()
	by.Group = "g"
	r := newRig(t, append(pair(), &catalog.Group{ID: "g", Upstreams: []string{"a"}, Multiplier: "2"},
		key("k", func(k *catalog.Key) { k.Group, k.Multiplier = "g", "1.5" }),
		&catalog.Price{Model: "m", Input: "1", Output: "2", ServiceTiers: map[string]catalog.ServicePrice{"flex": {PriceRates: catalog.PriceRates{Input: "0.5", Output: "1"}}}})...)
	crash(t, r.store, map[string][][]events.Fact{
		"plain": {{by, dispatchedTo(1, "a")}, {told("")}}, "flex": {{by, dispatchedTo(1, "a")}, {told("default")}, {told("flex")}},
	})
	open, err := actors.FindOpen(context.Background(), r.store)
	if err == nil {
		err = actors.Abandon(r.journal, r.snap.Load(), "n", time.Now(), open)
	}
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string][3]string{"plain": {"", "0.003", "0.009"}, "flex": {"flex", "0.0015", "0.0045"}} {
		s := r.settlement(id)
		if got := [3]string{s.ServiceTier, s.UpstreamCost.String(), s.Cost.String()}; got != want || s.Multipliers != (request.Multipliers{Group: "2", Key: "1.5"}) {
			t.Errorf("%s: %v by %+v, want %v", id, got, s.Multipliers, want)
		}
		again, err := pricing.Reprice(r.snap.Load(), posted(t, r.story(id)))
		if err != nil || len(again.Changes)+len(again.Missing) > 0 {
			t.Errorf("%s priced again: %+v, %v", id, again, err)
		}
	}
}

// A row that can not be read neither stops a start nor keeps the other requests open (E52).
func TestRecoveryPassesOverUnreadableRows(t *testing.T) {
	r := newRig(t, pair()...)
	crash(t, r.store, map[string][][]events.Fact{"good": {{admitted(), dispatchedTo(1, "a")}}, "bad": {{admitted(), dispatchedTo(1, "a")}}})
	open, err := actors.FindOpen(context.Background(), unreadable{r.store.Store, "request/bad"})
	if err != nil || len(open) != 1 || open[0].Stream != "request/good" {
		t.Fatalf("%+v %v", open, err)
	}
	open = append(open, actors.Open{Stream: "request/bad", Story: request.Story{ID: "bad", Facts: 1}}) // at another version
	if err := actors.Abandon(r.journal, r.snap.Load(), "n", time.Now(), open); err != nil {
		t.Fatal(err)
	}
	if s := r.settlement("good"); s.Outcome != request.Abandoned {
		t.Errorf("%+v", s)
	}
}
