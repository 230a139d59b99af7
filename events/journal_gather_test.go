package events_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/events"
)

// slow is a store in memory whose commits take a while.
type slow struct{ *memory.Store }

const commitTime = 300 * time.Microsecond

func (s slow) Append(ctx context.Context, batch []events.Append, low events.Position) ([]events.Result, error) {
	time.Sleep(commitTime)
	return s.Store.Append(ctx, batch, low)
}

// bubble runs f in virtual time. The journal's pool must not hand a channel of one bubble to another: two collections
// empty it.
func bubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	empty := func() { runtime.GC(); runtime.GC() }
	empty()
	defer empty()
	synctest.Test(t, f)
}

// traffic lets so many clients make requests, one after the other, in the time of a bubble: the first append is waited for, the
// upstream takes a millisecond, the last is not
// waited for. It closes the journal and returns the longest wait of a first append.
func traffic(t *testing.T, j *events.Journal, clients, each int) time.Duration {
	t.Helper()
	waits := make(chan time.Duration, clients*each)
	list := names(clients * each)
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			time.Sleep(time.Duration(c) * 17 * time.Microsecond)
			for _, stream := range list[c*each : (c+1)*each] {
				if err := j.Room(); err != nil {
					t.Error(err)
				}
				began := time.Now()
				if err := j.Commit(one(stream, 0, note(1)), events.May); err != nil {
					t.Error(err)
				}
				waits <- time.Since(began)
				time.Sleep(time.Millisecond)
				j.Put(last(stream, 1), events.Last)
			}
		})
	}
	all.Wait()
	longest := time.Duration(0)
	require.NoError(t, j.Close(t.Context()))
	for range clients * each {
		longest = max(longest, <-waits)
	}
	return longest
}

func TestALoneRequestIsCommittedWithoutWaitingForOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		j := journal(t, slow{memory.NewStore()}, nil)
		require.LessOrEqual(t, traffic(t, j, 1, 200), 2*commitTime, "its own commit, behind at most that of the request before it")
	})
}

func TestRequestsThatComeThickAndFastAreGatheredIntoFewerCommits(t *testing.T) {
	gathered := func(linger time.Duration) (perCommit float64, longest time.Duration) {
		bubble(t, func(t *testing.T) {
			j := journal(t, slow{memory.NewStore()}, func(o *events.JournalOptions) { o.Linger = linger })
			longest = traffic(t, j, 64, 50)
			s := j.Stats()
			require.EqualValues(t, 2*64*50, s.Appends)
			require.Zero(t, s.Rooms)
			perCommit = float64(s.Appends) / float64(s.Commits)
		})
		return perCommit, longest
	}
	atOnce, _ := gathered(-1)
	perCommit, longest := gathered(0)
	require.Greater(t, perCommit, 1.5*atOnce)
	require.LessOrEqual(t, longest, 2*time.Millisecond+2*commitTime, "the wait has an end")
}

// A request that stays open for long, as a stream does, is not waited for where little comes.
func TestASlowTrickleIsNotGathered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		j := journal(t, slow{memory.NewStore()}, nil)
		for range 100 {
			require.NoError(t, j.Room()) // open, and silent
		}
		require.LessOrEqual(t, traffic(t, j, 2, 100), 3*commitTime)
	})
}
