package sqlite

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/requestlog"
)

// logLines are the lines of the log for one page, in one snapshot.
type logLines struct {
	c *conn
	q *requestlog.Query
}

var _ requestlog.Lines = (*logLines)(nil)

// hasMark is that a block has a mark.
const hasMark = "SELECT block FROM request_marks WHERE kind = ? AND value = ?"

// markArgs are the parameters of hasMark, for each mark and one that says unsure.
func markArgs(marks []requestlog.Mark, unsure requestlog.MarkKind) []projections.Value {
	args := make([]projections.Value, 0, 2*len(marks)+2)
	for _, mark := range marks {
		args = append(args, projections.Int(int64(mark.Kind)), projections.Text(mark.Value))
	}
	return append(args, projections.Int(int64(unsure)), projections.Text(""))
}

// Marked implements requestlog.Lines.
func (l *logLines) Marked() (whole bool, err error) {
	there := readQuery{args: []projections.Value{
		projections.Text(requestlog.Marker{}.Name()), projections.Int(int64(requestlog.Marker{}.Version())),
		projections.Text(requestlog.Projection{}.Name()),
	}}
	there.sql.WriteString(`SELECT 1 FROM checkpoints WHERE projection = ? AND version = ?
		AND position >= (SELECT position FROM checkpoints WHERE projection = ?)`)
	err = there.each(l.c, func([]projections.Value) error { whole = true; return nil })
	return whole, err
}

// Having implements requestlog.Lines.
func (l *logLines) Having(marks []requestlog.Mark, n int) (blocks []int64, err error) {
	var sql readQuery
	sql.sql.WriteString("SELECT block FROM (" + hasMark + strings.Repeat(" INTERSECT "+hasMark, len(marks)-1) + " UNION " + hasMark +
		") WHERE block >= " + firstBlock + " LIMIT ?")
	sql.args = append(markArgs(marks, requestlog.MarkUnsure), projections.Int(int64(n)))
	err = sql.each(l.c, func(row []projections.Value) error {
		blocks = append(blocks, row[0].Int())
		return nil
	})
	return blocks, err
}

// firstBlock is that of the oldest line.
var firstBlock = fmt.Sprintf("(SELECT min(position) FROM requests) / %d", requestlog.MarkSize)

// Spans implements requestlog.Lines: the newest ones of a list of blocks, or all in the order of the index.
func (l *logLines) Spans(in requestlog.Sought, behind requestlog.Span, from, to int64, n int) (spans []requestlog.Span, err error) {
	var sql readQuery
	number := projections.Int
	sql.sql.WriteString("SELECT high, block, minute FROM ")
	if in.Few {
		sql.sql.WriteString("json_each(?) AS listed CROSS JOIN request_spans ON block = listed.value")
		sql.args = append(sql.args, numbers(in.Blocks))
	} else {
		sql.sql.WriteString("request_spans")
	}
	sql.where("(high, block, minute) < (?, ?, ?)", number(behind.High), number(behind.Block), number(behind.Minute))
	sql.where("high >= ?", number(from))
	sql.where("low <= ?", number(to))
	sql.where("block >= " + firstBlock)
	sql.marked(in.Areas, requestlog.MarkUnsureArea, fmt.Sprintf("request_spans.block - request_spans.block %% %d", requestlog.AreaSize))
	if !in.Few {
		sql.marked(in.Marks, requestlog.MarkUnsure, "request_spans.block")
	}
	sql.sql.WriteString(" ORDER BY high DESC, block DESC, minute DESC LIMIT ?")
	sql.args = append(sql.args, number(int64(n)))
	err = sql.each(l.c, func(row []projections.Value) error {
		spans = append(spans, requestlog.Span{High: row[0].Int(), Block: row[1].Int(), Minute: row[2].Int()})
		return nil
	})
	return spans, err
}

// marked adds the condition that a block has all marks, or is unsure.
func (q *readQuery) marked(marks []requestlog.Mark, unsure requestlog.MarkKind, block string) {
	if len(marks) == 0 {
		return
	}
	has := "EXISTS (" + hasMark + " AND block = " + block + ")"
	q.where("("+has+strings.Repeat(" AND "+has, len(marks)-1)+" OR "+has+")", markArgs(marks, unsure)...)
}

// Request implements requestlog.Reader. NOT INDEXED: nor by one that SQLite would make of the whole table for this once.
func (m *ReadModel) Request(ctx context.Context, id string) (*requestlog.Entry, error) {
	number := projections.Int(requestlog.NumberOf(id))
	sql := readQuery{args: []projections.Value{number, number, projections.Text(id)}}
	fmt.Fprintf(&sql.sql, `%s WHERE position = (SELECT position
		FROM (SELECT DISTINCT block FROM request_spans WHERE id_low <= ? AND id_high >= ? AND block >= %s) AS span CROSS JOIN requests NOT INDEXED
		ON position >= span.block * %[3]d AND position < span.block * %[3]d + %[3]d WHERE request = ? LIMIT 1)`,
		selectRows(requestlog.Requests), firstBlock, requestlog.MarkSize)
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

// Newest implements requestlog.Lines: the conditions go to the inner query, which reads no more of a line than they need.
func (l *logLines) Newest(blocks []int64, yield func([]projections.Value) error) error {
	const newest = " ORDER BY at DESC, position DESC LIMIT ?"
	limit := projections.Int(int64(l.q.Limit))
	sql := readQuery{args: []projections.Value{numbers(blocks)}}
	fmt.Fprintf(&sql.sql, `%s WHERE position IN (SELECT position FROM (SELECT value FROM json_each(?)) AS block CROSS JOIN requests NOT INDEXED
		ON position >= block.value * %[2]d AND position < block.value * %[2]d + %[2]d`, selectRows(requestlog.Requests), requestlog.MarkSize)
	l.filter(&sql)
	sql.sql.WriteString(newest + ")" + newest)
	sql.args = append(sql.args, limit, limit)
	return sql.each(l.c, yield)
}

// filter adds the conditions of a page.
func (l *logLines) filter(sql *readQuery) {
	q := l.q
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

// numbers are a parameter of json_each.
func numbers(list []int64) projections.Value {
	text, _ := json.Marshal(list) // of numbers
	return projections.Text(string(text))
}
