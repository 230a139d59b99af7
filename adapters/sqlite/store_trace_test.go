package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/events"
)

// idAt is a UUIDv7 of a time.
func idAt(at time.Time, n int) string {
	ms := fmt.Sprintf("%012x", at.UnixMilli())
	return fmt.Sprintf("%s-%s-7000-8000-%012x", ms[:8], ms[8:], n)
}

// What is looked through for a request is bounded by the minute after its id, whether it is there, took longer, or never was.
func TestALookForARequestIsBoundedByItsMinute(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "events.db")
	s, oracle := openStore(t, path, sqlite.StoreOptions{}), memory.NewStore()
	put := func(batch []events.Append) {
		for _, store := range []events.Store{s, oracle} {
			results, err := store.Append(ctx, batch, 1)
			require.NoError(t, err)
			for _, r := range results {
				require.NoError(t, r.Err)
			}
		}
	}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	long := row(t, "request/"+idAt(at, 1), 0)
	long.At = at
	put(one(long))
	for i := range 80 { // twenty minutes, ten blocks
		at = at.Add(15 * time.Second)
		batch := make([]events.Append, 512)
		for j := range batch {
			r := row(t, "request/"+idAt(at, 1000*i+j), 0)
			r.At, r.Terminal = at, true
			batch[j] = one(r)[0]
		}
		put(batch)
	}
	end := long
	end.Version, end.Terminal, end.At = 1, true, at
	put(one(end))
	require.Empty(t, amiss(t, path))
	for _, store := range []*sqlite.Store{s, openStore(t, path, sqlite.StoreOptions{})} {
		for _, stream := range []string{long.Stream, "request/" + idAt(at.Add(-15*time.Minute), 1<<30)} {
			before := store.Runs(sqlite.SelectBlock)
			for _, q := range []events.Query{{Stream: stream}, {Request: stream[8:]}} {
				var a, b []events.Committed
				require.NoError(t, oracle.Find(ctx, q, func(c *events.Committed) bool { a = append(a, *c); return true }))
				require.NoError(t, store.Find(ctx, q, func(c *events.Committed) bool { b = append(b, *c); return true }))
				require.Equal(t, a, b)
			}
			require.LessOrEqual(t, store.Runs(sqlite.SelectBlock)-before, 2*2)
		}
		again, err := store.Append(ctx, one(end), 1)
		require.NoError(t, err)
		require.Equal(t, head(t, s), again[0].First)
		late := end
		late.Version = 2
		refused, err := store.Append(ctx, one(late), 1)
		require.NoError(t, err)
		require.ErrorIs(t, refused[0].Err, events.ErrConflict)
	}
}

func TestALongCommitIsStoredAsSeveralPages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s := openStore(t, path, sqlite.StoreOptions{})
	oracle, w := memory.NewStore(), traffic{}
	batch := w.batch(t, 500)
	for _, store := range []events.Store{s, oracle} {
		_, err := store.Append(context.Background(), batch, 1)
		require.NoError(t, err)
	}
	db, err := sqlite3.Open(path)
	require.NoError(t, err)
	defer db.Close()
	require.Greater(t, number(t, db, `SELECT count(*) FROM pages`), int64(3))
	require.Less(t, number(t, db, `SELECT max(length(body)) FROM pages`), int64(70_000))
	require.Equal(t, int64(500), number(t, db, `SELECT count(*) FROM events WHERE length(hash) = 32 AND json_valid(payload)`))
	require.Equal(t, int64(1), number(t, db, `SELECT count(*) FROM commits`))
	require.Equal(t, rowsOf(t, oracle), rowsOf(t, s))
	report, err := events.Audit{}.Verify(context.Background(), s)
	require.NoError(t, err)
	require.True(t, report.Equal, "%+v", report)
}
