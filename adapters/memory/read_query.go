package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/requestlog"
	"github.com/penstock/penstock/projections/stats"
)

var (
	_ projections.ReadModel = (*ReadModel)(nil)
	_ requestlog.Reader     = (*ReadModel)(nil)
	_ billing.Reader        = (*ReadModel)(nil)
	_ stats.Reader          = (*ReadModel)(nil)
)

// Requests implements requestlog.Reader.
func (m *ReadModel) Requests(_ context.Context, q requestlog.Query) ([]requestlog.Entry, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	entries, err := m.entries()
	if err != nil {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(e requestlog.Entry) bool { return !entryMatches(&e, &q) })
	slices.SortFunc(entries, func(a, b requestlog.Entry) int { return older(b.Cursor(), a.Cursor()) })
	return entries[:min(len(entries), q.Limit)], nil
}

func (m *ReadModel) entries() ([]requestlog.Entry, error) {
	all := m.all(requestlog.Requests)
	entries := make([]requestlog.Entry, 0, len(all))
	for _, row := range all {
		e, err := requestlog.FromRow(row)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func older(a, b requestlog.Cursor) int {
	return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Position, b.Position))
}

func entryMatches(e *requestlog.Entry, q *requestlog.Query) bool {
	is := func(wanted string, have ...string) bool { return wanted == "" || slices.Contains(have, wanted) }
	return is(q.Key, e.Key) && is(q.Outcome, e.Outcome) && is(q.Upstream, e.Upstream) &&
		is(q.Model, e.Model, e.ResolvedModel) &&
		(q.Since.IsZero() || !e.At.Before(q.Since)) && (q.Until.IsZero() || e.At.Before(q.Until)) &&
		(q.Before.IsZero() || older(e.Cursor(), q.Before) < 0)
}

// Request implements requestlog.Reader.
func (m *ReadModel) Request(_ context.Context, id string) (*requestlog.Entry, error) {
	entries, err := m.entries()
	if err != nil {
		return nil, err
	}
	for i := range entries {
		if entries[i].RequestID == id {
			return &entries[i], nil
		}
	}
	return nil, nil
}
