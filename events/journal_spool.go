package events

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// With a spool, an outage of the store goes like this.
//
// A commit fails, or takes longer than storeMax. Nothing of its group is refused: nobody may know whether it was stored
// (the connection was lost while it was under way). The group goes to the spool as it is, and whatever comes after it comes
// behind it. An append counts as committed when its frame is on disk: whoever waits for it goes on, and an end gives its
// room back. Its position is given, and it is pushed to the projections, when the spool is drained.
//
// What the doubt comes to, once the store answers again:
//
//   - The group was not stored: it is stored now, in order.
//   - It was: its rows come again with the content that they have in the store. Those with a version are answered with their
//     positions; those that the store numbers are found by the store, or by resolve.
//   - The commit is still under way at the server: the store's next append waits for it, or for its end.
//   - A part was, which no store does: each append is answered for itself.
//   - A group of the spool fails: it is retried in the same way, before what comes behind it.
//   - The process dies: Spool.Drain begins at the first frame that is on disk, and tells what is stored in the same way. A
//     frame that was not whole had not been waited for by anybody.
//   - A request began in the store and goes on in the spool: it numbers its rows itself, and its first rows are in the store,
//     or in front of it in the spool.
//   - A change of the configuration is refused, also when it was in the group that failed: it can not come into force before
//     it has a position. It may have been stored then, as whoever asked for it is told by the error; the catalogue reads
//     itself again before the next change.
//
// The spool is written by the journal's writer and read by a goroutine of its own. When the store is back the writer lets what
// comes wait a little, so that the spool gets shorter under any load. When it is empty, the writer goes back to the store
// and the files are removed.
//
// When the disk fails as well, it is as without a spool: what may be refused is refused, what must be kept waits in memory,
// behind what is in the spool. The disk is tried again in the next outage.

// storeMax bounds a commit that is waited for, where there is a spool to go to.
const storeMax = 2 * time.Second

// errDraining refuses changes of the configuration while the spool holds what came before them.
var errDraining = fmt.Errorf("%w: what came during an outage is being stored", ErrUnavailable)

// diversion is the way around a store that has failed. The zero value has no spool.
type diversion struct {
	spool *Spool
	on    atomic.Bool           // appends go to the spool
	fault atomic.Pointer[error] // of the disk, in this outage

	doubtful int // so many appends in front of the backlog may be stored; the writer's, 0 once they have left it

	more  chan struct{} // capacity 1: the spool has got something
	moved chan struct{} // capacity 1: a group of it is stored, or has failed
}

// nameStore lets the spool know the name that the store has got with its first commit, see Spool.belongsTo. While it fails the next
// commit asks again.
func (j *Journal) nameStore() {
	if sp := j.aside.spool; sp != nil && !sp.named() {
		ctx, done := j.storeContext()
		defer done()
		if err := sp.belongsTo(ctx, j.store); err != nil {
			j.log.Warn("the spool does not know its event store yet", "error", err)
		}
	}
}

// works says that there is a spool and that its disk has not failed.
func (d *diversion) works() bool { return d.spool != nil && d.fault.Load() == nil }

// Diverted is nil while appends go to the store, else an error that wraps ErrUnavailable: configuration can not be changed,
// and the projections lack what is in the spool.
func (j *Journal) Diverted() error {
	if err := j.Fault(); err != nil {
		return err
	}
	if j.aside.on.Load() {
		return errDraining
	}
	return nil
}

// Refusal is why no request is taken in, nil while they are. It wraps ErrUnavailable.
func (j *Journal) Refusal() error {
	if !j.aside.on.Load() {
		return j.Fault()
	}
	if p := j.aside.fault.Load(); p != nil {
		return *p
	}
	if full, _ := j.aside.spool.full(); full {
		return errSpoolFull
	}
	return nil
}

// refuses is why an append can not be taken to where appends go now. For one that must be kept it means that it waits in
// memory.
func (j *Journal) refuses(e *entry) error {
	if !j.aside.on.Load() {
		return j.Fault()
	}
	if p := j.aside.fault.Load(); p != nil {
		return *p
	}
	if e.mode != May {
		return nil
	}
	if !spoolable(&e.Append) {
		return j.Diverted()
	}
	if _, over := j.aside.spool.full(); over {
		return errSpoolFull
	}
	return nil
}

// spooledStreams are those that appends which may be refused go to the spool for.
var spooledStreams = []string{RequestStreams, "upstream/", "account/", "node/"}

func spoolable(a *Append) bool {
	return len(a.Secrets) == 0 && !slices.ContainsFunc(a.Rows, func(r Row) bool {
		return !slices.ContainsFunc(spooledStreams, func(prefix string) bool { return strings.HasPrefix(r.Stream, prefix) })
	})
}

// divert is the writer's life during an outage, after the first so many appends of the backlog have failed. It returns true
// when the store has everything; what has come meanwhile is in the backlog. false: the journal was closed.
func (j *Journal) divert(failed int) bool {
	d := &drainer{store: j.store, spool: j.aside.spool, low: j.open.lowest, doubtful: int64(failed)}
	j.toSpool(len(j.backlog))
	ctx, stop := context.WithCancel(j.life)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		j.drain(ctx, d)
	}()
	back := j.awaitDrain()
	stop()
	<-drained
	if back {
		j.undivert()
	}
	return back
}

// drainPace is how long what comes waits for the spool to get shorter.
const drainPace = 250 * time.Millisecond

