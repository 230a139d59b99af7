package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/adapters/sqlite/faultfs"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/events/storetest"
)

func openStore(t testing.TB, path string, o sqlite.StoreOptions) *sqlite.Store {
	t.Helper()
	s, err := sqlite.OpenStore(path, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestTheSQLiteStoreKeepsThePromisesOfAStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) events.Store {
		return openStore(t, filepath.Join(t.TempDir(), "events.db"), sqlite.StoreOptions{})
	})
}

func TestTheSQLiteStoreAnswersAsTheMemoryStore(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "events.db")
			storetest.Differential(t, seed, memory.NewStore(), func(t *testing.T) events.Store {
				return openStore(t, path, sqlite.StoreOptions{})
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

func head(t testing.TB, s events.Store) events.Position {
	t.Helper()
	h, err := s.Head(context.Background())
	require.NoError(t, err)
	return h
}

func TestAFileOfANewerVersionIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	require.NoError(t, openStore(t, path, sqlite.StoreOptions{}).Close())
	db, err := sqlite3.Open(path)
	require.NoError(t, err)
	require.NoError(t, db.Exec(`INSERT INTO schema_migrations (number, name) VALUES (999, 'later')`))
	require.NoError(t, db.Close())

	_, err = sqlite.OpenStore(path, sqlite.StoreOptions{})
	require.ErrorIs(t, err, sqlite.ErrNewerSchema)
	require.ErrorContains(t, err, "999")
	require.ErrorContains(t, err, path)
}

func TestAFileThatIsNoDatabaseIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("not a database ", 1000)), 0o600))
	_, err := sqlite.OpenStore(path, sqlite.StoreOptions{})
	require.ErrorContains(t, err, path)
}

func TestClosingLeavesOneFile(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, filepath.Join(dir, "events.db"), sqlite.StoreOptions{})
	_, err := s.Append(context.Background(), one(row(t, "a", 0)), 0)
	require.NoError(t, err)
	require.Equal(t, events.Position(1), head(t, s))
	require.NoError(t, s.Close())
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1, "%v", files)
}

func TestOnlyTheOwnerMayReadTheFiles(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, filepath.Join(dir, "events.db"), sqlite.StoreOptions{})
	_, err := s.Append(context.Background(), one(row(t, "a", 0)), 0)
	require.NoError(t, err)
	for _, name := range []string{"events.db", "events.db-wal"} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), name)
	}
}

func TestPathsMayHoldSpacesAndPercentSigns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b?c%20#d.db")
	require.NoError(t, openStore(t, path, sqlite.StoreOptions{}).Close())
	_, err := os.Stat(path)
	require.NoError(t, err)
}

func TestALockOfAnotherProcessMakesTheStoreUnavailableForAsLongAsItLasts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s := openStore(t, path, sqlite.StoreOptions{BusyTimeout: time.Millisecond})
	other, err := sqlite3.Open(path)
	require.NoError(t, err)
	defer other.Close()
	require.NoError(t, other.Exec(`BEGIN IMMEDIATE`))
	_, err = s.Append(context.Background(), one(row(t, "a", 0)), 0)
	require.ErrorIs(t, err, events.ErrUnavailable)
	require.Zero(t, head(t, s), "reading goes on")
	require.NoError(t, other.Exec(`ROLLBACK`))
	_, err = s.Append(context.Background(), one(row(t, "a", 0)), 0)
	require.NoError(t, err)
}

func TestTwoStoresOnOneFileNeverGiveAPositionTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	a, b := openStore(t, path, sqlite.StoreOptions{}), openStore(t, path, sqlite.StoreOptions{})
	for i := range int64(20) {
		s := []*sqlite.Store{a, b}[i%3%2]
		r, err := s.Append(context.Background(), one(row(t, "a", i)), 0)
		require.NoError(t, err)
		require.NoError(t, r[0].Err)
		require.Equal(t, events.Position(i+1), r[0].First)
	}
}

var fileSystems atomic.Int64

func faulty(t testing.TB) (*faultfs.FS, string) {
	name := fmt.Sprintf("fault-%d", fileSystems.Add(1))
	return faultfs.Register(name), name
}

