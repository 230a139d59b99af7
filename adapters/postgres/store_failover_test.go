package postgres_test

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/postgres"
	"github.com/penstock/penstock/adapters/postgres/pgtest"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/stats"
)

// After a failover a gateway may come to the server that was the primary. It must not stay with it, for it would spool for ever.
func TestAServerThatTakesNoChangesIsNotTakenForThePrimary(t *testing.T) {
	ctx := context.Background()
	server := pgtest.Start(t)
	dsn := server.NewDatabase(t)
	s := openStore(t, dsn, postgres.StoreOptions{})
	m := openRead(t, dsn, everyProjection...)
	put(t, s, one(row(t, "a", 0))...)
	server.Demote(t)

	_, err := s.Append(ctx, one(row(t, "a", 1)), 1)
	require.ErrorIs(t, err, events.ErrUnavailable)
	require.ErrorContains(t, err, "read only")
	_, err = s.Head(ctx)
	require.ErrorIs(t, err, events.ErrUnavailable, "a standby may lack what was committed")
	_, err = m.BilledTotal(ctx)
	require.ErrorContains(t, err, "standby")
	_, err = postgres.OpenStore(ctx, dsn, postgres.StoreOptions{})
	require.ErrorIs(t, err, events.ErrUnavailable)
	_, err = postgres.OpenReadModel(ctx, dsn, everyProjection...)
	require.ErrorContains(t, err, "read only")
	beside := openStore(t, dsn, postgres.StoreOptions{Shared: true})
	require.Len(t, rows(t, beside), 1, "a command may read it")

	there := pgtest.Start(t) // that has taken its place
	both, err := url.Parse(dsn)
	require.NoError(t, err)
	other, err := url.Parse(there.NewDatabase(t))
	require.NoError(t, err)
	both.Host += "," + other.Host
	moved := openStore(t, both.String(), postgres.StoreOptions{})
	put(t, moved, one(row(t, "a", 0))...)
	require.Equal(t, events.Position(1), head(t, moved))
	require.NoError(t, moved.Close())
	_, err = openRead(t, both.String(), everyProjection...).BilledTotal(ctx)
	require.NoError(t, err)

	server.Promote(t)
	insist(t, s, one(row(t, "a", 1)))
	eventually(t, s, 2)
	_, err = m.BilledTotal(ctx)
	require.NoError(t, err)
}

// A session keeps the setting that it has begun with. That it can not write shall not last longer than the reason.
func TestASessionThatCanNotWriteIsGivenUp(t *testing.T) {
	server := pgtest.Shared(t)
	dsn := server.NewDatabase(t)
	s := openStore(t, dsn, postgres.StoreOptions{Shared: true})
	m := openRead(t, dsn, everyProjection...)
	commit := func(from events.Position) error {
		var changes projections.Changes
		hour(&changes, "x", 3)
		step := projections.Step{Projection: "stats", Version: stats.Projection{}.Version(), From: from, To: from + 1}
		return m.Commit(context.Background(), &changes, []projections.Step{step})
	}
	put(t, s, one(row(t, "a", 0))...)
	require.NoError(t, commit(0))
	alter(t, server, dsn, "SET default_transaction_read_only = on")
	server.KillBackends(t, dsn)
	_, err := s.Append(context.Background(), one(row(t, "a", 1)), 1)
	require.ErrorIs(t, err, events.ErrUnavailable)
	require.Error(t, commit(1))
	alter(t, server, dsn, "RESET default_transaction_read_only")
	insist(t, s, one(row(t, "a", 1)))
	require.NoError(t, commit(1))
}

// An operator who has commits wait for a standby wants nothing taken for stored that only one server has. A session that waits for
// the standby is not ended: that would make its commit valid here alone.
func TestACommitThatWaitsForAStandbyIsNotTakenForStored(t *testing.T) {
	ctx := context.Background()
	server := pgtest.Start(t)
	dsn := server.NewDatabase(t)
	beside := openStore(t, dsn, postgres.StoreOptions{Shared: true}) // has made the tables
	s := openStore(t, dsn, postgres.StoreOptions{Deadline: 2 * time.Second, ClaimWait: 20 * time.Millisecond})
	insist(t, s, one(row(t, "a", 0)))
	server.Exec(t, `ALTER SYSTEM SET synchronous_standby_names = 'nobody'`)
	server.Exec(t, `SELECT pg_reload_conf()`)
	a := auditor(t, dsn)
	for lines(t, a, `SHOW synchronous_standby_names`)[0] != "nobody" {
		continue
	}
	for range 3 {
		_, err := s.Append(ctx, one(row(t, "a", events.AnyVersion)), 1)
		require.ErrorIs(t, err, events.ErrUnavailable)
		require.Equal(t, events.Position(1), head(t, beside))
		time.Sleep(50 * time.Millisecond) // as a journal
	}
	server.Exec(t, `ALTER SYSTEM RESET synchronous_standby_names`)
	server.Exec(t, `SELECT pg_reload_conf()`)
	insist(t, s, one(row(t, "a", events.AnyVersion)))
	require.Len(t, rows(t, s), 2)
}
