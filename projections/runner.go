package projections

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/penstock/penstock/events"
)

// ErrStopped is returned by a runner that has been stopped.
var ErrStopped = errors.New("projections have stopped")

// Options of a Runner. The zero value of a field means its default.
type Options struct {
	Store       events.Store
	Model       ReadModel
	Projections []Projection
	Logger      *slog.Logger
	Linger      time.Duration // how long changes are gathered before they are stored (default 250 ms)
	QueueMax    int           // rows that wait to be folded; beyond it they are read from the store later (default 32768)
	RowsMax     int           // changed rows of one transaction, about (default 4096)
	BackoffMax  time.Duration // between tries of a failing write (default 5 s; the first comes after 50 ms)
	Board       *Board        // where rebuilds enter themselves; nil: nowhere
	Stride      int           // events between two commits of a rebuild at most, which is what an interruption costs (default 100,000)
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Linger == 0 {
		o.Linger = 250 * time.Millisecond
	}
	if o.QueueMax == 0 {
		o.QueueMax = 32768
	}
	if o.RowsMax == 0 {
		o.RowsMax = 4096
	}
	if o.BackoffMax == 0 {
		o.BackoffMax = 5 * time.Second
	}
	if o.Board == nil {
		o.Board = &Board{}
	}
	return o
}

// Lag is how far the stored rows of a projection are behind the facts that the runner knows of.
type Lag struct {
	Name     string          `json:"name"`
	Position events.Position `json:"position"`
	Behind   int64           `json:"lag"`

	// Rebuilding says that the rows are of another version and stand still; Position is that of those which will take
	// their place.
	Rebuilding bool `json:"rebuilding,omitempty"`
}

// Runner keeps the rows of its projections up with the events. One goroutine folds and writes; what it is given waits
// in a bounded queue. What does not follow on the last folded position is read from the store, so nothing that was
// dropped, delayed or committed by another node is missed.
type Runner struct {
	o Options

	folder *folder           // owned by Start, then by the loop
	tried  []events.Position // checkpoints of commits that have failed since the last one that did not; owned by the loop
	ousted error             // why nothing is written any more; owned by the loop
	bad    int64             // rows that could not be decoded since it was told; owned by Start, then by the loop

	wake  chan struct{} // something is queued
	hurry chan struct{} // somebody waits, or the queue is long: linger no longer
	jobs  chan job
	stop  chan struct{}
	done  chan struct{}
	life  context.Context // of reads and writes; ends when Stop gives up
	end   context.CancelFunc
	turn  chan struct{} // held by the one rebuild that runs

	renewing context.Context // of rebuilds that Start has begun; ends when Stop begins
	cease    context.CancelFunc
	renewed  chan struct{} // closed when they have ended

	mu      sync.Mutex
	started bool
	stopped bool
	queue   []*events.Committed
	last    events.Position // the highest that was pushed or folded
	wanted  events.Position // the highest that was waited for
	lags    []Lag           // Behind unset
	stored  events.Position // all projections are there
	fault   error
	faults  int64         // failed tries
	settled chan struct{} // closed and made anew after every try
	stale   map[string]*stale
}

// job runs in the loop, with nothing unstored.
type job struct {
	ctx  context.Context
	do   func(context.Context) error
	done chan error
}

// NewRunner does no IO. Push may be called from now on; the rest after Start.
func NewRunner(o Options) *Runner {
	r := &Runner{
		o:    o.withDefaults(),
		wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1), jobs: make(chan job),
		stop: make(chan struct{}), done: make(chan struct{}), settled: make(chan struct{}),
		turn: make(chan struct{}, 1), renewed: make(chan struct{}), stale: map[string]*stale{},
	}
	r.life, r.end = context.WithCancel(context.Background())
	r.renewing, r.cease = context.WithCancel(r.life)
	return r
}

// Start brings the projections to the head of the store and then keeps them there. It returns when the rows may be
// served. Rows that are ahead of the store, or can not be brought up to date any more, are thrown away and made anew
// first. Rows of another version stand still from now on and are rebuilt beside while the rest works; see Serves and
// Rebuilt.
func (r *Runner) Start(ctx context.Context) error {
	if r.isStopped() {
		return ErrStopped
	}
	head, err := r.place(ctx)
	if err == nil {
		err = r.toHead(ctx, head)
		r.tellSpoiled()
	}
	if err != nil {
		return fmt.Errorf("projections: %w", err)
	}
	r.note(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return ErrStopped
	}
	r.started = true
	go r.loop()
	go r.renew()
	return nil
}

// toHead folds what is stored.
func (r *Runner) toHead(ctx context.Context, head events.Position) error {
	defer r.folder.drop()
	from := r.folder.at
	for more := true; more; {
		var err error
		if more, err = r.folder.pull(ctx, maxPosition, r.o.RowsMax); err != nil {
			return fmt.Errorf("read events: %w", err)
		}
		if err := r.folder.commit(ctx, r.o.Model); err != nil {
			return fmt.Errorf("write rows: %w", err)
		}
		tell(ctx, Progress{Projection: CatchingUp, From: from, Position: r.folder.at, To: max(head, r.folder.at)})
	}
	return nil
}

