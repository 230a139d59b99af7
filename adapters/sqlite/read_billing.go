package sqlite

import (
	"context"
	"strings"

	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
)

// dayOfEntry is billing.DayOf in SQL, for times after 1970.
const dayOfEntry = "at / 86400000000"

// Bill implements billing.Reader. Whole days come from their sums, the edges of the range from the entries.
func (m *ReadModel) Bill(ctx context.Context, q billing.Query) ([]billing.Line, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	by := quotedAll(q.By)
	sql := readQuery{}
	sql.sql.WriteString("SELECT " + strings.Join(append(by[:len(by):len(by)], summed(billing.Sums)...), ", ") + " FROM (")
	parts := billParts(&q)
	for i, p := range parts {
		if i > 0 {
			sql.sql.WriteString(" UNION ALL ")
		}
		p.write(&sql, q.By)
	}
	sql.sql.WriteString(")")
	if len(by) > 0 {
		list := strings.Join(by, ", ")
		sql.sql.WriteString(" GROUP BY " + list + " ORDER BY " + list)
	}
	return projections.Collect(m.rows(ctx, &sql), func(lines []billing.Line, row []projections.Value) ([]billing.Line, error) {
		if l := billing.FromRow(q.By, row); len(q.By) == 0 || !l.Nothing() {
			lines = append(lines, l)
		}
		return lines, nil
	})
}

// billPart is a range of one of the tables, in the unit of its time. from or to 0 is no border.
type billPart struct {
	table    *projections.Table
	time     string // column
	from, to int64
}

// billParts splits a query into ranges of days and of entries.
func billParts(q *billing.Query) []billPart {
	var since, until, first, last int64 // last is the day after the last whole one
	if !q.Since.IsZero() {
		since = max(0, micros(q.Since))
		first = (since + billing.DayMicros - 1) / billing.DayMicros
	}
	if !q.Until.IsZero() {
		until = max(1, micros(q.Until)) // 0 is no border
		last = until / billing.DayMicros
	}
	entries := func(from, to int64) billPart { return billPart{billing.Entries, "at", from, to} }
	if until > 0 && first >= last {
		return []billPart{entries(since, until)}
	}
	parts := []billPart{{billing.Days, "day", first, last}}
	if since < first*billing.DayMicros {
		parts = append(parts, entries(since, first*billing.DayMicros))
	}
	if last*billing.DayMicros < until {
		parts = append(parts, entries(last*billing.DayMicros, until))
	}
	return parts
}

// write adds the part's rows as a subquery.
func (p *billPart) write(sql *readQuery, by []string) {
	columns := quotedAll(append(by[:len(by):len(by)], billing.Sums...))
	for i, name := range by {
		if name == "day" && p.table == billing.Entries {
			columns[i] = dayOfEntry + " AS day"
		}
	}
	sql.sql.WriteString("SELECT " + strings.Join(columns, ", ") + " FROM " + quoted(p.table.Name))
	sql.wheres = 0
	if p.from > 0 {
		sql.where(p.time+" >= ?", projections.Int(p.from))
	}
	if p.to > 0 {
		sql.where(p.time+" < ?", projections.Int(p.to))
	}
}

func quotedAll(names []string) []string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = quoted(name)
	}
	return list
}

func summed(names []string) []string {
	list := quotedAll(names)
	for i, name := range list {
		list[i] = "sum(" + name + ")"
	}
	return list
}

// BilledTotal implements billing.Reader.
func (m *ReadModel) BilledTotal(ctx context.Context) (money.Amount, error) {
	var sql readQuery
	sql.sql.WriteString("SELECT sum(cost) FROM " + quoted(billing.Days.Name))
	var total money.Amount
	err := m.each(ctx, &sql, func(row []projections.Value) error {
		total = row[0].Money()
		return nil
	})
	return total, err
}
