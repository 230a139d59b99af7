package postgres

import (
	"math"

	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/requestlog"
	"github.com/penstock/penstock/projections/stats"
)

// LogSpansSQL is the query for the blocks of a page of the log that has no marks, or whose marks are in too many blocks.
func (m *ReadModel) LogSpansSQL(q requestlog.Query, marked bool) (string, []any, error) {
	l := logLines{m: m, q: &q}
	var in requestlog.Sought
	if marked {
		in.Marks, in.Areas = q.Marks(), q.AreaMarks()
	}
	sql := l.spansQuery(in, requestlog.Span{High: math.MaxInt64}, math.MinInt64, math.MaxInt64, 4)
	return sql.sql.String(), sql.args, q.Check()
}

// LogLinesSQL is the query for the lines of blocks of a page of the log.
func (m *ReadModel) LogLinesSQL(q requestlog.Query, blocks ...int64) (string, []any, error) {
	if err := q.Check(); err != nil {
		return "", nil, err
	}
	l := logLines{m: m, q: &q}
	sql := l.newestQuery(blocks)
	return sql.sql.String(), sql.args, nil
}

// RequestSQL is the query for one line of the log.
func (m *ReadModel) RequestSQL(id string) (string, []any, error) {
	sql := m.requestQuery(id)
	return sql.sql.String(), sql.args, nil
}

// BillSQL is the query behind a bill.
func (m *ReadModel) BillSQL(q billing.Query) (string, []any, error) {
	if err := q.Check(); err != nil {
		return "", nil, err
	}
	sql := m.bill(&q)
	return sql.sql.String(), sql.args, nil
}

// HoursSQL is the query behind an overview.
func (m *ReadModel) HoursSQL(q stats.Query) (string, []any, error) {
	if err := q.Check(); err != nil {
		return "", nil, err
	}
	sql := m.hours(&q)
	return sql.sql.String(), sql.args, nil
}
