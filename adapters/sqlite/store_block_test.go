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

// amiss are rows that the index has and should not have, or the other way round.
func amiss(t testing.TB, path string) (rows []string) {
	t.Helper()
	db, err := sqlite3.Open(path)
	require.NoError(t, err)
	defer db.Close()
	require.NoError(t, db.Exec(`CREATE TEMP TABLE fresh AS `+storetest.Remake(t, migrations.FS, "sqlite")))
	for _, sql := range []string{
		`SELECT 'too much', * FROM (SELECT block, kind, value, offsets FROM blocks EXCEPT SELECT * FROM fresh)`,
		`SELECT 'missing', * FROM (SELECT * FROM fresh EXCEPT SELECT block, kind, value, offsets FROM blocks)`,
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

// manyRows is a store file with some full blocks.
func manyRows(t testing.TB, rows int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "events.db")
	s := openStore(t, path, sqlite.StoreOptions{})
	for at := 0; at < rows; at += 500 {
		var batch []events.Append
		for i := at; i < at+500; i++ {
			r := row(t, fmt.Sprintf("request/%d", i), 0)
			if r.Key = "often"; i%3000 == 7 {
				r.Key = "rare"
			}
			batch = append(batch, one(r)...)
		}
		_, err := s.Append(context.Background(), batch, 0)
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
	return path
}

func TestAnOldFileIsIndexedWhenItIsOpened(t *testing.T) {
	path := manyRows(t, 10_000)
	db, err := sqlite3.Open(path)
	require.NoError(t, err)
	require.NoError(t, db.Exec(`DROP TABLE blocks; DELETE FROM schema_migrations WHERE number >= 4`))
	require.NoError(t, db.Close())
	s := openStore(t, path, sqlite.StoreOptions{})
	require.Empty(t, amiss(t, path))
	var found []events.Position
	require.NoError(t, s.Find(context.Background(), events.Query{Key: "rare"}, func(c *events.Committed) bool {
		found = append(found, c.Position)
		return true
	}))
	require.Equal(t, []events.Position{8, 3008, 6008, 9008}, found)
}

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
