package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/requestlog"
)

// logLines are the lines of the log for one page.
type logLines struct {
	ctx context.Context
	m   *ReadModel
	q   *requestlog.Query
}

var _ requestlog.Lines = (*logLines)(nil)

// Marked implements requestlog.Lines.
func (l *logLines) Marked() (whole bool, err error) {
	var there readQuery
	checkpoints := tableIn(l.m.at.schema, checkpointsTable)
	there.sql.WriteString("SELECT position FROM " + checkpoints + " WHERE projection = " + there.arg(requestlog.Marker{}.Name()) +
		" AND version = " + there.arg(int64(requestlog.Marker{}.Version())) +
		" AND position >= (SELECT position FROM " + checkpoints + " WHERE projection = " + there.arg(requestlog.Projection{}.Name()) + ")")
	err = l.m.numbers(l.ctx, &there, func(int64) { whole = true })
	return whole, err
}

// Having implements requestlog.Lines.
func (l *logLines) Having(marks []requestlog.Mark, n int) (blocks []int64, err error) {
	var sql readQuery
	list := make([]string, 0, len(marks))
	for _, mark := range marks {
		list = append(list, l.hasMark(&sql, mark))
	}
	sql.sql.WriteString("SELECT block FROM (" + strings.Join(list, " INTERSECT ") + " UNION " + l.hasMark(&sql, requestlog.Mark{Kind: requestlog.MarkUnsure}) +
		") AS marked WHERE block >= " + l.m.firstBlock() + " LIMIT " + strconv.Itoa(n))
	err = l.m.numbers(l.ctx, &sql, func(block int64) { blocks = append(blocks, block) })
	return blocks, err
}

// numbers runs a query for one number.
func (m *ReadModel) numbers(ctx context.Context, sql *readQuery, yield func(int64)) error {
	return m.each(ctx, sql, func(row []projections.Value) error {
		yield(row[0].Int())
		return nil
	})
}

// hasMark is that a block has a mark.
func (l *logLines) hasMark(sql *readQuery, mark requestlog.Mark) string {
	return "SELECT block FROM " + l.m.table(requestlog.Marks.Name) + " WHERE kind = " + sql.arg(int64(mark.Kind)) +
		" AND value = " + sql.arg(storedText(mark.Value, true))
}

// firstBlock is that of the oldest line.
func (m *ReadModel) firstBlock() string {
	return "(SELECT min(position) FROM " + m.table(requestlog.Requests.Name) + ") / " + strconv.Itoa(requestlog.MarkSize)
}

// Spans implements requestlog.Lines.
func (l *logLines) Spans(in requestlog.Sought, behind requestlog.Span, from, to int64, n int) (spans []requestlog.Span, err error) {
	err = l.m.each(l.ctx, l.spansQuery(in, behind, from, to, n), func(row []projections.Value) error {
		spans = append(spans, requestlog.Span{High: row[0].Int(), Block: row[1].Int(), Minute: row[2].Int()})
		return nil
	})
	return spans, err
}

// spansQuery is for the newest spans of a list of blocks, or for all in the order of the index.
func (l *logLines) spansQuery(in requestlog.Sought, behind requestlog.Span, from, to int64, n int) *readQuery {
	var sql readQuery
	sql.sql.WriteString("SELECT high, block, minute FROM " + l.m.table(requestlog.Spans.Name) + " AS span")
	if in.Few {
		sql.where("block = ANY(?::bigint[])", in.Blocks)
	}
	sql.where("(high, block, minute) < (?, ?, ?)", behind.High, behind.Block, behind.Minute)
	sql.where("high >= ?", from)
	sql.where("low <= ?", to)
	sql.where("block >= " + l.m.firstBlock())
	l.spanMarked(&sql, in.Areas, requestlog.MarkUnsureArea, fmt.Sprintf("span.block - span.block %% %d", requestlog.AreaSize))
	if !in.Few {
		l.spanMarked(&sql, in.Marks, requestlog.MarkUnsure, "span.block")
	}
	sql.sql.WriteString(" ORDER BY high DESC, block DESC, minute DESC LIMIT " + sql.arg(int64(n)))
	return &sql
}

