package postgres

import (
	"context"
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
	return requestlog.Page(&q, &logLines{ctx: ctx, m: m, q: &q})
}
