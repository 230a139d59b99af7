package penstock_test

import (
	"context"
	"flag"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/adapters/postgres"
	"github.com/penstock/penstock/adapters/postgres/pgtest"
	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections/history"
)

var repriced = flag.Int("repriced", 20_000, "requests that are priced anew by the benchmark")

// flatBook is one price for everything.
type flatBook struct{ sheet pricing.Sheet }

func (b *flatBook) Sheets(string, string, string, time.Time) pricing.Sheets {
	return pricing.Sheets{Manual: &b.sheet}
}

// BenchmarkReprice reads a store of plain requests, all of which cost something else, and books that. It tells how many requests
// a second does.
func BenchmarkReprice(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) {
		store, err := sqlite.OpenStore(filepath.Join(b.TempDir(), "events.db"), sqlite.StoreOptions{})
		require.NoError(b, err)
		benchReprice(b, store)
	})
	b.Run("postgres", func(b *testing.B) {
		store, err := postgres.OpenStore(context.Background(), pgtest.Shared(b).NewDatabase(b), postgres.StoreOptions{})
		require.NoError(b, err)
		benchReprice(b, store)
	})
}

func benchReprice(b *testing.B, store events.Store) {
	ctx := context.Background()
	defer store.Close()
	list, err := history.History{Seed: 1, Requests: *repriced, Plain: true, Parallel: 50, Keys: 100, ASCII: true, Step: time.Second}.Appends()
	require.NoError(b, err)
	for len(list) > 0 {
		n := min(512, len(list))
		_, err := store.Append(ctx, list[:n], 1)
		require.NoError(b, err)
		list = list[n:]
	}
	head, err := store.Head(ctx)
	require.NoError(b, err)
	j := events.NewJournal(events.JournalOptions{Store: store, Head: head})
	defer j.Close(ctx)
	s := actors.NewSystem(actors.Options{Now: time.Now, Recorder: j})
	defer s.Stop(ctx)
	book := &flatBook{pricing.Sheet{Version: "b@1", Origin: pricing.Manual}}
	r := &actors.Repricer{
		Store: store, Journal: j, System: s, Now: time.Now, Prices: func() actors.PriceBook { return actors.PriceBook{Book: book} },
		Books: func(_ context.Context, do func(*books.Ledger) error) error { return do(&books.Ledger{}) },
	}
	for i := range b.N {
		book.sheet.Flat.Input = pricing.Price(1000 + i)
		preview, err := r.Preview(ctx, actors.RepriceScope{})
		require.NoError(b, err)
		require.EqualValues(b, *repriced, preview.Requests)
		done, err := r.Apply(ctx, "run", actors.RepriceScope{}, actors.RepriceExpect{})
		require.NoError(b, err)
		second, err := r.Preview(ctx, actors.RepriceScope{})
		require.NoError(b, err)
		require.Zero(b, second.Requests)
		b.ReportMetric(float64(preview.PerSecond), "previewed/s")
		b.ReportMetric(float64(done.PerSecond), "booked/s")
		b.ReportMetric(float64(second.PerSecond), "seen-again/s")
	}
}
