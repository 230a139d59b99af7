package projections

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock/penstock/events"
)

// WaitFor returns when all rows tell the events up to the position. It makes the runner write at once. A write that
// fails meanwhile is its error; the runner goes on trying.
func (r *Runner) WaitFor(ctx context.Context, position events.Position) error {
	r.mu.Lock()
	r.wanted = max(r.wanted, position)
	before := r.faults
	r.mu.Unlock()
	for {
		r.mu.Lock()
		stored, started, faults, fault, settled := r.stored, r.started, r.faults, r.fault, r.settled
		r.mu.Unlock()
		switch {
		case started && stored >= position:
			return nil
		case faults > before && fault != nil:
			return fmt.Errorf("projections are at %d, not at %d: %w", stored, position, fault)
		}
		signal(r.wake)
		signal(r.hurry)
		if err := r.await(ctx, settled, position); err != nil {
			return err
		}
	}
}

// await waits for the end of a try. One that did not reach the position had begun before it was asked for, and another one
// follows by itself; or it met a store that does not have it yet, so the next one is asked for a linger later.
func (r *Runner) await(ctx context.Context, settled <-chan struct{}, position events.Position) error {
	select {
	case <-settled:
	case <-ctx.Done():
		return ctx.Err()
	case <-r.done:
		return r.afterEnd(position)
	}
	timer := time.NewTimer(r.o.Linger)
	defer timer.Stop()
	for {
		next, reached := r.reached(position)
		if reached {
			return nil
		}
		select {
		case <-next:
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-r.done:
			return r.afterEnd(position)
		}
	}
}

// reached says that waiting on would be in vain: the rows are there, or the last try failed. Else next tells of the end of
// another one.
func (r *Runner) reached(position events.Position) (next <-chan struct{}, reached bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.settled, r.stored >= position || r.fault != nil
}

func (r *Runner) afterEnd(position events.Position) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stored >= position {
		return nil
	}
	return ErrStopped
}

// Flush writes what was pushed until now.
func (r *Runner) Flush(ctx context.Context) error {
	r.mu.Lock()
	last := r.last
	r.mu.Unlock()
	return r.WaitFor(ctx, last)
}

// Exclusive runs f between two writes, with every folded fact stored. Nothing is folded until it returns.
func (r *Runner) Exclusive(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.life, cancel)()
	j := job{ctx: ctx, do: f, done: make(chan error, 1)}
	select {
	case r.jobs <- j:
		return <-j.done
	case <-ctx.Done():
		return ctx.Err()
	case <-r.done:
		return ErrStopped
	}
}
