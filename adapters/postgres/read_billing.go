package postgres

import (
	"context"
	"strings"
	"time"

	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
)

// dayOfEntry is billing.DayOf in SQL.
const dayOfEntry = `((at AT TIME ZONE 'UTC')::date - date '1970-01-01')::bigint AS "day"`

// Bill implements billing.Reader. Whole days come from their sums, the edges of the range from the entries.
func (m *ReadModel) Bill(ctx context.Context, q billing.Query) ([]billing.Line, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	return projections.Collect(m.rows(ctx, m.bill(&q)), func(lines []billing.Line, row []projections.Value) ([]billing.Line, error) {
		if l := billing.FromRow(q.By, row); len(q.By) == 0 || !l.Nothing() {
			lines = append(lines, l)
		}
		return lines, nil
	})
}

func (m *ReadModel) bill(q *billing.Query) *readQuery {
	var sql readQuery
	by := quotedNames(q.By)
	sql.sql.WriteString("SELECT " + strings.Join(append(by[:len(by):len(by)], summed(billing.Entries, billing.Sums)...), ", ") + " FROM (")
	for i, part := range billParts(q) {
		if i > 0 {
			sql.sql.WriteString(" UNION ALL ")
		}
		part.write(&sql, m.at.schema, q.By)
	}
	sql.sql.WriteString(") AS billed")
	if len(by) > 0 {
		list := strings.Join(by, ", ")
		sql.sql.WriteString(" GROUP BY " + list + " ORDER BY " + list)
	}
	return &sql
}

// billPart is a range of days, from one up to another one that is not part of it, or, for the edges, of moments. A nil
// or zero border is none.
type billPart struct {
	first, last  *int64
	since, until time.Time
}

// billParts splits a query into ranges of days and of entries.
func billParts(q *billing.Query) []billPart {
	var days billPart
	if !q.Since.IsZero() {
		first := billing.DayOf(wholeMicros(q.Since).Add(24*time.Hour - time.Microsecond)) // the first whole one
		days.first = &first
	}
	if !q.Until.IsZero() {
		last := billing.DayOf(wholeMicros(q.Until)) // the day after the last whole one
		days.last = &last
	}
	if days.first != nil && days.last != nil && *days.first >= *days.last {
		return []billPart{{since: q.Since, until: q.Until}}
	}
	parts := []billPart{days}
	if days.first != nil && q.Since.Before(startOf(*days.first)) {
		parts = append(parts, billPart{since: q.Since, until: startOf(*days.first)})
	}
	if days.last != nil && startOf(*days.last).Before(q.Until) {
		parts = append(parts, billPart{since: startOf(*days.last), until: q.Until})
	}
	return parts
}

func startOf(day int64) time.Time { return time.UnixMicro(day * billing.DayMicros).UTC() }

// write adds the part's rows as a subquery.
func (p *billPart) write(sql *readQuery, schema string, by []string) {
	table, columns := billing.Days, quotedNames(append(by[:len(by):len(by)], billing.Sums...))
	edge := !p.since.IsZero() || !p.until.IsZero()
	if edge {
		table = billing.Entries
		for i, name := range by {
			if name == "day" {
				columns[i] = dayOfEntry
			}
		}
	}
	sql.sql.WriteString("SELECT " + strings.Join(columns, ", ") + " FROM " + tableIn(schema, table.Name))
	sql.wheres = 0
	sql.during("at", p.since, p.until)
	if p.first != nil {
		sql.where("day >= ?", *p.first)
	}
	if p.last != nil {
		sql.where("day < ?", *p.last)
	}
}

func quotedNames(names []string) []string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = quote(name)
	}
	return list
}

// summed are the sums of columns of a table, of the type of the column.
func summed(t *projections.Table, names []string) []string {
	list := quotedNames(names)
	for i, name := range list {
		list[i] = "sum(" + name + ")"
		if kindOf(t.Columns[t.Column(names[i])]) == kindInt {
			list[i] += "::bigint"
		}
	}
	return list
}

// BilledTotal implements billing.Reader.
func (m *ReadModel) BilledTotal(ctx context.Context) (money.Amount, error) {
	var sql readQuery
	sql.sql.WriteString("SELECT sum(cost) FROM " + m.table(billing.Days.Name))
	var total money.Amount
	err := m.each(ctx, &sql, func(row []projections.Value) error {
		total = row[0].Money()
		return nil
	})
	return total, err
}
