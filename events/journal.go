package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// ErrOverloaded refuses a request because too many are open for the store to take their ends in time.
var ErrOverloaded = errors.New("event store overloaded")

// ErrClosed is returned for an append to a journal that has been closed.
var ErrClosed = errors.New("journal closed")

// JournalOptions of a Journal; the zero value of a field means its default.
type JournalOptions struct {
	Store  Store
	Logger *slog.Logger
	// Push gets each committed batch, in order, decoded. It runs in the writer and must not block.
	Push func([]*Committed)
	// Rooms bounds the requests that may be open at once (default 16384): what bounds the journal's memory.
	Rooms int
	// BatchMax bounds the appends of one commit (default 512).
	BatchMax int
	Node     string // written into the facts of Record
	// Linger is how long appends that nobody waits for wait for one that is waited for, to share its commit (default
	// 2 ms; negative: not at all).
	Linger time.Duration
	// Head is the store's last position at the start.
	Head Position
	// Open are the requests that earlier processes left open, by stream, with the position of their first row.
	Open map[string]Position
	// Spool takes what comes while the store is away. It has been drained, belongs to the journal until Close has
	// returned, and is closed by the caller. Nil: see Journal.
	Spool *Spool
}

// Journal is the one writer of events on a node. The appends of all goroutines are committed in groups, in the order
// in which they came. Its queue is bounded at admission (Room): once a request has a room, none of its appends is
// refused for lack of space.
//
// When the store fails, appends go to the spool, in order, and from there to the store when it is back. Without a spool,
// those that must be kept wait in memory and are tried again until it is back; the others fail at once, and so do new rooms.
type Journal struct {
	store    Store
	log      *slog.Logger
	node     string
	push     func([]*Committed)
	rooms    int64
	batchMax int
	linger   time.Duration

	used  atomic.Int64 // rooms given
	fault atomic.Pointer[error]
	aside diversion

	mu     sync.Mutex
	queue  []entry
	hasty  int // so many in the queue are waited for
	ending int // so many others in the queue are the last of their requests
	closed bool
	wake   chan struct{} // capacity 1
	done   chan struct{} // the writer has ended

	pace pace // of what comes; owned by the writer

	life context.Context // of calls to the store; ends when Close gives up waiting
	stop context.CancelFunc

	came    int64        // appends taken in, ever; under mu
	went    int64        // the first so many of them are stored or refused; under mu
	held    int          // length of the backlog; under mu
	syncs   []syncWait   // under mu
	open    openRequests // owned by the writer
	stats   JournalStats // under mu
	taken   int64        // the last append that has reached the backlog; owned by the writer
	backlog []entry      // kept through an outage; owned by the writer, and by Close once that has ended
}

// JournalStats are counters since the start.
type JournalStats struct {
	Commits   int64 // successful
	Appends   int64
	Facts     int64
	Conflicts int64
	Faults    int64 // failed commits
	Queued    int   // appends that wait now in memory, those kept through an outage among them
	Spooling  bool  // appends go to the spool
	Spooled   int64 // appends in the spool, which wait for the store
	Rooms     int64 // in use now
}

// Mode says what becomes of an append when the store fails.
type Mode uint8

const (
	// May be refused: nothing has happened yet that the append tells of.
	May Mode = iota
	// Must be kept: it tells of something that has happened.
	Must
	// Last is Must, and gives back the room of its request once it is stored, or refused for good.
	Last
)

type entry struct {
	Append
	mode    Mode
	pending *Pending // nil: nobody waits
	choice  *choice  // see PutEither
	n       int64    // its place among all that came, from 1
}

// choice belongs to two appends of which one is to be stored. The writer owns it.
type choice struct{ taken bool }

// Pending is an append under way. Exactly one of Wait and Position must be called, once.
type Pending struct{ result chan Result }

var pendings = sync.Pool{New: func() any { return &Pending{result: make(chan Result, 1)} }}

// Wait returns when the append is stored, on disk in the spool, or refused. For an append that must be kept,
// ErrUnavailable means that it waits for the store in memory; during an outage it comes at once. For one that may be refused
// it means that it is not stored and never will be; with ErrInDoubt, that it is stored or never will be, and that nobody
// knows before the next append. Nothing may be done then that the append was to tell of, and what follows in its stream must be
// right in both cases: see PutEither.
func (p *Pending) Wait() error {
	_, err := p.Position()
	return err
}

