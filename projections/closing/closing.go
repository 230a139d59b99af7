// Package closing sums up a day for the books, with the folds of the projections themselves: what a closing says is what
// they would say.
package closing

import (
	"context"
	"fmt"

	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/ledger"
	"github.com/penstock/penstock/projections/stats"
)

// Of sums up the requests whose first fact lies in [first, last]. All of them must have ended (books.ErrOpen).
func Of(ctx context.Context, store events.Store, day string, first, last events.Position) (*books.Closed, error) {
	days, hours, repriced := sums{}, sums{}, sums{}
	list := []projections.Projection{billing.Projection{}, stats.Projection{}, ledger.Projection{}}
	extent, err := projections.FoldSpan(ctx, store, first, last, list,
		func(changes *projections.Changes) error {
			for c := range changes.All() {
				switch c.Table {
				case billing.Days:
					days.add(c)
				case stats.Hours:
					hours.add(c)
				case ledger.Repriced:
					repriced.add(c)
				}
			}
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("close the books of %s: %w", day, err)
	}
	return &books.Closed{
		Day: day, Span: books.Span{First: int64(first), Last: int64(last), Through: int64(max(extent.Through, last))},
		Requests: extent.Requests, Rows: extent.Rows, Facts: extent.Facts,
		Lines: billing.Lines(days.rows()), Late: stats.Late(day, hours.rows()),
		Reposted: ledger.Repostings(repriced.rows()),
	}, nil
}

// sums are additions to rows, joined by key.
type sums map[string][]projections.Value

func (s sums) add(c *projections.Change) {
	key := string(c.Table.AppendKey(nil, c.Values))
	row := s[key]
	if row == nil {
		s[key] = append(row, c.Values...)
		return
	}
	for i := c.Table.Key; i < len(row); i++ {
		row[i] = projections.Int(row[i].Int() + c.Values[i].Int())
	}
}

func (s sums) rows() [][]projections.Value {
	rows := make([][]projections.Value, 0, len(s))
	for _, row := range s {
		rows = append(rows, row)
	}
	return rows
}