// A batch is tried with the fault at its first call, its second, … until it gets through: at each step nothing of it
// may be stored, the store must recover by itself, and the retry must give what an undisturbed store has.
func TestAFullOrBrokenDiskLosesNothingAndTheStoreRecoversByItself(t *testing.T) {
	for _, c := range []struct {
		what string
		op   faultfs.Op
		of   int64 // calls of one append, roughly
		err  error
	}{
		{"disk full", faultfs.Write, 2, sqlite3.FULL},
		{"write error", faultfs.Write, 2, sqlite3.IOERR_WRITE},
		{"sync error", faultfs.Sync, 3, sqlite3.IOERR_FSYNC},
		{"corrupt", faultfs.Write, 2, sqlite3.CORRUPT}, // one that a connection does not survive
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			fs, name := faulty(t)
			s := openStore(t, filepath.Join(t.TempDir(), "events.db"), sqlite.StoreOptions{VFS: name})
			oracle := memory.NewStore()
			faults := 0
			for step := range int64(120) {
				a, b := row(t, "a", 2*step), row(t, "b", events.AnyVersion)
				batch := func() []events.Append {
					return []events.Append{
						{Rows: []events.Row{a}},
						{Rows: []events.Row{row(t, "a", 2*step+1), b}, Secrets: []events.Secret{{ID: "s", Version: step + 1}}},
					}
				}
				before := head(t, s)
				fs.Fail(c.op, int(step%c.of), c.err)
				_, err := s.Append(context.Background(), batch(), 0)
				if err != nil {
					faults++
					require.ErrorIs(t, err, events.ErrUnavailable)
					require.ErrorIs(t, err, c.err)
					require.Equal(t, before, head(t, s), "step %d", step)
					if step%2 == 0 {
						require.ErrorIs(t, s.Probe(context.Background()), events.ErrUnavailable, "still broken")
					}
				}
				fs.Heal()
				require.NoError(t, s.Probe(context.Background()))
				if err != nil {
					_, err = s.Append(context.Background(), batch(), 0)
					require.NoError(t, err)
				}
				_, err = oracle.Append(context.Background(), batch(), 0)
				require.NoError(t, err)
				require.Equal(t, head(t, oracle), head(t, s), "step %d", step)
			}
			require.Greater(t, faults, 10, "the faults did not hit")
			require.Equal(t, rows(t, oracle), rows(t, s))
		})
	}
}

func rows(t testing.TB, s events.Store) (all []events.Committed) {
	t.Helper()
	require.NoError(t, s.After(context.Background(), 0, func(c *events.Committed) bool { all = append(all, *c); return true }))
	return all
}

// What a failed commit has left in the log is not taken for stored by the next process: its writer was told that it is not.
func TestAfterAFailedSyncAndACrashNothingIsStored(t *testing.T) {
	fs, name := faulty(t)
	path := filepath.Join(t.TempDir(), "events.db")
	s := openStore(t, path, sqlite.StoreOptions{VFS: name})
	for _, c := range []struct {
		what    string
		restart bool // the log begins anew with the commit that fails
		syncs   int  // that succeed
		rows    int
	}{{"small", false, 0, 1}, {"large", false, 0, 2000}, {"header", true, 0, 1}, {"behind the header", true, 1, 1}} {
		before := head(t, s)
		put := func(s *sqlite.Store, rows int) ([]events.Result, error) {
			batch := make([]events.Append, rows)
			for i := range batch {
				batch[i] = one(row(t, "a", int64(before)+int64(i)))[0]
			}
			return s.Append(context.Background(), batch, 0)
		}
		if c.restart {
			require.NoError(t, s.Close())
			s = openStore(t, path, sqlite.StoreOptions{VFS: name})
		}
		fs.Fail(faultfs.Sync, c.syncs, sqlite3.IOERR_FSYNC)
		_, err := put(s, c.rows)
		require.ErrorIs(t, err, events.ErrUnavailable)
		fs.Heal()
		again := openStore(t, copyFiles(t, path), sqlite.StoreOptions{})
		require.Equal(t, before, head(t, again), c.what)
		for _, store := range []*sqlite.Store{again, s} {
			r, err := put(store, 1)
			require.NoError(t, err)
			require.Equal(t, []events.Result{{First: before + 1}}, r)
			require.Equal(t, before+1, head(t, store))
		}
	}
	report, err := events.Audit{}.Verify(context.Background(), s)
	require.NoError(t, err)
	require.True(t, report.Equal, "%+v", report)
}

// copyFiles takes the database and its log as a crash would leave them.
func copyFiles(t *testing.T, path string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "events.db")
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(path + suffix)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(to+suffix, b, 0o600))
	}
	return to
}

func TestAStoreThatCannotBeOpenedSaysSoAndOpensLater(t *testing.T) {
	fs, name := faulty(t)
	path := filepath.Join(t.TempDir(), "events.db")
	fs.Fail(faultfs.Open, 0, sqlite3.CANTOPEN)
	_, err := sqlite.OpenStore(path, sqlite.StoreOptions{VFS: name})
	require.ErrorIs(t, err, events.ErrUnavailable)
	fs.Heal()
	openStore(t, path, sqlite.StoreOptions{VFS: name})
}
