package postgres_test

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/adapters/postgres"
	"github.com/penstock/penstock/adapters/postgres/pgtest"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/events/storetest"
)

func TestMain(m *testing.M) {
	storetest.WriteForAnother(openShared)
	pgtest.Main(m)
}

// openShared opens a store that is not the only one of its database.
func openShared(dsn string) (events.Store, error) {
	return postgres.OpenStore(context.Background(), dsn, postgres.StoreOptions{Shared: true, Deadline: time.Minute})
}

// openStore opens a store whose calls may take as long as a machine takes that stands still now and then, unless o says otherwise.
func openStore(t testing.TB, dsn string, o postgres.StoreOptions) *postgres.Store {
	t.Helper()
	o.Deadline = cmp.Or(o.Deadline, time.Minute)
	s, err := postgres.OpenStore(context.Background(), dsn, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestThePostgreSQLStoreKeepsThePromisesOfAStore(t *testing.T) {
	server := pgtest.Shared(t)
	storetest.Run(t, func(t *testing.T) events.Store {
		return openStore(t, server.NewDatabase(t), postgres.StoreOptions{})
	})
}

func TestThePostgreSQLStoreAnswersAsTheMemoryStore(t *testing.T) {
	server := pgtest.Shared(t)
	for seed := range uint64(20) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			dsn := server.NewDatabase(t)
			storetest.Differential(t, seed, memory.NewStore(), func(t *testing.T) events.Store {
				return openStore(t, dsn, postgres.StoreOptions{Shared: true}) // the one before may still be open
			})
		})
	}
}

// row is an encoded row with one fact.
func row(t testing.TB, stream string, version int64) events.Row {
	t.Helper()
	r := events.Row{Stream: stream, Version: version, At: time.UnixMicro(1_772_000_000_000_000).UTC(), Facts: []events.Fact{
		&request.Resumed{Upstream: strings.Repeat("u", 300)},
	}}
	require.NoError(t, events.Encode(&r))
	return r
}

func one(r events.Row) []events.Append { return []events.Append{{Rows: []events.Row{r}}} }

// put appends a batch that the store must take, every part of it.
func put(t testing.TB, s events.Store, batch ...events.Append) []events.Result {
	t.Helper()
	results, err := s.Append(context.Background(), batch, 1)
	require.NoError(t, err)
	for i, r := range results {
		require.NoError(t, r.Err, "append %d", i)
	}
	return results
}

func head(t testing.TB, s events.Store) events.Position {
	t.Helper()
	h, err := s.Head(context.Background())
	require.NoError(t, err)
	return h
}

func rows(t testing.TB, s events.Store) (all []events.Committed) {
	t.Helper()
	require.NoError(t, s.After(context.Background(), 0, func(c *events.Committed) bool { all = append(all, *c); return true }))
	return all
}

// onServer runs statements on a connection of its own.
func onServer(t testing.TB, dsn string, f func(context.Context, *pgx.Conn)) {
	t.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, dsn)
	require.NoError(t, err)
	defer c.Close(ctx)
	f(ctx, c)
}
