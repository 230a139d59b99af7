package penstock

import (
	"context"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
)

// past answers for the books as they stood: from shadows that are folded up to then.
type past struct {
	store   events.Store
	backend backend
	closer  *closer
	board   *projections.Board
}

// Bill sums what the events up to the moment of the query tell.
func (p past) Bill(ctx context.Context, q billing.Query) (lines []billing.Line, err error) {
	to, err := p.position(ctx, "as_of", q)
	if err != nil {
		return nil, err
	}
	err = p.fold(ctx, "as_of", billing.Projection{}, to, func(shadow projections.ReadModel, _ projections.Report) error {
		lines, err = billed(ctx, shadow, q)
		return err
	})
	return lines, err
}

// Until says what the projections told at the moment of the query; see admin.Past.
func (p past) Until(ctx context.Context, projection string, q billing.Query) ([]admin.Standing, error) {
	to, err := p.position(ctx, "until", q)
	if err != nil {
		return nil, err
	}
	return replay(projection, func(of projections.Projection) (s admin.Standing, err error) {
		watched, done := p.board.Watch(ctx, "until", of.Name())
		defer done()
		err = p.fold(watched, "until", of, to, func(shadow projections.ReadModel, r projections.Report) error {
			s, err = standing(ctx, of, to, shadow, r)
			return err
		})
		return s, err
	})
}

func standing(ctx context.Context, of projections.Projection, to events.Position, shadow projections.ReadModel, r projections.Report) (admin.Standing, error) {
	s := admin.Standing{
		Projection: of.Name(), Until: to, Events: r.Events, Seconds: r.Seconds, EventsPerSecond: r.EventsPerSecond,
		Tables: map[string]int64{},
	}
	counts, err := projections.Count(ctx, shadow, of)
	if err != nil {
		return s, err
	}
	for name, n := range counts {
		s.Tables[name] = n
		s.Rows += n
	}
	if of.Name() == (billing.Projection{}).Name() {
		s.Lines, err = billed(ctx, shadow, billing.Query{By: []string{"key", "model"}})
	}
	return s, err
}

func billed(ctx context.Context, shadow projections.ReadModel, q billing.Query) ([]billing.Line, error) {
	reader, ok := shadow.(billing.Reader)
	if !ok {
		return nil, errors.New("the shadow read model has no bill")
	}
	return reader.Bill(ctx, q)
}

// fold makes the rows of a projection as they stood at the position and hands them on. field is what the moment is called
// where it was asked for.
func (p past) fold(ctx context.Context, field string, of projections.Projection, to events.Position, use func(projections.ReadModel, projections.Report) error) (err error) {
	p.closer.replays.RLock() // nothing is taken away meanwhile
	defer p.closer.replays.RUnlock()
	shadow, err := p.backend.openShadow(of)()
	if err != nil {
		return errors.Wrap(err, "open shadow read model")
	}
	defer func() { err = errors.CombineErrors(err, shadow.Close()) }()
	var report projections.Report
	if to > 0 {
		report, err = projections.Fold(ctx, p.store, of, shadow, to)
		if errors.Is(err, projections.ErrArchived) {
			return errors.Wrapf(billing.ErrQuery, "%s: %v", field, err)
		}
		if err != nil {
			return err
		}
	}
	return use(shadow, report)
}

// position is that of the last fact that was there.
func (p past) position(ctx context.Context, field string, q billing.Query) (events.Position, error) {
	head, err := p.store.Head(ctx)
	switch {
	case err != nil:
		return 0, err
	case q.AsOf > head:
		return 0, errors.Wrapf(billing.ErrQuery, "%s: the events end at position %d", field, head)
	case q.AsOf > 0:
		return q.AsOf, nil
	}
	return positionAt(ctx, p.store, q.AsOfTime)
}

// positionAt is the position of the last fact of the latest row that is not younger than the time, 0 when there is none.
func positionAt(ctx context.Context, store events.Store, at time.Time) (last events.Position, err error) {
	q := events.Query{Until: at.Add(time.Microsecond), Newest: true, Limit: 1}
	err = store.Find(ctx, q, func(c *events.Committed) bool {
		last = c.Last()
		return false
	})
	return last, err
}
