package events_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

var errDisk = errors.New("no space left on device")

// scripted is a real store (in memory) that a test can hold up and break.
type scripted struct {
	*memory.Store
	entered chan int // gets the size of each batch that has come to a held store
	held    atomic.Bool
	passes  chan struct{} // one per batch that a held store lets through
	broken  atomic.Pointer[error]
	fail    func(batch int) (before, after bool) // by number of the call; nil: never
	told    func(low events.Position, s *scripted)

	mu    sync.Mutex
	sizes []int // of all batches that came
}

func newScripted() *scripted {
	return &scripted{Store: memory.NewStore(), entered: make(chan int, 64), passes: make(chan struct{}, 64)}
}

func (s *scripted) hold() { s.held.Store(true) }

func (s *scripted) release() {
	s.held.Store(false)
	s.passes <- struct{}{}
}

func (s *scripted) breakDown(err error) { s.broken.Store(&err) }

func (s *scripted) repair() { s.broken.Store(nil) }

func (s *scripted) batches() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]int(nil), s.sizes...)
}

func (s *scripted) Append(ctx context.Context, batch []events.Append, low events.Position) ([]events.Result, error) {
	s.mu.Lock()
	s.sizes = append(s.sizes, len(batch))
	n := len(s.sizes)
	s.mu.Unlock()
	if s.held.Load() {
		s.entered <- len(batch)
		select {
		case <-s.passes:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", events.ErrUnavailable, ctx.Err())
		}
	}
	if err := s.broken.Load(); err != nil {
		return nil, *err
	}
	before, after := false, false
	if s.fail != nil {
		before, after = s.fail(n)
	}
	if before {
		return nil, errDisk
	}
	if s.told != nil {
		s.told(low, s)
	}
	results, err := s.Store.Append(ctx, batch, low)
	if after && err == nil { // stored, but the answer is lost
		return nil, errDisk
	}
	return results, err
}

func (s *scripted) Probe(ctx context.Context) error {
	if err := s.broken.Load(); err != nil {
		return *err
	}
	return s.Store.Probe(ctx)
}

// journal opens a journal that is closed, and leaves no goroutine, at the end of the test.
func journal(t *testing.T, s events.Store, change func(*events.JournalOptions)) *events.Journal {
	t.Helper()
	o := events.JournalOptions{Store: s, Node: "node-a"}
	if change != nil {
		change(&o)
	}
	j := events.NewJournal(o)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, j.Close(ctx))
		eventually(t, "the writer has ended", func() bool { return !strings.Contains(goroutines(), "events.(*Journal).write") })
	})
	return j
}

func goroutines() string {
	b := make([]byte, 1<<20)
	return string(b[:runtime.Stack(b, true)])
}

// blockedIn counts the goroutines that wait in a select of f or of what it calls.
func blockedIn(f string) (n int) {
	for g := range strings.SplitSeq(goroutines(), "\n\n") {
		if head, stack, _ := strings.Cut(g, "\n"); strings.Contains(head, "[select") && strings.Contains(stack, f) {
			n++
		}
	}
	return n
}

// eventually polls what has no signal of its own.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, time.Minute, time.Millisecond, what)
}

var at = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func one(stream string, version int64, facts ...events.Fact) events.Append {
	return events.Append{Rows: []events.Row{{Stream: stream, Version: version, At: at, Node: "node-a", Facts: facts}}}
}

func note(n int) events.Fact { return &request.Queued{Position: n} }

// last ends a request.
func last(stream string, version int64) events.Append {
	a := one(stream, version, &request.Settled{Outcome: request.Completed})
	a.Rows[0].Terminal = true
	return a
}

func stored(t *testing.T, s events.Store) (rows []*events.Committed) {
	t.Helper()
	require.NoError(t, s.After(context.Background(), 0, func(c *events.Committed) bool { rows = append(rows, c); return true }))
	return rows
}

func streams(rows []*events.Committed) (names []string) {
	for _, c := range rows {
		names = append(names, c.Stream)
	}
	return names
}

