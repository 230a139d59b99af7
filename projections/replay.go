package projections

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/events"
)

// replayRows is how many changed rows a replay gathers before it writes them.
const replayRows = 32768

// replay folds one projection into a read model of its own.
type replay struct {
	p    Projection
	fold *folder
	into ReadModel
}

// newReplay begins with the closings whose events had been taken away at the position. Nothing may be taken away while
// it goes on.
func newReplay(ctx context.Context, store events.Store, p Projection, into ReadModel, at events.Position) (*replay, error) {
	r := &replay{p: p, fold: newFolder(store, []tracked{{Projection: p}}), into: into}
	g, err := removedBy(ctx, store, at)
	if err == nil {
		err = r.fold.begin(ctx, g)
	}
	if err != nil {
		return nil, fmt.Errorf("replay %s: %w", p.Name(), err)
	}
	return r, nil
}

// upTo goes on until everything up to the position is folded and written.
func (r *replay) upTo(ctx context.Context, position events.Position) error {
	defer r.fold.drop()
	for more := true; more; {
		var err error
		if more, err = r.fold.pull(ctx, position, replayRows); err != nil {
			return fmt.Errorf("replay %s: read events after %d: %w", r.p.Name(), r.fold.at, err)
		}
		if err := r.fold.commit(ctx, r.into); err != nil {
			return fmt.Errorf("replay %s: write rows up to %d: %w", r.p.Name(), r.fold.at, err)
		}
		tell(ctx, Progress{Projection: r.p.Name(), Position: r.fold.at, To: position})
	}
	return nil
}

// Fold folds the events up to the position, 0 for the head, into an empty read model with the tables of the projection:
// its rows as they stood then. Rows of the report are not counted.
func Fold(ctx context.Context, store events.Store, p Projection, into ReadModel, to events.Position) (report Report, err error) {
	begun := time.Now()
	report.Projection = p.Name()
	if to == 0 {
		if to, err = store.Head(ctx); err != nil {
			return report, fmt.Errorf("fold %s: %w", p.Name(), err)
		}
	}
	if err := whole(ctx, store, to); err != nil {
		return report, fmt.Errorf("fold %s: %w", p.Name(), err)
	}
	again, err := newReplay(ctx, store, p, into, to)
	if err != nil {
		return report, err
	}
	if err := again.upTo(ctx, to); err != nil {
		return report, err
	}
	report.Events = again.fold.facts
	report.finish(begun)
	return report, nil
}

// whole refuses a position before which events lie that were there at the time and have been taken away since.
func whole(ctx context.Context, store events.Store, at events.Position) error {
	then, err := removedBy(ctx, store, at)
	if err != nil {
		return err
	}
	now, err := removedBy(ctx, store, maxPosition)
	if err != nil {
		return err
	}
	for _, s := range now.spans {
		if s.First <= int64(at) && !slices.Contains(then.spans, s) {
			return fmt.Errorf("%w after position %d", ErrArchived, at)
		}
	}
	return nil
}

// Verify folds all events again into a shadow, up to where the living rows are, and compares both row by row inside
// one snapshot of the living ones. Neither is held in memory. shadow opens an empty read model with the tables of
// the projection; it is closed at the end.
func Verify(ctx context.Context, store events.Store, live ReadModel, p Projection, shadow func() (ReadModel, error)) (report Report, err error) {
	begun := time.Now()
	report.Projection = p.Name()
	lived, err := live.Snapshot(ctx)
	if err != nil {
		return report, fmt.Errorf("verify %s: %w", p.Name(), err)
	}
	defer closing(lived, &err)
	at, err := lived.Checkpoint(p.Name())
	if err != nil {
		return report, fmt.Errorf("verify %s: %w", p.Name(), err)
	}
	if at.Position > 0 && at.Version != p.Version() {
		return report, fmt.Errorf("verify %s: its rows are of version %d, this program makes version %d: rebuild it first",
			p.Name(), at.Version, p.Version())
	}
	rebuilt, err := shadow()
	if err != nil {
		return report, fmt.Errorf("verify %s: open shadow: %w", p.Name(), err)
	}
	defer closing(rebuilt, &err)
	again, err := newReplay(ctx, store, p, rebuilt, at.Position)
	if err != nil {
		return report, err
	}
	if err := again.upTo(ctx, at.Position); err != nil {
		return report, err
	}
	report.Events = again.fold.facts
	fresh, err := rebuilt.Snapshot(ctx)
	if err != nil {
		return report, fmt.Errorf("verify %s: %w", p.Name(), err)
	}
	defer closing(fresh, &err)
	for _, t := range p.Tables() {
		if err := compare(ctx, t, lived, fresh, &report); err != nil {
			return report, fmt.Errorf("verify %s: table %s: %w", p.Name(), t.Name, err)
		}
	}
	report.finish(begun)
	return report, nil
}

