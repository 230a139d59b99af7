package sqlite

import (
	"context"
	"strings"

	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/stats"
)

// orders are the SQL of stats.Orders.
var orders = map[string]string{
	"requests": "sum(requests)",
	"errors":   "sum(failed) + sum(rejected) + sum(abandoned)",
	"cost":     "sum(cost)",
	"tokens":   "sum(input_tokens) + sum(output_tokens)",
}

// hours starts a query for the sums of what matches, after the columns that are grouped by.
func hours(q *stats.Query, by ...string) *readQuery {
	var sql readQuery
	sql.sql.WriteString("SELECT " + strings.Join(append(by, summed(stats.Sums)...), ", ") + " FROM " + quoted(stats.Hours.Name))
	if !q.Since.IsZero() {
		sql.where("hour >= ?", projections.Int(stats.HourOf(q.Since)))
	}
	if !q.Until.IsZero() {
		sql.where("hour < ?", projections.Int(stats.HourOf(q.Until)))
	}
	sql.is("upstream", q.Upstream)
	sql.is("model", q.Model)
	sql.is("key", q.Key)
	return &sql
}

// Overview implements stats.Reader.
func (m *ReadModel) Overview(ctx context.Context, q stats.Query) (stats.Overview, error) {
	if err := q.Check(); err != nil {
		return stats.Overview{}, err
	}
	o := stats.NewOverview(&q)
	err := m.each(ctx, hours(&q), func(row []projections.Value) error {
		o.Figures = stats.FromSums(row)
		return nil
	})
	return o, err
}

// Timeseries implements stats.Reader.
func (m *ReadModel) Timeseries(ctx context.Context, q stats.Query) ([]stats.Bucket, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	sql := hours(&q, "hour")
	sql.sql.WriteString(" GROUP BY hour ORDER BY hour")
	return projections.Collect(m.rows(ctx, sql), func(buckets []stats.Bucket, row []projections.Value) ([]stats.Bucket, error) {
		return append(buckets, stats.Bucket{At: stats.HourTime(row[0].Int()), Figures: stats.FromSums(row[1:])}), nil
	})
}

// Leaderboard implements stats.Reader.
func (m *ReadModel) Leaderboard(ctx context.Context, q stats.Query) ([]stats.Rank, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	by := quoted(q.By)
	sql := hours(&q, by)
	sql.sql.WriteString(" GROUP BY " + by + " ORDER BY " + orders[q.Order] + " DESC, " + by + " LIMIT ?")
	sql.args = append(sql.args, projections.Int(int64(q.Limit)))
	return projections.Collect(m.rows(ctx, sql), func(ranks []stats.Rank, row []projections.Value) ([]stats.Rank, error) {
		return append(ranks, stats.Rank{Name: row[0].Text(), Figures: stats.FromSums(row[1:])}), nil
	})
}
