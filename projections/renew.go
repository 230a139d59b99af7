package projections

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/events"
)

// ErrRebuilding refuses what needs rows of a projection that are still being rebuilt.
var ErrRebuilding = errors.New("projection is being rebuilt")

// stale is a projection whose stored rows are of another version and stand still until they are rebuilt.
type stale struct {
	serves bool            // the stored rows can be read by the queries of this version
	at     events.Position // of the rows that will take their place
	fault  error           // why the last try failed
}

// outdated says that rows are of another version of their projection, and may be served until they are rebuilt.
func outdated(p Projection, at Checkpoint, head events.Position) bool {
	return at.Version != 0 && at.Version != p.Version() && 0 < at.Position && at.Position <= head
}

// forgetShadows throws all shadows away when the rows of any projection are ahead of the store: it is an older one that
// was restored, and what was folded of the younger one may never have been there.
func forgetShadows(ctx context.Context, model ReadModel, list []Projection, stored []Checkpoint, head events.Position) error {
	if !slices.ContainsFunc(stored, func(c Checkpoint) bool { return c.Position > head }) {
		return nil
	}
	return discardShadows(ctx, model, list)
}

func discardShadows(ctx context.Context, model ReadModel, list []Projection) error {
	for _, p := range list {
		shadow, err := model.Beside(ctx, p)
		if err == nil {
			err = shadow.Discard()
		}
		if err != nil {
			return fmt.Errorf("remove shadow of %s: %w", p.Name(), err)
		}
	}
	return nil
}

// Forget makes the rows of projections anew, empty, and throws their shadows away: they are of a store that is no more.
func Forget(ctx context.Context, model ReadModel, list []Projection) error {
	for _, p := range list {
		if err := model.Reset(ctx, p); err != nil {
			return fmt.Errorf("projections: reset %s: %w", p.Name(), err)
		}
	}
	if err := discardShadows(ctx, model, list); err != nil {
		return fmt.Errorf("projections: %w", err)
	}
	return nil
}

// Renew rebuilds the projections whose rows are of another version. It is for whoever can not serve the old rows
// meanwhile; a Runner that starts after it has nothing left to rebuild.
func Renew(ctx context.Context, store events.Store, model ReadModel, list []Projection) error {
	stored, err := model.Checkpoints(ctx)
	if err != nil {
		return fmt.Errorf("projections: read checkpoints: %w", err)
	}
	head, err := store.Head(ctx)
	if err != nil {
		return fmt.Errorf("projections: read head: %w", err)
	}
	if err := forgetShadows(ctx, model, list, stored, head); err != nil {
		return fmt.Errorf("projections: %w", err)
	}
	for _, p := range list {
		if !outdated(p, find(stored, p.Name()), head) {
			continue
		}
		if _, err := Rebuild(ctx, store, model, p, nil); err != nil {
			return err
		}
	}
	return nil
}

// standStill leaves the rows of a projection as they are until they are rebuilt.
func (r *Runner) standStill(ctx context.Context, p Projection, at Checkpoint) error {
	serves, err := r.o.Model.Serves(ctx, p)
	if err != nil {
		return fmt.Errorf("look at the tables of %s: %w", p.Name(), err)
	}
	r.o.Logger.Info("projection is rebuilt beside its rows", "projection", p.Name(), "version", p.Version(),
		"version_stored", at.Version, "position_stored", at.Position, "served", serves)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stale[p.Name()] = &stale{serves: serves}
	return nil
}

// renew rebuilds what stands still, one projection after the other, until Stop begins.
func (r *Runner) renew() {
	defer close(r.renewed)
	for _, p := range r.o.Projections {
		for backoff := time.Duration(0); rest(r.renewing, backoff) && r.Rebuilding(p.Name()) != nil; {
			report, err := r.Rebuild(r.renewing, p.Name(), nil)
			if err == nil {
				r.o.Logger.Info("projection is rebuilt", "projection", p.Name(), "version", p.Version(),
					"rows", report.Rows, "seconds", report.Seconds, "resumed_from", report.ResumedFrom)
				break
			}
			r.failed(p, err, backoff == 0)
			if errors.Is(err, ErrArchived) { // nor will it be possible later
				break
			}
			backoff = min(max(2*backoff, backoffMin), r.o.BackoffMax)
		}
	}
}

