package postgres_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/postgres"
	"github.com/penstock/penstock/adapters/postgres/pgtest"
	"github.com/penstock/penstock/adapters/spool"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// writers are goroutines that append through a journal with a spool: each request has three appends, and an actor says
// something between them.
type writers struct {
	t       *testing.T
	journal *events.Journal
	life    int
	stop    chan struct{}
	done    sync.WaitGroup

	mu      sync.Mutex
	told    map[string]int64 // facts of a stream that somebody was told to be committed
	spoken  map[int]bool     // facts of the actor, the same
	pushed  map[string]int64 // next version by stream
	said    atomic.Int64
	longest time.Duration
}

func fact(n int) events.Fact { return &request.Queued{Upstreams: []string{"u"}, Position: n} }

func (w *writers) append(stream string, version int64, terminal bool, mode events.Mode, facts ...events.Fact) error {
	begun := time.Now()
	err := w.journal.Commit(events.Append{Rows: []events.Row{{
		Stream: stream, Version: version, Terminal: terminal, At: begun.UTC(), Node: "n", Request: "r", Facts: facts,
	}}}, mode)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.longest = max(w.longest, time.Since(begun))
	if err == nil {
		w.said.Add(1)
	}
	if err == nil && version != events.AnyVersion {
		w.told[stream] = version + int64(len(facts))
	} else if err == nil {
		w.spoken[facts[0].(*request.Queued).Position] = true
	}
	return err
}

func (w *writers) run(n int) {
	for i := range n {
		w.done.Go(func() {
			for k := 0; ; k++ {
				select {
				case <-w.stop:
					return
				default:
				}
				stream := fmt.Sprintf("request/%d-%d-%d", w.life, i, k)
				if w.journal.Room() != nil {
					return // it is dead
				}
				if w.append(stream, 0, false, events.May, fact(k), fact(k)) != nil ||
					w.append("upstream/u", events.AnyVersion, false, events.Must, fact(w.life<<24|i<<16|k)) != nil ||
					w.append(stream, 2, false, events.May, fact(k)) != nil {
					return
				}
				if w.append(stream, 3, true, events.Last, &request.Settled{}) != nil {
					return
				}
			}
		})
	}
}

// passes waits until so many more appends were committed.
func (w *writers) passes(n int64) {
	w.t.Helper()
	n += w.said.Load()
	require.Eventually(w.t, func() bool { return w.said.Load() >= n }, 2*time.Minute, time.Millisecond)
}

func (w *writers) until(what string, ok func(events.JournalStats) bool) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return ok(w.journal.Stats()) }, 2*time.Minute, time.Millisecond, what)
}

func (w *writers) push(rows []*events.Committed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range rows {
		if c.Stream != "upstream/u" && w.pushed[c.Stream] != c.Version {
			w.t.Errorf("%s: version %d was pushed, %d expected", c.Stream, c.Version, w.pushed[c.Stream])
		}
		w.pushed[c.Stream] = c.Version + int64(len(c.Facts))
	}
}

// check wants in the store, once and in order, whatever somebody was told to be committed.
func (w *writers) check(s events.Store) {
	w.t.Helper()
	versions, spoken := map[string]int64{}, map[int]int{}
	for _, c := range rows(w.t, s) {
		require.Equal(w.t, versions[c.Stream], c.Version, c.Stream)
		versions[c.Stream] += int64(len(c.Facts))
		if c.Stream == "upstream/u" {
			spoken[c.Facts[0].(*request.Queued).Position]++
		}
	}
	for stream, n := range w.told {
		require.GreaterOrEqual(w.t, versions[stream], n, stream)
	}
	for n, times := range spoken {
		require.Equal(w.t, 1, times, "fact %x", n)
	}
	for n := range w.spoken {
		require.Equal(w.t, 1, spoken[n], "fact %x", n)
	}
	w.t.Logf("%d appends, %d facts of an actor, longest wait %s", w.said.Load(), len(w.spoken), w.longest)
}

func newWriters(t *testing.T) *writers {
	return &writers{t: t, told: map[string]int64{}, spoken: map[int]bool{}, pushed: map[string]int64{}}
}

// open makes another journal over a store, as a start of the process does.
func (w *writers) open(s events.Store, folder events.SpoolFolder) {
	w.t.Helper()
	sp, err := events.OpenSpool(events.SpoolOptions{Folder: folder, SegmentMax: 64 << 10})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, sp.Close()) })
	_, err = sp.Drain(context.Background(), s)
	require.NoError(w.t, err)
	w.life++
	w.stop = make(chan struct{})
	w.journal = events.NewJournal(events.JournalOptions{Store: s, Spool: sp, Node: "n", Head: head(w.t, s), Push: w.push, BatchMax: 64})
}

