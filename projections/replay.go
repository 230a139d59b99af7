package projections

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock/penstock/events"
)

// replayRows is how many changed rows a replay gathers before it writes them.
const replayRows = 8192

// replay folds everything up to the position into an empty read model and returns the number of facts.
func replay(ctx context.Context, store events.Store, p Projection, to events.Position, into ReadModel) (int64, error) {
	f := newFolder(store, []tracked{{Projection: p}})
	for more := true; more; {
		var err error
		if more, err = f.pull(ctx, to, replayRows); err != nil {
			return f.facts, fmt.Errorf("replay %s: read events after %d: %w", p.Name(), f.at, err)
		}
		if err := f.commit(ctx, into); err != nil {
			return f.facts, fmt.Errorf("replay %s: write rows up to %d: %w", p.Name(), f.at, err)
		}
	}
	return f.facts, nil
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
	if report.Events, err = replay(ctx, store, p, at.Position, rebuilt); err != nil {
		return report, err
	}
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
func Rebuild(ctx context.Context, store events.Store, live ReadModel, p Projection, shadow func() (ReadModel, error)) (Report, error) {
	head, err := store.Head(ctx)
	if err != nil {
		return Report{Projection: p.Name()}, fmt.Errorf("rebuild %s: %w", p.Name(), err)
	}
	return rebuild(ctx, store, live, p, head, shadow)
}

func rebuild(ctx context.Context, store events.Store, live ReadModel, p Projection, to events.Position,
	shadow func() (ReadModel, error)) (report Report, err error) {
	begun := time.Now()
	report.Projection = p.Name()
	rebuilt, err := shadow()
	if err != nil {
		return report, fmt.Errorf("rebuild %s: open shadow: %w", p.Name(), err)
	}
	defer closing(rebuilt, &err)
	if report.Events, err = replay(ctx, store, p, to, rebuilt); err != nil {
		return report, err
	}
	fresh, err := rebuilt.Snapshot(ctx)
	if err != nil {
		return report, fmt.Errorf("rebuild %s: %w", p.Name(), err)
	}
	defer closing(fresh, &err)
	for _, t := range p.Tables() {
		n, err := count(ctx, t, fresh)
		if err != nil {
			return report, fmt.Errorf("rebuild %s: table %s: %w", p.Name(), t.Name, err)
		}
		report.Rows += n
	}
	at := Checkpoint{Projection: p.Name(), Version: p.Version(), Position: to}
	if err := live.Replace(ctx, p, fresh, at); err != nil {
		return report, fmt.Errorf("rebuild %s: %w", p.Name(), err)
	}
	report.finish(begun)
	return report, nil
}

// Rebuild is the Rebuild of a running server. Folding rests meanwhile; what is committed then is caught up afterwards.
func (r *Runner) Rebuild(ctx context.Context, projection string, shadow func() (ReadModel, error)) (Report, error) {
	var report Report
	for _, p := range r.o.Projections {
		if p.Name() != projection {
			continue
		}
		err := r.Exclusive(ctx, func(ctx context.Context) (err error) {
			report, err = rebuild(ctx, r.o.Store, r.o.Model, p, r.folder.at, shadow)
			return err
		})
		return report, err
	}
	return report, fmt.Errorf("rebuild: there is no projection %q", projection)
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
