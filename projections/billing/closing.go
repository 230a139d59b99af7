package billing

import (
	"cmp"
	"slices"

	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/projections"
)

// Lines are the lines of a closing that rows of Days make.
func Lines(rows [][]projections.Value) []books.Line {
	lines := make([]books.Line, 0, len(rows))
	for _, row := range rows {
		s := sumOf(row[Days.Key:])
		lines = append(lines, books.Line{
			Day: DayText(row[0].Int()), Key: row[1].Text(), User: row[2].Text(), Group: row[3].Text(), Model: row[4].Text(),
			Upstream: row[5].Text(), Account: row[6].Text(), PriceVersion: row[7].Text(), PriceOrigin: row[8].Text(), PaidBy: row[9].Text(),
			Requests: s.requests, Attempts: s.attempts, Usage: s.usage,
			Cost: s.cost, UpstreamCost: s.upstreamCost, Unpriced: s.unpriced,
		})
	}
	slices.SortFunc(lines, func(a, b books.Line) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Key, b.Key), cmp.Compare(a.User, b.User),
			cmp.Compare(a.Group, b.Group), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Upstream, b.Upstream),
			cmp.Compare(a.Account, b.Account), cmp.Compare(a.PriceVersion, b.PriceVersion),
			cmp.Compare(a.PriceOrigin, b.PriceOrigin), cmp.Compare(a.PaidBy, b.PaidBy))
	})
	return lines
}

// Open implements projections.Opener: the sums of a closing stand for the events that are gone.
func (Projection) Open(c *books.Closed, out *projections.Changes) error {
	text, number := projections.Text, projections.Int
	for i := range c.Lines {
		l := &c.Lines[i]
		day, err := books.ParseDay(l.Day)
		if err != nil {
			return err
		}
		sums := sum{l.Requests, l.Attempts, l.Usage, l.Cost, l.UpstreamCost, l.Unpriced}
		out.Add(Days, sums.append([]projections.Value{
			number(DayOf(day)), text(l.Key), text(l.User), text(l.Group), text(l.Model), text(l.Upstream), text(l.Account),
			text(l.PriceVersion), text(l.PriceOrigin), text(l.PaidBy),
		})...)
	}
	return nil
}
