package events_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/spool"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// spooling opens a journal with a spool whose store is broken, with one request that has begun in the store.
func spooling(t *testing.T, change func(*events.JournalOptions, *events.SpoolOptions)) (*scripted, *disk, *events.Journal) {
	t.Helper()
	s, d := newScripted(), newDisk(t)
	so := events.SpoolOptions{Folder: d}
	jo := events.JournalOptions{}
	if change != nil {
		change(&jo, &so)
	}
	sp, err := events.OpenSpool(so)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sp.Close()) })
	j := journal(t, s, func(o *events.JournalOptions) { jo.Store, jo.Node, jo.Spool = s, o.Node, sp; *o = jo })
	require.NoError(t, j.Room())
	require.NoError(t, j.Commit(one("request/open", 0, note(1)), events.May))
	s.breakDown(errDisk)
	return s, d, j
}

func await(t *testing.T, j *events.Journal) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, j.Sync(ctx))
	eventually(t, "appends go to the store again", func() bool { return j.Diverted() == nil })
}

func TestDuringAnOutageRequestsAreServedFromTheSpool(t *testing.T) {
	var mu sync.Mutex
	var pushed []string
	s, d, j := spooling(t, func(o *events.JournalOptions, _ *events.SpoolOptions) {
		o.BatchMax = 7
		o.Push = func(rows []*events.Committed) {
			mu.Lock()
			defer mu.Unlock()
			pushed = append(pushed, streams(rows)...)
		}
	})
	want := []string{"request/open"}
	for i := range 40 {
		stream := fmt.Sprintf("request/%d", i)
		require.NoError(t, j.Room(), "requests are taken in")
		require.NoError(t, j.Commit(one(stream, 0, note(i)), events.May), "and may be sent")
		j.Record("upstream/u", "u", note(i))
		require.NoError(t, j.Start(one(stream, 1, note(i)), events.Must).Wait())
		j.Put(last(stream, 2), events.Last)
		want = append(want, stream, "upstream/u", stream, stream)
	}
	position, err := j.Start(one("request/open", 1, note(2)), events.May).Position()
	require.NoError(t, err)
	require.Zero(t, position, "its place is not known yet")
	require.NoError(t, j.Commit(last("request/open", 2), events.Last))
	want = append(want, "request/open", "request/open")
	require.Zero(t, j.Stats().Rooms, "an end gives its room back when it is on disk")
	require.True(t, j.Stats().Spooling)
	require.Equal(t, int64(162), j.Stats().Spooled)
	require.ErrorIs(t, j.Fault(), errDisk)
	require.ErrorIs(t, j.Diverted(), events.ErrUnavailable)
	require.NoError(t, j.Refusal())
	require.NotEmpty(t, d.files(t))
	require.Equal(t, []string{"request/open"}, streams(stored(t, s)))
	s.repair()
	await(t, j)
	require.NoError(t, j.Fault())
	require.Equal(t, want, streams(stored(t, s)))
	require.Equal(t, want, pushed)
	require.Empty(t, d.files(t))
	require.False(t, j.Stats().Spooling)
	position, err = j.Start(one("request/after", 0, note(1)), events.May).Position()
	require.NoError(t, err)
	require.Equal(t, events.Position(len(want)+1), position, "the store is written directly again")
}

func TestDuringAnOutageConfigurationAndMoneyAreRefused(t *testing.T) {
	s, _, j := spooling(t, nil)
	require.NoError(t, j.Commit(one("request/a", 0, note(1)), events.May))
	for _, stream := range []string{"catalog/key/k", "ledger/u", "books/2026-03-01"} {
		require.ErrorIs(t, j.Commit(one(stream, 0, note(1)), events.May), events.ErrUnavailable, stream)
	}
	sealed := one("account/a", 0, note(1))
	sealed.Secrets = []events.Secret{{ID: "a", Version: 1, Sealed: []byte{1}}}
	require.ErrorIs(t, j.Commit(sealed, events.May), events.ErrUnavailable)
	both := one("request/b", 0, note(1))
	both.Rows = append(both.Rows, one("catalog/key/k", 0, note(1)).Rows...)
	require.ErrorIs(t, j.Commit(both, events.May), events.ErrUnavailable)
	s.repair()
	await(t, j)
	require.NoError(t, j.Commit(one("catalog/key/k", 0, note(1)), events.May))
	require.Equal(t, []string{"request/open", "request/a", "catalog/key/k"}, streams(stored(t, s)))
}

