package feedtest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/events"
)

// begun begins the stream of a request.
func begun(id string, numbers ...int64) events.Row {
	r := row(events.RequestStreams+id, numbers...)
	r.Version, r.Request = 0, id
	return r
}

// remove does what retention does with the requests that begin in the span.
func (b *bench) remove(s books.Span) {
	b.t.Helper()
	said := events.Row{Stream: books.Stream, Version: events.AnyVersion, At: noon, Node: "node-a", Facts: []events.Fact{&books.Removed{Day: "2026-03-01", Span: s}}}
	b.put(said)
	r := events.Removal{First: events.Position(s.First), Last: events.Position(s.Last), Through: events.Position(s.Through)}
	for n := 1; n > 0; {
		var err error
		n, err = b.Store.Remove(context.Background(), r, 100)
		require.NoError(b.t, err)
	}
}

// worn is a store of which retention has taken 2, 3, 5 and 6; 8 says so.
func (b *bench) worn() {
	b.put(row("upstream/a", 1), begun("r1", 2, 3), row("upstream/a", 4), begun("r2", 5, 6), begun("r3", 7))
	b.remove(books.Span{First: 2, Last: 5, Through: 6})
}

// gap wants the next message to be the one about what worn has lost.
func (r *reader) gap() events.Gap {
	r.t.Helper()
	m := r.next()
	g, is := events.GapOf(m)
	require.True(r.t, is, "%s %s", m.Metadata.Get(events.MetaType), m.UUID)
	_, err := events.FactOf(m)
	require.ErrorIs(r.t, err, events.ErrFact)
	_, err = events.Line(m)
	require.NoError(r.t, err)
	require.Equal(r.t, events.Position(g.Next-1), events.PositionOf(m), "who goes on behind it misses nothing more")
	m.Ack()
	return g
}

var gaps = map[string]func(*testing.T, *bench){
	"what was removed before it was read is told of in its place": func(t *testing.T, b *bench) {
		b.worn()
		for _, group := range []string{"", "g"} {
			r := b.read(events.FeedOptions{Group: group})
			require.Equal(t, span(1, 1), r.take(1))
			require.Equal(t, events.Gap{First: 2, Last: 6, Next: 4}, r.gap())
			require.Equal(t, []string{"4", "7", "8"}, r.take(3), "and once for all of it")
			r.close()
		}
		r := b.read(events.FeedOptions{From: 2})
		require.Equal(t, events.Gap{First: 3, Last: 6, Next: 4}, r.gap())
	},
	"a group that has rested is told when it comes back": func(t *testing.T, b *bench) {
		b.put(row("upstream/a", 1), begun("r1", 2))
		r := b.read(events.FeedOptions{Group: "g"})
		require.Equal(t, span(1, 2), r.take(2))
		b.reaches("g", 2)
		r.close()
		b.put(row(events.RequestStreams+"r1", 3))
		b.remove(books.Span{First: 2, Last: 2, Through: 3})
		r = b.read(events.FeedOptions{Group: "g"})
		require.Equal(t, events.Gap{First: 3, Last: 3, Next: 4}, r.gap())
		require.Equal(t, span(4, 4), r.take(1))
	},
	"what is told of a gap comes again until it is acknowledged": func(t *testing.T, b *bench) {
		b.worn()
		r := b.read(events.FeedOptions{Group: "g", Window: 4})
		require.Equal(t, span(1, 1), r.take(1))
		for range 2 {
			m := r.next()
			require.Equal(t, events.TypeRemoved, m.Metadata.Get(events.MetaType))
			require.Equal(t, "4", r.next().UUID)
			m.Nack()
			for m.Context().Err() == nil {
				time.Sleep(time.Millisecond)
			}
		}
		r.close()
		r = b.read(events.FeedOptions{Group: "g", Window: 4})
		require.Equal(t, events.Gap{First: 2, Last: 6, Next: 4}, r.gap())
		require.Equal(t, []string{"4", "7", "8"}, r.take(3))
		b.reaches("g", 8)
	},
	"a consumer that asks for nothing that can be removed is told of nothing": func(t *testing.T, b *bench) {
		b.worn()
		require.Equal(t, []string{"1", "4"}, b.read(events.FeedOptions{Group: "s", Filter: events.FeedFilter{Stream: "upstream/a"}}).take(2))
		require.Equal(t, []string{"8"}, b.read(events.FeedOptions{Group: "b", Filter: events.FeedFilter{Types: []string{"books.*"}}}).take(1))
	},
	"a time finds its place though its facts were removed": func(t *testing.T, b *bench) {
		later := begun("r2", 3)
		later.At = noon.Add(time.Hour)
		b.put(begun("r1", 1, 2), later)
		since := func(d time.Duration) events.Position {
			from, err := b.Feed.Since(context.Background(), noon.Add(d))
			require.NoError(t, err)
			return from
		}
		for range 2 { // before and after the removal
			require.Equal(t, []events.Position{0, 0, 2}, []events.Position{since(-time.Hour), since(0), since(time.Minute)})
			b.remove(books.Span{First: 1, Last: 2, Through: 2})
		}
		head, err := b.Feed.Head(context.Background())
		require.NoError(t, err)
		require.Equal(t, head, since(2*time.Hour))
	},
}