func names(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("request/%04d", i))
	}
	return list
}

func TestWhatComesWhileTheStoreIsBusyIsCommittedAsOneGroupInOrder(t *testing.T) {
	for name, c := range map[string]struct {
		batchMax int
		groups   []int
	}{
		"one group":                    {0, []int{1, 299}},
		"groups of at most 128":        {128, []int{1, 128, 128, 43}},
		"a group that exactly fills":   {299, []int{1, 299}},
		"one at a time keeps them too": {1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScripted()
			s.hold()
			j := journal(t, s, func(o *events.JournalOptions) { o.BatchMax = c.batchMax })
			all := names(300)
			pending := []*events.Pending{j.Start(one(all[0], 0, note(0)), events.May)}
			require.Equal(t, 1, <-s.entered)
			for i := 1; i < 300; i++ {
				mode := []events.Mode{events.May, events.Must}[i%2]
				pending = append(pending, j.Start(one(all[i], 0, note(i)), mode))
			}
			s.release()
			for i, p := range pending {
				position, err := p.Position()
				require.NoError(t, err)
				require.Equal(t, events.Position(i+1), position)
			}
			require.Equal(t, all, streams(stored(t, s)))
			if c.groups != nil {
				require.Equal(t, c.groups, s.batches())
			}
			stats := j.Stats()
			require.Equal(t, int64(300), stats.Appends)
			require.Equal(t, int64(300), stats.Facts)
			require.Equal(t, int64(len(s.batches())), stats.Commits)
			require.Zero(t, stats.Queued)
		})
	}
}

func TestAConflictDoesNotHurtItsNeighboursInTheGroup(t *testing.T) {
	s := newScripted()
	s.hold()
	var pushed []string
	j := journal(t, s, func(o *events.JournalOptions) {
		o.Push = func(rows []*events.Committed) { pushed = append(pushed, streams(rows)...) }
	})
	j.Put(one("request/a", 0, note(1), note(2)), events.Must)
	<-s.entered
	b := j.Start(one("request/b", 0, note(1)), events.May)
	wrong := j.Start(one("request/a", 7, note(3)), events.May)
	wrongMust := j.Start(one("request/c", 1, note(3)), events.Must)
	j.Put(one("request/a", 1, note(3)), events.Must) // nobody waits: it is logged
	d := j.Start(one("request/d", 0, note(1), note(2)), events.May)
	s.release()
	position, err := b.Position()
	require.NoError(t, err)
	require.Equal(t, events.Position(3), position)
	require.ErrorIs(t, wrong.Wait(), events.ErrConflict)
	require.ErrorIs(t, wrongMust.Wait(), events.ErrConflict)
	position, err = d.Position()
	require.NoError(t, err)
	require.Equal(t, events.Position(4), position)
	require.Equal(t, []string{"request/a", "request/b", "request/d"}, pushed, "a conflict is not handed on")
	require.Equal(t, int64(3), j.Stats().Conflicts)
	require.NoError(t, j.Fault(), "a conflict is no fault of the store")
}

