package postgres_test

import (
	"bufio"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/postgres"
	"github.com/penstock/penstock/adapters/postgres/pgtest"
	"github.com/penstock/penstock/adapters/webhook"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/events"
)

// What a consumer sees of the feed does not depend on the store: retries, order, and a stop in the middle.
func TestWebhooksReadThePostgreSQLFeed(t *testing.T) {
	s := openStore(t, pgtest.Shared(t).NewDatabase(t), postgres.StoreOptions{})
	var mu sync.Mutex
	var got []events.Position
	calls := 0
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if calls++; calls%3 != 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		for lines := bufio.NewScanner(r.Body); lines.Scan(); {
			var line struct{ Position events.Position }
			if json.Unmarshal(lines.Bytes(), &line) == nil {
				got = append(got, line.Position)
			}
		}
	}))
	defer receiver.Close()
	arrived := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(got) >= n }, time.Minute, 5*time.Millisecond)
	}
	options := webhook.Options{Feed: s.Feed(nil, nil), Logger: slog.New(slog.DiscardHandler), RetryMin: time.Millisecond, RetryMax: time.Millisecond,
		Secret: func(string) (string, bool) { return "whsec-0123456789abcdef", true }}
	hooks := []*catalog.Webhook{{ID: "w", URL: receiver.URL, Events: []string{"request.*"}, Active: true}}
	for part := range 2 {
		m := webhook.New(options)
		m.Reconfigure(hooks, 0)
		for range 20 {
			put(t, s, one(row(t, "upstream/a", events.AnyVersion))...)
		}
		arrived(20 * (part + 1))
		at := events.Position(20 * (part + 1))
		require.Eventually(t, func() bool { return checkpoint(t, s, webhook.Group("w")) == at }, time.Minute, 5*time.Millisecond)
		require.NoError(t, m.Close(context.Background()))
	}
	for i, p := range got {
		require.EqualValues(t, i+1, p)
	}
}

// A receiver gets what has piled up in a few deliveries: one for each fact would let it fall behind for good.
func TestWhatHasPiledUpOnPostgreSQLGoesToAWebhookInFewDeliveries(t *testing.T) {
	s := openStore(t, pgtest.Shared(t).NewDatabase(t), postgres.StoreOptions{})
	const facts = 1000
	for range facts {
		put(t, s, one(row(t, "upstream/a", events.AnyVersion))...)
	}
	var calls, lines atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		for scan := bufio.NewScanner(r.Body); scan.Scan(); {
			lines.Add(1)
		}
	}))
	defer receiver.Close()
	m := webhook.New(webhook.Options{Feed: s.Feed(nil, nil), Logger: slog.New(slog.DiscardHandler),
		Secret: func(string) (string, bool) { return "whsec-0123456789abcdef", true }})
	m.Reconfigure([]*catalog.Webhook{{ID: "w", URL: receiver.URL, Events: []string{"request.*"}, Active: true}}, 0)
	require.Eventually(t, func() bool { return lines.Load() == facts }, time.Minute, 5*time.Millisecond)
	require.NoError(t, m.Close(context.Background()))
	require.EqualValues(t, facts, checkpoint(t, s, webhook.Group("w")))
	require.LessOrEqual(t, calls.Load(), int64(facts/50))
}
