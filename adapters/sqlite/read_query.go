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
	return errors.Wrapf(m.pool.read(ctx, func(c *conn) error {
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
	}), "read model %s", m.path)
}

// Requests implements requestlog.Reader.
func (m *ReadModel) Requests(ctx context.Context, q requestlog.Query) ([]requestlog.Entry, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	var sql readQuery
	sql.sql.WriteString(selectRows(requestlog.Requests))
	sql.is("key", q.Key)
	sql.is("outcome", q.Outcome)
	sql.is("upstream", q.Upstream)
	if q.Model != "" {
		sql.where("(model = ? OR resolved_model = ?)", projections.Text(q.Model), projections.Text(q.Model))
	}
	if !q.Since.IsZero() {
		sql.where("at >= ?", projections.Int(micros(q.Since)))
	}
	if !q.Until.IsZero() {
		sql.where("at < ?", projections.Int(micros(q.Until)))
	}
	if !q.Before.IsZero() {
		sql.where("(at, position) < (?, ?)", projections.Micros(q.Before.At), projections.Int(int64(q.Before.Position)))
	}
	sql.sql.WriteString(" ORDER BY at DESC, position DESC LIMIT ?")
	sql.args = append(sql.args, projections.Int(int64(q.Limit)))
	entries := []requestlog.Entry{}
	err := m.each(ctx, &sql, func(row []projections.Value) error {
		e, err := requestlog.FromRow(row)
		entries = append(entries, e)
		return err
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}

// Request implements requestlog.Reader.
func (m *ReadModel) Request(ctx context.Context, id string) (*requestlog.Entry, error) {
	var sql readQuery
	sql.sql.WriteString(selectRows(requestlog.Requests) + " WHERE request = ? LIMIT 1")
	sql.args = []projections.Value{projections.Text(id)}
	var found *requestlog.Entry
	err := m.each(ctx, &sql, func(row []projections.Value) error {
		e, err := requestlog.FromRow(row)
		found = &e
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}
