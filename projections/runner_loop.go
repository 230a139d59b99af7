package projections

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock/penstock/events"
)

// backoffMin is the wait after the first failed try.
const backoffMin = 50 * time.Millisecond

// loop folds and writes until Stop.
func (r *Runner) loop() {
	defer close(r.done)
	var backoff time.Duration
	for {
		if !r.idle(backoff) {
			r.finish(backoff)
			return
		}
		backoff = r.try(backoff)
	}
}

// idle waits until there is something to do: until something is queued and the linger is over, or, after a failed
// try, for the back-off. false means that the runner is to stop.
func (r *Runner) idle(backoff time.Duration) bool {
	wait := backoff
	if backoff == 0 {
		select {
		case <-r.wake:
		case j := <-r.jobs:
			return r.job(j)
		case <-r.stop:
			return false
		}
		wait = r.o.Linger
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case <-r.hurry:
			if backoff == 0 { // a store that fails is not asked more often because somebody waits
				return true
			}
		case j := <-r.jobs:
			return r.job(j)
		case <-r.stop:
			return false
		}
	}
}

// job brings everything to rest and runs it.
func (r *Runner) job(j job) bool {
	err := r.work(r.life)
	r.note(err)
	r.tellSpoiled()
	if err == nil {
		err = j.do(j.ctx)
	}
	j.done <- err
	return true
}

// try works once and returns the back-off until the next try, 0 after a success.
func (r *Runner) try(backoff time.Duration) time.Duration {
	err := r.work(r.life)
	r.note(err)
	r.tellSpoiled()
	if err == nil {
		if backoff > 0 {
			r.o.Logger.Info("projections go on", "position", r.folder.at)
		}
		return 0
	}
	if backoff == 0 {
		r.o.Logger.Error("projections are held up", "position", r.folder.at, "error", err)
	}
	return min(max(2*backoff, backoffMin), r.o.BackoffMax)
}

// finish writes the rest, again and again until it succeeds or Stop gives up.
func (r *Runner) finish(backoff time.Duration) {
	for backoff = r.try(backoff); backoff > 0 && rest(r.life, backoff); {
		backoff = r.try(backoff)
	}
}

// rest waits; false means that the context has ended.
func rest(ctx context.Context, d time.Duration) bool {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

// work folds everything that is queued or known to be stored, and commits. After an error what is not folded yet is
// read from the store by the next call. When the stored rows turn out not to be those that were written last, it begins from
// what they are.
func (r *Runner) work(ctx context.Context) error {
	if r.ousted != nil {
		return r.ousted
	}
	err := r.pass(ctx)
	if errors.Is(err, ErrCheckpoint) {
		if err = r.comeBack(ctx, err); err == nil {
			err = r.pass(ctx)
		}
	}
	return err
}

func (r *Runner) pass(ctx context.Context) error {
	queue, last := r.take()
	for _, c := range queue {
		if err := r.fold(ctx, c); err != nil {
			return err
		}
	}
	if err := r.catchUp(ctx, last); err != nil {
		return err
	}
	return r.commit(ctx)
}

// fold folds one queued row, after those before it that were not queued.
func (r *Runner) fold(ctx context.Context, c *events.Committed) error {
	if c.Position > r.folder.at+1 {
		if err := r.catchUp(ctx, c.Position-1); err != nil {
			return err
		}
	}
	if err := r.makeRoom(ctx); err != nil {
		return err
	}
	if err := r.folder.row(ctx, c); err != nil {
		return fmt.Errorf("read the story of %s: %w", c.Stream, err)
	}
	return nil
}

// catchUp reads rows from the store up to the position, as far as it has them.
func (r *Runner) catchUp(ctx context.Context, to events.Position) error {
	if r.folder.at >= to {
		return nil
	}
	defer r.folder.drop()
	for more := true; more && r.folder.at < to; {
		if err := r.makeRoom(ctx); err != nil {
			return err
		}
		var err error
		if more, err = r.folder.pull(ctx, to, r.o.RowsMax); err != nil {
			return fmt.Errorf("read events after %d: %w", r.folder.at, err)
		}
	}
	return nil
}

// makeRoom commits when enough rows are changed.
func (r *Runner) makeRoom(ctx context.Context) error {
	if r.folder.out.Len() < r.o.RowsMax {
		return nil
	}
	return r.commit(ctx)
}

func (r *Runner) commit(ctx context.Context) error {
	if err := r.folder.commit(ctx, r.o.Model); err != nil {
		r.tried = append(r.tried, r.folder.at)
		return fmt.Errorf("write rows up to %d: %w", r.folder.at, err)
	}
	r.tried = r.tried[:0]
	return nil
}

// take empties the queue.
func (r *Runner) take() ([]*events.Committed, events.Position) {
	r.mu.Lock()
	defer r.mu.Unlock()
	queue := r.queue
	r.queue = nil
	return queue, max(r.last, r.wanted)
}

// note publishes what became of a try and wakes those who wait.
func (r *Runner) note(err error) {
	lags := make([]Lag, 0, len(r.folder.projections))
	stored := maxPosition
	for _, p := range r.folder.projections {
		lags = append(lags, Lag{Name: p.Name(), Position: p.done})
		stored = min(stored, p.done)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lags, r.fault = lags, err
	r.stored = stored
	if err != nil {
		r.faults++
	}
	r.last = max(r.last, r.folder.at)
	close(r.settled)
	r.settled = make(chan struct{})
}
