package feedtest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/events"
)

var groups = map[string]func(*testing.T, *bench){
	"a group resumes behind what it acknowledged": func(t *testing.T, b *bench) {
		b.many(5)
		r := b.read(events.FeedOptions{Group: "g"})
		require.Equal(t, span(1, 2), r.take(2))
		m := r.next() // 3 is out, and nobody says what became of it
		r.close()
		m.Ack() // too late
		require.Equal(t, span(3, 5), b.read(events.FeedOptions{Group: "g"}).take(3))
	},
	"a checkpoint is stored soon, not only at the end": func(t *testing.T, b *bench) {
		b.many(3)
		r := b.read(events.FeedOptions{Group: "g"})
		r.take(2)
		r.next().Ack()
		b.reaches("g", 3)
	},
	"groups do not know of each other": func(t *testing.T, b *bench) {
		b.many(4)
		one, two := b.read(events.FeedOptions{Group: "one"}), b.read(events.FeedOptions{Group: "two"})
		stuck := one.next()
		require.Equal(t, span(1, 4), two.take(4))
		stuck.Nack()
		require.Equal(t, span(1, 4), one.take(4))
		b.reaches("one", 4)
		b.reaches("two", 4)
	},
	"a new group begins where it is told, an old one where it was": func(t *testing.T, b *bench) {
		b.put(row("upstream/a", 1, 2, 3), row("upstream/a", 4, 5))
		require.Equal(t, span(3, 5), b.read(events.FeedOptions{Group: "inside a row", From: 2}).take(3))
		head := b.read(events.FeedOptions{Group: "head", From: events.FeedHead})
		require.EqualValues(t, 5, b.checkpoint("head"), "it is stored at once")
		b.put(row("upstream/a", 6))
		require.Equal(t, span(6, 6), head.take(1))
		b.reaches("head", 6) // an Ack right before the end may be lost
		head.close()
		b.put(row("upstream/a", 7))
		require.Equal(t, span(7, 7), b.read(events.FeedOptions{Group: "head"}).take(1))
		ahead := b.read(events.FeedOptions{Group: "ahead", From: 8})
		b.put(row("upstream/a", 8, 9))
		require.Equal(t, span(9, 9), ahead.take(1))
	},
	"a reader without a group leaves no checkpoint, and there may be many": func(t *testing.T, b *bench) {
		b.many(2)
		one, two := b.read(events.FeedOptions{From: 1}), b.read(events.FeedOptions{})
		require.Equal(t, span(2, 2), one.take(1))
		require.Equal(t, span(1, 2), two.take(2))
		one.close()
		two.close()
		list, err := b.Feed.Checkpoints(context.Background())
		require.NoError(t, err)
		require.Empty(t, list)
	},
	"a group has one subscription at a time": func(t *testing.T, b *bench) {
		r := b.read(events.FeedOptions{Group: "g"})
		other, err := b.Feed.Subscriber(events.FeedOptions{Group: "g"})
		require.NoError(t, err)
		_, err = other.Subscribe(context.Background(), events.Topic)
		require.ErrorIs(t, err, events.ErrGroupBusy)
		require.ErrorIs(t, b.Feed.Forget(context.Background(), "g"), events.ErrGroupBusy)
		r.close()
		_, err = other.Subscribe(context.Background(), events.Topic)
		require.NoError(t, err)
		require.NoError(t, other.Close())
	},
	"a forgotten group is a new one": func(t *testing.T, b *bench) {
		b.many(2)
		r := b.read(events.FeedOptions{Group: "g"})
		r.take(2)
		r.close()
		require.NoError(t, b.Feed.Forget(context.Background(), "g"))
		require.NoError(t, b.Feed.Forget(context.Background(), "never there"))
		require.EqualValues(t, -1, b.checkpoint("g"))
		require.Equal(t, span(1, 2), b.read(events.FeedOptions{Group: "g"}).take(2))
	},
}

var ends = map[string]func(*testing.T, *bench){
	"wrong options and topics are refused": func(t *testing.T, b *bench) {
		for _, o := range []events.FeedOptions{{From: -2}, {Window: -1}, {ResendAfter: -1}} {
			_, err := b.Feed.Subscriber(o)
			require.ErrorIs(t, err, events.ErrFeed)
		}
		sub, err := b.Feed.Subscriber(events.FeedOptions{})
		require.NoError(t, err)
		_, err = sub.Subscribe(context.Background(), "else")
		require.ErrorIs(t, err, events.ErrFeed)
		require.NoError(t, sub.Close())
		_, err = sub.Subscribe(context.Background(), events.Topic)
		require.Error(t, err, "a closed subscriber takes no more")
	},
	"a subscription whose store is gone ends when it is told to": func(t *testing.T, b *bench) {
		b.many(1)
		r := b.read(events.FeedOptions{Group: "g"})
		r.take(1)
		require.NoError(t, b.journal.Close(context.Background()))
		require.NoError(t, b.Store.Close())
		r.close()
		_, open := <-r.out
		require.False(t, open)
	},
}
