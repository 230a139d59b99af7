package lawtest

import (
	"context"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/requestlog"
)

// Marks folds a history, large enough that every filter is asked for in some blocks only, into both models and asks both for
// the same random pages of the log. The projections are those of the log with its Marker. want is the oracle, which needs no
// marks.
func Marks(t *testing.T, list []projections.Projection, store func(testing.TB) events.Store, have, want func(testing.TB) Readers) {
	ctx := context.Background()
	history, err := History{Seed: 5, Requests: 2500, Unended: 5, Keys: 6, Parallel: 40}.Appends()
	must(t, err)
	s := store(t)
	if len(Commits(t, s, history, 50)) == 0 {
		t.Fatal("nothing was committed")
	}
	m, oracle := have(t), want(t)
	for _, model := range []Readers{m, oracle} {
		bring(t, Data{s, model}, list)
	}
	dice := rand.New(rand.NewPCG(7, 7))
	pick := func(of ...string) string { return of[dice.IntN(len(of))] }
	all, err := oracle.Requests(ctx, requestlog.Query{Limit: 1000})
	must(t, err)
	met := 0
	for range 150 {
		some := &all[dice.IntN(len(all))]
		q := requestlog.Query{
			Limit: 1 + dice.IntN(60), Key: pick("", "", some.Key), Outcome: pick("", some.Outcome, "abandoned"),
			Model: pick("", some.Model, some.ResolvedModel, "none"), Upstream: pick("", some.Upstream),
		}
		if dice.IntN(3) == 0 {
			q.Before = all[dice.IntN(len(all))].Cursor()
		}
		if dice.IntN(3) == 0 {
			q.Since = all[dice.IntN(len(all))].At
		}
		want, err := oracle.Requests(ctx, q)
		if err != nil {
			continue // a filter that cannot be meant
		}
		have, err := m.Requests(ctx, q)
		must(t, err)
		if !reflect.DeepEqual(want, have) {
			t.Fatalf("%+v:\nhave %+v\nwant %+v", q, have, want)
		}
		met += len(want)
	}
	if met <= 500 {
		t.Errorf("%d lines were found: the law would hold of nearly nothing", met)
	}
}
