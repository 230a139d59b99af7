package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/projections"
)

// endOf is the first hour after a day, false for what is no day.
func endOf(day string) (hour int64, ok bool) {
	t, err := books.ParseDay(day)
	return HourOf(t.Add(24 * time.Hour)), err == nil
}

// cut takes away all hours up to the end of a day whose events are gone: statistics tell what can be told again.
func cut(f *books.Removed, out *projections.Changes) {
	if end, ok := endOf(f.Day); ok {
		out.Cut(projections.Cut{Table: Hours, From: math.MinInt64, To: end - 1})
	}
}

// Late are the sums of a closing that rows of Hours make: those of hours after the day.
func Late(day string, rows [][]projections.Value) []books.Hour {
	end, ok := endOf(day)
	var late []books.Hour
	for _, row := range rows {
		if !ok || row[0].Int() < end {
			continue
		}
		h := books.Hour{Hour: row[0].Int(), Upstream: row[1].Text(), Model: row[2].Text(), Key: row[3].Text()}
		for _, v := range row[Hours.Key:] {
			h.Sums = append(h.Sums, v.Int())
		}
		late = append(late, h)
	}
	slices.SortFunc(late, func(a, b books.Hour) int {
		return cmp.Or(cmp.Compare(a.Hour, b.Hour), cmp.Compare(a.Upstream, b.Upstream), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Key, b.Key))
	})
	return late
}

// Open implements projections.Opener: what requests of a day whose events are gone had added to later hours.
func (Projection) Open(c *books.Closed, out *projections.Changes) error {
	for i := range c.Late {
		h := &c.Late[i]
		if len(h.Sums) != sums {
			return fmt.Errorf("hour %d has %d sums, not %d", h.Hour, len(h.Sums), sums)
		}
		var a adding
		a.upstream, a.model = h.Upstream, h.Model
		copy(a.sum[:], h.Sums)
		a.write(h.Key, HourTime(h.Hour), out)
	}
	return nil
}
