package projections_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/lawtest"
	"github.com/penstock/penstock/projections/requestlog"
)

var errDisk = errors.New("disk is full")

// faulty is a read model whose commits can be made to fail, to hang, or to succeed without saying so.
type faulty struct {
	*memory.ReadModel
	mu      sync.Mutex
	fails   int           // commits to refuse from now on; below 0 all
	deaf    int           // commits to make and then report as failed
	hang    chan struct{} // commits wait until it is closed; nil: they do not
	commits int
	rows    int // changed rows of all commits, but for spans of the log
}

func newFaulty() *faulty { return &faulty{ReadModel: memory.NewReadModel(all...)} }

// Commit implements projections.ReadModel.
func (f *faulty) Commit(ctx context.Context, c *projections.Changes, steps []projections.Step) error {
	f.mu.Lock()
	hang := f.hang
	f.mu.Unlock()
	if hang != nil {
		<-hang
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails != 0 {
		f.fails--
		return errDisk
	}
	f.commits++
	for change := range c.All() {
		if change.Table != requestlog.Spans {
			f.rows++
		}
	}
	err := f.ReadModel.Commit(ctx, c, steps)
	if f.deaf > 0 {
		f.deaf--
		return errDisk
	}
	return err
}

func (f *faulty) set(change func(*faulty)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *faulty) written() (commits, rows int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.commits, f.rows
}

// traffic commits a history of that many requests.
func traffic(t testing.TB, store events.Store, n int) [][]*events.Committed {
	t.Helper()
	list, err := lawtest.History{Seed: 3, Requests: n}.Appends()
	if err != nil {
		t.Fatal(err)
	}
	return lawtest.Commits(t, store, list, 5)
}

func end(batches [][]*events.Committed) events.Position {
	b := batches[len(batches)-1]
	return b[len(b)-1].Last()
}

// sameAsReplayed compares a model with one to which the whole store was replayed.
func sameAsReplayed(t testing.TB, store events.Store, m projections.ReadModel) {
	t.Helper()
	for _, p := range all {
		report, err := projections.Verify(context.Background(), store, m, p, shadow)
		if err != nil || !report.Equal || report.Rows == 0 {
			t.Errorf("%s differs from a replay: %+v %v", p.Name(), report, err)
		}
	}
}

func shadow() (projections.ReadModel, error) { return memory.NewReadModel(all...), nil }

func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestPushDoesNotBlockWhileTheReadModelHangsAndNothingIsLost(t *testing.T) {
	store, m, release := &counted{Store: memory.NewStore()}, newFaulty(), make(chan struct{})
	r := lawtest.Start(t, projections.Options{Store: store, Model: m, Projections: all, QueueMax: 20, Linger: time.Millisecond, RowsMax: 10})
	m.set(func(f *faulty) { f.hang = release })
	batches := traffic(t, store, 200)
	for _, b := range batches {
		r.Push(b) // far more than the queue holds
	}
	if lag := r.Lag(); len(lag) != len(all) || lag[0].Name != "requestlog" || lag[0].Behind != int64(end(batches)) {
		t.Errorf("lag %+v, want everything behind", lag)
	}
	before := store.reads.Load()
	close(release)
	noErr(t, r.WaitFor(context.Background(), end(batches)))
	if store.reads.Load() == before {
		t.Error("the store was not read, so everything was kept in memory")
	}
	sameAsReplayed(t, store, m)
	for _, lag := range r.Lag() {
		if lag.Behind != 0 || lag.Position != end(batches) {
			t.Errorf("lag %+v after everything was written", lag)
		}
	}
}

func TestAWriteFaultIsShownRetriedAndLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, m := memory.NewStore(), newFaulty()
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		r := lawtest.Start(t, projections.Options{Store: store, Model: m, Projections: all, RowsMax: 20, Logger: logger})
		m.set(func(f *faulty) { f.fails = -1 })
		batches := traffic(t, store, 100)
		for _, b := range batches {
			r.Push(b)
		}
		if err := r.WaitFor(context.Background(), end(batches)); !errors.Is(err, errDisk) {
			t.Errorf("waiting says %v, want the fault", err)
		}
		if err := r.Err(); !errors.Is(err, errDisk) {
			t.Errorf("Err is %v", err)
		}
		if lag := r.Lag(); lag[1].Behind != int64(end(batches)) {
			t.Errorf("lag %+v", lag)
		}
		m.set(func(f *faulty) { f.fails = 3 })
		time.Sleep(time.Minute) // of the bubble: longer than all back-offs
		synctest.Wait()
		noErr(t, r.Err())
		sameAsReplayed(t, store, m)
		if said := log.String(); strings.Count(said, "projections are held up") != 1 || strings.Count(said, "projections go on") != 1 {
			t.Errorf("operators are told:\n%s", said)
		}
	})
}

