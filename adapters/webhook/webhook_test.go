package webhook_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/webhook"
	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/request"
)

func TestAReceiverGetsSignedLinesInOrderOnceEach(t *testing.T) {
	h := newHouse(t, func(o *webhook.Options) { o.Timeout = 10 * time.Minute }) // the first call waits for all that is written
	h.many(3)                                                                   // before there was a webhook
	written := make(chan struct{})
	r := newReceiver(t, func(int, http.ResponseWriter, *http.Request) int { <-written; return 200 })
	h.hook("w", r.URL, "request.*")
	h.many(300)
	close(written)
	r.gets(4, 300)
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Less(t, len(r.taken), 300, "lines that come together go together")
	require.Contains(t, r.taken[0].body, `"type":"request.resumed","schema":1,"at":"2026-03-01T12:00:00Z","node":"node-a","data":{"upstream":"a","waited_us":0}}`+"\n")
}

func TestWhatIsRefusedIsTriedAgainUnchangedAndInOrder(t *testing.T) {
	h := newHouse(t, nil)
	r := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) int {
		return []int{500, 429, 302, 404, 200}[n%5]
	})
	h.hook("w", r.URL, "*")
	h.many(50)
	r.gets(1, 50)
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Greater(t, len(r.tried), len(r.taken))
	for i := 1; i < len(r.tried); i++ {
		if was := r.tried[i-1]; r.tried[i].lines[0].Position == was.lines[0].Position {
			require.Equal(t, was, r.tried[i], "the same delivery has the same body")
		}
	}
}

func TestAReceiverThatWasDownMissesNothing(t *testing.T) {
	h := newHouse(t, nil)
	address := quietAddress(t)
	h.hook("w", "http://"+address, "*")
	h.many(20)
	require.Eventually(t, func() bool { s, _ := h.manager.Status("w"); return s.FailingSince != nil }, patience, time.Millisecond)
	s, _ := h.manager.Status("w")
	require.NotEmpty(t, s.LastError)
	require.Zero(t, h.checkpoint("w"))

	r := &receiver{t: t}
	l, err := net.Listen("tcp", address)
	require.NoError(t, err)
	r.Server = &httptest.Server{Listener: l, Config: &http.Server{Handler: r}}
	r.Start()
	t.Cleanup(r.Close)
	r.gets(1, 20)
	require.Eventually(t, func() bool { s, _ = h.manager.Status("w"); return s.Delivered == 20 && s.FailingSince == nil }, patience, time.Millisecond)
	require.Eventually(t, func() bool { return h.checkpoint("w") == 20 }, patience, time.Millisecond)
	require.Contains(t, h.log.String(), "webhook fails")
	require.Contains(t, h.log.String(), "webhook works again")
}

func TestAGatewayThatStopsInTheMiddleDeliversTheRestWhenItIsBack(t *testing.T) {
	h := newHouse(t, nil)
	var open atomic.Bool
	r := newReceiver(t, func(int, http.ResponseWriter, *http.Request) int {
		if open.Load() {
			return 200
		}
		return 503
	})
	hook := h.hook("w", r.URL, "*")
	h.many(10)
	require.Eventually(t, func() bool { s, _ := h.manager.Status("w"); return s.FailingSince != nil }, patience, time.Millisecond)
	h.stop()
	open.Store(true)
	h.manager = webhook.New(h.options)
	h.configure(hook)
	r.gets(1, 10)
}

func TestOneThatHangsHoldsUpNobodyElse(t *testing.T) {
	h := newHouse(t, nil)
	release := make(chan struct{})
	stuck := newReceiver(t, func(int, http.ResponseWriter, *http.Request) int { <-release; return 200 })
	t.Cleanup(func() { close(release) })
	good := newReceiver(t, nil)
	h.hook("stuck", stuck.URL, "*")
	h.hook("good", good.URL, "*")
	h.many(50)
	good.gets(1, 50)
	require.Empty(t, stuck.positions())
}

func TestATryHasATimeLimit(t *testing.T) {
	h := newHouse(t, func(o *webhook.Options) { o.Timeout = 200 * time.Millisecond })
	ended := make(chan struct{})
	r := newReceiver(t, func(n int, _ http.ResponseWriter, q *http.Request) int {
		if n == 1 {
			<-q.Context().Done()
			close(ended)
			return 503
		}
		return 200
	})
	h.hook("w", r.URL, "*")
	h.many(1)
	<-ended
	require.Eventually(t, func() bool { return len(r.positions()) > 0 }, patience, time.Millisecond)
	for _, at := range r.positions() { // on a machine that stands still the limit may meet the answer to the second one, too
		require.EqualValues(t, 1, at)
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	h := newHouse(t, nil)
	elsewhere := newReceiver(t, nil)
	var open atomic.Bool
	r := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) int {
		if open.Load() {
			return 200
		}
		w.Header().Set("Location", elsewhere.URL)
		return 307
	})
	h.hook("w", r.URL, "*")
	h.many(2)
	require.Eventually(t, func() bool { s, _ := h.manager.Status("w"); return s.LastError == "the receiver answers 307" }, patience, time.Millisecond)
	open.Store(true)
	r.gets(1, 2)
	require.Empty(t, elsewhere.positions())
	require.Zero(t, elsewhere.calls)
}

