package sqlite_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/adapters/sqlite/faultfs"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/events/storetest"
)

var (
	livesFirst = flag.Uint64("lives-first", 0, "the first seed of the lives of requests")
	livesSeeds = flag.Uint64("lives-seeds", 2, "play so many seeds of the lives of requests")
)

func TestRequestsAreFoundWhateverTheirClocksAndIDsAre(t *testing.T) {
	t.Cleanup(sqlite.Small())
	for seed := *livesFirst; seed < *livesFirst+*livesSeeds; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			path, oracle := filepath.Join(t.TempDir(), "events.db"), memory.NewStore()
			storetest.Lives(t, seed, oracle, func(t *testing.T) events.Store {
				return openStore(t, path, sqlite.StoreOptions{})
			}, func(t *testing.T) { moved(t, oracle) }, nil)
		})
	}
}

// moved checks that the move to pages loses nothing of what a store holds.
func moved(t *testing.T, oracle events.Store) {
	ctx := context.Background()
	gone, streams := map[events.Position]bool{}, []string(nil)
	require.NoError(t, oracle.Chain(ctx, 0, func(_ *events.Commit, rows []events.RawRow) bool {
		for i := range rows {
			if gone[rows[i].Position] = rows[i].Archived; strings.HasPrefix(rows[i].Stream, events.RequestStreams) {
				streams = append(streams, rows[i].Stream)
			}
		}
		return true
	}))
	s := openStore(t, oldFile(t, oracle, 5, gone), sqlite.StoreOptions{})
	same(t, oracle, s, streams)
	report, err := events.Audit{}.Verify(ctx, s)
	require.NoError(t, err)
	require.True(t, report.Equal, "%+v", report)
}

// Disks that are full or fail, contexts that end at any moment, and locks of others: what has failed is not stored, and does not come to
// light after a crash.
func TestRequestsAreFoundWhateverHasFailed(t *testing.T) {
	t.Cleanup(sqlite.Small())
	for seed := *livesFirst; seed < *livesFirst+*livesSeeds; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			fs, name := faulty(t)
			path := filepath.Join(t.TempDir(), "events.db")
			tried, failed := 0, 0
			storetest.Lives(t, seed, memory.NewStore(), func(t *testing.T) events.Store {
				return openStore(t, path, sqlite.StoreOptions{VFS: name, BusyTimeout: time.Millisecond})
			}, func(t *testing.T) { require.Greater(t, failed, tried/4) }, func(r *rand.Rand) (context.Context, func(bool, events.Position)) {
				ctx, cancel := context.WithCancel(context.Background())
				stop := func() {}
				switch r.IntN(4) {
				case 0:
					fs.Fail(faultfs.Write, r.IntN(3), []error{sqlite3.FULL, sqlite3.IOERR_WRITE, sqlite3.CORRUPT}[r.IntN(3)])
				case 1:
					fs.Fail(faultfs.Sync, r.IntN(2), sqlite3.IOERR_FSYNC)
				case 2:
					timer := time.AfterFunc(time.Duration(r.IntN(3000))*time.Microsecond, cancel)
					stop = func() { timer.Stop() }
				default:
					db, err := sqlite3.Open(path)
					require.NoError(t, err)
					require.NoError(t, db.BusyTimeout(time.Minute))
					require.NoError(t, db.Exec(`BEGIN IMMEDIATE`))
					stop = func() { require.NoError(t, db.Close()) }
				}
				return ctx, func(bad bool, head events.Position) {
					stop()
					cancel()
					fs.Heal()
					if tried++; !bad {
						return
					}
					if failed++; failed%4 == 0 {
						s := openStore(t, copyFiles(t, path), sqlite.StoreOptions{})
						at, err := s.Head(context.Background())
						require.NoError(t, err)
						require.Equal(t, head, at, "after a crash")
						require.NoError(t, s.Close())
					}
				}
			})
		})
	}
}
