package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/ledger"
)

var _ ledger.Reader = (*ReadModel)(nil)

// Booked implements ledger.Reader.
func (m *ReadModel) Booked(_ context.Context, user string, until time.Time) ([]ledger.Entry, error) {
	entries := []ledger.Entry{}
	for _, row := range m.all(ledger.Entries) {
		e, err := ledger.EntryFromRow(row)
		if err != nil {
			return nil, err
		}
		if (user == "" || e.User == user) && (until.IsZero() || e.At.Before(until)) {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b ledger.Entry) int { return cmp.Compare(a.Position, b.Position) })
	return entries, nil
}

// posted is something of a table that counts on a day of posting.
type posted struct {
	table     *projections.Table
	row       []projections.Value
	day, used int64
	reprice   string
	sign      int64
}

// Posted implements ledger.Reader.
func (m *ReadModel) Posted(_ context.Context, q ledger.PostedQuery) ([]ledger.Sum, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	first, end := q.Days()
	found := map[string][]projections.Value{}
	for p := range m.postings {
		is := func(column, wanted string) bool {
			return wanted == "" || p.row[p.table.Column(column)].Text() == wanted
		}
		if !is("user", q.User) || !is("key", q.Key) || end != nil && p.day >= *end {
			continue
		}
		if first != nil && p.day < *first {
			if !q.Carried {
				continue
			}
			p.day = *first - 1
		}
		p.sum(q.By, found)
	}
	sums := make([]ledger.Sum, 0, len(found))
	order := &projections.Table{Key: len(q.By)}
	for _, row := range slices.SortedFunc(maps.Values(found), order.CompareKeys) {
		sums = append(sums, ledger.SumFromRow(q.By, row))
	}
	return sums, nil
}

// postings are those of one moment: usage as the bill has it on the day of use, without what repricings have changed there,
// and that on the day on which it was posted.
func (m *ReadModel) postings(yield func(posted) bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, row := range m.tables[billing.Days.Name] {
		day := row[0].Int()
		if !yield(posted{table: billing.Days, row: row, day: day, used: day, sign: 1}) {
			return
		}
	}
	for _, row := range m.tables[ledger.Repriced.Name] {
		day, of := row[0].Int(), row[1].Int()
		back := posted{table: ledger.Repriced, row: row, day: of, used: of, sign: -1}
		if !yield(back) || !yield(posted{table: ledger.Repriced, row: row, day: day, used: of, reprice: row[2].Text(), sign: 1}) {
			return
		}
	}
}

// sum adds the posting to the sum of its group.
func (p *posted) sum(by []string, found map[string][]projections.Value) {
	value := func(column string) projections.Value { return p.row[p.table.Column(column)] }
	var row []projections.Value
	for _, name := range by {
		switch name {
		case "day":
			row = append(row, projections.Int(p.day))
		case "reprice":
			row = append(row, projections.Text(p.reprice))
		default:
			row = append(row, value(name))
		}
	}
	key := string((&projections.Table{Key: len(by)}).AppendKey(nil, row))
	sum := found[key]
	if sum == nil {
		used := projections.Int(p.used)
		sum = append(row, used, used, projections.Int(0), projections.Int(0), projections.Int(0), projections.Int(0))
		found[key] = sum
	}
	sum = sum[len(by):]
	sum[0] = projections.Int(min(sum[0].Int(), p.used))
	sum[1] = projections.Int(max(sum[1].Int(), p.used))
	if p.table == billing.Days {
		sum[2] = projections.Sum(sum[2], value("requests"))
	}
	if p.sign > 0 {
		sum[3] = projections.Sum(sum[3], value("attempts"))
	}
	for i, name := range []string{"cost", "upstream_cost"} {
		sum[4+i] = projections.Sum(sum[4+i], projections.Int(p.sign*value(name).Int()))
	}
}