// The commit went through and its answer was lost: what may be refused counts as committed, and is stored once.
func TestAGroupInDoubtIsNeitherLostNorDoubled(t *testing.T) {
	for name, wentThrough := range map[string]bool{"it was stored": true, "it was not": false} {
		t.Run(name, func(t *testing.T) {
			d := newDisk(t)
			s := newScripted()
			s.hold()
			s.fail = func(n int) (before, after bool) { return n < 6 && !wentThrough, n < 6 && wentThrough }
			j := journal(t, s, func(o *events.JournalOptions) { o.Spool = openSpool(t, d, nil) })
			first := j.Start(one("request/first", 0, note(1)), events.May)
			<-s.entered
			may := j.Start(one("request/may", 0, note(1)), events.May)
			must := j.Start(one("request/may", 1, note(1)), events.Must)
			j.Record("upstream/u", "", note(1))
			j.Record("upstream/u", "", note(2))
			s.release()
			for _, p := range []*events.Pending{first, may, must} {
				require.NoError(t, p.Wait())
			}
			await(t, j)
			require.GreaterOrEqual(t, len(s.batches()), 6)
			rows := stored(t, s)
			require.Equal(t, []string{"request/first", "request/may", "request/may", "upstream/u", "upstream/u"}, streams(rows))
			require.Equal(t, int64(1), rows[4].Version)
			require.Equal(t, 2, rows[4].Facts[0].(*request.Queued).Position)
		})
	}
}

func TestAStoreThatHangsHoldsNobodyUpForLongAndIsLeftAlone(t *testing.T) {
	s, d := newScripted(), newDisk(t)
	j := journal(t, s, func(o *events.JournalOptions) { o.Spool = openSpool(t, d, nil) })
	s.hold()
	begun := time.Now()
	require.NoError(t, j.Commit(one("request/a", 0, note(1)), events.May))
	require.Less(t, time.Since(begun), 30*time.Second)
	asked := len(s.batches())
	for i := range 50 { // the drainer hangs in the store, and nobody notices
		require.NoError(t, j.Commit(one("request/b", int64(i), note(i)), events.May))
	}
	require.Less(t, len(s.batches())-asked, 10, "only the drainer asks the store, which lets it wait each time")
	s.release()
	await(t, j)
	require.Len(t, stored(t, s), 51)
}

func TestAFullSpoolRefusesNewRequestsAndLetsTheOthersFinish(t *testing.T) {
	s, _, j := spooling(t, func(_ *events.JournalOptions, o *events.SpoolOptions) { o.BytesMax = 16 << 10 })
	open := 0
	for ; j.Room() == nil; open++ {
		require.Less(t, open, 1000)
		require.NoError(t, j.Commit(one(fmt.Sprintf("request/%d", open), 0, note(open)), events.May))
	}
	require.Greater(t, open, 50)
	require.ErrorIs(t, j.Refusal(), events.ErrUnavailable)
	require.NoError(t, j.Commit(one("request/0", 1, note(1)), events.May), "what was admitted goes on in the reserve")
	refused := 0
	for i := range 1000 {
		if err := j.Commit(one("request/1", 1+int64(i), note(i)), events.May); err != nil {
			require.ErrorIs(t, err, events.ErrUnavailable)
			refused = i
			break
		}
	}
	require.Positive(t, refused, "until that is full too")
	for i := range open {
		version := map[int]int64{0: 2, 1: int64(1 + refused)}[i]
		require.NoError(t, j.Commit(last(fmt.Sprintf("request/%d", i), max(1, version)), events.Last), "an end is always kept")
	}
	s.repair()
	await(t, j)
	require.NoError(t, j.Room(), "there is room again")
	j.Leave()
	require.Len(t, stored(t, s), 1+2*open+1+refused)
	require.Equal(t, int64(1), j.Stats().Rooms, "only the request that has not ended has one")
}

