package feedtest

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

var delivery = map[string]func(*testing.T, *bench){
	"each fact is one message with its place, in order of position": func(t *testing.T, b *bench) {
		first := row("request/r1", 1, 2)
		first.Version, first.Request, first.Key, first.Upstream = 0, "r1", "k", "u"
		b.put(first, row("node/x\x00y", 3))
		r := b.read(events.FeedOptions{Group: "g"})
		var got []message.Metadata
		for i := range 3 {
			m := r.next()
			require.JSONEq(t, `{"upstream":"u","waited_us":`+string(rune('1'+i))+`}`, string(m.Payload))
			fact, err := events.FactOf(m)
			require.NoError(t, err)
			require.Equal(t, &request.Resumed{Upstream: "u", WaitedUS: int64(i + 1)}, fact)
			require.Equal(t, m.UUID, m.Metadata.Get(events.MetaPosition))
			require.EqualValues(t, i+1, events.PositionOf(m))
			got = append(got, m.Metadata)
			m.Ack()
		}
		of := func(position, stream, version string) message.Metadata {
			return message.Metadata{"position": position, "stream": stream, "version": version, "type": "request.resumed",
				"schema": "1", "at": "2026-03-01T12:00:00.123456Z", "node": "node-a"}
		}
		want := []message.Metadata{of("1", "request/r1", "1"), of("2", "request/r1", "2"), of("3", "node/x\x00y", "1")}
		for _, m := range want[:2] {
			m["request"], m["key"], m["upstream"] = "r1", "k", "u"
		}
		require.Equal(t, want, got)
	},
	"a line is what the events command shows": func(t *testing.T, b *bench) {
		b.put(row("upstream/a", 5))
		m := b.read(events.FeedOptions{}).next()
		line, err := events.Line(m)
		require.NoError(t, err)
		require.Equal(t, `{"position":1,"stream":"upstream/a","version":1,"type":"request.resumed","schema":1,`+
			`"at":"2026-03-01T12:00:00.123456Z","node":"node-a","data":{"upstream":"u","waited_us":5}}`, string(line))
		require.True(t, json.Valid(line))
	},
	"the next message comes after the Ack of the one before": func(t *testing.T, b *bench) {
		b.many(2)
		r := b.read(events.FeedOptions{Group: "g"})
		m := r.next()
		require.True(t, r.silent())
		require.NoError(t, m.Context().Err())
		m.Ack()
		require.Equal(t, "2", r.next().UUID)
		require.Error(t, m.Context().Err(), "the context of a message ends with its Ack")
	},
	"a Nack delivers the message again before any other": func(t *testing.T, b *bench) {
		b.many(3)
		r := b.read(events.FeedOptions{Group: "g"})
		require.Equal(t, span(1, 1), r.take(1))
		for range 3 {
			m := r.next()
			require.Equal(t, "2", m.UUID)
			m.Nack()
		}
		require.Equal(t, span(2, 3), r.take(2))
		b.reaches("g", 3)
	},
	"order holds whatever is refused within a window": func(t *testing.T, b *bench) {
		b.put(row("upstream/a", 1, 2, 3), row("upstream/a", 4, 5, 6))
		r := b.read(events.FeedOptions{Group: "g", Window: 3})
		var accepted []string
		refused := map[string]bool{}
		for len(accepted) < 6 {
			m := r.next()
			if m.UUID == "2" || m.UUID == "5" {
				if !refused[m.UUID] {
					refused[m.UUID] = true
					m.Nack()
					continue
				}
			}
			if m.Context().Err() != nil || events.PositionOf(m) != events.Position(len(accepted)+1) {
				continue // it was taken back behind the refused one, and comes again
			}
			m.Ack()
			accepted = append(accepted, m.UUID)
		}
		require.Equal(t, span(1, 6), accepted)
		b.reaches("g", 6)
	},
	"as many are out without an Ack as the window has room for": func(t *testing.T, b *bench) {
		other := row("upstream/b", 4)
		b.put(row("upstream/a", 1, 2, 3), other, row("upstream/a", 5, 6))
		r := b.read(events.FeedOptions{Group: "g", Window: 3, Filter: events.FeedFilter{Stream: "upstream/a"}})
		first, second, third := r.next(), r.next(), r.next()
		require.Equal(t, []string{"1", "2", "3"}, []string{first.UUID, second.UUID, third.UUID})
		require.True(t, r.silent())
		third.Ack()
		require.True(t, r.silent(), "the oldest one has no Ack")
		first.Ack()
		fifth := r.next()
		require.Equal(t, "5", fifth.UUID)
		r.close()
		require.EqualValues(t, 1, b.checkpoint("g"))
		require.Error(t, fifth.Context().Err())
		require.Equal(t, []string{"2", "3", "5", "6"}, b.read(events.FeedOptions{Group: "g", Window: 3, Filter: events.FeedFilter{Stream: "upstream/a"}}).take(4))
	},
	"a commit wakes readers at once": func(t *testing.T, b *bench) {
		r := b.read(events.FeedOptions{Group: "g", From: events.FeedHead})
		var puts, waits []time.Duration
		for i := range 20 {
			began := time.Now()
			b.put(row("upstream/a", int64(i)))
			stored := time.Now()
			r.take(1)
			puts, waits = append(puts, stored.Sub(began)), append(waits, time.Since(stored))
		}
		slices.Sort(puts)
		slices.Sort(waits)
		// Who polls waits for half a second more often than not; a machine that is slow at reading is slow at writing, too.
		require.Less(t, waits[10], 250*time.Millisecond+4*puts[10], "readers poll: %s", waits)
	},
	"filters leave out facts, and the checkpoint passes over them": func(t *testing.T, b *bench) {
		other := row("upstream/b", 1)
		other.Upstream = "b"
		other.Facts = append(other.Facts, &request.Queued{Position: 7})
		b.put(row("upstream/a", 1, 2), other, row("upstream/a", 3))
		for name, c := range map[string]struct {
			filter events.FeedFilter
			want   []string
		}{
			"all":        {events.FeedFilter{}, span(1, 5)},
			"a name":     {events.FeedFilter{Types: []string{"request.queued"}}, span(4, 4)},
			"globs":      {events.FeedFilter{Types: []string{"x.*", "request.r*"}}, []string{"1", "2", "3", "5"}},
			"a stream":   {events.FeedFilter{Stream: "upstream/a"}, []string{"1", "2", "5"}},
			"upstream":   {events.FeedFilter{Upstream: "b"}, span(3, 4)},
			"both":       {events.FeedFilter{Upstream: "b", Types: []string{"request.resumed"}}, span(3, 3)},
			"of no key":  {events.FeedFilter{Key: "k"}, nil},
			"no request": {events.FeedFilter{Request: "r"}, nil},
		} {
			r := b.read(events.FeedOptions{Group: name, Filter: c.filter})
			require.Equal(t, c.want, r.take(len(c.want)), name)
			if len(c.want) > 0 {
				b.reaches(name, 5)
			}
			r.close()
		}
	},
	"nothing is skipped or doubled while many write": func(t *testing.T, b *bench) {
		const writers, each = 4, 250
		r := b.read(events.FeedOptions{Group: "g", Window: 16})
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				for i := range each {
					a := events.Append{Rows: []events.Row{row("upstream/"+string(rune('a'+w)), int64(i), int64(i))}}
					if b.journal.Commit(a, events.Must) != nil {
						return
					}
				}
			})
		}
		require.Equal(t, span(1, 2*writers*each), r.take(2*writers*each))
		all.Wait()
	},
	"a subscription ends with its context": func(t *testing.T, b *bench) {
		b.many(1)
		sub, err := b.Feed.Subscriber(events.FeedOptions{Group: "g"})
		require.NoError(t, err)
		defer sub.Close()
		ctx, cancel := context.WithCancel(context.Background())
		out, err := sub.Subscribe(ctx, events.Topic)
		require.NoError(t, err)
		m := <-out
		cancel()
		_, open := <-out
		require.False(t, open)
		require.Error(t, m.Context().Err())
	},
}
