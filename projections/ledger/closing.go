package ledger

import (
	"cmp"
	"slices"

	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
)

// Repostings are those of a closing that rows of Repriced make.
func Repostings(rows [][]projections.Value) []books.Reposting {
	var list []books.Reposting
	for _, row := range rows {
		list = append(list, books.Reposting{
			Day: billing.DayText(row[0].Int()), Of: billing.DayText(row[1].Int()), Reprice: row[2].Text(), Key: row[3].Text(),
			User: row[4].Text(), Model: row[5].Text(), Upstream: row[6].Text(), PaidBy: row[7].Text(),
			Attempts: row[8].Int(), Cost: row[9].Money(), UpstreamCost: row[10].Money(),
		})
	}
	slices.SortFunc(list, func(a, b books.Reposting) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Of, b.Of), cmp.Compare(a.Reprice, b.Reprice), cmp.Compare(a.Key, b.Key),
			cmp.Compare(a.User, b.User), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Upstream, b.Upstream), cmp.Compare(a.PaidBy, b.PaidBy))
	})
	return list
}

// Open implements projections.Opener: what repricings had moved of requests whose events are gone. What was booked is never
// gone.
func (Projection) Open(c *books.Closed, out *projections.Changes) error {
	text, number := projections.Text, projections.Int
	for i := range c.Reposted {
		r := &c.Reposted[i]
		day, err := books.ParseDay(r.Day)
		if err != nil {
			return err
		}
		of, err := books.ParseDay(r.Of)
		if err != nil {
			return err
		}
		out.Add(Repriced, number(billing.DayOf(day)), number(billing.DayOf(of)), text(r.Reprice), text(r.Key), text(r.User), text(r.Model),
			text(r.Upstream), text(r.PaidBy), number(r.Attempts), projections.Money(r.Cost), projections.Money(r.UpstreamCost))
	}
	return nil
}
