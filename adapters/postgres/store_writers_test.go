package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/adapters/postgres"
	"github.com/penstock/penstock/adapters/postgres/pgtest"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/events/storetest"
)

// Six writers in two processes, and a reader that goes on from the last position it has seen.
func TestAReaderBesideSixWritersInTwoProcessesMissesNothing(t *testing.T) {
	storetest.TwoProcesses(t, pgtest.Shared(t).NewDatabase(t), openShared)
}

// Batches that are bigger than those of the random test.
func TestBigBatchesWithConflictsAndRepetitionsAnswerAsTheMemoryStore(t *testing.T) {
	s, oracle := openStore(t, pgtest.Shared(t).NewDatabase(t), postgres.StoreOptions{}), memory.NewStore()
	random := rand.New(rand.NewPCG(1, 7))
	ids := make([]string, 150)
	for i := range ids {
		ids[i] = "request/" + uuid.Must(uuid.NewV7()).String()
	}
	for range 6 {
		batch := func() (batch []events.Append) {
			for i, id := range ids {
				r := row(t, id, int64(random.IntN(3)))
				if r.Terminal = random.IntN(4) == 0; random.IntN(5) == 0 {
					r.Version = events.AnyVersion
				}
				r.Node = fmt.Sprint(random.IntN(2))
				a := one(r)
				if i%10 == 0 {
					a[0].Secrets = []events.Secret{{ID: "s", Version: int64(random.IntN(30))}}
					a[0].Rows = append(a[0].Rows, row(t, "catalog/x", events.AnyVersion))
				}
				batch = append(batch, a...)
			}
			return append(batch, batch[random.IntN(len(batch))])
		}()
		copies := make([]events.Append, len(batch))
		for i, a := range batch {
			copies[i] = events.Append{Rows: slices.Clone(a.Rows), Secrets: a.Secrets}
		}
		want, err := oracle.Append(context.Background(), copies, 1)
		require.NoError(t, err)
		got, err := s.Append(context.Background(), batch, 1)
		require.NoError(t, err)
		for i := range want {
			require.Equal(t, want[i].First, got[i].First, "append %d", i)
			require.Equal(t, want[i].Err == nil, got[i].Err == nil, "append %d", i)
			require.Equal(t, copies[i].Rows, batch[i].Rows, "append %d", i)
		}
	}
	require.Equal(t, rows(t, oracle), rows(t, s))
	require.Greater(t, len(rows(t, s)), 200)
}

func TestTextsWithBytesThatNoColumnHoldsDoNotHoldUpTheOthers(t *testing.T) {
	s := openStore(t, pgtest.Shared(t).NewDatabase(t), postgres.StoreOptions{})
	odd := row(t, "upstream/a\x00b\xff", 0)
	odd.Key, odd.Upstream, odd.Node, odd.Request = "k\x00", `\x`, "\xfe", "r\x00"
	put(t, s, append(one(odd), one(row(t, "a", 0))...)...)
	put(t, s, one(row(t, odd.Stream, events.AnyVersion))...)
	found := rows(t, s)
	require.Equal(t, odd, found[0].Row)
	require.Equal(t, odd.Stream, found[2].Stream)
	require.Equal(t, int64(1), found[2].Version)
	for _, q := range []events.Query{{Stream: odd.Stream, Limit: 1}, {Key: odd.Key}, {Upstream: odd.Upstream}, {Request: odd.Request}} {
		var got []events.Committed
		require.NoError(t, s.Find(context.Background(), q, func(c *events.Committed) bool { got = append(got, *c); return true }))
		require.Equal(t, found[:1], got, "%+v", q)
	}
}

func TestANameThatNoIndexHoldsIsRefusedAloneAndNotForEver(t *testing.T) {
	s := openStore(t, pgtest.Shared(t).NewDatabase(t), postgres.StoreOptions{})
	long := make([]byte, 4000)
	for i := range long { // what does not compress
		long[i] = byte(rand.Uint32())
	}
	results, err := s.Append(context.Background(), append(one(row(t, "upstream/"+string(long), 0)), one(row(t, "a", 0))...), 1)
	require.NoError(t, err)
	require.ErrorIs(t, results[0].Err, events.ErrConflict)
	require.Equal(t, events.Result{First: 1}, results[1])
}

func TestARowThatWasHandedOnStaysAsItIs(t *testing.T) {
	s := openStore(t, pgtest.Shared(t).NewDatabase(t), postgres.StoreOptions{})
	var batch []events.Append
	for i := range int64(1200) {
		batch = append(batch, one(row(t, "a", i))...)
	}
	put(t, s, batch...)
	var kept []*events.Committed
	require.NoError(t, s.After(context.Background(), 0, func(c *events.Committed) bool { kept = append(kept, c); return true }))
	require.Len(t, kept, 1200)
	for i, c := range kept {
		require.Equal(t, events.Position(i+1), c.Position)
	}
}

func TestTwoStoresOnOneDatabaseNeverGiveAPositionTwice(t *testing.T) {
	dsn := pgtest.Shared(t).NewDatabase(t)
	a := openStore(t, dsn, postgres.StoreOptions{Shared: true})
	b := openStore(t, dsn, postgres.StoreOptions{Shared: true})
	for i := range int64(20) {
		s := []events.Store{a, b}[i%3%2]
		r := put(t, s, one(row(t, "a", i))...)
		require.Equal(t, events.Position(i+1), r[0].First)
	}
}
