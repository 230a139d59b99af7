// Package feedtest holds what every feed must pass: Run, the promises of events.Feed one by one, and Killed, a
// consumer process that is killed again and again.
package feedtest

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// Rig is a store with its feed.
type Rig struct {
	Store events.Store
	Feed  events.Feed
	// Ring is called after each commit, by the journal; nil for a feed that notices by itself.
	Ring func()
}

// Run checks every promise of events.Feed. open makes a fresh, empty store and closes it when its test ends.
func Run(t *testing.T, open func(t *testing.T) Rig) {
	t.Run("promises", func(t *testing.T) {
		for _, group := range []map[string]func(*testing.T, *bench){delivery, groups, gaps, ends} {
			for name, promise := range group {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					promise(t, newBench(t, open(t)))
				})
			}
		}
	})
	t.Run("no goroutine is left", func(t *testing.T) { calm(t, "events.(*pull)", "watermill") })
}

// bench appends through a journal and reads through the feed.
type bench struct {
	Rig
	t       *testing.T
	journal *events.Journal
}

func newBench(t *testing.T, r Rig) *bench {
	b := &bench{Rig: r, t: t}
	push := func([]*events.Committed) {
		if r.Ring != nil {
			r.Ring()
		}
	}
	b.journal = events.NewJournal(events.JournalOptions{Store: r.Store, Push: push, Node: "node-a"})
	t.Cleanup(func() { _ = b.journal.Close(context.Background()) })
	return b
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)

// row is one append of as many facts as there are numbers.
func row(stream string, numbers ...int64) events.Row {
	r := events.Row{Stream: stream, Version: events.AnyVersion, At: noon, Node: "node-a"}
	for _, n := range numbers {
		r.Facts = append(r.Facts, &request.Resumed{Upstream: "u", WaitedUS: n})
	}
	return r
}

// put commits rows, each as an append of its own.
func (b *bench) put(rows ...events.Row) {
	b.t.Helper()
	for _, r := range rows {
		require.NoError(b.t, b.journal.Commit(events.Append{Rows: []events.Row{r}}, events.Must))
	}
}

// many commits n facts in rows of one.
func (b *bench) many(n int) {
	b.t.Helper()
	for i := range n {
		b.put(row("upstream/a", int64(i)))
	}
}

// reader is one subscription under test.
type reader struct {
	t   *testing.T
	sub message.Subscriber
	out <-chan *message.Message
}

func (b *bench) read(o events.FeedOptions) *reader {
	b.t.Helper()
	if o.ResendAfter == 0 {
		o.ResendAfter = time.Millisecond
	}
	sub, err := b.Feed.Subscriber(o)
	require.NoError(b.t, err)
	out, err := sub.Subscribe(context.Background(), events.Topic)
	require.NoError(b.t, err)
	r := &reader{b.t, sub, out}
	b.t.Cleanup(r.close)
	return r
}

func (r *reader) close() { _ = r.sub.Close() }

// patience is how long something may take that must happen.
const patience = time.Minute

// next is the next message, not acknowledged.
func (r *reader) next() *message.Message {
	r.t.Helper()
	select {
	case m, open := <-r.out:
		require.True(r.t, open, "the subscription has ended")
		return m
	case <-time.After(patience):
		require.FailNow(r.t, "no message comes")
		return nil
	}
}

// take acknowledges n messages and gives their positions.
func (r *reader) take(n int) (positions []string) {
	r.t.Helper()
	for range n {
		m := r.next()
		positions = append(positions, m.Metadata.Get(events.MetaPosition))
		require.True(r.t, m.Ack())
	}
	return positions
}

// silent says that no message waits to be read.
func (r *reader) silent() bool {
	select {
	case <-r.out:
		return false
	default:
		return true
	}
}

// span is "a b c" as positions.
func span(first, last int) (list []string) {
	for n := first; n <= last; n++ {
		list = append(list, strconv.Itoa(n))
	}
	return list
}

// reaches waits until the stored checkpoint of a group is at a position or behind it.
func (b *bench) reaches(group string, at events.Position) {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return b.checkpoint(group) >= at }, patience, 5*time.Millisecond,
		"checkpoint of %s at %d", group, b.checkpoint(group))
}

func (b *bench) checkpoint(group string) events.Position {
	b.t.Helper()
	list, err := b.Feed.Checkpoints(context.Background())
	require.NoError(b.t, err)
	for _, c := range list {
		if c.Group == group {
			return c.Position
		}
	}
	return -1
}

// calm waits until no goroutine runs in the named functions.
func calm(t *testing.T, functions ...string) {
	t.Helper()
	left := func() (found []string) {
		buf := make([]byte, 4<<20)
		for _, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			for _, f := range functions {
				if strings.Contains(stack, f) {
					found = append(found, stack)
				}
			}
		}
		return found
	}
	require.Eventually(t, func() bool { return len(left()) == 0 }, patience, 10*time.Millisecond, "%s", fmt.Sprint(left()))
}
