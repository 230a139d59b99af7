package penstock_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock"
	"github.com/penstock/penstock/adapters/sqlite/faultfs"
	"github.com/penstock/penstock/adapters/webhook"
	"github.com/penstock/penstock/cmd/mockllm/simulator"
)

// fact is a line of the outside.
type fact struct {
	Position int64          `json:"position"`
	Type     string         `json:"type"`
	Stream   string         `json:"stream"`
	Data     map[string]any `json:"data"`
}

// mailbox is the receiver of a webhook.
type mailbox struct {
	*httptest.Server
	mu     sync.Mutex
	facts  []fact
	faults []string
}

const hookSecret = "whsec-0123456789abcdef"

func newMailbox(t *testing.T) *mailbox {
	m := &mailbox{}
	m.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m.mu.Lock()
		defer m.mu.Unlock()
		if got := r.Header.Get(webhook.SignatureHeader); got != webhook.Sign(hookSecret, signedAt(got), body) {
			m.faults = append(m.faults, got)
		}
		for _, text := range strings.Split(strings.TrimSpace(string(body)), "\n") {
			var f fact
			if err := json.Unmarshal([]byte(text), &f); err != nil {
				m.faults = append(m.faults, text)
			}
			m.facts = append(m.facts, f)
		}
	}))
	t.Cleanup(m.Close)
	return m
}

func signedAt(signature string) time.Time {
	seconds, _, _ := strings.Cut(strings.TrimPrefix(signature, "t="), ",")
	var unix int64
	_ = json.Unmarshal([]byte(seconds), &unix)
	return time.Unix(unix, 0)
}

// types are those of the facts so far.
func (m *mailbox) types() (list []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.facts {
		list = append(list, f.Type)
	}
	return list
}

// has waits until facts of these types have come, in this order.
func (m *mailbox) has(t *testing.T, want ...string) {
	t.Helper()
	require.Eventually(t, func() bool { return slices.Equal(m.types(), want) }, time.Minute, 5*time.Millisecond, "want %q", want)
	m.mu.Lock()
	defer m.mu.Unlock()
	require.Empty(t, m.faults)
	require.True(t, slices.IsSortedFunc(m.facts, func(a, b fact) int { return int(a.Position - b.Position) }))
}

func hookOf(id, url string, types ...string) map[string]any {
	return map[string]any{"kind": "webhook", "id": id, "url": url, "secret": hookSecret, "events": types}
}

const askBody = `{"model":"gpt-5","messages":[{"role":"user","content":"hi"}]}`

func TestFactsOfARequestReachWebhooksAndTheLiveFeed(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("a", fixed(), nil)
	key := r.key("team-a", nil)
	box, alerts := newMailbox(t), newMailbox(t)
	r.apply(hookOf("requests", box.URL, "request.*", "attempt.*"), hookOf("ops", alerts.URL, "alert.*"))

	req, err := http.NewRequest("GET", "http://"+r.gw.AdminAddr()+"/api/v1/live?type=request.settled,webhook.*&key=team-a", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+r.gw.AdminToken())
	live, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer live.Body.Close()

	resp, body := r.post("/v1/chat/completions", askBody, "Authorization", "Bearer "+key)
	require.Equal(t, 200, resp.StatusCode, body)
	box.has(t, "request.admitted", "attempt.dispatched", "request.settled")
	alerts.has(t, "alert.unpriced")
	require.Equal(t, "price_not_found", alerts.facts[0].Data["reason"])
	require.Equal(t, "team-a", alerts.facts[0].Data["key"])

	lines := bufio.NewScanner(live.Body)
	var seen fact
	for lines.Scan() && seen.Type == "" {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			require.NoError(t, json.Unmarshal([]byte(data), &seen))
		}
	}
	require.Equal(t, "request.settled", seen.Type)
	require.Equal(t, "completed", seen.Data["outcome"])

	require.Eventually(t, func() bool { // who has got them has not answered yet
		status, text := r.admin("GET", "/api/v1/webhooks/requests/status", nil)
		return status == 200 && strings.Contains(string(text), `"delivered":3`)
	}, time.Minute, time.Millisecond)

	// What happens between two lives of the gateway is delivered by the next one.
	r.close()
	r.open()
	resp, body = r.post("/v1/chat/completions", askBody, "Authorization", "Bearer "+key)
	require.Equal(t, 200, resp.StatusCode, body)
	box.has(t, "request.admitted", "attempt.dispatched", "request.settled", "request.admitted", "attempt.dispatched", "request.settled")
}

