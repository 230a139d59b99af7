package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/adapters/postgres"
	"github.com/penstock/penstock/adapters/postgres/pgtest"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/events/storetest"
	"github.com/penstock/penstock/migrations"
)

func TestASearchThroughTheIndexFindsWhatTheMemoryStoreFinds(t *testing.T) {
	server := pgtest.Shared(t)
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			dsn := server.NewDatabase(t)
			storetest.Search(t, seed, memory.NewStore(), func(t *testing.T) events.Store {
				return openStore(t, dsn, postgres.StoreOptions{Shared: true})
			}, func(t *testing.T) { require.Empty(t, amiss(t, dsn)) })
		})
	}
}

// amiss are rows that the index has and should not have, or the other way round.
func amiss(t testing.TB, dsn string) []string {
	t.Helper()
	a := auditor(t, dsn)
	do(t, a, `CREATE TEMP TABLE fresh AS `+storetest.Remake(t, migrations.FS, "postgres"))
	return lines(t, a, `SELECT 'too much ' || x::text FROM (SELECT block, kind, value, offsets FROM blocks EXCEPT SELECT * FROM fresh) x
		UNION ALL SELECT 'missing ' || x::text FROM (SELECT * FROM fresh EXCEPT SELECT block, kind, value, offsets FROM blocks) x`)
}

// days fills a store with rows of requests of three days, and says which.
func days(t testing.TB, s events.Store, rows int) (list []int32) {
	t.Helper()
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i := range 3 {
		list = append(list, int32(20260301+i))
	}
	for at := 0; at < rows; at += 500 {
		var batch []events.Append
		for i := at; i < at+500; i++ {
			ms := begin.Add(time.Duration(3*i/rows) * 24 * time.Hour).UnixMilli()
			r := row(t, fmt.Sprintf("request/%08x-%04x-7000-8000-%012x", ms>>16, ms&0xffff, i), 0)
			if r.Key = "often"; i%3000 == 7 {
				r.Key = "rare"
			}
			batch = append(batch, one(r)...)
		}
		_, err := s.Append(context.Background(), batch, 0)
		require.NoError(t, err)
	}
	return list
}

func TestAnOldDatabaseIsIndexedWhenItIsOpenedAndNoSearchReadsAWholeTable(t *testing.T) {
	dsn := pgtest.Shared(t).NewDatabase(t)
	s := openStore(t, dsn, postgres.StoreOptions{})
	list := days(t, s, 15_000)
	require.NoError(t, s.Close())
	a := auditor(t, dsn)
	do(t, a, `DROP TABLE blocks`)
	do(t, a, `DELETE FROM schema_migrations WHERE number >= 4`)
	s = openStore(t, dsn, postgres.StoreOptions{})
	require.Empty(t, amiss(t, dsn))
	var found []events.Position
	require.NoError(t, s.Find(context.Background(), events.Query{Key: "rare", Newest: true}, func(c *events.Committed) bool {
		found = append(found, c.Position)
		return true
	}))
	require.Equal(t, []events.Position{12008, 9008, 6008, 3008, 8}, found)

	do(t, a, `INSERT INTO blocks SELECT b, 'key', 'key-' || k, '1 2 3' FROM generate_series(100, 1000) b, generate_series(1, 20) k`)
	do(t, a, `ANALYZE events, blocks`)
	explained := func(sql string, args ...any) string {
		return strings.Join(lines(t, a, `EXPLAIN `+sql, args...), "\n")
	}
	for what, f := range map[string]events.Query{
		"a key": {Key: "rare"}, "a type": {Type: "request.resumed"},
		"all": {Key: "rare", Upstream: "u", Type: "t", Text: "x", Since: time.Unix(1, 0), Until: time.Unix(2, 0)},
	} {
		sql, args := postgres.SearchSQL(f, found, list...)
		plan := explained(sql, args...)
		require.NotContains(t, plan, "Seq Scan", what)
		require.Contains(t, plan, "position", what)
	}
	plan := explained(postgres.SearchBlocksSQL, []int64{1, 2, 3}, "key", "rare")
	require.NotContains(t, plan, "Seq Scan")
}
