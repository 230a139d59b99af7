package sqlite

import (
	"context"
	"fmt"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"

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

// rows is each of a query, for projections.Collect.
func (m *ReadModel) rows(ctx context.Context, q *readQuery) func(func([]projections.Value) error) error {
	return func(f func([]projections.Value) error) error { return m.each(ctx, q, f) }
}

// Requests implements requestlog.Reader.
func (m *ReadModel) Requests(ctx context.Context, q requestlog.Query) ([]requestlog.Entry, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	blocks, few, err := m.marked(ctx, &q)
	if err != nil {
		return nil, err
	}
	var sql readQuery
	sql.sql.WriteString(selectRows(requestlog.Requests))
	if few {
		sql.inBlocks(blocks)
	}
	logFilter(&sql, &q)
	if few {
		sql.sql.WriteString(newest + ")")
		sql.args = append(sql.args, projections.Int(int64(q.Limit)))
	}
	sql.sql.WriteString(newest)
	sql.args = append(sql.args, projections.Int(int64(q.Limit)))
	return projections.Collect(m.rows(ctx, &sql), func(entries []requestlog.Entry, row []projections.Value) ([]requestlog.Entry, error) {
		e, err := requestlog.FromRow(row)
		return append(entries, e), err
	})
}

// newest is the order of a page and its limit.
const newest = " ORDER BY at DESC, position DESC LIMIT ?"

// inBlocks begins a page that looks at the lines of some blocks only: the filter goes to the inner query.
func (q *readQuery) inBlocks(blocks []int64) {
	list, _ := json.Marshal(blocks) // numbers
	q.sql.WriteString(fmt.Sprintf(` WHERE position IN (SELECT position FROM (SELECT value FROM json_each(?)) AS block CROSS JOIN requests NOT INDEXED
		ON position >= block.value * %[1]d AND position < block.value * %[1]d + %[1]d`, requestlog.MarkSize))
	q.args = append(q.args, projections.Text(string(list)))
}

// marked are the blocks where lines that match may be. few is false where there are too many, or nothing that is marked is
// asked for.
func (m *ReadModel) marked(ctx context.Context, q *requestlog.Query) (blocks []int64, few bool, err error) {
	marks := q.Marks()
	if len(marks) == 0 {
		return nil, false, nil
	}
	there := readQuery{args: []projections.Value{
		projections.Text(requestlog.Marker{}.Name()), projections.Int(int64(requestlog.Marker{}.Version())),
		projections.Text(requestlog.Projection{}.Name()),
	}}
	there.sql.WriteString(`SELECT 1 FROM checkpoints WHERE projection = ? AND version = ?
		AND position >= (SELECT position FROM checkpoints WHERE projection = ?)`)
	whole := false // marks that are still being made say nothing
	err = m.each(ctx, &there, func([]projections.Value) error { whole = true; return nil })
	if err != nil || !whole {
		return nil, false, err
	}
	const having = "SELECT block FROM request_marks WHERE kind = ? AND value = ?"
	var sql readQuery
	sql.sql.WriteString("SELECT block FROM (" + having + strings.Repeat(" INTERSECT "+having, len(marks)-1) +
		" UNION " + having + ") WHERE block >= (SELECT min(position) FROM requests) / ? LIMIT ?")
	for _, mark := range append(marks, requestlog.Mark{Kind: requestlog.MarkUnsure}) {
		sql.args = append(sql.args, projections.Int(int64(mark.Kind)), projections.Text(mark.Value))
	}
	sql.args = append(sql.args, projections.Int(requestlog.MarkSize), projections.Int(requestlog.MarksMax+1))
	err = m.each(ctx, &sql, func(row []projections.Value) error {
		blocks = append(blocks, row[0].Int())
		return nil
	})
	return blocks, len(blocks) <= requestlog.MarksMax, err
}

// logFilter adds the conditions of a page.
func logFilter(sql *readQuery, q *requestlog.Query) {
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