// spanMarked adds the condition that a block has all marks, or is unsure.
func (l *logLines) spanMarked(sql *readQuery, marks []requestlog.Mark, unsure requestlog.MarkKind, block string) {
	if len(marks) == 0 {
		return
	}
	list := make([]string, 0, 3)
	has := func(mark requestlog.Mark) string {
		return "EXISTS (" + l.hasMark(sql, mark) + " AND block = " + block + ")"
	}
	for _, mark := range marks {
		list = append(list, has(mark))
	}
	sql.where("(" + strings.Join(list, " AND ") + " OR " + has(requestlog.Mark{Kind: unsure}) + ")")
}

// Request implements requestlog.Reader.
func (m *ReadModel) Request(ctx context.Context, id string) (*requestlog.Entry, error) {
	var found *requestlog.Entry
	err := m.each(ctx, m.requestQuery(id), func(row []projections.Value) error {
		e, err := requestlog.FromRow(row)
		found = &e
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// requestQuery looks at the blocks whose spans have the id between theirs. OFFSET 0 as in newestQuery.
func (m *ReadModel) requestQuery(id string) *readQuery {
	var sql readQuery
	const size = requestlog.MarkSize
	number := sql.arg(requestlog.NumberOf(id))
	fmt.Fprintf(&sql.sql, "%s WHERE position = (SELECT line.position FROM (SELECT DISTINCT block FROM %s WHERE id_low <= %s AND id_high >= %s AND block >= %s) AS span "+
		"CROSS JOIN LATERAL (SELECT position, request FROM %s WHERE position >= span.block * %d AND position < span.block * %d + %d OFFSET 0) AS line",
		selectFrom(m.at.schema, requestlog.Requests), m.table(requestlog.Spans.Name), number, number, m.firstBlock(),
		m.table(requestlog.Requests.Name), size, size, size)
	sql.where("line.request = ?", storedText(id, false))
	sql.sql.WriteString(" LIMIT 1)")
	return &sql
}

// Newest implements requestlog.Lines.
func (l *logLines) Newest(blocks []int64, yield func([]projections.Value) error) error {
	return l.m.each(l.ctx, l.newestQuery(blocks), yield)
}

// newestQuery gives the conditions to the query inside, which reads no more of a line than they need. OFFSET 0 keeps them out of
// the one innermost: a condition that few lines meet would let the server read the whole table instead of the blocks.
func (l *logLines) newestQuery(blocks []int64) *readQuery {
	var sql readQuery
	const size = requestlog.MarkSize
	order := " ORDER BY at DESC, position DESC LIMIT " + sql.arg(int64(l.q.Limit))
	fmt.Fprintf(&sql.sql, "%s WHERE position = ANY(ARRAY(SELECT line.position FROM unnest(%s::bigint[]) AS b (block) CROSS JOIN LATERAL ("+
		`SELECT position, at, "key", outcome, upstream, model, resolved_model FROM %s `+
		"WHERE position >= b.block * %d AND position < b.block * %d + %d OFFSET 0) AS line",
		selectFrom(l.m.at.schema, requestlog.Requests), sql.arg(blocks), l.m.table(requestlog.Requests.Name), size, size, size)
	l.filter(&sql)
	sql.sql.WriteString(order + "))" + order)
	return &sql
}

// filter adds the conditions of a page. The columns are part of no index, so that they hold texts as they are.
func (l *logLines) filter(sql *readQuery) {
	q := l.q
	is := func(column, text string) {
		if text != "" {
			sql.where(quote(column)+" = ?", storedText(text, false))
		}
	}
	is("key", q.Key)
	is("outcome", q.Outcome)
	is("upstream", q.Upstream)
	if q.Model != "" {
		model := sql.arg(storedText(q.Model, false))
		sql.where("(model = " + model + " OR resolved_model = " + model + ")")
	}
	sql.during("at", q.Since, q.Until)
	if !q.Before.IsZero() {
		sql.where("(at, position) < (?, ?)", border(q.Before.At), int64(q.Before.Position))
	}
}
