package events_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// broken opens a journal whose store has failed already, with one request in its room.
func broken(t *testing.T, change func(*events.JournalOptions)) (*scripted, *events.Journal) {
	t.Helper()
	s := newScripted()
	j := journal(t, s, change)
	require.NoError(t, j.Room())
	require.NoError(t, j.Commit(one("request/open", 0, note(1)), events.May))
	s.breakDown(errDisk)
	err := j.Commit(one("request/refused", 0, note(1)), events.May)
	require.ErrorIs(t, err, events.ErrUnavailable)
	require.ErrorIs(t, err, errDisk, "the operator sees the cause")
	return s, j
}

func TestAFailedStoreRefusesAtOnceWhatMayBeRefused(t *testing.T) {
	s, j := broken(t, nil)
	defer s.repair()
	came := len(s.batches())
	require.ErrorIs(t, j.Fault(), events.ErrUnavailable)
	require.ErrorIs(t, j.Room(), events.ErrUnavailable)
	require.ErrorIs(t, j.Commit(one("request/a", 0, note(1)), events.May), events.ErrUnavailable)
	require.ErrorIs(t, j.Start(one("request/b", 0, note(1)), events.May).Wait(), events.ErrUnavailable)
	j.Put(one("request/c", 0, note(1)), events.May)
	require.Equal(t, came, len(s.batches()), "without asking the store")
	require.Equal(t, int64(1), j.Stats().Faults)
	eventually(t, "nothing is kept", func() bool { return j.Stats().Queued == 0 }) // who is refused hears of it before that
}

// No settlement is refused, dropped or waited for (pains 26-29; B64, B65).
func TestAFailedStoreGetsInOrderWhatMustBeKeptOnceItIsBack(t *testing.T) {
	var mu sync.Mutex
	var pushed []string
	s, j := broken(t, func(o *events.JournalOptions) {
		o.BatchMax = 7
		o.Push = func(rows []*events.Committed) {
			mu.Lock()
			defer mu.Unlock()
			pushed = append(pushed, streams(rows)...)
		}
	})
	want := []string{"request/open"}
	for i := range 40 {
		stream := "upstream/" + strconv.Itoa(i)
		want = append(want, stream)
		j.Record(stream, "", note(i))
		require.ErrorIs(t, j.Commit(one("request/no", 0, note(1)), events.May), events.ErrUnavailable)
	}
	waiter := j.Start(one("request/open", 1, note(2)), events.Must)
	require.ErrorIs(t, waiter.Wait(), events.ErrUnavailable, "nobody waits for the end of an outage")
	j.Put(last("request/open", 2), events.Last)
	want = append(want, "request/open", "request/open")
	require.Equal(t, 42, j.Stats().Queued, "what is kept is shown")
	require.Equal(t, int64(1), j.Stats().Rooms, "an end gives its room back when it is stored, not before")
	s.repair()
	require.NoError(t, j.Sync(context.Background()))
	require.NoError(t, j.Fault())
	require.Equal(t, want, streams(stored(t, s)))
	require.Equal(t, want, pushed)
	require.Zero(t, j.Stats().Queued)
	eventually(t, "the room is free", func() bool { return j.Stats().Rooms == 0 })
	require.NoError(t, j.Room())
}

func TestAnIdleJournalFindsOutByItselfThatTheStoreIsBack(t *testing.T) {
	s, j := broken(t, nil)
	came := len(s.batches())
	s.repair()
	eventually(t, "the store was probed", func() bool { return j.Fault() == nil })
	require.Equal(t, came, len(s.batches()), "no append was needed to find out")
	require.NoError(t, j.Commit(one("request/a", 0, note(1)), events.May))
}

func TestAGroupThatFailsRefusesAndKeepsEachByItsMode(t *testing.T) {
	s := newScripted()
	s.hold()
	j := journal(t, s, nil)
	j.Put(one("request/first", 0, note(1)), events.Must)
	<-s.entered
	may := j.Start(one("request/may", 0, note(1)), events.May)
	must := j.Start(one("request/must", 0, note(1)), events.Must)
	j.Put(one("request/put", 0, note(1)), events.May)
	s.breakDown(errDisk)
	s.release()
	require.ErrorIs(t, may.Wait(), events.ErrUnavailable)
	require.ErrorIs(t, must.Wait(), events.ErrUnavailable, "it still waits for the store")
	s.repair()
	require.NoError(t, j.Sync(context.Background()))
	require.Equal(t, []string{"request/first", "request/must"}, streams(stored(t, s)))
}

