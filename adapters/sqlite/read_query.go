package sqlite

import (
	"context"
	"strings"

	"github.com/cockroachdb/errors"

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

// readQuery is an SQL text with its parameters.
type readQuery struct {
	sql    strings.Builder
	args   []projections.Value
	wheres int
}

// where adds a condition.
func (q *readQuery) where(condition string, args ...projections.Value) {
	if q.wheres++; q.wheres == 1 {
		q.sql.WriteString(" WHERE ")
	} else {
		q.sql.WriteString(" AND ")
	}
	q.sql.WriteString(condition)
	q.args = append(q.args, args...)
}

// is adds the condition that a column has a text, unless that is "".
func (q *readQuery) is(column, text string) {
	if text != "" {
		q.where(quoted(column)+" = ?", projections.Text(text))
	}
}

// each runs the query and calls f with each row, which is valid until f returns.
func (m *ReadModel) each(ctx context.Context, q *readQuery, f func([]projections.Value) error) error {
	return errors.Wrapf(m.pool.read(ctx, func(c *conn) error { return q.each(c, f) }), "read model %s", m.path)
}

// each runs the query on a connection.
func (q *readQuery) each(c *conn, f func([]projections.Value) error) error {
	s, err := c.stmt(q.sql.String())
	if err != nil {
		return err
	}
	if err := bindValues(s, q.args); err != nil {
		return err
	}
	var row []projections.Value
	for s.Step() {
		row = columnValues(s, row[:0])
		if err := f(row); err != nil {
			return errors.CombineErrors(err, s.Reset())
		}
	}
	return errors.CombineErrors(s.Err(), s.Reset())
}

// rows is each of a query, for projections.Collect.
func (m *ReadModel) rows(ctx context.Context, q *readQuery) func(func([]projections.Value) error) error {
	return func(f func([]projections.Value) error) error { return m.each(ctx, q, f) }
}

// Requests implements requestlog.Reader. All that it reads is of one snapshot.
func (m *ReadModel) Requests(ctx context.Context, q requestlog.Query) (entries []requestlog.Entry, err error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	err = m.pool.read(ctx, func(c *conn) (err error) {
		entries, err = requestlog.Page(&q, &logLines{c: c, q: &q})
		return err
	})
	return entries, errors.Wrapf(err, "read model %s", m.path)
}
