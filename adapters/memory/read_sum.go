package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/stats"
)

// group is one line of a sum: what it is grouped by and what was added up.
type group struct {
	by   []projections.Value
	sums []projections.Value
}

// groups are sums by the values that they are grouped by.
type groups map[string]*group

func (g groups) add(by, values []projections.Value) {
	key := string((&projections.Table{Key: len(by)}).AppendKey(nil, by))
	sum := g[key]
	if sum == nil {
		g[key] = &group{by: by, sums: slices.Clone(values)}
		return
	}
	for i, v := range values {
		sum.sums[i] = projections.Int(sum.sums[i].Int() + v.Int())
	}
}

// sorted are the groups in the order of what they are grouped by.
func (g groups) sorted() []*group {
	return slices.SortedFunc(maps.Values(g), func(a, b *group) int {
		return slices.CompareFunc(a.by, b.by, projections.Value.Compare)
	})
}

// Bill implements billing.Reader. It sums the entries, never the days, and so is a check on them.
func (m *ReadModel) Bill(_ context.Context, q billing.Query) ([]billing.Line, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	t, found := billing.Entries, groups{}
	for _, row := range m.all(t) {
		when := row[t.Column("at")].Time()
		if !q.Since.IsZero() && when.Before(q.Since) || !q.Until.IsZero() && !when.Before(q.Until) {
			continue
		}
		var by []projections.Value
		for _, name := range q.By {
			if name == "day" {
				by = append(by, projections.Int(billing.DayOf(when)))
			} else {
				by = append(by, row[t.Column(name)])
			}
		}
		found.add(by, row[t.Column(billing.Sums[0]):])
	}
	if len(q.By) == 0 && len(found) == 0 {
		return []billing.Line{{}}, nil
	}
	lines := make([]billing.Line, 0, len(found))
	for _, g := range found.sorted() {
		lines = append(lines, billing.FromRow(q.By, append(g.by, g.sums...)))
	}
	return lines, nil
}

// BilledTotal implements billing.Reader.
func (m *ReadModel) BilledTotal(context.Context) (money.Amount, error) {
	var total money.Amount
	for _, row := range m.all(billing.Entries) {
		total += row[billing.Entries.Column("cost")].Money()
	}
	return total, nil
}

// hours sums what matches by one column of the table, or into one group when it is "".
func (m *ReadModel) hours(q stats.Query, by string) groups {
	t, found := stats.Hours, groups{}
	is := func(row []projections.Value, column, wanted string) bool {
		return wanted == "" || row[t.Column(column)].Text() == wanted
	}
	for _, row := range m.all(t) {
		at := stats.HourTime(row[t.Column("hour")].Int())
		if !q.Since.IsZero() && at.Before(q.Since) || !q.Until.IsZero() && !at.Before(q.Until) ||
			!is(row, "key", q.Key) || !is(row, "model", q.Model) || !is(row, "upstream", q.Upstream) {
			continue
		}
		var key []projections.Value
		if by != "" {
			key = []projections.Value{row[t.Column(by)]}
		}
		found.add(key, row[t.Key:])
	}
	return found
}

// Overview implements stats.Reader.
func (m *ReadModel) Overview(_ context.Context, q stats.Query) (stats.Overview, error) {
	if err := q.Check(); err != nil {
		return stats.Overview{}, err
	}
	o := stats.NewOverview(&q)
	for _, g := range m.hours(q, "") {
		o.Figures = stats.FromSums(g.sums)
	}
	return o, nil
}

// Timeseries implements stats.Reader.
func (m *ReadModel) Timeseries(_ context.Context, q stats.Query) ([]stats.Bucket, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	buckets := []stats.Bucket{}
	for _, g := range m.hours(q, "hour").sorted() {
		buckets = append(buckets, stats.Bucket{At: stats.HourTime(g.by[0].Int()), Figures: stats.FromSums(g.sums)})
	}
	return buckets, nil
}

// Leaderboard implements stats.Reader.
func (m *ReadModel) Leaderboard(_ context.Context, q stats.Query) ([]stats.Rank, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	ranks := []stats.Rank{}
	for _, g := range m.hours(q, q.By).sorted() {
		ranks = append(ranks, stats.Rank{Name: g.by[0].Text(), Figures: stats.FromSums(g.sums)})
	}
	slices.SortStableFunc(ranks, func(a, b stats.Rank) int { return cmp.Compare(b.By(q.Order), a.By(q.Order)) })
	return ranks[:min(len(ranks), q.Limit)], nil
}