// Position is Wait with the position of the append's first fact, 0 while it is in the spool. What a spool does not take
// (see spoolable) always has one.
func (p *Pending) Position() (Position, error) {
	r := <-p.result
	pendings.Put(p)
	return r.First, r.Err
}

// NewJournal starts the writer.
func NewJournal(o JournalOptions) *Journal {
	j := &Journal{
		store: o.Store, log: o.Logger, node: o.Node, push: o.Push, rooms: int64(o.Rooms), batchMax: o.BatchMax, linger: o.Linger,
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	j.life, j.stop = context.WithCancel(context.Background())
	if j.log == nil {
		j.log = slog.New(slog.DiscardHandler)
	}
	if j.push == nil {
		j.push = func([]*Committed) {}
	}
	if j.rooms == 0 {
		j.rooms = 16384
	}
	if j.batchMax == 0 {
		j.batchMax = 512
	}
	if j.linger == 0 {
		j.linger = lingerDefault
	}
	j.aside.spool, j.aside.more, j.aside.moved = o.Spool, make(chan struct{}, 1), make(chan struct{}, 1)
	j.open.init(o.Open, o.Head)
	go j.write()
	return j
}

// Room takes one request in. The room is given back by its append of mode Last, or by Leave when it came to none.
func (j *Journal) Room() error {
	if err := j.Refusal(); err != nil {
		return err
	}
	if j.used.Add(1) > j.rooms {
		j.used.Add(-1)
		return ErrOverloaded
	}
	return nil
}

// Leave gives back a room whose request appended nothing.
func (j *Journal) Leave() { j.used.Add(-1) }

// Fault is nil while the store takes appends, else an error that wraps ErrUnavailable.
func (j *Journal) Fault() error {
	if p := j.fault.Load(); p != nil {
		return *p
	}
	return nil
}

// Put appends without waiting. An append that can not be stored is logged.
func (j *Journal) Put(a Append, mode Mode) {
	if err := j.enqueue(&entry{Append: a, mode: mode}); err != nil && (mode != May || !errors.Is(err, ErrUnavailable)) {
		j.log.Error("append lost", "stream", streamOf(a), "error", err)
	}
}

// PutEither ends a request whose last append is in doubt (ErrInDoubt), without waiting. stored is its end behind that append,
// unstored its end without it. Both number their rows, so that the store takes one of the two and refuses the other, whenever
// it is asked. The room is given back as by mode Last.
func (j *Journal) PutEither(stored, unstored Append) { j.either(stored, unstored, nil) }

// StartEither is PutEither for a caller that must Wait until one of the two is stored.
func (j *Journal) StartEither(stored, unstored Append) *Pending {
	p := pendings.Get().(*Pending)
	j.either(stored, unstored, p)
	return p
}

// either appends both. p, unless nil, is told of the second, which knows of the first.
func (j *Journal) either(stored, unstored Append, p *Pending) {
	c := &choice{}
	for _, e := range []entry{{Append: stored, mode: Must, choice: c}, {Append: unstored, mode: Last, choice: c, pending: p}} {
		if err := j.enqueue(&e); err != nil {
			j.log.Error("append lost", "stream", streamOf(e.Append), "error", err)
			if e.pending != nil {
				e.pending.result <- Result{Err: err}
			}
		}
	}
}

// Start appends and returns at once; the caller must Wait.
func (j *Journal) Start(a Append, mode Mode) *Pending {
	p := pendings.Get().(*Pending)
	if err := j.enqueue(&entry{Append: a, mode: mode, pending: p}); err != nil {
		p.result <- Result{Err: err}
	}
	return p
}

// Commit appends and returns when the append is stored or refused.
func (j *Journal) Commit(a Append, mode Mode) error { return j.Start(a, mode).Wait() }

// Record appends one fact to the stream of an actor, without waiting. It never blocks.
func (j *Journal) Record(stream, upstream string, fact Fact) {
	j.RecordAt(stream, upstream, time.Now(), fact)
}

// RecordAt is Record of a fact whose moment was another one.
func (j *Journal) RecordAt(stream, upstream string, at time.Time, fact Fact) {
	j.Put(Append{Rows: []Row{{
		Stream: stream, Version: AnyVersion, Upstream: upstream, At: at.UTC(), Node: j.node, Facts: []Fact{fact},
	}}}, Must)
}

// syncWait is somebody who waits for the first n appends.
type syncWait struct {
	n    int64
	done chan struct{}
}

// Sync returns when everything that was appended before it is stored or refused, and has been handed on; what is in the
// spool is not stored.
func (j *Journal) Sync(ctx context.Context) error {
	j.mu.Lock()
	if j.went >= j.came {
		j.mu.Unlock()
		return nil
	}
	w := syncWait{j.came, make(chan struct{})}
	j.syncs = append(j.syncs, w)
	j.mu.Unlock()
	j.signal()
	select {
	case <-w.done:
		return nil
	case <-j.done:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// passed notes that the first n appends are stored or refused; the caller holds mu.
func (j *Journal) passed(n int64) {
	j.went = max(j.went, n)
	rest := j.syncs[:0]
	for _, w := range j.syncs {
		if j.went >= w.n {
			close(w.done)
		} else {
			rest = append(rest, w)
		}
	}
	j.syncs = rest
}

// Stats returns the counters.
func (j *Journal) Stats() JournalStats {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.stats
	s.Queued, s.Rooms = len(j.queue)+j.held, j.used.Load()
	if s.Spooling = j.aside.on.Load(); s.Spooling {
		s.Spooled = j.aside.spool.Len()
	}
	return s
}

// enqueue takes an append in: the queue has a copy of e, and the caller has it no more to itself. An error refuses it for
// good, and nobody has been told.
func (j *Journal) enqueue(e *entry) (err error) {
	defer func() {
		if err != nil && e.mode == Last {
			j.used.Add(-1)
		}
	}()
	if err := encode(e.Rows); err != nil {
		return err
	}
	fault := j.refuses(e)
	if fault != nil && e.mode == May {
		return fault
	}
	var told *Pending
	if fault != nil { // it is kept; nobody waits for the end of an outage
		told, e.pending = e.pending, nil
	}
	j.mu.Lock()
	if j.closed {
		e.pending = told
		j.mu.Unlock()
		return ErrClosed
	}
	j.came++
	e.n = j.came
	j.queue = append(j.queue, *e)
	// The writer sleeps through what comes behind the first append while it lingers, until there is a reason to hurry.
	wake := len(j.queue) == 1 || len(j.queue) == j.batchMax
	if e.mode == Last && e.pending == nil {
		j.ending++
	}
	if e.pending != nil {
		j.hasty++
		wake = wake || j.hasty == 1 || j.complete()
	}
	j.mu.Unlock()
	if told != nil {
		told.result <- Result{Err: fault}
	}
	if wake {
		j.signal()
	}
	return nil
}

// encode also refuses what no store takes: it would hold up all that comes behind it.
func encode(rows []Row) error {
	if len(rows) == 0 {
		return fmt.Errorf("%w: the append has no rows", ErrFact)
	}
	for i := range rows {
		if rows[i].Stream == "" {
			return fmt.Errorf("%w: row %d has no stream", ErrFact, i)
		}
		if err := Encode(&rows[i]); err != nil {
			return err
		}
	}
	return nil
}

func (j *Journal) signal() { raise(j.wake) }

// raise says that there is something to look at, on a channel of capacity 1.
func raise(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Close stores what is queued and ends the writer. During an outage it leaves it in the spool, for Spool.Drain of the next
// start. When the context ends first, the appends that could not be stored are logged and the error says how many they were.
func (j *Journal) Close(ctx context.Context) error {
	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()
	j.signal()
	select {
	case <-j.done:
	case <-ctx.Done():
		j.stop()
		<-j.done
	}
	j.stop()
	if n := len(j.backlog); n > 0 {
		return errors.Join(ctx.Err(), fmt.Errorf("%w: %d appends were not stored", ErrUnavailable, n))
	}
	return nil
}

func streamOf(a Append) string {
	if len(a.Rows) == 0 {
		return ""
	}
	return a.Rows[0].Stream
}