func TestABreakerThatOpensIsToldInTheLogAndToWebhooks(t *testing.T) {
	var log safeBuffer
	r := newRig(t, func(c *penstock.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	r.upstream("a", simulator.Behavior{ErrRate: 1, ErrStatus: 500}, map[string]any{"breaker": map[string]any{"failures": 2}})
	key := r.key("team-a", nil)
	box := newMailbox(t)
	r.apply(hookOf("ops", box.URL, "alert.breaker_*"))
	for range 2 {
		r.post("/v1/chat/completions", askBody, "Authorization", "Bearer "+key)
	}
	box.has(t, "alert.breaker_opened")
	require.Equal(t, "a", box.facts[0].Data["upstream"])
	line := `level=WARN msg=alert alert=alert.breaker_opened data="{\"upstream\":\"a\",\"failures\":2,`
	require.Eventually(t, func() bool { return strings.Contains(log.String(), line) }, time.Minute, time.Millisecond)
	status, body := r.admin("POST", "/api/v1/upstreams/a/breaker", map[string]any{"action": "close"})
	require.Equal(t, 200, status, string(body))
	box.has(t, "alert.breaker_opened", "alert.breaker_closed")
}

// safeBuffer is a log that many write, and that can be read meanwhile.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestAWebhookThatAsksForWhatThereIsNotIsRefused(t *testing.T) {
	r := newRig(t, nil)
	status, body := r.admin("PUT", "/api/v1/webhooks/w", map[string]any{"url": "https://example.com", "secret": hookSecret,
		"events": []string{"request.*", "request.setled"}})
	require.Equal(t, 422, status)
	require.Contains(t, string(body), `body.events[1]`)
	require.Contains(t, string(body), "there is no event or alert request.setled")
}

func TestTheSecretOfAWebhookIsNowhereToBeRead(t *testing.T) {
	r := newRig(t, nil)
	r.apply(hookOf("w", "https://example.com/hook", "request.*"))
	for _, path := range []string{"/api/v1/webhooks", "/api/v1/webhooks/w", "/api/v1/events?stream=catalog/webhook/w"} {
		status, body := r.admin("GET", path, nil)
		require.Equal(t, 200, status, string(body))
		require.NotContains(t, string(body), hookSecret)
		require.Contains(t, string(body), "whs***cdef")
	}
	// The same document again changes nothing: secrets compare by a keyed digest.
	status, body := r.admin("POST", "/api/v1/apply", map[string]any{"resources": []any{hookOf("w", "https://example.com/hook", "request.*")}})
	require.Equal(t, 200, status)
	require.Contains(t, string(body), `"unchanged"`)
}

// While the disk is full nothing can be stored, so nothing comes by the feed: the node itself tells.
func TestAFullDiskIsToldToWebhooksWhileItLasts(t *testing.T) {
	disk := faultfs.Register("full-disk-alert-test")
	r := newRig(t, func(c *penstock.Config) { c.StoreVFS = "full-disk-alert-test" })
	r.upstream("a", fixed(), nil)
	key := r.key("team-a", nil)
	box := newMailbox(t)
	r.apply(hookOf("ops", box.URL, "alert.store_*"))
	require.Eventually(t, func() bool {
		status, _ := r.admin("GET", "/api/v1/webhooks/ops/status", nil)
		return status == 200
	}, time.Minute, time.Millisecond)
	disk.Fail(faultfs.Write, 0, sqlite3.FULL)
	r.post("/v1/chat/completions", askBody, "Authorization", "Bearer "+key)
	box.has(t, "alert.store_unavailable")
	require.Contains(t, box.facts[0].Data["error"], "unavailable")
	require.Equal(t, "refused", box.facts[0].Data["requests"])
	disk.Heal()
	box.has(t, "alert.store_unavailable", "alert.store_available")
}