func TestASpoolThatCannotBeWrittenRefusesAsIfThereWereNone(t *testing.T) {
	for name, at := range map[string]int{"from the beginning": 0, "in the middle of an outage": 30} {
		t.Run(name, func(t *testing.T) {
			s, d, j := spooling(t, nil)
			want := []string{"request/open"}
			for i := range at {
				require.NoError(t, j.Commit(one(fmt.Sprintf("request/%d", i), 0, note(i)), events.May))
				want = append(want, fmt.Sprintf("request/%d", i))
			}
			d.broken.Store(true)
			require.ErrorIs(t, j.Commit(one("request/may", 0, note(1)), events.May), events.ErrUnavailable)
			require.ErrorIs(t, j.Room(), errDevice)
			require.ErrorIs(t, j.Refusal(), events.ErrUnavailable)
			require.ErrorIs(t, j.Commit(one("request/open", 1, note(2)), events.Must), events.ErrUnavailable, "it waits in memory")
			j.Put(last("request/open", 2), events.Last)
			require.Equal(t, int64(1), j.Stats().Rooms)
			d.broken.Store(false)
			require.ErrorIs(t, j.Room(), errDevice, "a disk that has failed is not trusted again before the store is back")
			s.repair()
			await(t, j)
			require.NoError(t, j.Room())
			j.Leave()
			require.Equal(t, append(want, "request/open", "request/open"), streams(stored(t, s)))
			require.Zero(t, j.Stats().Rooms)
			require.Empty(t, d.files(t))

			s.breakDown(errDisk)
			require.NoError(t, j.Commit(one("request/next", 0, note(1)), events.May), "the next outage finds the disk well")
			s.repair()
			await(t, j)
		})
	}
}

func TestCloseDuringAnOutageLeavesTheSpoolToTheNextStart(t *testing.T) {
	s, d := newScripted(), newDisk(t)
	sp, err := events.OpenSpool(events.SpoolOptions{Folder: d})
	require.NoError(t, err)
	j := events.NewJournal(events.JournalOptions{Store: s, Spool: sp})
	s.breakDown(errDisk)
	require.NoError(t, j.Commit(one("request/a", 0, note(1)), events.May))
	j.Put(last("request/a", 1), events.Last)
	require.NoError(t, j.Close(context.Background()))
	require.NoError(t, sp.Close())
	sp = openSpool(t, d, nil)
	_, err = sp.Drain(context.Background(), s)
	require.ErrorIs(t, err, events.ErrUnavailable)
	require.Equal(t, int64(2), sp.Len(), "nothing is thrown away")
	s.repair()
	_, err = sp.Drain(context.Background(), s)
	require.NoError(t, err)
	require.Equal(t, []string{"request/a", "request/a"}, streams(stored(t, s)))
}

func TestCloseOfAJournalThatDrainsWaitsForTheEnd(t *testing.T) {
	s, d, j := spooling(t, nil)
	for i := range 100 {
		require.NoError(t, j.Commit(one(fmt.Sprintf("request/%d", i), 0, note(i)), events.May))
	}
	s.hold()
	s.repair()
	<-s.entered
	s.release()
	eventually(t, "the store is back", func() bool { return j.Fault() == nil })
	require.NoError(t, j.Close(context.Background()))
	require.Len(t, stored(t, s), 101)
	require.Empty(t, d.files(t))
}

// mortal is a store that a crash cuts off from its process.
type mortal struct {
	*scripted
	dead *atomic.Bool
}

func (m mortal) Append(ctx context.Context, batch []events.Append, low events.Position) ([]events.Result, error) {
	if m.dead.Load() {
		return nil, errDisk
	}
	return m.scripted.Append(ctx, batch, low)
}

