package storetest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/events"
)

var faults = map[string]func(*testing.T, events.Store){
	"rows that were not encoded are refused, and the whole batch with them": func(t *testing.T, s events.Store) {
		raw := row(t, "b", 0, 1)
		raw.Types, raw.Payload = "", nil
		for _, bad := range []events.Append{one(raw), {}} {
			_, err := s.Append(context.Background(), []events.Append{one(row(t, "a", 0, 1)), bad}, 0)
			require.Error(t, err)
			require.ErrorContains(t, err, "append 1")
		}
		require.Zero(t, head(t, s))
	},
	"a context that has ended stores nothing": func(t *testing.T, s events.Store) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := s.Append(ctx, []events.Append{one(row(t, "a", 0, 1))}, 0)
		require.ErrorIs(t, err, events.ErrUnavailable)
		require.ErrorIs(t, err, context.Canceled)
		require.Error(t, s.After(ctx, 0, func(*committed) bool { return true }))
		require.Zero(t, head(t, s))
		put(t, s, one(row(t, "a", 0, 1)))
	},
	"a context that ends while reading ends the reading": func(t *testing.T, s events.Store) {
		var batch []events.Append
		for i := range int64(1300) {
			batch = append(batch, one(row(t, "a", i, i)))
		}
		put(t, s, batch...)
		ctx, cancel := context.WithCancel(context.Background())
		err := s.After(ctx, 0, func(*committed) bool { cancel(); return true })
		require.ErrorIs(t, err, context.Canceled)
	},
	"a probe says that the store takes appends, and leaves nothing behind": func(t *testing.T, s events.Store) {
		require.NoError(t, s.Probe(context.Background()))
		require.NoError(t, s.Probe(context.Background()))
		require.Zero(t, head(t, s))
		require.Empty(t, all(t, s))
	},
	"a closed store is unavailable": func(t *testing.T, s events.Store) {
		ctx := context.Background()
		put(t, s, one(row(t, "a", 0, 1)))
		require.NoError(t, s.Close())
		_, err := s.Append(ctx, []events.Append{one(row(t, "a", 1, 2))}, 0)
		require.ErrorIs(t, err, events.ErrUnavailable)
		require.ErrorIs(t, s.Probe(ctx), events.ErrUnavailable)
		none := func(*committed) bool { t.Error("a row was read"); return false }
		require.ErrorIs(t, s.After(ctx, 0, none), events.ErrUnavailable)
		require.ErrorIs(t, s.Stream(ctx, "a", 0, none), events.ErrUnavailable)
		require.ErrorIs(t, s.Find(ctx, events.Query{}, none), events.ErrUnavailable)
		_, err = s.Head(ctx)
		require.ErrorIs(t, err, events.ErrUnavailable)
		_, err = s.LowWater(ctx, 0)
		require.ErrorIs(t, err, events.ErrUnavailable)
		_, err = s.Secret(ctx, "acc", 0)
		require.ErrorIs(t, err, events.ErrUnavailable)
		require.NoError(t, s.Close(), "closing again is no fault")
	},
}