func TestAJournalWithASpoolOutlivesWhateverTheServerDoes(t *testing.T) {
	server := pgtest.Start(t)
	dsn := server.NewDatabase(t)
	s := openStore(t, dsn, postgres.StoreOptions{Deadline: 4 * time.Second})
	w := newWriters(t)
	w.open(s, spool.Folder(filepath.Join(t.TempDir(), "spool")))
	w.run(16)
	w.passes(100)
	spooling := func(j events.JournalStats) bool { return j.Spooled > 0 }
	well := func(j events.JournalStats) bool { return !j.Spooling }
	for range 3 {
		server.Stop(t, pgtest.Immediate)
		w.until("the spool is in use", spooling)
		w.passes(300)
		server.Restart(t)
		w.until("it is stored", well)
		w.passes(100)
	}
	server.Pause(t)
	w.until("the spool is in use", spooling)
	time.Sleep(5 * time.Second) // longer than a call to the store may take: the drainer meets it too
	w.passes(300)
	server.Continue(t)
	w.until("it is stored", well)
	for range 20 {
		w.passes(30)
		server.KillBackends(t, dsn)
	}
	w.until("it is stored", well)
	close(w.stop)
	w.done.Wait()
	require.NoError(t, w.journal.Close(context.Background()))
	for stream, n := range w.told {
		require.Equal(t, n, w.pushed[stream], "%s is handed on", stream)
	}
	w.check(s)
}

// mortal is a store, or a folder, that a crash cuts off from its process: a call under way may still go through.
type mortal struct {
	events.Store
	dead  *atomic.Bool
	calls *atomic.Int64 // until it dies with an append that is stored, never when it is not positive
}

func (m mortal) Append(ctx context.Context, batch []events.Append, low events.Position) ([]events.Result, error) {
	if m.dead.Load() {
		return nil, events.ErrUnavailable
	}
	results, err := m.Store.Append(ctx, batch, low)
	if err == nil && m.calls.Add(-1) == 0 {
		m.dead.Store(true)
		return nil, events.ErrUnavailable
	}
	return results, err
}

type mortalFolder struct {
	spool.Folder
	dead *atomic.Bool
}

type mortalFile struct {
	events.SpoolFile
	dead *atomic.Bool
}

var errDead = fmt.Errorf("the process is dead")

func (f mortalFolder) Create(name string, room int64) (events.SpoolFile, error) {
	if f.dead.Load() {
		return nil, errDead
	}
	file, err := f.Folder.Create(name, room)
	return mortalFile{file, f.dead}, err
}

func (f mortalFolder) Remove(name string) error {
	if f.dead.Load() {
		return errDead
	}
	return f.Folder.Remove(name)
}

func (f mortalFile) WriteAt(b []byte, at int64) (int, error) {
	if f.dead.Load() {
		n, _ := f.SpoolFile.WriteAt(b[:len(b)/3], at) // torn
		return n, errDead
	}
	return f.SpoolFile.WriteAt(b, at)
}

func (f mortalFile) Truncate(size int64) error {
	if f.dead.Load() {
		return errDead
	}
	return f.SpoolFile.Truncate(size)
}

func TestACrashWhileSpoolingOrDrainingLosesNothingAndDoublesNothing(t *testing.T) {
	server := pgtest.Start(t)
	dsn := server.NewDatabase(t)
	folder := spool.Folder(filepath.Join(t.TempDir(), "spool"))
	w := newWriters(t)
	for round := range 6 {
		dead := &atomic.Bool{}
		s, err := postgres.OpenStore(context.Background(), dsn, postgres.StoreOptions{Deadline: time.Minute, ConnectTimeout: time.Minute})
		require.NoError(t, err)
		calls := &atomic.Int64{}
		w.open(mortal{s, dead, calls}, mortalFolder{folder, dead})
		w.run(16)
		w.passes(50)
		if round%2 == 0 {
			server.Stop(t, pgtest.Immediate)
		} else {
			server.KillBackends(t, dsn) // in doubt, and then drained at once
		}
		w.passes(400)
		if round%3 > 0 {
			calls.Store(int64(6 + round)) // while it drains, or soon after; the first groups are small
			server.Restart(t)
			w.until("it dies", func(events.JournalStats) bool { return dead.Load() })
		}
		dead.Store(true)
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		_ = w.journal.Close(gone) // ends the goroutines of a process that is no more
		w.done.Wait()
		require.NoError(t, s.Close())
		server.Restart(t)
	}
	s := openStore(t, dsn, postgres.StoreOptions{})
	w.pushed = map[string]int64{}
	w.open(s, folder)
	require.NoError(t, w.journal.Close(context.Background()))
	left, err := folder.Segments()
	require.NoError(t, err)
	require.Empty(t, left)
	w.check(s)
}
