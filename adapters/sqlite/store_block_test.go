package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/adapters/sqlite/faultfs"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/events/storetest"
	"github.com/penstock/penstock/migrations"
)

func TestASearchThroughTheIndexFindsWhatTheMemoryStoreFinds(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "events.db")
			storetest.Search(t, seed, memory.NewStore(), func(t *testing.T) events.Store {
				return openStore(t, path, sqlite.StoreOptions{})
			}, func(t *testing.T) { require.Empty(t, amiss(t, path)) })
		})
	}
}

// amiss are rows that the index, or the list of streams, has and should not have, or the other way round.
func amiss(t testing.TB, path string) (rows []string) {
	t.Helper()
	db, err := sqlite3.Open(path)
	require.NoError(t, err)
	defer db.Close()
	// The view would read all pages for each of the questions.
	require.NoError(t, db.Exec(`CREATE TEMP TABLE events AS SELECT position, stream, version, terminal, at, types, key, upstream, request FROM main.events`))
	require.NoError(t, db.Exec(`CREATE TEMP TABLE fresh AS `+remake(t)))
	require.NoError(t, db.Exec(`INSERT INTO fresh `+marks))
	require.NoError(t, db.Exec(`INSERT INTO fresh SELECT position, 'listed', name, '' FROM (`+listed+`)`))
	const is = `(SELECT block, kind, value, offsets FROM blocks UNION ALL SELECT position, 'listed', name, '' FROM listed)`
	for _, sql := range []string{
		`SELECT 'too much', * FROM (SELECT * FROM ` + is + ` EXCEPT SELECT * FROM fresh)`,
		`SELECT 'missing', * FROM (SELECT * FROM fresh EXCEPT SELECT * FROM ` + is + `)`,
	} {
		s, _, err := db.Prepare(sql)
		require.NoError(t, err)
		for s.Step() {
			rows = append(rows, fmt.Sprint(s.ColumnText(0), " ", s.ColumnInt64(1), " ", s.ColumnText(2), " ", s.ColumnText(3), ": ", s.ColumnText(4)))
		}
		require.NoError(t, s.Err())
		require.NoError(t, s.Close())
	}
	return rows
}

// What the store keeps beside its rows to find them by, in SQL.
const (
	regular = ` stream GLOB 'request/' || replace('xxxxxxxx-xxxx-7xxx-xxxx-xxxxxxxxxxxx', 'x', '[0-9a-f]') `
	marks   = `SELECT position / 4096, 'stream', '', group_concat(substr(stream, -8) || printf('%03x', position % 4096), '' ORDER BY substr(stream, -8), position)
		FROM events WHERE` + regular + `AND position / 4096 < (SELECT (first + n) / 4096 FROM commits ORDER BY first DESC LIMIT 1) GROUP BY 1`
	times = `, times AS (SELECT stream, position, at, 1000 * ('0x' || substr(stream, 9, 8) || substr(stream, 18, 4) ->> '$') id,
		coalesce((SELECT latest FROM commits WHERE first < (SELECT max(first) FROM commits WHERE first <= position) ORDER BY first DESC LIMIT 1), 0) before
		FROM events WHERE` + regular + `)`
	listed = `WITH ends AS MATERIALIZED (SELECT stream, version FROM events WHERE terminal = 1)` + times + `
		SELECT stream name, position FROM events WHERE NOT` + regular + `
		UNION SELECT stream, position FROM times WHERE at < id - 1000000 OR before > id + 60000000
		UNION SELECT e.stream, e.position FROM events e JOIN ends USING (stream) WHERE e.version > ends.version
		UNION SELECT 'request/' || request, position FROM events WHERE request <> '' AND 'request/' || request <> stream`
)

// remake is the statement of migration 0004.
func remake(t testing.TB) string { return storetest.Remake(t, migrations.FS, "sqlite") }

func TestAFailedCommitLeavesNothingInTheIndex(t *testing.T) {
	fs, name := faulty(t)
	path := filepath.Join(t.TempDir(), "events.db")
	s := openStore(t, path, sqlite.StoreOptions{VFS: name})
	failed := 0
	for n := range 30 {
		var batch []events.Append
		for i := range 400 {
			r := row(t, fmt.Sprintf("request/%d-%d", n, i), 0)
			r.Key = fmt.Sprint("key-", i%7)
			batch = append(batch, one(r)...)
		}
		fs.Fail([]faultfs.Op{faultfs.Write, faultfs.Sync}[n%2], n%3, sqlite3.IOERR_WRITE)
		_, err := s.Append(context.Background(), batch, 0)
		fs.Heal()
		if err != nil {
			failed++
			if n%4 == 0 {
				continue // this batch is never stored
			}
			_, err = s.Append(context.Background(), batch, 0)
		}
		require.NoError(t, err)
	}
	require.Greater(t, failed, 10)
	require.Greater(t, head(t, s), events.Position(2*events.BlockSize))
	require.NoError(t, s.Close())
	require.Empty(t, amiss(t, path))
}