// failed notes why a rebuild failed, unless it was only told to cease.
func (r *Runner) failed(p Projection, err error, first bool) {
	if r.renewing.Err() != nil {
		return
	}
	if first {
		r.o.Logger.Error("projection can not be rebuilt; its old rows are served", "projection", p.Name(), "error", err)
	}
	r.mu.Lock()
	if s := r.stale[p.Name()]; s != nil {
		s.fault = err
	}
	r.mu.Unlock()
}

// Rebuilt waits until no projection is being rebuilt any more that Start has found to be of another version. The error
// says why one is left.
func (r *Runner) Rebuilt(ctx context.Context) error {
	select {
	case <-r.renewed:
		return r.Rebuilding("")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Rebuilding is an error that wraps ErrRebuilding while the rows of a projection, "" for any, stand still.
func (r *Runner) Rebuilding(projection string) error {
	return r.standing(projection, func(*stale) bool { return true })
}

// Serves is an error that wraps ErrRebuilding while the rows of a projection stand still and its queries can not read them.
func (r *Runner) Serves(projection string) error {
	return r.standing(projection, func(s *stale) bool { return !s.serves })
}

func (r *Runner) standing(projection string, counts func(*stale) bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.o.Projections {
		s := r.stale[p.Name()]
		if s == nil || projection != "" && projection != p.Name() || !counts(s) {
			continue
		}
		err := fmt.Errorf("%w: %s is at %d of %d", ErrRebuilding, p.Name(), s.at, r.last)
		if s.fault != nil {
			err = fmt.Errorf("%w: %w", err, s.fault)
		}
		return err
	}
	return nil
}

// rebuildGap is how many events may be left to fold while nothing else is folded.
const rebuildGap = 2000

// Rebuild is the Rebuild of a running server. What is committed meanwhile is folded as ever; only the end of the work
// and the swap hold that up. Of several at once one runs, the others wait.
func (r *Runner) Rebuild(ctx context.Context, projection string, shadow func() (ReadModel, error)) (report Report, err error) {
	begun := time.Now()
	report.Projection = projection
	i := slices.IndexFunc(r.o.Projections, func(p Projection) bool { return p.Name() == projection })
	if i < 0 {
		return report, fmt.Errorf("rebuild: there is no projection %q", projection)
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return report, ctx.Err()
	}
	ctx, done := r.o.Board.Watch(WatchEvery(ctx, events.Position(r.o.Stride), r.saw), "rebuild", projection)
	defer done()
	rebuilt, err := shadowOf(ctx, r.o.Model, r.o.Projections[i], shadow)
	if err != nil {
		return report, err
	}
	defer release(rebuilt, &err)
	last := r.known()
	again, err := newReplay(ctx, r.o.Store, r.o.Projections[i], rebuilt, last)
	if err != nil {
		return report, err
	}
	for gap := events.Position(rebuildGap + 1); gap > rebuildGap; {
		if err := again.upTo(ctx, last); err != nil {
			return report, err
		}
		reached := last
		last = r.known()
		gap = last - reached
	}
	err = r.Exclusive(ctx, func(ctx context.Context) error {
		if err := again.swap(ctx, r.o.Model, r.folder.at, &report); err != nil {
			return err
		}
		r.swapped(i)
		return nil
	})
	if err != nil {
		return report, err
	}
	if slow := tend(ctx, r.o.Model, r.o.Projections[i]); slow != nil && ctx.Err() == nil {
		r.o.Logger.Warn("rows are read more slowly until the server looks at them by itself", "projection", projection, "error", slow)
	}
	report.finish(begun)
	return report, nil
}

// known is the highest position that was pushed or folded.
func (r *Runner) known() events.Position {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// saw notes how far a rebuild is.
func (r *Runner) saw(p Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.stale[p.Projection]; s != nil {
		s.at = p.Position
	}
}

// swapped lets a projection go on from where its new rows are. It runs in the loop.
func (r *Runner) swapped(i int) {
	r.folder.projections[i].done = r.folder.at
	r.mu.Lock()
	delete(r.stale, r.folder.projections[i].Name())
	r.mu.Unlock()
	r.note(nil)
}
