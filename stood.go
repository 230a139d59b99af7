package penstock

import (
	"context"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
)

// past answers for the books as they stood: from a shadow of the bill that is folded up to then.
type past struct {
	store   events.Store
	backend backend
	closer  *closer
}

// Bill sums what the events up to the moment of the query tell.
func (p past) Bill(ctx context.Context, q billing.Query) (lines []billing.Line, err error) {
	p.closer.replays.RLock() // nothing is taken away meanwhile
	defer p.closer.replays.RUnlock()
	to, err := p.position(ctx, q)
	if err != nil {
		return nil, err
	}
	shadow, err := p.backend.openShadow(billing.Projection{})()
	if err != nil {
		return nil, errors.Wrap(err, "open shadow read model")
	}
	defer func() { err = errors.CombineErrors(err, shadow.Close()) }()
	reader, ok := shadow.(billing.Reader)
	if !ok {
		return nil, errors.New("the shadow read model has no bill")
	}
	if to > 0 {
		_, err = projections.Fold(ctx, p.store, billing.Projection{}, shadow, to)
		if errors.Is(err, projections.ErrArchived) {
			return nil, errors.Wrapf(billing.ErrQuery, "as_of: %v", err)
		}
		if err != nil {
			return nil, err
		}
	}
	return reader.Bill(ctx, q)
}

// position is that of the last fact that was there.
func (p past) position(ctx context.Context, q billing.Query) (events.Position, error) {
	head, err := p.store.Head(ctx)
	switch {
	case err != nil:
		return 0, err
	case q.AsOf > head:
		return 0, errors.Wrapf(billing.ErrQuery, "as_of: the events end at position %d", head)
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