// Rebuild folds all events again into a shadow and then swaps the living rows for its rows, with the checkpoint. Nobody
// else may write the projection meanwhile: a running server does it with Runner.Rebuild.
func Rebuild(ctx context.Context, store events.Store, live ReadModel, p Projection, shadow func() (ReadModel, error)) (report Report, err error) {
	begun := time.Now()
	report.Projection = p.Name()
	rebuilt, err := shadow()
	if err != nil {
		return report, fmt.Errorf("rebuild %s: open shadow: %w", p.Name(), err)
	}
	defer closing(rebuilt, &err)
	head, err := store.Head(ctx)
	if err != nil {
		return report, fmt.Errorf("rebuild %s: %w", p.Name(), err)
	}
	again, err := newReplay(ctx, store, p, rebuilt, head)
	if err != nil {
		return report, err
	}
	if err := again.swap(ctx, live, head, &report); err != nil {
		return report, err
	}
	report.finish(begun)
	return report, nil
}

// Rebuild is the Rebuild of a running server. What is committed meanwhile is folded as ever; only the end of the work
// and the swap hold that up.
func (r *Runner) Rebuild(ctx context.Context, projection string, shadow func() (ReadModel, error)) (report Report, err error) {
	begun := time.Now()
	report.Projection = projection
	i := slices.IndexFunc(r.o.Projections, func(p Projection) bool { return p.Name() == projection })
	if i < 0 {
		return report, fmt.Errorf("rebuild: there is no projection %q", projection)
	}
	rebuilt, err := shadow()
	if err != nil {
		return report, fmt.Errorf("rebuild %s: open shadow: %w", projection, err)
	}
	defer closing(rebuilt, &err)
	r.mu.Lock()
	stored := r.stored
	r.mu.Unlock()
	again, err := newReplay(ctx, r.o.Store, r.o.Projections[i], rebuilt, stored)
	if err != nil {
		return report, err
	}
	if err := again.upTo(ctx, stored); err != nil {
		return report, err
	}
	err = r.Exclusive(ctx, func(ctx context.Context) error {
		return again.swap(ctx, r.o.Model, r.folder.at, &report)
	})
	if err != nil {
		return report, err
	}
	report.finish(begun)
	return report, nil
}

// swap goes on to the position and replaces the living rows.
func (r *replay) swap(ctx context.Context, live ReadModel, to events.Position, report *Report) (err error) {
	if err := r.upTo(ctx, to); err != nil {
		return err
	}
	report.Events = r.fold.facts
	fresh, err := r.into.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("rebuild %s: %w", r.p.Name(), err)
	}
	defer closing(fresh, &err)
	for _, t := range r.p.Tables() {
		n, err := count(ctx, t, fresh)
		if err != nil {
			return fmt.Errorf("rebuild %s: table %s: %w", r.p.Name(), t.Name, err)
		}
		report.Rows += n
	}
	at := Checkpoint{Projection: r.p.Name(), Version: r.p.Version(), Position: to}
	if err := live.Replace(ctx, r.p, fresh, at); err != nil {
		return fmt.Errorf("rebuild %s: %w", r.p.Name(), err)
	}
	return nil
}

// finish fills in what follows from the rest.
func (r *Report) finish(begun time.Time) {
	r.Equal = r.DifferingRows == 0
	r.Seconds = time.Since(begun).Seconds()
	if r.Seconds > 0 {
		r.EventsPerSecond = int64(float64(r.Events) / r.Seconds)
	}
}

func closing(c interface{ Close() error }, err *error) {
	if closed := c.Close(); *err == nil {
		*err = closed
	}
}
