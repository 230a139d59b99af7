package penstock

import (
	"context"

	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
)

// What a closer tells of to those who watch (projections.Watch).
const (
	closingBooks   = "closing books"   // positions up to the last day that is to be closed
	writingArchive = "writing archive" // those of one day
	removingEvents = "removing events" // rows of all days that retention takes away now
)

// watched is a store of whose readings it is told how far they are.
type watched struct {
	events.Store
	passed func(events.Position)
}

// watching tells of readings of the closer's store as progress of something.
func (c *closer) watching(ctx context.Context, p projections.Progress) watched {
	seen := 0
	return watched{c.chain, func(at events.Position) {
		if seen++; seen%tellEvery == 0 {
			p.Position = min(at, p.To)
			projections.Tell(ctx, p)
		}
	}}
}

// tellEvery is how many rows or links are read before it is told how far that is.
const tellEvery = 512

// After implements events.Store.
func (w watched) After(ctx context.Context, after events.Position, yield func(*events.Committed) bool) error {
	return w.Store.After(ctx, after, func(c *events.Committed) bool {
		w.passed(c.Last())
		return yield(c)
	})
}

// Chain implements events.Chain.
func (w watched) Chain(ctx context.Context, after events.Position, yield func(*events.Commit, []events.RawRow) bool) error {
	return w.Store.Chain(ctx, after, func(c *events.Commit, rows []events.RawRow) bool {
		w.passed(c.First)
		return yield(c, rows)
	})
}