func TestACommitWhoseAnswerWasLostTakesEffectOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, m := memory.NewStore(), newFaulty()
		r := lawtest.Start(t, projections.Options{Store: store, Model: m, Projections: all, RowsMax: 20})
		m.set(func(f *faulty) { f.deaf = 2 })
		for _, b := range traffic(t, store, 100) {
			r.Push(b)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		noErr(t, r.Err())
		sameAsReplayed(t, store, m)
	})
}

// A77, pain 71: what one linger brings to a request is one row, in one transaction.
func TestChangesLingerAndAreWrittenAsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, m := memory.NewStore(), newFaulty()
		r := lawtest.Start(t, projections.Options{Store: store, Model: m, Projections: []projections.Projection{requestlog.Projection{}}})
		for _, b := range traffic(t, store, 50) {
			r.Push(b)
		}
		synctest.Wait()
		if commits, _ := m.written(); commits != 0 {
			t.Errorf("%d commits before the linger was over", commits)
		}
		time.Sleep(250 * time.Millisecond)
		synctest.Wait()
		if commits, rows := m.written(); commits != 1 || rows != 50 {
			t.Errorf("%d commits with %d rows, want 1 with 50", commits, rows)
		}
	})
}

func TestWaitForWritesAtOnce(t *testing.T) {
	store, m := memory.NewStore(), newFaulty()
	r := lawtest.Start(t, projections.Options{Store: store, Model: m, Projections: all, Linger: time.Hour})
	batches := traffic(t, store, 20)
	for _, b := range batches {
		r.Push(b)
		noErr(t, r.WaitFor(context.Background(), b[0].Last()))
	}
	sameAsReplayed(t, store, m)
}

func TestWaitForReadsWhatAnotherNodeHasStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, m := memory.NewStore(), newFaulty()
		r := lawtest.Start(t, projections.Options{Store: store, Model: m, Projections: all})
		stored := make(chan [][]*events.Committed, 1)
		go func() {
			time.Sleep(time.Second)
			stored <- traffic(t, store, 20) // nobody pushes it
		}()
		noErr(t, r.WaitFor(context.Background(), 30))
		batches := <-stored
		sameAsReplayed(t, store, m)
		r.Push(batches[0])
		r.Push(batches[len(batches)-1]) // with a gap before it
		noErr(t, r.Flush(context.Background()))
		sameAsReplayed(t, store, m)
	})
}

func TestWaitForEndsWithItsContextOrTheRunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := projections.NewRunner(projections.Options{Store: memory.NewStore(), Model: newFaulty(), Projections: all})
		noErr(t, r.Start(context.Background()))
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := r.WaitFor(ctx, 99); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waiting for what never comes: %v", err)
		}
		ended := make(chan error)
		go func() { ended <- r.WaitFor(context.Background(), 99) }()
		synctest.Wait()
		noErr(t, r.Stop(context.Background()))
		if err := <-ended; !errors.Is(err, projections.ErrStopped) {
			t.Errorf("waiting while the runner stops: %v", err)
		}
		if err := r.Exclusive(context.Background(), nil); !errors.Is(err, projections.ErrStopped) {
			t.Errorf("a job for a stopped runner: %v", err)
		}
	})
}

func TestStopWritesWhatLingersAndGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, m := memory.NewStore(), newFaulty()
		r := projections.NewRunner(projections.Options{Store: store, Model: m, Projections: all})
		noErr(t, r.Start(context.Background()))
		batches := traffic(t, store, 30)
		for _, b := range batches[:10] {
			r.Push(b)
		}
		noErr(t, r.Stop(context.Background()))
		if _, at := lawtest.Dump(t, m, all[0]); at != end(batches[:10]) {
			t.Errorf("stopped at %d, pushed up to %d", at, end(batches[:10]))
		}
		r = projections.NewRunner(projections.Options{Store: store, Model: m, Projections: all})
		noErr(t, r.Start(context.Background()))
		m.set(func(f *faulty) { f.fails = -1 })
		further := traffic(t, memory.NewStore(), 90)
		r.Push(further[len(further)-1])
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := r.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("stopping with a store that fails: %v", err)
		}
	})
}

func TestRowsAheadOfTheStoreAreRebuilt(t *testing.T) {
	store, m := memory.NewStore(), newFaulty()
	batches := traffic(t, store, 60)
	r := lawtest.Start(t, projections.Options{Store: store, Model: m, Projections: all})
	noErr(t, r.WaitFor(context.Background(), end(batches)))
	shadow, err := m.Beside(context.Background(), all[1]) // an interrupted rebuild
	noErr(t, err)
	noErr(t, projections.Renew(context.Background(), store, m, all)) // nothing to do
	_, err = projections.Fold(context.Background(), store, all[1], shadow, end(batches)/2)
	noErr(t, err)
	if left := m.Shadows(); len(left) != 1 {
		t.Fatalf("shadows %v, want one", left)
	}
	restored := memory.NewStore() // from an older backup
	traffic(t, restored, 10)
	lawtest.Start(t, projections.Options{Store: restored, Model: m, Projections: all})
	sameAsReplayed(t, restored, m)
	if left := m.Shadows(); len(left) > 0 {
		t.Errorf("shadows %v are left of what may never have been", left)
	}
}

func TestProjectionsAtDifferentPlacesAreBroughtToTheSame(t *testing.T) {
	store, m := memory.NewStore(), newFaulty()
	batches := traffic(t, store, 60)
	for i, p := range all {
		r := projections.NewRunner(projections.Options{Store: upTo(store, end(batches[:8+8*i])), Model: m, Projections: []projections.Projection{p}})
		noErr(t, r.Start(context.Background()))
		noErr(t, r.Stop(context.Background()))
	}
	noErr(t, m.Reset(context.Background(), all[1]))
	lawtest.Start(t, projections.Options{Store: store, Model: m, Projections: all, RowsMax: 7})
	sameAsReplayed(t, store, m)
}

// counted counts the readings of a store.
type counted struct {
	events.Store
	reads atomic.Int64
}

// After implements events.Store.
func (c *counted) After(ctx context.Context, after events.Position, yield func(*events.Committed) bool) error {
	c.reads.Add(1)
	return c.Store.After(ctx, after, yield)
}

// past is a store as it was at an earlier position.
type past struct {
	events.Store
	until events.Position
}

func upTo(store events.Store, until events.Position) events.Store { return past{store, until} }

// Head implements events.Store.
func (p past) Head(context.Context) (events.Position, error) { return p.until, nil }

// After implements events.Store.
func (p past) After(ctx context.Context, after events.Position, yield func(*events.Committed) bool) error {
	return p.Store.After(ctx, after, func(c *events.Committed) bool { return c.Position <= p.until && yield(c) })
}
