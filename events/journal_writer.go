package events

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"time"
)

const (
	retryMin = 20 * time.Millisecond
	retryMax = time.Second

	lingerDefault = 2 * time.Millisecond
)

// write is the writer's life: take what is queued, commit it, hand it on; keep what must be kept when the store fails.
func (j *Journal) write() {
	defer close(j.done)
	retry := retryMin
	for {
		if len(j.backlog) == 0 && j.fault.Load() == nil {
			if !j.awaitWork() {
				return
			}
		} else if !j.pause(&retry) {
			return
		}
		j.take()
		if len(j.backlog) == 0 {
			j.probe()
			continue
		}
		for len(j.backlog) > 0 {
			n := min(len(j.backlog), j.batchMax)
			if j.commit(j.backlog[:n]) {
				j.backlog = slices.Delete(j.backlog, 0, n)
				retry = retryMin
				continue
			}
			if j.aside.spool == nil {
				break
			}
			if !j.divert(n) {
				return
			}
		}
	}
}

// awaitWork blocks until something is queued and somebody waits for it, or it has lingered; false: closed and nothing
// is left. Where many come, it waits a moment for more of them.
func (j *Journal) awaitWork() bool {
	var lingered, gathered <-chan time.Time
	for {
		j.mu.Lock()
		some, closed := len(j.queue) > 0, j.closed
		hurry := closed || len(j.syncs) > 0 || len(j.queue) >= j.batchMax || j.linger < 0
		hasty, crowd := j.hasty > 0, !j.complete() && j.crowded()
		j.mu.Unlock()
		switch {
		case some && (hurry || hasty && !crowd):
			return true
		case closed:
			return false
		case some && hasty && gathered == nil:
			timer := time.NewTimer(gatherMax)
			defer timer.Stop()
			gathered = timer.C
		case some && lingered == nil:
			timer := time.NewTimer(j.linger)
			defer timer.Stop()
			lingered = timer.C
		}
		select {
		case <-j.wake:
			runtime.Gosched() // let those who are about to append join the group
		case <-lingered:
			return true
		case <-gathered:
			return true
		}
	}
}

// pause waits before the next try; false: Close has given up on what is left, or nothing is left.
func (j *Journal) pause(retry *time.Duration) bool {
	timer := time.NewTimer(*retry)
	defer timer.Stop()
	*retry = min(*retry*2, retryMax)
	for {
		if j.idleClosed() {
			return false
		}
		select {
		case <-timer.C:
			return true
		case <-j.wake: // closed, or one more to keep
		case <-j.life.Done():
			j.giveUp()
			return false
		}
	}
}

// giveUp ends the wait of those whose appends will not be stored, and logs what had to be kept.
func (j *Journal) giveUp() {
	j.take()
	j.failed(ErrClosed, 0)
	for _, e := range j.backlog {
		j.log.Error("append lost", "stream", streamOf(e.Append), "types", e.Rows[0].Types)
	}
}

// queueKept bounds the appends for which an empty queue keeps its memory, about 80 bytes each.
const queueKept = 16384

// take moves the queue to the backlog.
func (j *Journal) take() {
	j.mu.Lock()
	if n := len(j.queue); n > 0 {
		j.taken = j.queue[n-1].n
		j.pace.took(n)
	}
	j.hasty, j.ending = 0, 0
	if len(j.backlog) == 0 {
		if cap(j.backlog) > queueKept {
			j.backlog = nil
		}
		j.backlog, j.queue = j.queue, j.backlog[:0]
	} else {
		j.backlog = append(j.backlog, j.queue...)
		clear(j.queue)
		j.queue = j.queue[:0]
	}
	j.held = len(j.backlog)
	j.mu.Unlock()
}

// probe asks a store that had failed whether it is back.
func (j *Journal) probe() {
	if j.fault.Load() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(j.life, 5*time.Second)
	defer cancel()
	if err := j.store.Probe(ctx); err == nil {
		j.recovered()
	}
}

func (j *Journal) recovered() {
	if j.fault.Swap(nil) != nil {
		j.log.Info("event store available again")
	}
}

// commit stores a group; false: the store has failed. The backlog holds only what must be kept then, or everything where
// there is a spool.
func (j *Journal) commit(group []entry) bool {
	batch := make([]Append, len(group))
	for i := range group {
		batch[i] = group[i].Append
	}
	ctx, done := j.storeContext()
	results, err := j.store.Append(ctx, batch, j.open.lowest())
	done()
	if err != nil && j.aside.spool != nil {
		j.aside.on.Store(true) // before it is known that the store has failed
		if errors.Is(err, ErrInDoubt) {
			j.aside.doubtful = len(group)
		}
		j.note(unavailable(err))
		return false
	}
	if err != nil {
		j.failed(err, len(group))
		return false
	}
	j.recovered()
	j.deliver(group, results)
	j.nameStore()
	return true
}

// failed makes a failure known, refuses what may be refused and keeps the rest. The first so many appends of the backlog were
// tried.
func (j *Journal) failed(err error, tried int) {
	err = unavailable(err)
	j.note(err)
	j.refuse(err, tried)
}

