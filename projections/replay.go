package projections

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/events"
)

// What a replay gathers before it writes: changed rows, or events. The latter is also what an interruption costs.
const (
	replayRows   = 32768
	replayStride = 100_000
)

// replay folds one projection into a read model of its own.
type replay struct {
	p      Projection
	fold   *folder
	into   ReadModel
	from   events.Position // up to where an interrupted one had come; 0 for one from the start
	stride events.Position
}

// newReplay goes on where an interrupted replay has left the read model. One from the start begins with the closings
// whose events had been taken away at the position. Nothing may be taken away while it goes on.
func newReplay(ctx context.Context, store events.Store, p Projection, into ReadModel, at events.Position) (*replay, error) {
	r := &replay{p: p, fold: newFolder(store, []tracked{{Projection: p}}), into: into, stride: strideOf(ctx)}
	g, err := removedBy(ctx, store, at)
	if err == nil {
		err = r.resume(ctx, &g, at)
	}
	if err == nil {
		err = r.fold.begin(ctx, g)
	}
	if err != nil {
		return nil, fmt.Errorf("replay %s: %w", p.Name(), err)
	}
	return r, nil
}

// resume takes over what is in the read model, or throws it away when it can not be gone on with.
func (r *replay) resume(ctx context.Context, g *gone, at events.Position) error {
	stored, err := r.into.Checkpoints(ctx)
	if err != nil {
		return fmt.Errorf("read checkpoint: %w", err)
	}
	c := find(stored, r.p.Name())
	if c.Position == 0 {
		return nil
	}
	if c.Version != r.p.Version() || c.Position > at || g.half(c.Position) {
		return r.into.Reset(ctx, r.p)
	}
	r.from, r.fold.projections[0].done = c.Position, c.Position
	return r.fold.prime(ctx, at)
}

// upTo goes on until everything up to the position is folded and written.
func (r *replay) upTo(ctx context.Context, position events.Position) error {
	defer r.fold.drop()
	for edge := r.fold.at; ; {
		edge = min(position, max(edge, r.fold.at)+r.stride)
		for more := true; more; {
			var err error
			if more, err = r.fold.pull(ctx, edge, replayRows); err != nil {
				return fmt.Errorf("replay %s: read events after %d: %w", r.p.Name(), r.fold.at, err)
			}
			if err := r.fold.commit(ctx, r.into); err != nil {
				return fmt.Errorf("replay %s: write rows up to %d: %w", r.p.Name(), r.fold.at, err)
			}
			tell(ctx, Progress{Projection: r.p.Name(), From: r.from, Position: max(r.fold.at, r.from), To: position})
		}
		if edge == position {
			return nil
		}
	}
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
	report.Events, report.Undecodable, report.ResumedFrom = again.fold.facts, again.fold.bad, again.from
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
		return report, fmt.Errorf("verify %s: its rows are of version %d, this program makes version %d: rebuild it first, %w",
			p.Name(), at.Version, p.Version(), ErrRebuilding)
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
	report.Events, report.Undecodable = again.fold.facts, again.fold.bad
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
// else may write the projection meanwhile: a running server does it with Runner.Rebuild. shadow nil is the one beside the
// living rows: an interrupted Rebuild is gone on with by the next one. Another shadow is only closed at the end.
func Rebuild(ctx context.Context, store events.Store, live ReadModel, p Projection, shadow func() (ReadModel, error)) (report Report, err error) {
	begun := time.Now()
	report.Projection = p.Name()
	rebuilt, err := shadowOf(ctx, live, p, shadow)
	if err != nil {
		return report, err
	}
	defer release(rebuilt, &err)
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
	_ = tend(ctx, live, p) // the rows are in their place all the same
	report.finish(begun)
	return report, nil
}

func shadowOf(ctx context.Context, live ReadModel, p Projection, shadow func() (ReadModel, error)) (rebuilt ReadModel, err error) {
	if shadow == nil {
		rebuilt, err = live.Beside(ctx, p)
	} else {
		rebuilt, err = shadow()
	}
	if err != nil {
		return nil, fmt.Errorf("rebuild %s: open shadow: %w", p.Name(), err)
	}
	return rebuilt, nil
}

// release ends a rebuild: what failed is kept, to be gone on with.
func release(rebuilt ReadModel, err *error) {
	shadow, kept := rebuilt.(Shadow)
	if !kept || *err != nil && !errors.Is(*err, ErrArchived) { // which no later one can do either
		closing(rebuilt, err)
		return
	}
	if failed := shadow.Discard(); failed != nil && *err == nil {
		*err = fmt.Errorf("remove shadow: %w", failed)
	}
}

// swap goes on to the position and replaces the living rows.
func (r *replay) swap(ctx context.Context, live ReadModel, to events.Position, report *Report) (err error) {
	if err := r.upTo(ctx, to); err != nil {
		return err
	}
	if r.fold.at > to {
		return fmt.Errorf("rebuild %s: the shadow is at %d, ahead of %d", r.p.Name(), r.fold.at, to)
	}
	report.Events, report.Undecodable, report.ResumedFrom = r.fold.facts, r.fold.bad, r.from
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
