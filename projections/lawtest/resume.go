package lawtest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
)

// resumed interrupts a rebuild again and again, with a restart in between.
func (l *law) resumed(t *testing.T) {
	m := l.plain(t)
	stride := l.last()/12 + 1
	for _, p := range l.Projections {
		must(t, m.Reset(context.Background(), p))
		reached := events.Position(0)
		for cuts := 3; cuts >= 0; cuts-- {
			ctx, cancel := context.WithCancel(context.Background())
			commits, last := 1+l.rand.IntN(3), reached
			watched := projections.WatchEvery(ctx, stride, func(now projections.Progress) {
				last = max(last, now.Position)
				if now.From != reached {
					t.Errorf("%s: went on from %d, it was at %d", p.Name(), now.From, reached)
				}
				if commits--; commits == 0 && cuts > 0 {
					cancel()
				}
			})
			report, err := projections.Rebuild(watched, l.store, m, p, nil)
			cancel()
			switch {
			case cuts > 0 && !errors.Is(err, context.Canceled):
				t.Fatalf("%s: %+v, %v: it was to be interrupted", p.Name(), report, err)
			case cuts == 0 && (err != nil || report.ResumedFrom != reached || reached == 0):
				t.Errorf("%s: %+v, %v: want it to have gone on from %d", p.Name(), report, err, reached)
			}
			reached = last
			if l.Reopen != nil {
				m = l.Reopen(t, m)
			}
		}
		l.nothingBeside(t, m, p)
	}
	l.same(t, m)
}

// unusable leaves a shadow that is ahead of the store.
func (l *law) unusable(t *testing.T) {
	ctx := context.Background()
	m := l.plain(t)
	p := l.Projections[0]
	shadow, err := m.Beside(ctx, p)
	must(t, err)
	var changes projections.Changes
	table := p.Tables()[0]
	changes.Put(table, sample(table, 3)...)
	ahead := projections.Step{Projection: p.Name(), Version: p.Version(), To: l.last() + 1}
	must(t, shadow.Commit(ctx, &changes, []projections.Step{ahead}))
	must(t, shadow.Close())
	report, err := projections.Rebuild(ctx, l.store, m, p, nil)
	if err != nil || report.ResumedFrom != 0 {
		t.Errorf("%+v, %v", report, err)
	}
	l.nothingBeside(t, m, p)
	l.same(t, m)

	shadow, err = m.Beside(ctx, p)
	must(t, err)
	must(t, shadow.Commit(ctx, &changes, []projections.Step{{Projection: p.Name(), Version: p.Version(), To: 5}}))
	must(t, shadow.Close())
	l.nothingBeside(t, m, newer{p}) // of another version
	l.nothingBeside(t, m, p)
}

// nothingBeside wants no shadow of a projection.
func (l *law) nothingBeside(t *testing.T, m projections.ReadModel, p projections.Projection) {
	t.Helper()
	shadow, err := m.Beside(context.Background(), p)
	must(t, err)
	if rows, at := Dump(t, shadow, p); len(rows) > 0 || at != 0 {
		t.Errorf("a shadow of %s is left: %d rows at %d", p.Name(), len(rows), at)
	}
	must(t, shadow.Discard())
}

func (l *law) last() events.Position {
	b := l.batches[len(l.batches)-1]
	return b[len(b)-1].Last()
}

// newer is a projection of a later program.
type newer struct{ projections.Projection }

// Version implements projections.Projection.
func (n newer) Version() int { return n.Projection.Version() + 1 }

// wider has a column that is not there yet.
type wider struct{ newer }

// Tables implements projections.Projection.
func (w wider) Tables() []*projections.Table {
	table := *w.newer.Tables()[0]
	table.Columns = append(slices.Clone(table.Columns), projections.Column{Name: "of_tomorrow", Kind: projections.KindInt})
	return []*projections.Table{&table}
}

// held is a read model whose shadows take some commits and then none.
type held struct {
	projections.ReadModel
	commits int

	mu    sync.Mutex
	found map[string]events.Position // where shadows stood when they were opened
}

