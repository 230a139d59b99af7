package lawtest

import (
	"context"
	"testing"

	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
)

// Commits stores a history in batches of the given sizes (the last one repeats) and returns what a journal would have
// pushed. The low water mark is kept as the journal keeps it.
func Commits(t testing.TB, store events.Store, history []events.Append, sizes ...int) [][]*events.Committed {
	t.Helper()
	var batches [][]*events.Committed
	open := openRequests{}
	for n := 0; len(history) > 0; n++ {
		size := 1
		if len(sizes) > 0 {
			size = sizes[min(n, len(sizes)-1)]
		}
		batch := history[:min(size, len(history))]
		history = history[len(batch):]
		results, err := store.Append(context.Background(), batch, open.lowWater())
		if err != nil {
			t.Fatalf("append: %v", err)
		}
		var pushed []*events.Committed
		for i, r := range results {
			if r.Err != nil {
				t.Fatalf("append to %s: %v", batch[i].Rows[0].Stream, r.Err)
			}
			c := &events.Committed{Position: r.First, Row: batch[i].Rows[0]}
			open.saw(c)
			pushed = append(pushed, c)
		}
		batches = append(batches, pushed)
	}
	return batches
}

// openRequests are the positions of the first rows of requests that have not ended.
type openRequests struct {
	first map[string]events.Position
	last  events.Position
}

func (o *openRequests) saw(c *events.Committed) {
	o.last = c.Last()
	if c.Request == "" {
		return
	}
	if o.first == nil {
		o.first = map[string]events.Position{}
	}
	if c.Version == 0 {
		o.first[c.Stream] = c.Position
	}
	if c.Terminal {
		delete(o.first, c.Stream)
	}
}

func (o *openRequests) lowWater() events.Position {
	low := o.last + 1
	for _, p := range o.first {
		low = min(low, p)
	}
	return low
}

// Start makes a runner and brings it to the head of the store; it is stopped when the test ends.
func Start(t testing.TB, o projections.Options) *projections.Runner {
	t.Helper()
	r := projections.NewRunner(o)
	if err := r.Start(context.Background()); err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() {
		if err := r.Stop(context.Background()); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return r
}

// Dump reads all rows of a projection in the order of their keys, table by table, with its checkpoint.
func Dump(t testing.TB, m projections.ReadModel, p projections.Projection) (rows []string, at events.Position) {
	t.Helper()
	ctx := context.Background()
	s, err := m.Snapshot(ctx)
	must(t, err)
	defer func() { must(t, s.Close()) }()
	checkpoint, err := s.Checkpoint(p.Name())
	must(t, err)
	for _, table := range p.Tables() {
		scan, err := s.Scan(ctx, table)
		must(t, err)
		for row, more := scan.Next(); more; row, more = scan.Next() {
			line := table.Name + ":"
			for _, v := range row {
				line += " " + v.String()
			}
			rows = append(rows, line)
		}
		must(t, scan.Err())
		must(t, scan.Close())
	}
	return rows, checkpoint.Position
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