func TestWhatFailsForTooLongIsGivenUpAndSaidSo(t *testing.T) {
	h := newHouse(t, func(o *webhook.Options) { o.RetryFor, o.Lines = 30*time.Millisecond, 1 })
	r := newReceiver(t, func(n int, w http.ResponseWriter, q *http.Request) int {
		if q.Header.Get("X-Penstock-Delivery") == "1-1" {
			return 400
		}
		return 200
	})
	ops := newReceiver(t, nil)
	h.hook("ops", ops.URL, "alert.*")
	h.hook("w", r.URL+"?token=hidden", "*")
	h.many(3)
	r.gets(2, 2)
	require.Eventually(t, func() bool { return len(ops.types()) == 1 }, patience, time.Millisecond)
	require.Equal(t, "alert.webhook_gave_up", ops.types()[0])
	require.JSONEq(t, `{"webhook":"w","first_position":"1","last_position":"1","lines":1,"error":"the receiver answers 400"}`, string(ops.taken[0].lines[0].Data))
	s, ok := h.manager.Status("w")
	require.True(t, ok)
	require.EqualValues(t, 1, s.GivenUp)
	require.Contains(t, h.log.String(), `msg="webhook delivery given up" webhook=w positions=1-1 lines=1`)
	require.NotContains(t, h.log.String(), "hidden")
	require.NotContains(t, h.log.String(), secret)
}

func TestChangingAWebhookKeepsItsPlaceAndRemovingItForgetsIt(t *testing.T) {
	h := newHouse(t, nil)
	one, two := newReceiver(t, nil), newReceiver(t, nil)
	w := h.hook("w", one.URL, "*")
	h.many(2)
	one.gets(1, 2)

	paused := *w
	paused.Active = false
	h.configure(&paused)
	require.Eventually(t, func() bool { s, _ := h.manager.Status("w"); return !s.Active }, patience, time.Millisecond)
	h.many(2)
	h.hook("w", two.URL, "*")
	two.gets(3, 2)
	require.Len(t, one.positions(), 2)

	h.configure()
	require.Eventually(t, func() bool { return h.checkpoint("w") == -1 }, patience, time.Millisecond)
	_, ok := h.manager.Status("w")
	require.False(t, ok)
	h.many(2)
	three := newReceiver(t, nil)
	h.hook("w", three.URL, "*")
	h.many(1)
	three.gets(7, 1)
}

func TestWhatWasRemovedWhileTheGatewayDiedIsForgotten(t *testing.T) {
	h := newHouse(t, nil)
	r := newReceiver(t, nil)
	h.hook("w", r.URL, "*")
	h.stop()
	require.Zero(t, h.checkpoint("w"))
	h.manager = webhook.New(h.options)
	h.configure()
	require.Eventually(t, func() bool { return h.checkpoint("w") == -1 }, patience, time.Millisecond)
}

func TestAlertsAreMadeFromFactsForThoseWhoAskForThem(t *testing.T) {
	h := newHouse(t, nil)
	alerts, both := newReceiver(t, nil), newReceiver(t, nil)
	h.hook("alerts", alerts.URL, "alert.*")
	h.hook("both", both.URL, "upstream.*", "alert.breaker_opened")
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	unpriced := &request.Settled{Outcome: request.Completed, Unpriced: true, UnpricedReason: "price_not_found"}
	h.putAt(noon, &breaker.Opened{Upstream: "a", Failures: 5})
	h.putAt(noon, &breaker.HalfOpened{Upstream: "a"})
	h.putAt(noon, &breaker.Opened{Upstream: "a", By: "probe"}) // still the same trouble
	h.putAt(noon, &breaker.Closed{Upstream: "a"})
	h.putAt(noon, &request.Settled{Outcome: request.Completed})
	h.putAt(noon, unpriced)
	h.putAt(noon.Add(30*time.Minute), unpriced)
	h.putAt(noon.Add(90*time.Minute), unpriced)
	require.Eventually(t, func() bool { return len(alerts.types()) == 4 && len(both.types()) == 5 }, patience, time.Millisecond)
	require.Equal(t, []string{"alert.breaker_opened", "alert.breaker_closed", "alert.unpriced", "alert.unpriced"}, alerts.types())
	require.Equal(t, []int64{1, 4, 6, 8}, alerts.positions())
	require.Equal(t, []string{"upstream.opened", "alert.breaker_opened", "upstream.half_opened", "upstream.opened", "upstream.closed"}, both.types())
	alerts.mu.Lock()
	told := alerts.taken[len(alerts.taken)-1].lines
	require.JSONEq(t, `{"upstream":"a","reason":"price_not_found"}`, string(told[len(told)-1].Data))
	require.Empty(t, alerts.faults)
	alerts.mu.Unlock()

	h.manager.Alert(webhook.Alert{Name: webhook.StoreUnavailable, At: noon, Data: webhook.StoreState{Node: "node-a", Error: "disk full"}})
	require.Eventually(t, func() bool { return len(alerts.types()) == 5 }, patience, time.Millisecond)
	alerts.mu.Lock()
	last := alerts.taken[len(alerts.taken)-1]
	alerts.mu.Unlock()
	require.Equal(t, `{"position":0,"stream":"node/node-a","version":0,"type":"alert.store_unavailable","schema":1,"at":"2026-03-01T12:00:00Z","node":"node-a","data":{"node":"node-a","error":"disk full"}}`+"\n", last.body)
	require.Len(t, both.types(), 5)
}
