package lawtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/closing"
	"github.com/penstock/penstock/projections/ledger"
)

// Closings holds the laws against histories whose days are closed and whose events are taken away in between, and whose
// requests are priced anew up to then. Whatever has been taken away, and however much of it is still there: rebuilt equals
// live, and the bill by day and by every dimension is that of a history from which nothing was taken.
func Closings(t *testing.T, s Subject) {
	if s.Seeds == 0 {
		s.Seeds = 5
	}
	for seed := range uint64(s.Seeds) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			history, err := History{Seed: seed, Requests: 2 * requests, Step: 15 * time.Minute, Unended: int(seed % 3), Repriced: true}.Appends()
			must(t, err)
			c := &closed{law: &law{Subject: s, rand: rand.New(rand.NewPCG(seed, 3)), store: s.Store(t)}, T: t}
			c.live(numbered(history))
			if len(c.removed) < 2 || c.repriced == 0 || c.refused == 0 {
				t.Fatalf("%d days were removed, %d requests repriced, %d refused: the law would hold of nothing", len(c.removed), c.repriced, c.refused)
			}
			untouched := &law{Subject: s, rand: rand.New(rand.NewPCG(seed, 2)), store: s.Store(t)}
			again := &closed{law: untouched, T: t}
			for _, a := range c.taken {
				again.store1(a)
			}
			whole := untouched.plain(t)
			for _, table := range []*projections.Table{billing.Days, ledger.Repriced} {
				want := rowsOf(t, whole, table)
				if have := rowsOf(t, c.model, table); !slices.Equal(have, want) || len(want) == 0 {
					t.Errorf("%s:\nhave %v\nwant %v", table.Name, have, want)
				}
			}
			c.behind()
			c.goOn()
		})
	}
}

// closed is a store whose books are closed while it is written.
type closed struct {
	*law
	*testing.T
	model   projections.ReadModel
	runner  *projections.Runner
	open    openRequests
	book    books.Ledger
	version int64 // of the stream of the books
	removed []events.Removal
	early   projections.ReadModel // that was left behind before anything was removed

	where             moved
	taken             []told // of the history
	repriced, refused int
}

// live commits a history in batches, and now and then closes a day, takes one away, or a part of it.
func (c *closed) live(history []told) {
	c.model = c.Model(c)
	c.runner = Start(c, c.options(c.model))
	for len(history) > 0 {
		n := min(1+c.rand.IntN(9), len(history))
		c.take(history[:n])
		last := history[n-1].Rows[0].At
		history = history[n:]
		switch c.rand.IntN(12) {
		case 0, 1:
			c.close(last)
		case 2:
			c.remove()
		case 3, 4:
			c.sweep(1 + c.rand.IntN(9))
		case 5:
			c.verify()
		case 6:
			c.trim()
		case 7:
			c.interrupt()
		}
	}
	for c.close(time.Unix(1<<40, 0)) {
		c.remove()
		c.verify()
		c.sweep(1 + c.rand.IntN(9))
		c.verify()
	}
	c.sweep(1 << 20)
	c.verify()
	report, err := events.Audit{}.Verify(context.Background(), c.store)
	must(c, err)
	if !report.Equal || report.Archived == 0 {
		c.Errorf("the chain over the gaps: %+v", report)
	}
	live := map[string][]string{}
	for _, p := range c.Projections {
		live[p.Name()], _ = Dump(c, c.model, p)
	}
	c.want = live
	c.same(c, c.plain(c.T))
}

// take commits what may be told: no request of a closed day is priced anew.
func (c *closed) take(list []told) {
	var batch []events.Append
	flush := func() {
		if len(batch) > 0 {
			for i, at := range c.commit(batch...) {
				c.where.lies(c.taken[len(c.taken)-len(batch)+i], at)
			}
			batch = nil
		}
	}
	for _, a := range list {
		if a.reprices() {
			flush() // so that it is known where everything lies
			if c.book.Refusal(int64(c.where.first[a.Rows[0].Stream])) != nil {
				c.refused++
				continue
			}
			c.repriced++
		}
		batch = append(batch, c.where.placed(c, a))
		c.taken = append(c.taken, a)
	}
	flush()
}