// badMax is how many rows that can not be decoded are named at once; the rest is counted.
const badMax = 10

// spoil names a row that can not be decoded. Its rows lack what it says until a version that can read it makes them anew.
func (r *Runner) spoil(bad *events.DecodeError) {
	if r.bad++; r.bad <= badMax {
		r.o.Logger.Error("event can not be decoded and is passed over", "position", bad.Position, "stream", bad.Stream, "error", bad)
	}
}

// tellSpoiled says how many there were.
func (r *Runner) tellSpoiled() {
	if r.bad > 0 {
		r.o.Logger.Error("events could not be decoded and were passed over", "rows", r.bad)
	}
	r.bad = 0
}

func (r *Runner) isStopped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopped
}

const maxPosition = events.Position(1<<63 - 1)

// checkpoints reads how far each projection is and resets those whose rows can not be used. Those of another version
// stand still: they are ahead of everything that is folded.
func (r *Runner) checkpoints(ctx context.Context, removed gone, head events.Position) ([]tracked, error) {
	stored, err := r.o.Model.Checkpoints(ctx)
	if err != nil {
		return nil, fmt.Errorf("read checkpoints: %w", err)
	}
	if err := forgetShadows(ctx, r.o.Model, r.o.Projections, stored, head); err != nil {
		return nil, err
	}
	list := make([]tracked, 0, len(r.o.Projections))
	for _, p := range r.o.Projections {
		at := find(stored, p.Name())
		switch other := at.Version != 0 && at.Version != p.Version(); {
		case outdated(p, at, head):
			if err := r.standStill(ctx, p, at); err != nil {
				return nil, err
			}
			at.Position = maxPosition
		case other, at.Position > head, removed.half(at.Position):
			r.o.Logger.Info("rebuilding projection", "projection", p.Name(), "position", at.Position, "head", head,
				"version", p.Version(), "version_stored", at.Version)
			if err := r.o.Model.Reset(ctx, p); err != nil {
				return nil, fmt.Errorf("reset %s: %w", p.Name(), err)
			}
			at.Position = 0
		}
		list = append(list, tracked{Projection: p, done: at.Position})
	}
	return list, nil
}

func find(list []Checkpoint, projection string) Checkpoint {
	for _, c := range list {
		if c.Projection == projection {
			return c
		}
	}
	return Checkpoint{Projection: projection}
}

// prime places the folder so that it first meets the requests that were open at the lowest checkpoint, or at the head
// when there is none before it. What they told before is folded into their stories and emits no changes.
func (f *folder) prime(ctx context.Context, head events.Position) error {
	lowest := head
	for _, p := range f.projections {
		lowest = min(lowest, p.done)
	}
	if lowest == 0 {
		return nil
	}
	low, err := f.store.LowWater(ctx, lowest)
	if err != nil {
		return fmt.Errorf("read low water of %d: %w", lowest, err)
	}
	f.at = min(max(low-1, 0), lowest)
	return nil
}

// Push takes one committed batch, in order. It never blocks: when too much waits already, the queue is dropped and
// read from the store instead. The rows must not change any more.
func (r *Runner) Push(batch []*events.Committed) {
	if len(batch) == 0 {
		return
	}
	r.mu.Lock()
	first := len(r.queue) == 0
	if len(r.queue)+len(batch) > r.o.QueueMax {
		clear(r.queue)
		r.queue = r.queue[:0]
	} else {
		r.queue = append(r.queue, batch...)
	}
	long := len(r.queue) > r.o.QueueMax/4 || len(r.queue) == 0
	r.last = max(r.last, batch[len(batch)-1].Last())
	r.mu.Unlock()
	if first {
		signal(r.wake)
	}
	if long {
		signal(r.hurry)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Lag tells of each projection how far its stored rows are behind.
func (r *Runner) Lag() []Lag {
	r.mu.Lock()
	defer r.mu.Unlock()
	lags := make([]Lag, len(r.lags))
	for i, l := range r.lags {
		if s := r.stale[l.Name]; s != nil {
			l.Position, l.Rebuilding = s.at, true
		}
		l.Behind = int64(max(0, r.last-l.Position))
		lags[i] = l
	}
	return lags
}

// Err is why rows can not be written, events not be read or a projection not be rebuilt at the moment, nil when all is
// well.
func (r *Runner) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fault != nil {
		return r.fault
	}
	for _, s := range r.stale {
		if s.fault != nil {
			return s.fault
		}
	}
	return nil
}

// Stop writes what was pushed and ends the runner. When the context ends first, its error is returned; what is missing
// then is read from the store at the next start. A runner that was not started only ends.
func (r *Runner) Stop(ctx context.Context) error {
	r.mu.Lock()
	already, started := r.stopped, r.started
	r.stopped = true
	r.mu.Unlock()
	if !already {
		close(r.stop)
		r.cease()
		if !started {
			close(r.done)
			close(r.renewed)
		}
	}
	defer func() {
		r.end()
		<-r.renewed
	}()
	select {
	case <-r.done:
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.fault
	case <-ctx.Done():
		r.end()
		<-r.done
		return ctx.Err()
	}
}
