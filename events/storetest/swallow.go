package storetest

import (
	"context"

	"github.com/penstock/penstock/events"
)

// Swallowing is an event store that says yes to all appends and keeps none: for measurements of what is before it. It can do nothing else.
type Swallowing struct{ events.Store }

// Append implements events.Store.
func (Swallowing) Append(_ context.Context, batch []events.Append, _ events.Position) ([]events.Result, error) {
	results := make([]events.Result, len(batch))
	for i := range results {
		results[i].First = 1
	}
	return results, nil
}