// Pains 7, 15, 20, 26-29: through faults of the store, lost answers, long outages and crashes, what was accepted is stored
// exactly once, and every stream in order.
func TestWhatWasAcceptedIsStoredOnceThroughOutagesAndCrashes(t *testing.T) {
	random := seed(t)
	const lives, workers, each = 8, 16, 60
	s, d := newScripted(), newDisk(t)
	var rnd sync.Mutex
	chance := func(n int) int { rnd.Lock(); defer rnd.Unlock(); return random.IntN(n) }
	down := 0 // commits that still fail; the store has one caller at a time
	s.fail = func(int) (before, after bool) {
		if down > 0 {
			down--
			return true, false
		}
		switch n := chance(80); {
		case n < 2:
			down = chance(4)
			return true, false
		case n < 4:
			return false, true
		}
		return false, false
	}
	var mu sync.Mutex
	accepted := map[string]int64{} // requests: facts that somebody was told to be stored
	actors := map[int]bool{}       // facts of actors, by number
	var told atomic.Int64          // how often somebody was told
	spooled := int64(0)
	for life := range lives {
		sp := openSpool(t, d, func(o *events.SpoolOptions) { o.SegmentMax = 4 << 10 })
		for {
			if _, err := sp.Drain(context.Background(), s); err == nil {
				break
			}
		}
		dead := &atomic.Bool{}
		own := &disk{Folder: d.Folder}
		sp = openSpool(t, own, func(o *events.SpoolOptions) { o.SegmentMax = 4 << 10 })
		low, err := s.Head(context.Background())
		require.NoError(t, err)
		j := events.NewJournal(events.JournalOptions{Store: mortal{s, dead}, Spool: sp, BatchMax: 8 + chance(64), Head: low})
		var all sync.WaitGroup
		for w := range workers {
			r := rand.New(rand.NewPCG(uint64(chance(1<<30)), uint64(w)))
			all.Go(func() {
				for i := range each {
					stream, version := fmt.Sprintf("request/%d-%d-%d", life, w, i), int64(0)
					for range 1 + r.IntN(4) {
						facts := []events.Fact{note(i), note(i + 1)}[:1+r.IntN(2)]
						if j.Commit(one(stream, version, facts...), events.May) != nil {
							return // it has crashed
						}
						version += int64(len(facts))
						mu.Lock()
						accepted[stream] = version
						spooled = max(spooled, j.Stats().Spooled)
						mu.Unlock()
						told.Add(1)
					}
					n := life<<20 | w<<10 | i
					if j.Commit(one("upstream/u", events.AnyVersion, note(n)), events.Must) == nil {
						mu.Lock()
						actors[n] = true
						mu.Unlock()
					}
					j.Put(last(stream, version), events.Last)
				}
			})
		}
		if life < lives-1 {
			after := told.Load() + int64(chance(1000))
			eventually(t, "some work is done", func() bool { return told.Load() >= after })
			own.dead.Store(true)
			dead.Store(true)
			gone, cancel := context.WithCancel(context.Background())
			cancel()
			_ = j.Close(gone) // the process is no more; only its goroutines are to end
			all.Wait()
			continue
		}
		all.Wait()
		await(t, j)
		require.NoError(t, j.Close(context.Background()))
	}
	require.Positive(t, spooled, "the spool was used")
	versions, there := map[string]int64{}, map[int]int{}
	for _, c := range stored(t, s) {
		require.Equal(t, versions[c.Stream], c.Version, c.Stream)
		versions[c.Stream] += int64(len(c.Facts))
		if c.Stream == "upstream/u" {
			for _, f := range c.Facts {
				there[f.(*request.Queued).Position]++
			}
		}
	}
	for stream, n := range accepted {
		require.GreaterOrEqual(t, versions[stream], n, stream)
	}
	for n, times := range there {
		require.Equal(t, 1, times, "fact %d of an actor", n)
	}
	for n := range actors {
		require.Equal(t, 1, there[n], "fact %d of an actor", n)
	}
	require.Empty(t, d.files(t))
}

// The spool takes more than the store can: the writer waits for the drainer often enough to come to an end.
func TestADrainComesToAnEndUnderAnyLoad(t *testing.T) {
	s, _, j := spooling(t, func(o *events.JournalOptions, _ *events.SpoolOptions) { o.BatchMax = 4 })
	var all sync.WaitGroup
	stop := make(chan struct{})
	for w := range 64 {
		all.Go(func() {
			for i := int64(0); ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := j.Commit(one(fmt.Sprintf("request/%d", w), i, note(1)), events.May); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	eventually(t, "much waits", func() bool { return j.Stats().Spooled > 5000 })
	s.fail = func(int) (before, after bool) { time.Sleep(2 * time.Millisecond); return false, false } // 2,000 appends a second
	s.repair()
	require.Eventually(t, func() bool { return !j.Stats().Spooling }, 3*time.Minute, time.Millisecond)
	close(stop)
	all.Wait()
}

// BenchmarkSpool is an append during an outage: by one who waits, and by many.
func BenchmarkSpool(b *testing.B) {
	for _, clients := range []int{1, 32, 256} {
		b.Run(fmt.Sprint(clients), func(b *testing.B) {
			s := newScripted()
			s.breakDown(errDisk)
			sp, err := events.OpenSpool(events.SpoolOptions{Folder: spool.Folder(b.TempDir())})
			require.NoError(b, err)
			j := events.NewJournal(events.JournalOptions{Store: s, Spool: sp})
			b.SetParallelism(clients / runtime.GOMAXPROCS(0))
			if clients == 1 {
				b.SetParallelism(1)
			}
			var n atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				stream := fmt.Sprintf("request/%d", n.Add(1))
				for i := int64(0); pb.Next(); i++ {
					if err := j.Commit(one(stream, i, note(1)), events.May); err != nil {
						b.Error(err)
					}
				}
			})
			require.NoError(b, j.Close(context.Background()))
			require.NoError(b, sp.Close())
		})
	}
}
