package postgres

import (
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/requestlog"
	"github.com/penstock/penstock/projections/stats"
)

// LogPageSQL is the query behind a page of the log.
func (m *ReadModel) LogPageSQL(q requestlog.Query) (string, []any, error) {
	if err := q.Check(); err != nil {
		return "", nil, err
	}
	sql := m.logPage(&q)
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
