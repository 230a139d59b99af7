package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/events"
)

// Facts per second of one reader of the feed: each acknowledged before the next, within a window, and left out.
func BenchmarkFeed(b *testing.B) {
	s := openStore(b, filepath.Join(b.TempDir(), "events.db"), sqlite.StoreOptions{})
	const facts = 20_000
	for i := range facts / 500 {
		var batch []events.Append
		for k := range 500 {
			batch = append(batch, one(row(b, "a", int64(500*i+k)))...)
		}
		_, err := s.Append(context.Background(), batch, 0)
		require.NoError(b, err)
	}
	last := row(b, "b", 0)
	last.Upstream = "last"
	_, err := s.Append(context.Background(), one(last), 0)
	require.NoError(b, err)
	for name, o := range map[string]events.FeedOptions{
		"one by one": {}, "window 64": {Window: 64}, "left out": {Filter: events.FeedFilter{Upstream: "last"}},
	} {
		b.Run(name, func(b *testing.B) {
			var bell events.Bell
			for b.Loop() {
				sub, err := s.Feed(&bell, nil).Subscriber(o)
				require.NoError(b, err)
				out, err := sub.Subscribe(context.Background(), events.Topic)
				require.NoError(b, err)
				for m := range out {
					m.Ack()
					if events.PositionOf(m) == facts+1 {
						break
					}
				}
				require.NoError(b, sub.Close())
			}
			b.ReportMetric(float64(facts*b.N)/b.Elapsed().Seconds(), "facts/s")
		})
	}
}