func TestSyncDuringAFaultWaitsForWhatIsKept(t *testing.T) {
	s := newScripted()
	s.hold()
	j := journal(t, s, func(o *events.JournalOptions) { o.BatchMax = 1 })
	j.Put(one("request/kept", 0, note(1)), events.Must)
	<-s.entered
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	synced := make(chan error, 1)
	go func() { synced <- j.Sync(ctx) }()
	eventually(t, "somebody waits", func() bool { return blockedIn("events.(*Journal).Sync") == 1 })
	refused := j.Start(one("request/refused", 0, note(1)), events.May)
	s.breakDown(errDisk)
	s.release()
	require.ErrorIs(t, refused.Wait(), events.ErrUnavailable)
	select {
	case err := <-synced:
		t.Fatalf("the refusal of a later append ended the wait for an earlier one: %v", err)
	default:
	}
	s.repair()
	require.NoError(t, <-synced)
	require.Equal(t, []string{"request/kept"}, streams(stored(t, s)))

	s.breakDown(errDisk)
	require.ErrorIs(t, j.Commit(one("request/kept", 1, note(1)), events.Must), events.ErrUnavailable)
	cancel()
	require.ErrorIs(t, j.Sync(ctx), context.Canceled, "the context ends the wait")
	s.repair()
}

func TestCloseWithADeadStoreEndsWithItsContextAndSaysWhatIsLost(t *testing.T) {
	for name, kill := range map[string]func(*scripted){
		"a store that fails":      func(s *scripted) { s.breakDown(errDisk) },
		"a store that hangs":      func(s *scripted) { s.hold() },
		"a store that was closed": func(s *scripted) { _ = s.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScripted()
			j := events.NewJournal(events.JournalOptions{Store: s})
			kill(s)
			j.Record("upstream/u", "", note(0))
			var heard sync.WaitGroup
			for i, mode := range []events.Mode{events.May, events.Must, events.Last} {
				p := j.Start(one("request/"+strconv.Itoa(i), 0, note(1)), mode)
				heard.Go(func() {
					if p.Wait() == nil {
						t.Error("an append was said to be stored")
					}
				})
			}
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			err := j.Close(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, events.ErrUnavailable)
			require.ErrorContains(t, err, "3 appends")
			heard.Wait() // nobody is left waiting
			require.ErrorIs(t, j.Commit(one("request/x", 0, note(1)), events.Must), events.ErrClosed)
			eventually(t, "the writer has ended", func() bool { return !strings.Contains(goroutines(), "events.(*Journal)") })
		})
	}
}

func TestCloseDuringAnOutageStoresWhatIsKeptWhenTheStoreComesBack(t *testing.T) {
	s, j := broken(t, nil)
	j.Put(last("request/open", 1), events.Last)
	closed := make(chan error, 1)
	go func() { closed <- j.Close(context.Background()) }()
	eventually(t, "somebody closes", func() bool { return blockedIn("events.(*Journal).Close") == 1 })
	s.repair()
	require.NoError(t, <-closed)
	require.Equal(t, []string{"request/open", "request/open"}, streams(stored(t, s)))
}

func TestCloseDuringAnOutageWithNothingKeptDoesNotWaitForTheStore(t *testing.T) {
	s, j := broken(t, nil)
	require.NoError(t, j.Close(context.Background()))
	s.repair()
}

// seed is fixed unless PENSTOCK_SEED says otherwise; a failure prints it.
func seed(t *testing.T) *rand.Rand {
	t.Helper()
	n := uint64(20260301)
	if v := os.Getenv("PENSTOCK_SEED"); v != "" {
		var err error
		n, err = strconv.ParseUint(v, 10, 64)
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat with: PENSTOCK_SEED=%d go test -race -run '^%s$' ./events", n, t.Name())
		}
	})
	return rand.New(rand.NewPCG(n, 1))
}

// Pains 7, 15, 20, 26-29: each request is stored exactly once, whatever the store does, also when a commit succeeds and its
// answer is lost.
func TestEveryRequestIsStoredExactlyOnceThroughRandomFaults(t *testing.T) {
	const workers, each = 64, 200
	random := seed(t)
	var mu sync.Mutex
	s := newScripted()
	s.fail = func(int) (before, after bool) {
		mu.Lock()
		defer mu.Unlock()
		n := random.IntN(60)
		return n == 0, n == 1
	}
	pushed := map[string]int64{} // next version by stream
	j := journal(t, s, func(o *events.JournalOptions) {
		o.Rooms = 40
		o.Push = func(rows []*events.Committed) {
			for _, c := range rows {
				if pushed[c.Stream] != c.Version {
					t.Errorf("%s: version %d pushed, %d expected", c.Stream, c.Version, pushed[c.Stream])
				}
				pushed[c.Stream] += int64(len(c.Facts))
			}
		}
	})
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := range each {
				stream := fmt.Sprintf("request/%02d-%03d", w, i)
				for j.Room() != nil || !begin(j, stream) {
					time.Sleep(time.Millisecond) // a client that comes again
				}
				j.Put(one(stream, 2, note(3)), events.Must)
				j.Put(last(stream, 3), events.Last)
			}
		})
	}
	all.Wait()
	require.NoError(t, j.Sync(context.Background()))
	require.Positive(t, j.Stats().Faults, "the store must have failed now and then")
	require.Zero(t, j.Stats().Rooms)
	versions := map[string]int64{}
	ended := 0
	for _, c := range stored(t, s) {
		require.Equal(t, versions[c.Stream], c.Version, c.Stream)
		versions[c.Stream] += int64(len(c.Facts))
		if c.Terminal {
			ended++
		}
	}
	require.Len(t, versions, workers*each)
	require.Equal(t, workers*each, ended)
	require.Equal(t, versions, pushed)
}

