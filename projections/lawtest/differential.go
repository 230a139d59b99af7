package lawtest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/ledger"
	"github.com/penstock/penstock/projections/requestlog"
	"github.com/penstock/penstock/projections/stats"
)

// Readers is a read model with the queries of the gateway's projections.
type Readers interface {
	projections.ReadModel
	requestlog.Reader
	billing.Reader
	stats.Reader
	ledger.Reader
}

// Differential folds random histories into both models and asks both the same random questions. want is the oracle.
func Differential(t *testing.T, list []projections.Projection, store func(testing.TB) events.Store, have, want func(testing.TB) Readers) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			step := []time.Duration{40 * time.Second, 10 * time.Minute}[seed%2] // some hours, some days
			history, err := History{Seed: 100 + seed, Requests: 120, Unended: 2, Step: step, Repriced: true}.Appends()
			must(t, err)
			s := store(t)
			Commits(t, s, history, 7)
			a, b := have(t), want(t)
			for _, m := range []Readers{a, b} {
				r := projections.NewRunner(projections.Options{Store: s, Model: m, Projections: list, RowsMax: 50})
				must(t, r.Start(context.Background()))
				must(t, r.Stop(context.Background()))
			}
			for _, p := range list {
				rows, at := Dump(t, a, p)
				oracle, end := Dump(t, b, p)
				alike(t, p.Name()+" rows", rows, oracle)
				alike(t, p.Name()+" checkpoint", at, end)
			}
			ask := asker{rand: rand.New(rand.NewPCG(seed, 2)), history: history}
			for range 15 {
				ask.log(t, a, b)
				ask.bill(t, a, b)
				ask.stats(t, a, b)
				ask.ledger(t, a, b)
			}
		})
	}
}

// asker makes up questions about a history.
type asker struct {
	rand    *rand.Rand
	history []events.Append
}

func (a *asker) maybe(list ...string) string {
	if a.rand.IntN(3) > 0 {
		return ""
	}
	return list[a.rand.IntN(len(list))]
}

// when is a time of the history, at times none, at times one that no fact has.
func (a *asker) when(unit time.Duration) time.Time {
	at := a.history[a.rand.IntN(len(a.history))].Rows[0].At
	switch a.rand.IntN(5) {
	case 0:
		return time.Time{}
	case 4:
		return time.Date(1900+a.rand.IntN(200), 1, 1, 0, 0, 0, 0, time.UTC)
	case 1:
		return at.Truncate(unit)
	case 2:
		return at.Add(time.Duration(a.rand.IntN(3)-1) * time.Nanosecond)
	}
	return at
}

// span is a pair of times in order.
func (a *asker) span(unit time.Duration) (since, until time.Time) {
	since, until = a.when(unit), a.when(unit)
	if !since.IsZero() && !until.IsZero() && !since.Before(until) {
		return since, time.Time{}
	}
	return since, until
}

func (a *asker) log(t *testing.T, have, want Readers) {
	ctx := context.Background()
	q := requestlog.Query{
		Limit: 1 + a.rand.IntN(30), Key: a.maybe(keys...), Upstream: a.maybe(upstreams...), Model: a.maybe("gpt-5-mini", "fast", "none"),
		Outcome: a.maybe("completed", "failed", "rejected", "cancelled", "abandoned"),
	}
	q.Since, q.Until = a.span(time.Minute)
	for pages := 0; pages < 6; pages++ {
		x, err := have.Requests(ctx, q)
		must(t, err)
		y, err := want.Requests(ctx, q)
		must(t, err)
		alike(t, fmt.Sprintf("log %+v", q), x, y)
		if len(x) < q.Limit {
			break
		}
		q.Before = x[len(x)-1].Cursor()
	}
	id := a.history[a.rand.IntN(len(a.history))].Rows[0].Request
	x, err := have.Request(ctx, id)
	must(t, err)
	y, err := want.Request(ctx, id)
	must(t, err)
	alike(t, "request "+id, x, y)
	if id != "" && x == nil {
		t.Errorf("request %s is not in the log", id)
	}
}

