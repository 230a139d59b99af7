package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

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
	args   []any
	wheres int
}

// arg adds a parameter and returns its name.
func (q *readQuery) arg(value any) string {
	q.args = append(q.args, value)
	return "$" + strconv.Itoa(len(q.args))
}

// where adds a condition; each ? in it is one of the parameters.
func (q *readQuery) where(condition string, args ...any) {
	if q.wheres++; q.wheres == 1 {
		q.sql.WriteString(" WHERE ")
	} else {
		q.sql.WriteString(" AND ")
	}
	for _, a := range args {
		condition = strings.Replace(condition, "?", q.arg(a), 1)
	}
	q.sql.WriteString(condition)
}

// is adds the condition that a column of names has a text, unless that is "".
func (q *readQuery) is(column, text string) {
	if text != "" {
		q.where(quote(column)+" = ?", storedText(text, true))
	}
}

// during limits a column of moments; zero times do not.
func (q *readQuery) during(column string, since, until time.Time) {
	if !since.IsZero() {
		q.where(column+" >= ?", border(since))
	}
	if !until.IsZero() {
		q.where(column+" < ?", border(until))
	}
}

// border is a time as the server can hold it: it knows none before 4714 BC.
func border(t time.Time) time.Time {
	if t.Year() < -4000 {
		return time.Date(-4000, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return wholeMicros(t)
}

// wholeMicros rounds a border up: what is stored has no finer times.
func wholeMicros(t time.Time) time.Time {
	return t.Add(time.Microsecond - 1).Truncate(time.Microsecond).UTC()
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
	page := m.logPage(&q)
	if few {
		page = m.blocksPage(&q, blocks)
	}
	return projections.Collect(m.rows(ctx, page), func(entries []requestlog.Entry, row []projections.Value) ([]requestlog.Entry, error) {
		e, err := requestlog.FromRow(row)
		return append(entries, e), err
	})
}

// marked are the blocks where lines that match may be. few is false where there are too many, or nothing that is marked is
// asked for.
func (m *ReadModel) marked(ctx context.Context, q *requestlog.Query) (blocks []int64, few bool, err error) {
	marks := q.Marks()
	if len(marks) == 0 {
		return nil, false, nil
	}
	var there readQuery
	checkpoints := tableIn(m.at.schema, checkpointsTable)
	there.sql.WriteString("SELECT position FROM " + checkpoints + " WHERE projection = " + there.arg(requestlog.Marker{}.Name()) +
		" AND version = " + there.arg(int64(requestlog.Marker{}.Version())) +
		" AND position >= (SELECT position FROM " + checkpoints + " WHERE projection = " + there.arg(requestlog.Projection{}.Name()) + ")")
	whole := false // marks that are still being made say nothing
	err = m.numbers(ctx, &there, func(int64) { whole = true })
	if err != nil || !whole {
		return nil, false, err
	}
	sql := m.marksQuery(marks)
	err = m.numbers(ctx, sql, func(block int64) { blocks = append(blocks, block) })
	return blocks, len(blocks) <= requestlog.MarksMax, err
}

// numbers runs a query for one number.
func (m *ReadModel) numbers(ctx context.Context, sql *readQuery, yield func(int64)) error {
	return m.each(ctx, sql, func(row []projections.Value) error {
		yield(row[0].Int())
		return nil
	})
}

func (m *ReadModel) marksQuery(marks []requestlog.Mark) *readQuery {
	var sql readQuery
	having := func(mark requestlog.Mark) string {
		return "SELECT block FROM " + tableIn(m.at.schema, requestlog.Marks.Name) + " WHERE kind = " + sql.arg(int64(mark.Kind)) +
			" AND value = " + sql.arg(storedText(mark.Value, true))
	}
	list := make([]string, 0, 3)
	for _, mark := range marks {
		list = append(list, having(mark))
	}
	sql.sql.WriteString("SELECT block FROM (" + strings.Join(list, " INTERSECT ") + " UNION " + having(requestlog.Mark{Kind: requestlog.MarkUnsure}) +
		") AS marked WHERE block >= (SELECT min(position) FROM " + tableIn(m.at.schema, requestlog.Requests.Name) + ") / " +
		strconv.Itoa(requestlog.MarkSize) + " LIMIT " + strconv.Itoa(requestlog.MarksMax+1))
	return &sql
}

// blocksPage looks at the lines of some blocks only.
func (m *ReadModel) blocksPage(q *requestlog.Query, blocks []int64) *readQuery {
	var sql readQuery
	const size = requestlog.MarkSize
	order := " ORDER BY at DESC, position DESC LIMIT " + sql.arg(int64(q.Limit))
	fmt.Fprintf(&sql.sql, "%s WHERE position = ANY(ARRAY(SELECT line.position FROM unnest(%s::bigint[]) AS b (block) CROSS JOIN LATERAL ("+
		"SELECT position, at FROM %s WHERE position >= b.block * %d AND position < b.block * %d + %d",
		selectFrom(m.at.schema, requestlog.Requests), sql.arg(blocks), tableIn(m.at.schema, requestlog.Requests.Name), size, size, size)
	sql.wheres = 1
	if m.logFilter(&sql, q); q.Model != "" {
		model := storedText(q.Model, true)
		sql.where("(model = ? OR resolved_model = ?)", model, model)
	}
	sql.sql.WriteString(") AS line" + order + "))" + order)
	return &sql
}

// logPage walks the index of the log from its newest end. A model may stand in either of two columns: each is walked
// for itself, so that the index alone tells which rows match, and the rows of the two do not overlap.
func (m *ReadModel) logPage(q *requestlog.Query) *readQuery {
	var sql readQuery
	const newest = " ORDER BY at DESC, position DESC LIMIT "
	if q.Model == "" {
		m.logPart(&sql, q)
		sql.sql.WriteString(newest + sql.arg(int64(q.Limit)))
		return &sql
	}
	model := storedText(q.Model, true)
	sql.sql.WriteString("(")
	m.logPart(&sql, q)
	sql.where("model = ?", model)
	sql.sql.WriteString(newest + sql.arg(int64(q.Limit)) + ") UNION ALL (")
	m.logPart(&sql, q)
	sql.where("resolved_model = ? AND model <> ?", model, model)
	sql.sql.WriteString(newest + sql.arg(int64(q.Limit)) + ")" + newest + sql.arg(int64(q.Limit)))
	return &sql
}

func (m *ReadModel) logPart(sql *readQuery, q *requestlog.Query) {
	sql.sql.WriteString(selectFrom(m.at.schema, requestlog.Requests))
	sql.wheres = 0
	m.logFilter(sql, q)
}

// logFilter adds the conditions of a page, but for the model.
func (m *ReadModel) logFilter(sql *readQuery, q *requestlog.Query) {
	sql.is("key", q.Key)
	sql.is("outcome", q.Outcome)
	sql.is("upstream", q.Upstream)
	sql.during("at", q.Since, q.Until)
	if !q.Before.IsZero() {
		sql.where("(at, position) < (?, ?)", border(q.Before.At), int64(q.Before.Position))
	}
}

// Request implements requestlog.Reader.
func (m *ReadModel) Request(ctx context.Context, id string) (*requestlog.Entry, error) {
	var sql readQuery
	sql.sql.WriteString(selectFrom(m.at.schema, requestlog.Requests))
	sql.where("request = ?", storedText(id, true))
	sql.sql.WriteString(" LIMIT 1")
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