// Beside implements projections.ReadModel.
func (h *held) Beside(ctx context.Context, p projections.Projection) (projections.Shadow, error) {
	s, err := h.ReadModel.Beside(ctx, p)
	if err != nil {
		return nil, err
	}
	stored, err := s.Checkpoints(ctx)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range stored {
		h.found[p.Name()] = c.Position
	}
	return &heldShadow{Shadow: s, left: h.commits}, nil
}

type heldShadow struct {
	projections.Shadow
	left int
}

// Commit implements projections.ReadModel.
func (h *heldShadow) Commit(ctx context.Context, c *projections.Changes, steps []projections.Step) error {
	if h.left--; h.left < 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	return h.Shadow.Commit(ctx, c, steps)
}

// superseded starts a later program over rows of an earlier one, stops it in the middle, and starts it again.
func (l *law) superseded(t *testing.T) {
	ctx := context.Background()
	m := l.Model(t)
	middle := l.batches[len(l.batches)/2][0].Position - 1
	o := l.options(m)
	o.Store = upTo(l.store, middle)
	r := projections.NewRunner(o)
	must(t, r.Start(ctx))
	must(t, r.Stop(ctx))
	p := l.Projections[l.rand.IntN(len(l.Projections))]
	before, _ := Dump(t, m, p)
	list := slices.Clone(l.Projections)
	list[slices.Index(list, p)] = newer{p}

	o = l.options(nil)
	o.Projections, o.Stride = list, int(l.last()/10+1)
	half := &held{ReadModel: m, commits: 2, found: map[string]events.Position{}}
	o.Model = half
	r = projections.NewRunner(o)
	must(t, r.Start(ctx))
	for _, b := range l.batches {
		r.Push(b)
	}
	must(t, r.Flush(ctx)) // though one of them is far behind
	if err := r.Rebuilding(p.Name()); !errors.Is(err, projections.ErrRebuilding) {
		t.Errorf("rebuilding: %v", err)
	}
	if err := r.Serves(p.Name()); err != nil {
		t.Errorf("serves: %v", err)
	}
	for _, lag := range r.Lag() {
		if mine := lag.Name == p.Name(); lag.Rebuilding != mine || (lag.Behind > 0) != mine {
			t.Errorf("%+v", lag)
		}
	}
	rows, at := Dump(t, m, p)
	if !slices.Equal(rows, before) || at != middle {
		t.Errorf("the old rows have changed: %d at %d, were %d at %d", len(rows), at, len(before), middle)
	}
	for lag := r.Lag(); lag[slices.Index(list, projections.Projection(newer{p}))].Position == 0; lag = r.Lag() {
		continue // until something is in the shadow
	}
	must(t, r.Stop(ctx))

	whole := &held{ReadModel: m, commits: 1 << 30, found: map[string]events.Position{}}
	o.Model = whole
	r = projections.NewRunner(o)
	must(t, r.Start(ctx))
	must(t, r.Rebuilt(ctx))
	for _, lag := range r.Lag() {
		if lag.Rebuilding || lag.Behind > 0 {
			t.Errorf("%+v", lag)
		}
	}
	must(t, r.Stop(ctx))
	if whole.found[p.Name()] == 0 {
		t.Error("the second program began from the start")
	}
	l.nothingBeside(t, m, newer{p})
	l.same(t, m)
	stored, err := m.Checkpoints(ctx)
	must(t, err)
	for _, c := range stored {
		if c.Projection == p.Name() && c.Version != p.Version()+1 {
			t.Errorf("%+v", c)
		}
	}
	for _, c := range []struct {
		of   projections.Projection
		want bool
	}{{p, true}, {newer{p}, true}, {wider{newer{p}}, false}} {
		if serves, err := m.Serves(ctx, c.of); err != nil || serves != c.want {
			t.Errorf("serves %T: %v, %v", c.of, serves, err)
		}
	}
}