// refuse refuses what may be refused, and keeps the rest, for which nobody waits any more. An error in doubt is so for the
// first so many appends only.
func (j *Journal) refuse(err error, tried int) {
	kept := j.backlog[:0]
	for i := range j.backlog {
		e := &j.backlog[i]
		if e.pending != nil {
			told := err
			if i >= tried {
				told = withoutDoubt{err}
			} else if e.mode == May && errors.Is(err, ErrInDoubt) {
				j.open.mayHold(&e.Append)
			}
			e.pending.result <- Result{Err: told}
			e.pending = nil
		}
		if e.mode != May {
			kept = append(kept, *e)
		}
	}
	clear(j.backlog[len(kept):])
	j.backlog = kept
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.held = len(kept); !j.aside.on.Load() {
		j.passed(j.frontier(kept)) // else there may be more in the spool
	}
}

// note makes a failure of the store known.
func (j *Journal) note(err error) {
	err = withoutDoubt{err}
	if j.fault.Swap(&err) == nil {
		j.log.Error("event store unavailable", "error", err)
	}
	j.mu.Lock()
	j.stats.Faults++
	j.mu.Unlock()
}

// frontier is how many appends have come before the first that is left.
func (j *Journal) frontier(left []entry) int64 {
	if len(left) > 0 {
		return left[0].n - 1
	}
	return j.taken
}

// deliver tells the projections first and then those who wait, so that whoever has seen its append stored also finds
// it in what the projections have been given.
func (j *Journal) deliver(group []entry, results []Result) {
	j.handOn(group, results)
	for i := range group {
		if group[i].mode == Last {
			j.used.Add(-1)
		}
	}
	j.mu.Lock()
	j.held -= len(group)
	j.passed(j.frontier(j.backlog[len(group):]))
	j.mu.Unlock()
	for i := range group {
		e, r := &group[i], results[i]
		if e.choice != nil {
			e.choice.taken = e.choice.taken || r.Err == nil
			if e.mode != Last || e.choice.taken { // the last speaks for both
				r = Result{}
			}
		}
		switch {
		case e.pending != nil:
			e.pending.result <- r
		case r.Err != nil:
			logRefused(j.log, e.Append, r.Err)
		}
	}
}

func logRefused(log *slog.Logger, a Append, err error) {
	log.Error("append refused", "stream", streamOf(a), "types", a.Rows[0].Types, "error", err)
}

// handOn gives a group that is stored to the projections, and counts it.
func (j *Journal) handOn(group []entry, results []Result) {
	rows, facts, conflicts := 0, 0, 0
	for i := range group {
		if results[i].Err == nil {
			rows += len(group[i].Rows)
		}
	}
	store := make([]Committed, 0, rows)
	for i := range group {
		if results[i].Err != nil {
			conflicts++
			continue
		}
		at := results[i].First
		for _, r := range group[i].Rows {
			store = append(store, Committed{Position: at, Row: r})
			j.open.saw(&store[len(store)-1])
			at += Position(len(r.Facts))
			facts += len(r.Facts)
		}
	}
	if len(store) > 0 {
		batch := make([]*Committed, len(store))
		for i := range store {
			batch[i] = &store[i]
		}
		j.push(batch)
	}
	j.mu.Lock()
	j.stats.Commits++
	j.stats.Appends += int64(len(group))
	j.stats.Facts += int64(facts)
	j.stats.Conflicts += int64(conflicts)
	j.mu.Unlock()
}

// openRequests knows the first position of every open request. first holds them in order; an entry whose request has
// ended is dropped when it reaches the front.
type openRequests struct {
	at    map[string]Position
	first []openRequest
	last  Position
}

type openRequest struct {
	stream string
	at     Position
}

func (o *openRequests) init(open map[string]Position, head Position) {
	o.last = head
	o.at = make(map[string]Position, max(64, len(open)))
	for s, p := range open {
		o.at[s] = p
		o.first = append(o.first, openRequest{s, p})
	}
	slices.SortFunc(o.first, func(a, b openRequest) int { return cmp.Compare(a.at, b.at) })
}

func (o *openRequests) saw(c *Committed) {
	o.last = max(o.last, c.Last()) // an append that was stored before comes back with its old position
	if !strings.HasPrefix(c.Stream, RequestStreams) {
		return
	}
	if c.Terminal {
		delete(o.at, c.Stream)
		return
	}
	if _, known := o.at[c.Stream]; !known && c.Version == 0 {
		o.at[c.Stream] = c.Position
		o.first = append(o.first, openRequest{c.Stream, c.Position})
	}
}

// mayHold notes the requests that an append in doubt begins, if it is stored. They are open until their end is seen.
func (o *openRequests) mayHold(a *Append) {
	for i := range a.Rows {
		r := &a.Rows[i]
		if _, known := o.at[r.Stream]; !known && r.Version == 0 && strings.HasPrefix(r.Stream, RequestStreams) {
			o.at[r.Stream] = o.last + 1
			o.first = append(o.first, openRequest{r.Stream, o.last + 1})
		}
	}
}

// lowest is the position of the first open request, or the one after the last seen fact.
func (o *openRequests) lowest() Position {
	n := 0
	for n < len(o.first) && !o.isOpen(o.first[n]) {
		n++
	}
	o.first = o.first[n:]
	if len(o.first) > 2*len(o.at)+64 { // the ended ones behind one that stays open for long
		o.first = slices.DeleteFunc(o.first, func(r openRequest) bool { return !o.isOpen(r) })
	}
	if len(o.first) > 0 {
		return o.first[0].at
	}
	return o.last + 1
}

func (o *openRequests) isOpen(r openRequest) bool {
	at, open := o.at[r.stream]
	return open && at == r.at
}