func (a *asker) bill(t *testing.T, have, want Readers) {
	ctx := context.Background()
	var q billing.Query
	for _, i := range a.rand.Perm(len(billing.Dimensions))[:a.rand.IntN(4)] {
		q.By = append(q.By, billing.Dimensions[i])
	}
	q.Since, q.Until = a.span(24 * time.Hour)
	x, err := have.Bill(ctx, q)
	must(t, err)
	y, err := want.Bill(ctx, q)
	must(t, err)
	alike(t, fmt.Sprintf("bill %+v", q), x, y)
	total, err := have.BilledTotal(ctx)
	must(t, err)
	oracle, err := want.BilledTotal(ctx)
	must(t, err)
	alike(t, "billed total", total, oracle)
}

func (a *asker) stats(t *testing.T, have, want Readers) {
	ctx := context.Background()
	q := stats.Query{
		Key: a.maybe(keys...), Upstream: a.maybe(upstreams...), Model: a.maybe("gpt-5-mini", "fast"),
		By: a.maybe(stats.Dimensions...), Order: a.maybe(stats.Orders...), Limit: 1 + a.rand.IntN(9),
	}
	q.Since, q.Until = a.span(time.Hour)
	x, err := have.Overview(ctx, q)
	must(t, err)
	y, err := want.Overview(ctx, q)
	must(t, err)
	alike(t, fmt.Sprintf("overview %+v", q), x, y)
	series, err := have.Timeseries(ctx, q)
	must(t, err)
	otherSeries, err := want.Timeseries(ctx, q)
	must(t, err)
	alike(t, fmt.Sprintf("timeseries %+v", q), series, otherSeries)
	board, err := have.Leaderboard(ctx, q)
	must(t, err)
	otherBoard, err := want.Leaderboard(ctx, q)
	must(t, err)
	alike(t, fmt.Sprintf("leaderboard %+v", q), board, otherBoard)
}

func (a *asker) ledger(t *testing.T, have, want Readers) {
	ctx := context.Background()
	user := a.maybe("ann", "cyd", "nobody")
	until := a.when(24 * time.Hour)
	x, err := have.Booked(ctx, user, until)
	must(t, err)
	y, err := want.Booked(ctx, user, until)
	must(t, err)
	alike(t, fmt.Sprintf("booked of %q until %v", user, until), x, y)

	q := ledger.PostedQuery{User: user, Key: a.maybe(keys...), Carried: a.rand.IntN(2) == 0}
	for _, i := range a.rand.Perm(len(ledger.Dimensions))[:a.rand.IntN(5)] {
		q.By = append(q.By, ledger.Dimensions[i])
	}
	q.Since, q.Until = a.days()
	sums, err := have.Posted(ctx, q)
	must(t, err)
	otherSums, err := want.Posted(ctx, q)
	must(t, err)
	alike(t, fmt.Sprintf("posted %+v", q), sums, otherSums)

	of := ledger.Query{User: "ann", Since: q.Since, Until: q.Until, Group: a.maybe(ledger.Groups...)}
	if a.rand.IntN(2) == 0 {
		of.User, of.Key = "", "key-c"
	}
	statement, err := ledger.StatementOf(ctx, have, of)
	must(t, err)
	otherStatement, err := ledger.StatementOf(ctx, want, of)
	must(t, err)
	alike(t, fmt.Sprintf("statement %+v", of), statement, otherStatement)
}

// days is a span of whole days.
func (a *asker) days() (since, until time.Time) {
	since, until = a.when(24*time.Hour), a.when(24*time.Hour)
	for _, border := range []*time.Time{&since, &until} {
		if !border.IsZero() {
			*border = border.UTC().Truncate(24 * time.Hour)
		}
	}
	if !since.IsZero() && !until.IsZero() && !since.Before(until) {
		return since, time.Time{}
	}
	return since, until
}

// alike compares what the outside would see.
func alike(t testing.TB, what string, have, want any) {
	t.Helper()
	a, err := json.Marshal(have)
	must(t, err)
	b, err := json.Marshal(want)
	must(t, err)
	if string(a) != string(b) {
		t.Fatalf("%s:\nhave %.2000s\nwant %.2000s", what, a, b)
	}
}