// begin makes the first append of a request that has a room; false: it was refused, and left.
func begin(j *events.Journal, stream string) bool {
	if j.Commit(one(stream, 0, &request.Admitted{}, note(2)), events.May) != nil {
		j.Leave()
		return false
	}
	return true
}

func lowWater(t *testing.T, s events.Store) events.Position {
	t.Helper()
	low, err := s.LowWater(context.Background(), 0)
	require.NoError(t, err)
	return low
}

func TestLowWaterIsTheFirstRowOfTheEarliestOpenRequest(t *testing.T) {
	s := newScripted()
	old := []events.Append{one("request/old-a", 0, note(1), note(2)), one("upstream/u", 0, note(3)), one("request/old-b", 0, note(4))}
	for i := range old {
		require.NoError(t, events.Encode(&old[i].Rows[0]))
	}
	_, err := s.Store.Append(context.Background(), old, 1)
	require.NoError(t, err)
	j := journal(t, s, func(o *events.JournalOptions) { // as after a crash: two requests of an earlier process are open
		o.Head, o.Open = 4, map[string]events.Position{"request/old-b": 4, "request/old-a": 1}
	})
	rejected := last("request/rejected", 0)
	for _, step := range []struct {
		what string
		a    events.Append
		low  events.Position // what the commit of this append was told
	}{
		{"a request begins at 5", one("request/a", 0, note(1)), 1},
		{"the later one of the earlier process ends", last("request/old-b", 1), 1},
		{"the earlier one ends", last("request/old-a", 2), 1},
		{"a request goes on", one("request/a", 1, note(2)), 5},
		{"another one begins at 9", one("request/b", 0, note(1)), 5},
		{"one is only rejected, at 10", rejected, 5},
		{"the first one ends", last("request/a", 2), 5},
		{"a late correction reopens nothing", one("request/a", 3, note(5)), 9},
		{"an actor speaks", one("upstream/u", 1, note(9)), 9},
		{"the second one ends, at 14", last("request/b", 1), 9},
		{"nothing is open: the next position", one("upstream/u", 2, note(9)), 15},
		{"and it moves on", one("upstream/u", 3, note(9), note(10)), 16},
		{"by every fact", one("upstream/u", 5, note(9)), 18},
	} {
		require.NoError(t, j.Commit(step.a, events.Must), step.what)
		require.Equal(t, step.low, lowWater(t, s), step.what)
	}
}

// The journal's low water against one that is computed from all rows of the store, at every commit of a long random
// story with faults.
func TestLowWaterAgreesWithANaiveModel(t *testing.T) {
	random := seed(t)
	faults := rand.New(rand.NewPCG(random.Uint64(), 2)) // the writer's own
	s := newScripted()
	commits, faulty := 0, true
	s.fail = func(int) (before, after bool) { n := faults.IntN(30); return faulty && n == 0, faulty && n == 1 }
	s.told = func(low events.Position, s *scripted) {
		commits++
		open, want := map[string]events.Position{}, events.Position(0)
		_ = s.After(context.Background(), 0, func(c *events.Committed) bool {
			switch {
			case c.Terminal:
				delete(open, c.Stream)
			case c.Version == 0 && strings.HasPrefix(c.Stream, "request/"):
				open[c.Stream] = c.Position
			}
			want = c.Last() + 1
			return true
		})
		want = max(want, 1)
		for _, p := range open {
			want = min(want, p)
		}
		if low > want || !faulty && low != want {
			t.Errorf("commit %d was told %d, the model says %d", commits, low, want)
		}
	}
	story := func(steps int, prefix string, j *events.Journal) {
		type open struct {
			stream  string
			version int64
		}
		var live []open
		for i := range steps {
			switch n := random.IntN(10); {
			case n < 4:
				live = append(live, open{fmt.Sprintf("request/%s%d", prefix, i), 1})
				j.Put(one(live[len(live)-1].stream, 0, note(i)), events.Must)
			case n == 4:
				j.Put(last(fmt.Sprintf("request/rejected-%s%d", prefix, i), 0), events.Must)
			case n == 5:
				j.Record("upstream/u", "", note(i))
			case len(live) > 0:
				k := random.IntN(len(live))
				if r := &live[k]; n < 7 {
					j.Put(one(r.stream, r.version, note(i)), events.Must)
					r.version++
				} else {
					j.Put(last(r.stream, r.version), events.Must)
					live = append(live[:k], live[k+1:]...)
				}
			}
			if random.IntN(3) == 0 {
				require.NoError(t, j.Sync(context.Background()))
			}
		}
		require.NoError(t, j.Sync(context.Background()))
	}
	j := journal(t, s, nil)
	story(300, "faulty", j)
	require.Positive(t, j.Stats().Faults)
	faulty = false // after Sync the writer is idle
	story(600, "sound", j)
	require.Greater(t, commits, 300)
}
