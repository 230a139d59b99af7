package projections

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/penstock/penstock/events"
)

// Progress says how far a replay is, or something else that takes long.
type Progress struct {
	Projection string          // or what is done
	Part       string          // of it, such as a day; "" when there are none
	Unit       string          // of what is counted; "" is events
	From       events.Position // where it began, or went on; 0 is the start
	Position   events.Position // folded and written
	To         events.Position // where it ends
}

// CatchingUp is the name in the progress of a Runner that brings its projections to the head.
const CatchingUp = "read models"

type watchKey struct{}

type watcher struct {
	tell   func(Progress)
	stride events.Position
}

// Watch lets f know of the progress of replays that run in the context, after each of their commits. f is called by the
// goroutine that folds, and holds it up. Whoever watches in the context already is told as well.
func Watch(ctx context.Context, f func(Progress)) context.Context { return WatchEvery(ctx, 0, f) }

// WatchEvery is Watch for replays that commit at least once in so many events, which is also what an interruption costs;
// 0 is 100,000.
func WatchEvery(ctx context.Context, stride events.Position, f func(Progress)) context.Context {
	outer, _ := ctx.Value(watchKey{}).(watcher)
	both := f
	if outer.tell != nil {
		both = func(p Progress) { f(p); outer.tell(p) }
	}
	return context.WithValue(ctx, watchKey{}, watcher{both, cmp.Or(stride, outer.stride)})
}

// Tell lets whoever watches in the context know how far something else is that reads the events in order.
func Tell(ctx context.Context, p Progress) { tell(ctx, p) }

func tell(ctx context.Context, p Progress) {
	if w, ok := ctx.Value(watchKey{}).(watcher); ok {
		w.tell(p)
	}
}

func strideOf(ctx context.Context) events.Position {
	w, _ := ctx.Value(watchKey{}).(watcher)
	return cmp.Or(w.stride, replayStride)
}

// Board keeps the progress of the replays that run at the moment. The zero value is empty.
type Board struct {
	mu      sync.Mutex
	entries []*Running
}

// Running is a replay that runs.
type Running struct {
	Progress
	Kind  string // what is done: "rebuild", "verify", "until", "reprice" or "books"
	Begun time.Time
}

// PerSecond is how many positions are passed in a second, 0 when nothing is known yet.
func (r *Running) PerSecond(now time.Time) float64 {
	seconds := now.Sub(r.Begun).Seconds()
	if seconds <= 0 || r.Position <= r.From {
		return 0
	}
	return float64(r.Position-r.From) / seconds
}

// Left is how long the rest takes at that rate, 0 when nothing is known.
func (r *Running) Left(now time.Time) time.Duration {
	rate := r.PerSecond(now)
	if rate == 0 {
		return 0
	}
	return time.Duration(float64(max(0, r.To-r.Position)) / rate * float64(time.Second))
}

// Watch enters one replay of a projection into the board; done takes it off. No board (nil) takes no entries.
func (b *Board) Watch(ctx context.Context, kind, projection string) (_ context.Context, done func()) {
	if b == nil {
		return ctx, func() {}
	}
	entry := &Running{Kind: kind, Begun: time.Now(), Progress: Progress{Projection: projection}}
	b.mu.Lock()
	b.entries = append(b.entries, entry)
	b.mu.Unlock()
	ctx = Watch(ctx, func(p Progress) {
		b.mu.Lock()
		defer b.mu.Unlock()
		entry.Progress = p
	})
	return ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.entries = slices.DeleteFunc(b.entries, func(e *Running) bool { return e == entry })
	}
}

// Running are the replays that run, in the order in which they began.
func (b *Board) Running() []Running {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]Running, len(b.entries))
	for i, e := range b.entries {
		list[i] = *e
	}
	return list
}
