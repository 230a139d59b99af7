package sqlite

import (
	"context"
	"strings"
	"time"

	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/ledger"
)

var _ ledger.Reader = (*ReadModel)(nil)

// Booked implements ledger.Reader.
func (m *ReadModel) Booked(ctx context.Context, user string, until time.Time) ([]ledger.Entry, error) {
	var sql readQuery
	sql.sql.WriteString(selectRows(ledger.Entries))
	sql.is("user", user)
	if !until.IsZero() {
		sql.where("at < ?", projections.Int(micros(until)))
	}
	sql.sql.WriteString(" ORDER BY position")
	return projections.Collect(m.rows(ctx, &sql), func(entries []ledger.Entry, row []projections.Value) ([]ledger.Entry, error) {
		e, err := ledger.EntryFromRow(row)
		return append(entries, e), err
	})
}

// postings are what counts on a day of posting: usage as the bill has it on the day of use, without what repricings have
// changed there, and that on the day on which it was posted. The first column is the day.
var postings = []struct {
	from *projections.Table
	day  string
	what string // reprice, used, requests, attempts, cost, upstream_cost
}{
	{billing.Days, "day", `'' AS reprice, day AS used, requests, attempts, cost, upstream_cost`},
	{ledger.Repriced, `"of"`, `'' AS reprice, "of" AS used, 0 AS requests, 0 AS attempts, -cost AS cost, -upstream_cost AS upstream_cost`},
	{ledger.Repriced, "day", `reprice, "of" AS used, 0 AS requests, attempts, cost, upstream_cost`},
}

// Posted implements ledger.Reader.
func (m *ReadModel) Posted(ctx context.Context, q ledger.PostedQuery) ([]ledger.Sum, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	var sql readQuery
	by := quotedAll(q.By)
	sql.sql.WriteString("SELECT " + strings.Join(append(by[:len(by):len(by)],
		"min(used)", "max(used)", "sum(requests)", "sum(attempts)", "sum(cost)", "sum(upstream_cost)"), ", ") + " FROM (")
	for i, p := range postings {
		if i > 0 {
			sql.sql.WriteString(" UNION ALL ")
		}
		sql.posted(p.from, p.day, p.what, &q)
	}
	sql.sql.WriteString(")")
	if list := strings.Join(by, ", "); list != "" {
		sql.sql.WriteString(" GROUP BY " + list + " ORDER BY " + list)
	}
	return projections.Collect(m.rows(ctx, &sql), func(sums []ledger.Sum, row []projections.Value) ([]ledger.Sum, error) {
		if !row[len(q.By)].IsNull() { // there is something
			sums = append(sums, ledger.SumFromRow(q.By, row))
		}
		return sums, nil
	})
}

// posted adds the rows of a table as a subquery.
func (q *readQuery) posted(t *projections.Table, day, what string, of *ledger.PostedQuery) {
	first, end := of.Days()
	shown := day
	if first != nil && of.Carried {
		shown = "max(" + day + ", ?)"
		q.args = append(q.args, projections.Int(*first-1))
	}
	q.sql.WriteString("SELECT " + shown + ` AS day, "key", "user", model, upstream, paid_by, ` + what + " FROM " + quoted(t.Name))
	q.wheres = 0
	if first != nil && !of.Carried {
		q.where(day+" >= ?", projections.Int(*first))
	}
	if end != nil {
		q.where(day+" < ?", projections.Int(*end))
	}
	q.is("user", of.User)
	q.is("key", of.Key)
}