// store1 stores one append of a history, for nobody who projects.
func (c *closed) store1(a told) {
	results, err := c.store.Append(context.Background(), []events.Append{c.where.placed(c, a)}, c.open.lowWater())
	must(c, err)
	must(c, results[0].Err)
	c.open.saw(&events.Committed{Position: results[0].First, Row: a.Rows[0]})
	c.where.lies(a, results[0].First)
}

func (c *closed) commit(batch ...events.Append) (places []events.Position) {
	results, err := c.store.Append(context.Background(), batch, c.open.lowWater())
	must(c, err)
	var pushed []*events.Committed
	for i, r := range results {
		must(c, r.Err)
		row := &events.Committed{Position: r.First, Row: batch[i].Rows[0]}
		c.open.saw(row)
		pushed = append(pushed, row)
		places = append(places, r.First)
	}
	c.runner.Push(pushed)
	return places
}

// say appends a fact about the books.
func (c *closed) say(fact events.Fact) {
	row := events.Row{Stream: books.Stream, Version: c.version, At: time.UnixMicro(1_800_000_000_000_000).UTC(), Facts: []events.Fact{fact}}
	must(c, events.Encode(&row))
	c.commit(events.Append{Rows: []events.Row{row}})
	c.version++
	c.book.Evolve(fact)
}

// close closes the next day that has ended by now, if all its requests have.
func (c *closed) close(now time.Time) bool {
	ctx := context.Background()
	first := events.Position(1)
	if last := c.book.Last(); last != nil {
		first = events.Position(last.Last) + 1
	}
	find := func(q events.Query) (found *events.Committed) {
		q.StreamPrefix, q.Limit = events.RequestStreams, 1
		must(c, c.store.Find(ctx, q, func(x *events.Committed) bool { found = x; return true }))
		return found
	}
	next := find(events.Query{After: first - 1})
	if next == nil {
		return false
	}
	day := next.At.UTC().Truncate(24 * time.Hour)
	if last := c.book.Last(); last != nil && books.DayOf(day) <= last.Day {
		after, err := books.ParseDay(last.Day)
		must(c, err)
		day = after.Add(24 * time.Hour)
	}
	end := day.Add(24 * time.Hour)
	if !end.Before(now) {
		return false
	}
	f, err := closing.Of(ctx, c.store, books.DayOf(day), first, find(events.Query{Until: end, Newest: true}).Position)
	if errors.Is(err, books.ErrOpen) {
		return false
	}
	must(c, err)
	c.say(f)
	return true
}

// remove begins to take away the oldest closed day that is whole, but never the last one.
func (c *closed) remove() {
	for i := range len(c.book.Closed) - 1 {
		f := &c.book.Closed[i]
		if c.book.Removed[f.Day] {
			continue
		}
		if c.early == nil {
			c.early = c.plain(c.T)
		}
		c.say(&books.Removed{Day: f.Day, Span: f.Span})
		must(c, c.runner.Flush(context.Background()))
		c.removed = append(c.removed, events.Removal{
			First: events.Position(f.First), Last: events.Position(f.Last), Through: events.Position(f.Through),
		})
		return
	}
}

// trim takes away the lines of the oldest closed day, but never of the last one.
func (c *closed) trim() {
	for i := range len(c.book.Closed) - 1 {
		f := &c.book.Closed[i]
		if f.Day > c.book.Trimmed {
			c.say(&books.Trimmed{Day: f.Day, Last: f.Last})
			return
		}
	}
}

// sweep takes away at most so many rows of what may go.
func (c *closed) sweep(rows int) {
	for _, r := range c.removed {
		for rows > 0 {
			n, err := c.store.Remove(context.Background(), r, min(rows, 64))
			must(c, err)
			if n == 0 {
				break
			}
			rows -= n
		}
	}
}