func TestWhoeverHasSeenItsAppendStoredFindsItPushed(t *testing.T) {
	var mu sync.Mutex
	pushed := map[string]events.Position{}
	next := events.Position(1)
	j := journal(t, newScripted(), func(o *events.JournalOptions) {
		o.Push = func(rows []*events.Committed) {
			mu.Lock()
			defer mu.Unlock()
			for _, c := range rows {
				if c.Position != next || len(c.Facts) == 0 {
					t.Errorf("pushed position %d after %d, %d facts", c.Position, next-1, len(c.Facts))
				}
				next = c.Last() + 1
				pushed[c.Stream] = c.Position
			}
		}
	})
	var all sync.WaitGroup
	for g := range 16 {
		all.Go(func() {
			for i := range 50 {
				stream := fmt.Sprintf("request/%d-%d", g, i)
				position, err := j.Start(one(stream, 0, note(1), note(2)), events.May).Position()
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				if pushed[stream] != position || position == 0 {
					t.Errorf("%s stored at %d, pushed at %d", stream, position, pushed[stream])
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
}

func TestRowsOfActorsAreNumberedByTheStoreAndPushedSo(t *testing.T) {
	var versions []int64
	j := journal(t, newScripted(), func(o *events.JournalOptions) {
		o.Push = func(rows []*events.Committed) {
			for _, c := range rows {
				versions = append(versions, c.Version)
				require.Equal(t, "node-a", c.Node)
				require.Equal(t, "u", c.Upstream)
			}
		}
	})
	for i := range 5 {
		j.Record("upstream/u", "u", note(i))
	}
	require.NoError(t, j.Sync(context.Background()))
	require.Equal(t, []int64{0, 1, 2, 3, 4}, versions)
}

func TestRecordNeverBlocksEvenFromWithinPush(t *testing.T) {
	s := newScripted()
	s.hold()
	var j *events.Journal
	echoed := false
	j = journal(t, s, func(o *events.JournalOptions) {
		o.Push = func([]*events.Committed) {
			if !echoed {
				echoed = true
				j.Record("upstream/echo", "", note(0))
			}
		}
	})
	j.Record("upstream/u", "", note(0))
	<-s.entered // the store stands still from here on
	for i := range 5000 {
		j.Record("upstream/u", "", note(i))
	}
	require.Equal(t, 5001, j.Stats().Queued)
	s.release()
	require.NoError(t, j.Sync(context.Background())) // covers what was there, the echo comes behind it
	require.NoError(t, j.Sync(context.Background()))
	require.Len(t, stored(t, s), 5002)
}

// B62, B63: what may wait to be stored is bounded where requests come in.
func TestRoomsBoundTheRequestsThatAreOpen(t *testing.T) {
	s := newScripted()
	j := journal(t, s, func(o *events.JournalOptions) { o.Rooms = 2 })
	full := func() {
		t.Helper()
		require.Equal(t, int64(2), j.Stats().Rooms)
		require.ErrorIs(t, j.Room(), events.ErrOverloaded)
		require.Equal(t, int64(2), j.Stats().Rooms, "a refusal takes no room")
	}
	freed := func(how string) {
		t.Helper()
		eventually(t, how, func() bool { return j.Stats().Rooms == 1 })
		require.NoError(t, j.Room())
		full()
	}
	require.NoError(t, j.Room())
	require.NoError(t, j.Room())
	full()
	require.NoError(t, j.Commit(one("request/a", 0, note(1)), events.May))
	require.NoError(t, j.Commit(one("request/a", 1, note(2)), events.Must))
	full()
	require.NoError(t, j.Commit(last("request/a", 2), events.Last))
	freed("the end of a request gives its room back")
	j.Leave()
	freed("a request that appended nothing leaves")
	require.ErrorIs(t, j.Commit(last("request/a", 3), events.Last), events.ErrConflict)
	freed("an end that is refused for good gives the room back too")
	require.ErrorIs(t, j.Commit(one("request/b", 0, "no fact"), events.Last), events.ErrFact)
	freed("so does one that can not be written")
	j.Put(events.Append{}, events.Last)
	freed("and one without rows")
}

func TestAnAppendThatNoStoreTakesIsRefusedBeforeItHoldsUpTheOthers(t *testing.T) {
	s := newScripted()
	j := journal(t, s, nil)
	for name, a := range map[string]events.Append{
		"no rows":   {},
		"no facts":  one("request/a", 0),
		"no stream": one("", 0, note(1)),
		"no fact":   one("request/a", 0, struct{}{}),
	} {
		require.ErrorIs(t, j.Commit(a, events.Must), events.ErrFact, name)
	}
	require.NoError(t, j.Commit(one("request/a", 0, note(1)), events.May))
	require.NoError(t, j.Fault())
}

func TestSyncWaitsForWhatCameBeforeItAndNothingElse(t *testing.T) {
	s := newScripted()
	j := journal(t, s, func(o *events.JournalOptions) { o.BatchMax = 1 })
	require.NoError(t, j.Sync(context.Background()), "nothing has come")
	s.hold()
	j.Put(one("request/a", 0, note(1)), events.Must)
	<-s.entered
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, j.Sync(ended), context.Canceled)
	synced := make(chan error, 1)
	go func() { synced <- j.Sync(context.Background()) }()
	eventually(t, "somebody waits", func() bool { return blockedIn("events.(*Journal).Sync") == 1 })
	j.Put(one("request/b", 0, note(1)), events.Must) // behind it
	select {
	case err := <-synced:
		t.Fatalf("sync returned before the append was stored: %v", err)
	default:
	}
	s.passes <- struct{}{}
	require.NoError(t, <-synced)
	require.Equal(t, 1, <-s.entered, "the second append is still held up")
	s.release()
}

func TestCloseStoresWhatIsQueuedAndRefusesTheRest(t *testing.T) {
	s := newScripted()
	s.hold()
	j := journal(t, s, nil)
	require.NoError(t, j.Room())
	j.Record("upstream/u", "", note(0))
	<-s.entered
	for _, name := range names(100) {
		j.Put(one(name, 0, note(1)), events.May)
	}
	closed := make(chan error, 2)
	for range 2 { // a second Close waits like the first
		go func() { closed <- j.Close(context.Background()) }()
	}
	eventually(t, "both wait", func() bool { return blockedIn("events.(*Journal).Close") == 2 })
	require.ErrorIs(t, j.Commit(one("request/x", 0, note(1)), events.May), events.ErrClosed)
	require.ErrorIs(t, j.Commit(last("request/x", 0), events.Last), events.ErrClosed)
	require.Zero(t, j.Stats().Rooms, "an end after Close gives its room back")
	s.release()
	require.NoError(t, <-closed)
	require.NoError(t, <-closed)
	require.Len(t, stored(t, s), 101)
}

func TestAppendsThatNobodyWaitsForShareTheCommitOfOneThatIsWaitedFor(t *testing.T) {
	s := newScripted()
	j := journal(t, s, func(o *events.JournalOptions) { o.Linger = time.Hour })
	for i := range 3 {
		j.Put(one(fmt.Sprintf("request/%d", i), 0, note(i)), events.Must)
	}
	require.NoError(t, j.Commit(one("request/waited", 0, note(1)), events.Must))
	require.Equal(t, int64(1), j.Stats().Commits)
	require.Equal(t, int64(4), j.Stats().Appends)
	j.Put(one("request/synced", 0, note(1)), events.Must)
	require.NoError(t, j.Sync(context.Background()), "somebody who waits ends the linger")
	require.Equal(t, int64(2), j.Stats().Commits)
	j.Put(one("request/closed", 0, note(1)), events.Must)
	require.NoError(t, j.Close(context.Background()), "and so does the end")
	require.Equal(t, int64(3), j.Stats().Commits)
}

func TestAnAppendThatNobodyWaitsForIsStoredAfterTheLinger(t *testing.T) {
	stored := make(chan struct{})
	j := journal(t, newScripted(), func(o *events.JournalOptions) { o.Push = func([]*events.Committed) { close(stored) } })
	j.Put(one("request/1", 0, note(1)), events.Must)
	<-stored
	require.NoError(t, j.Close(context.Background()))
}

// What is told behind the end of a request does not make it an open one again: recovery and projections would go back to it.
func TestAFactBehindTheEndOfARequestDoesNotOpenIt(t *testing.T) {
	s := newScripted()
	low := events.Position(0)
	s.told = func(l events.Position, _ *scripted) { low = l }
	j := events.NewJournal(events.JournalOptions{Store: s})
	for _, a := range []events.Append{
		one("request/a", 0, note(1)), last("request/a", 1), one("request/a", 2, &request.Repriced{Reprice: "run-1"}),
		one("node/x", 0, note(1)), one("node/x", 1, note(2)),
	} {
		require.NoError(t, j.Commit(a, events.May))
	}
	require.NoError(t, j.Close(context.Background()))
	require.Equal(t, events.Position(5), low, "nothing is open below what is stored")
}
