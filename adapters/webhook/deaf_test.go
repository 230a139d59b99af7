package webhook_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/webhook"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/events"
)

// deafFeed is the real feed, of which nobody can begin to read while it is deaf: the store takes no place of a group.
type deafFeed struct {
	events.Feed
	deaf  *atomic.Bool
	tries *atomic.Int64
}

type deafSubscriber struct {
	message.Subscriber
	feed deafFeed
}

func (f deafFeed) Subscriber(o events.FeedOptions) (message.Subscriber, error) {
	s, err := f.Feed.Subscriber(o)
	return deafSubscriber{s, f}, err
}

func (s deafSubscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	s.feed.tries.Add(1)
	if s.feed.deaf.Load() {
		return nil, events.ErrUnavailable
	}
	return s.Subscriber.Subscribe(ctx, topic)
}

// A webhook that was made while the store is full, or a gateway that starts then, tells of that all the same.
func TestAlertsGoOutThoughTheFeedCanNotBeRead(t *testing.T) {
	var deaf atomic.Bool
	var tries atomic.Int64
	deaf.Store(true)
	h := newHouse(t, func(o *webhook.Options) {
		o.Feed = deafFeed{o.Feed, &deaf, &tries}
		o.RetryMin, o.RetryMax = 50*time.Millisecond, 50*time.Millisecond
	})
	box := newReceiver(t, nil)
	h.manager.Reconfigure([]*catalog.Webhook{{ID: "ops", URL: box.URL, Events: []string{"alert.*"}, SecretVersion: 1, Active: true}}, 0)
	require.Eventually(t, func() bool { return tries.Load() > 0 }, patience, time.Millisecond)
	h.manager.Alert(webhook.Alert{Name: webhook.StoreUnavailable, At: time.Unix(1, 0), Data: webhook.StoreState{Node: "node-a", Error: "disk full"}})
	require.Eventually(t, func() bool { return len(box.types()) == 1 }, patience, time.Millisecond)
	deaf.Store(false)
	require.Eventually(t, func() bool { return h.checkpoint("ops") >= 0 }, patience, time.Millisecond)
}
