package lawtest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
)

// growing shows of a store what was committed up to a position, as it was at an earlier time.
type growing struct {
	events.Store
	until atomic.Int64
}

func upTo(s events.Store, until events.Position) *growing {
	g := &growing{Store: s}
	g.until.Store(int64(until))
	return g
}

// Head implements events.Store.
func (g *growing) Head(context.Context) (events.Position, error) {
	return events.Position(g.until.Load()), nil
}

// After implements events.Store.
func (g *growing) After(ctx context.Context, after events.Position, yield func(*events.Committed) bool) error {
	return g.Store.After(ctx, after, func(c *events.Committed) bool { return c.Last() <= events.Position(g.until.Load()) && yield(c) })
}

// flaky makes one commit and does not say so.
type flaky struct {
	projections.ReadModel
	silent atomic.Bool
}

var errSilent = errors.New("the answer was lost")

func (f *flaky) Commit(ctx context.Context, c *projections.Changes, steps []projections.Step) error {
	err := f.ReadModel.Commit(ctx, c, steps)
	if err == nil && f.silent.CompareAndSwap(true, false) {
		return errSilent
	}
	return err
}

// track is a runner on a store that grows.
type track struct {
	*law
	store *growing
	*projections.Runner
}

// follow starts a runner that has seen so many batches.
func (l *law) follow(t *testing.T, m projections.ReadModel, batches int) *track {
	g := upTo(l.store, 0)
	o := l.options(m)
	o.Store = g
	o.RowsMax += 50 // a model in a server is slow to commit
	k := &track{law: l, store: g, Runner: projections.NewRunner(o)}
	for _, b := range l.batches[:batches] {
		g.until.Store(int64(b[len(b)-1].Last()))
	}
	must(t, k.Start(context.Background()))
	return k
}

// give commits and pushes batches, and has them written.
func (k *track) give(batches [][]*events.Committed) error {
	for _, b := range batches {
		k.store.until.Store(int64(b[len(b)-1].Last()))
		k.Push(b)
	}
	return k.Flush(context.Background())
}

// setBack puts rows and checkpoints of an earlier moment under a runner, as a server does that fails over to a replica which
// lacks the last commits, or whoever restores a copy.
func (l *law) setBack(t *testing.T) {
	ctx := context.Background()
	only := l.rand.IntN(2) == 0 // the first projection, else all
	m, was := l.Model(t), l.Model(t)
	n := len(l.batches)
	k, early := l.follow(t, m, n/4), l.follow(t, was, n/3)
	must(t, early.Stop(ctx))
	must(t, k.give(l.batches[n/4:n*2/3]))
	must(t, k.Exclusive(ctx, func(ctx context.Context) error {
		for i, p := range l.Projections {
			if only && i > 0 {
				continue
			}
			s, err := was.Snapshot(ctx)
			must(t, err)
			at, err := s.Checkpoint(p.Name())
			must(t, err)
			if err := m.Replace(ctx, p, s, at); err != nil {
				return err
			}
			must(t, s.Close())
		}
		return nil
	}))
	must(t, k.give(l.batches[n*2/3:]))
	must(t, k.Stop(ctx))
	l.same(t, m)
}

// unknownFate folds more between a commit whose answer was lost and its repetition.
func (l *law) unknownFate(t *testing.T) {
	m := &flaky{ReadModel: l.Model(t)}
	n := len(l.batches)
	k := l.follow(t, m, n/3)
	m.silent.Store(true)
	if err := k.give(l.batches[n/3 : n/2]); !errors.Is(err, errSilent) {
		t.Errorf("a commit without an answer: %v", err)
	}
	for _, b := range l.batches[n/2:] {
		k.store.until.Store(int64(b[len(b)-1].Last()))
		k.Push(b)
	}
	must(t, k.Stop(context.Background()))
	l.same(t, m)
}

// ousted lets two runners write the same rows: the one that comes too late stops, and says why.
func (l *law) ousted(t *testing.T) {
	ctx := context.Background()
	m := l.Model(t)
	n := len(l.batches)
	late := l.follow(t, m, n/3)
	other := l.follow(t, m, n/3)
	must(t, other.give(l.batches[n/3:n/2]))
	for range 2 {
		if err := late.give(l.batches[n/3 : n*2/3]); !errors.Is(err, projections.ErrOtherWriter) {
			t.Errorf("behind another writer: %v", err)
		}
	}
	if err := late.Err(); !errors.Is(err, projections.ErrOtherWriter) {
		t.Errorf("the runner says %v", err)
	}
	must(t, other.give(l.batches[n/2:]))
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_ = late.Stop(ended) // its rows can not be written
	must(t, other.Stop(ctx))
	l.same(t, m)
}