// verify wants rebuilt to be equal to live.
func (c *closed) verify() {
	must(c, c.runner.Flush(context.Background()))
	for _, p := range c.Projections {
		report, err := projections.Verify(context.Background(), c.store, c.model, p, c.Shadow)
		must(c, err)
		if !report.Equal {
			c.Fatalf("verify %s: %+v", p.Name(), report)
		}
	}
}

// behind brings up a read model that was left behind before the first removal: what it would need is gone, so that it
// must be made anew.
func (c *closed) behind() {
	r := projections.NewRunner(c.options(c.early))
	must(c, r.Start(context.Background()))
	must(c, r.Stop(context.Background()))
	c.same(c, c.early)
}

// interrupt begins to rebuild the projections and leaves their shadows behind; what they would need next may be taken away.
func (c *closed) interrupt() {
	must(c, c.runner.Flush(context.Background()))
	for _, p := range c.Projections {
		ctx, cancel := context.WithCancel(context.Background())
		commits := 1 + c.rand.IntN(4)
		watched := projections.WatchEvery(ctx, events.Position(20+c.rand.IntN(200)), func(projections.Progress) {
			if commits--; commits == 0 {
				cancel()
			}
		})
		_, err := projections.Rebuild(watched, c.store, c.model, p, func() (projections.ReadModel, error) {
			shadow, err := c.model.Beside(context.Background(), p)
			return uncommitted{shadow}, err // so that it is left even when it came to its end
		})
		cancel()
		if err != nil && !errors.Is(err, context.Canceled) {
			c.Fatal(err)
		}
	}
}

// uncommitted is a shadow that is never discarded.
type uncommitted struct{ projections.ReadModel }

// goOn rebuilds with the shadows that were left.
func (c *closed) goOn() {
	for _, p := range c.Projections {
		_, err := c.runner.Rebuild(context.Background(), p.Name(), nil)
		must(c, err)
	}
	c.same(c, c.model)
}

func rowsOf(t *testing.T, m projections.ReadModel, table *projections.Table) (rows []string) {
	s, err := m.Snapshot(context.Background())
	must(t, err)
	defer func() { must(t, s.Close()) }()
	scan, err := s.Scan(context.Background(), table)
	must(t, err)
	for row, more := scan.Next(); more; row, more = scan.Next() {
		rows = append(rows, fmt.Sprint(row))
	}
	must(t, scan.Err())
	must(t, scan.Close())
	return rows
}

// cutting takes rows away in the commit that writes them, and in the one after.
func (l *law) cutting(t *testing.T) {
	ctx := context.Background()
	p := billing.Projection{}
	table := billing.Entries
	row := func(position, began int64) []projections.Value {
		values := sample(table, 1)
		values[0], values[table.Column("began")] = projections.Int(position), projections.Int(began)
		return values
	}
	for _, together := range []bool{true, false} {
		m := l.Model(t)
		var changes projections.Changes
		step := projections.Step{Projection: p.Name(), Version: p.Version(), To: 1}
		for _, r := range [][2]int64{{5, 3}, {6, 2}, {7, 4}, {8, 3}, {9, 3}} {
			changes.Append(table, row(r[0], r[1])...)
		}
		if !together {
			must(t, m.Commit(ctx, &changes, []projections.Step{step}))
			changes.Reset()
			step.From, step.To = 1, 2
		}
		changes.Cut(projections.Cut{Table: table, From: 6, To: 8, Column: "began", Low: 3, High: 4})
		changes.Append(table, row(8, 3)...) // after the cut
		changes.Append(table, row(5, 9)...) // is there already
		must(t, m.Commit(ctx, &changes, []projections.Step{step}))
		var have []string
		s, err := m.Snapshot(ctx)
		must(t, err)
		scan, err := s.Scan(ctx, table)
		must(t, err)
		for r, more := scan.Next(); more; r, more = scan.Next() {
			have = append(have, fmt.Sprint(r[0].Int(), r[table.Column("began")].Int()))
		}
		must(t, scan.Err())
		must(t, scan.Close())
		must(t, s.Close())
		if want := []string{"5 3", "6 2", "8 3", "9 3"}; !slices.Equal(have, want) {
			t.Errorf("in one commit: %v: have %q, want %q", together, have, want)
		}
	}
}
