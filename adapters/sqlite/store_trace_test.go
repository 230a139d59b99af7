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

// Where a line is drawn between the rows that are found by the time in their request's id and those that are listed, to the microsecond,
// neither side loses one: for readers, for the version of the next append, and for one that is repeated.
func TestRowsAtTheLinesBetweenFoundAndListedAreNotLost(t *testing.T) {
	ctx := context.Background()
	born := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for off := -time.Microsecond; off <= time.Microsecond; off += time.Microsecond {
		for what, times := range map[string][2]time.Time{ // of a row of another request in the commit before, and of the row
			"older than its id":         {born.Add(-time.Hour), born.Add(off - time.Second)},
			"the commit before younger": {born.Add(off + time.Minute), born},
			"both":                      {born.Add(off + time.Minute), born.Add(off - time.Second)},
		} {
			t.Run(fmt.Sprint(what, " ", off), func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(t.TempDir(), "events.db")
				s, oracle := openStore(t, path, sqlite.StoreOptions{}), memory.NewStore()
				put := func(r events.Row) {
					one, other := one(r), one(r)
					want, err := oracle.Append(ctx, one, 0)
					require.NoError(t, err)
					got, err := s.Append(ctx, other, 0)
					require.NoError(t, err)
					require.Equal(t, want[0].First, got[0].First, "%v", got[0].Err)
					require.Equal(t, one[0].Rows[0].Version, other[0].Rows[0].Version)
				}
				for i := range 3 { // the row is in a full block, then in one under way
					r := row(t, "request/"+idAt(born.Add(-time.Hour), i), 0)
					r.At = times[0]
					put(r)
					mine := row(t, "request/"+idAt(born, i), 0)
					mine.At = times[1]
					if i == 0 {
						for len(mine.Facts) < events.BlockSize { // so what follows is in another block
							mine.Facts = append(mine.Facts, mine.Facts[0])
						}
						require.NoError(t, events.Encode(&mine))
					}
					put(mine)
					s = openStore(t, path, sqlite.StoreOptions{}) // remembers nothing
					put(mine)
					mine.Version, mine.At = events.AnyVersion, mine.At.Add(time.Millisecond)
					put(mine)
					same(t, oracle, s, []string{mine.Stream})
				}
				require.Empty(t, amiss(t, path))
			})
		}
	}
}

// SQL takes a name for an id that ends where a zero byte stands in it.
func TestAnIDWithAZeroByteBehindItHidesNoYoungerOne(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "events.db")
	stream := "request/" + idAt(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), 1) // of the future, so its rows are listed
	for version := range int64(3) {
		s := openStore(t, path, sqlite.StoreOptions{})
		for _, name := range []string{stream, stream + "\x00"} {
			batch := one(row(t, name, events.AnyVersion))
			_, err := s.Append(ctx, batch, 0)
			require.NoError(t, err)
			require.Equal(t, version, batch[0].Rows[0].Version, "%q", name)
		}
		require.NoError(t, s.Close())
	}
}