// awaitDrain writes what comes to the spool until it is empty and the store well (true), or the journal closed (false).
// While the store is well no more is written than half of what it takes, so that the end comes whatever the load; and
// nothing any more when only a group is left.
func (j *Journal) awaitDrain() bool {
	late := time.NewTimer(drainPace)
	defer late.Stop()
	spent, credit := j.aside.spool.takenOut(), int64(0)
	for {
		most := 0
		select {
		case <-j.wake:
		case <-j.aside.moved:
		case <-late.C: // the store is slow, or about to fail again
			most = max(1, j.batchMax/2)
			late.Reset(drainPace)
		case <-j.life.Done():
			j.take()
			j.toSpool(len(j.backlog))
			j.giveUp()
			return false
		}
		j.take()
		out := j.aside.spool.takenOut()
		credit, spent = credit+out-spent, out
		switch left, well := j.aside.spool.Len(), j.fault.Load() == nil; {
		case well && left == 0:
			return true
		case !well:
			most, credit = len(j.backlog), 0
		case left > int64(j.batchMax):
			most = max(most, int(credit/2))
		}
		if n := j.toSpool(most); n > 0 {
			credit = max(0, credit-2*int64(n))
			late.Reset(drainPace)
		}
		if j.fault.Load() != nil && j.idleClosed() {
			if left := j.aside.spool.Len(); left > 0 {
				j.log.Warn("the next start stores what is in the spool", "appends", left)
			}
			return false
		}
	}
}

// idleClosed says that Close was called and nothing is left, but maybe in the spool.
func (j *Journal) idleClosed() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.closed && len(j.queue) == 0 && len(j.backlog) == 0
}

// undivert goes back to the store.
func (j *Journal) undivert() {
	if err := j.aside.spool.clear(); err != nil {
		j.log.Error("a file of the spool can not be removed", "error", err)
	}
	j.aside.fault.Store(nil)
	j.aside.on.Store(false)
	j.mu.Lock()
	j.passed(j.frontier(j.backlog))
	j.mu.Unlock()
	j.log.Info("the spool is stored")
}

// toSpool writes the first so many appends of the backlog to the spool, and says how many have left it. What must be kept
// and cannot be written stays there.
func (j *Journal) toSpool(most int) int {
	n := min(most, len(j.backlog))
	if n == 0 {
		return 0
	}
	taken, doubtful, tried := make([]entry, 0, n), j.aside.doubtful, 0
	j.aside.doubtful = 0
	for i := range n {
		e := &j.backlog[i]
		err := j.refuses(e)
		switch {
		case err == nil || e.mode != May:
			taken = append(taken, *e)
			if i < doubtful {
				tried++
			}
		case e.pending == nil:
		case i < doubtful:
			j.open.mayHold(&e.Append)
			e.pending.result <- Result{Err: fmt.Errorf("%w: %w", ErrInDoubt, err)}
		default:
			e.pending.result <- Result{Err: err}
		}
	}
	if j.aside.works() && len(taken) > 0 {
		if err := j.aside.spool.write(taken); err != nil {
			err = unavailable(err)
			j.aside.fault.Store(&err)
			j.log.Error("the spool can not be written, appends are kept in memory", "error", err)
		}
	}
	if p := j.aside.fault.Load(); p != nil {
		j.backlog = slices.Replace(j.backlog, 0, n, taken...)
		err := *p
		if tried > 0 {
			err = fmt.Errorf("%w: %w", ErrInDoubt, err)
		}
		j.refuse(err, tried)
		return n
	}
	for _, e := range taken {
		if e.mode == Last {
			j.used.Add(-1)
		}
		if e.pending != nil {
			e.pending.result <- Result{}
		}
	}
	j.backlog = slices.Delete(j.backlog, 0, n)
	j.mu.Lock()
	j.held = len(j.backlog)
	j.mu.Unlock()
	raise(j.aside.more)
	return n
}

// drain carries the spool into the store until it is stopped.
func (j *Journal) drain(ctx context.Context, d *drainer) {
	retry := retryMin
	for ctx.Err() == nil {
		if j.drainOne(ctx, d) != nil {
			sleep(ctx, retry)
			retry = min(2*retry, retryMax)
			continue
		}
		retry = retryMin
		if j.aside.spool.Len() > 0 {
			continue
		}
		select {
		case <-j.aside.more:
		case <-ctx.Done():
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// drainOne stores one group, or finds out whether the store is well when there is none.
func (j *Journal) drainOne(ctx context.Context, d *drainer) error {
	defer raise(j.aside.moved)
	group, results, err := d.step(ctx, j.batchMax)
	if err == nil && len(group) == 0 && j.fault.Load() != nil {
		err = j.store.Probe(ctx)
	}
	if err != nil {
		j.note(unavailable(err))
		return err
	}
	j.recovered()
	if len(group) == 0 {
		return nil
	}
	entries := make([]entry, len(group))
	for i := range group {
		entries[i].Append = group[i].Append
		if results[i].Err != nil {
			logRefused(j.log, group[i].Append, results[i].Err)
		}
	}
	j.handOn(entries, results)
	j.mu.Lock()
	j.passed(group[len(group)-1].n)
	j.mu.Unlock()
	return nil
}

// storeContext bounds a commit where there is a spool to go to.
func (j *Journal) storeContext() (context.Context, context.CancelFunc) {
	if !j.aside.works() {
		return j.life, func() {}
	}
	return context.WithTimeout(j.life, storeMax)
}
