package sqlite_test

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/lawtest"
	"github.com/penstock/penstock/projections/requestlog"
)

var markedProjections = append(everyProjection[:len(everyProjection):len(everyProjection)], requestlog.Marker{})

func TestTheMarksOfTheLogKeepTheLawsOfProjections(t *testing.T) {
	lawtest.Run(t, lawtest.Subject{
		Projections: markedProjections,
		Store:       memoryStore,
		Model:       func(t testing.TB) projections.ReadModel { return openMarked(t) },
		Shadow:      func() (projections.ReadModel, error) { return memory.NewReadModel(markedProjections...), nil },
		Seeds:       1,
	})
}

// Marks or no marks, a page is what the memory model says; with them, every filter is asked for in some blocks only.
func TestAPageOfTheLogThroughMarksIsThatOfTheMemoryModel(t *testing.T) {
	ctx := context.Background()
	history, err := lawtest.History{Seed: 5, Requests: 2500, Unended: 5, Keys: 6, Parallel: 40}.Appends()
	require.NoError(t, err)
	store := memory.NewStore()
	batches := lawtest.Commits(t, store, history, 50)
	m, oracle := openMarked(t), memory.NewReadModel(markedProjections...)
	for _, model := range []projections.ReadModel{m, oracle} {
		r := projections.NewRunner(projections.Options{Store: store, Model: model, Projections: markedProjections})
		require.NoError(t, r.Start(ctx))
		require.NoError(t, r.Rebuilt(ctx))
		require.NoError(t, r.Stop(ctx))
	}
	dice := rand.New(rand.NewPCG(7, 7))
	pick := func(of ...string) string { return of[dice.IntN(len(of))] }
	all, err := oracle.Requests(ctx, requestlog.Query{Limit: 1000})
	require.NoError(t, err)
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
		require.NoError(t, err)
		require.Equal(t, want, have, "%+v", q)
		met += len(want)
	}
	require.Greater(t, met, 500)
	require.NotEmpty(t, batches)
}

func openMarked(t testing.TB) *sqlite.ReadModel {
	return openRead(t, filepath.Join(t.TempDir(), "read.db"), markedProjections...)
}
