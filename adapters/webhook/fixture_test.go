package webhook_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/adapters/webhook"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

const secret = "whsec-0123456789abcdef"

// patience is how long something may take that must happen.
const patience = time.Minute

// house is a store with a journal, a feed and a manager of webhooks.
type house struct {
	t       *testing.T
	store   events.Store
	journal *events.Journal
	feed    events.Feed
	manager *webhook.Manager
	hooks   []*catalog.Webhook
	options webhook.Options
	log     *lines
}

// lines is a log that can be read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newHouse(t *testing.T, change func(*webhook.Options)) *house {
	t.Helper()
	store, err := sqlite.OpenStore(filepath.Join(t.TempDir(), "events.db"), sqlite.StoreOptions{})
	require.NoError(t, err)
	h := &house{t: t, store: store, log: &lines{}}
	var bell events.Bell
	h.feed = store.Feed(&bell, nil)
	h.journal = events.NewJournal(events.JournalOptions{Store: store, Push: func([]*events.Committed) { bell.Ring() }})
	h.options = webhook.Options{Feed: h.feed, Logger: slog.New(slog.NewTextHandler(h.log, nil)), Version: "test", Node: "node-a",
		Secret:   func(id string) (string, bool) { return secret, strings.HasPrefix(id, "webhook/") },
		RetryMin: time.Millisecond, RetryMax: 5 * time.Millisecond}
	if change != nil {
		change(&h.options)
	}
	h.manager = webhook.New(h.options)
	t.Cleanup(func() {
		h.stop()
		require.NoError(t, h.journal.Close(context.Background()))
		require.NoError(t, store.Close())
		require.Eventually(t, func() bool { return left() == "" }, patience, 10*time.Millisecond, "goroutines are left: %s", left())
	})
	return h
}

// left is the stack of a goroutine of ours that runs, or of a connection of ours that is kept.
func left() string {
	buf := make([]byte, 4<<20)
	for _, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		for _, ours := range []string{"webhook.(*", "events.(*", "net/http.(*persistConn)"} {
			if strings.Contains(stack, ours) {
				return stack
			}
		}
	}
	return ""
}

func (h *house) stop() {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(h.t, h.manager.Close(ctx))
}

// hook registers a webhook, or changes it.
func (h *house) hook(id, url string, types ...string) *catalog.Webhook {
	h.t.Helper()
	w := &catalog.Webhook{ID: id, URL: url, Events: types, SecretVersion: 1, Active: true}
	list := []*catalog.Webhook{w}
	for _, other := range h.hooks {
		if other.ID != id {
			list = append(list, other)
		}
	}
	h.configure(list...)
	return w
}

// configure puts these webhooks in force and waits until each active one has its place in the feed.
func (h *house) configure(list ...*catalog.Webhook) {
	h.t.Helper()
	h.hooks = list
	head, err := h.feed.Head(context.Background())
	require.NoError(h.t, err)
	h.manager.Reconfigure(list, head)
	for _, w := range list {
		if w.Active {
			require.Eventually(h.t, func() bool { return h.checkpoint(w.ID) >= 0 }, patience, time.Millisecond)
		}
	}
}

func (h *house) checkpoint(id string) events.Position {
	list, err := h.feed.Checkpoints(context.Background())
	require.NoError(h.t, err)
	for _, c := range list {
		if c.Group == "webhook/"+id {
			return c.Position
		}
	}
	return -1
}

// put commits facts, each in a row of its own.
func (h *house) put(facts ...events.Fact) {
	h.t.Helper()
	for _, f := range facts {
		h.putAt(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), f)
	}
}

func (h *house) putAt(at time.Time, f events.Fact) {
	h.t.Helper()
	row := events.Row{Stream: "upstream/a", Version: events.AnyVersion, At: at, Node: "node-a", Upstream: "a", Facts: []events.Fact{f}}
	require.NoError(h.t, h.journal.Commit(events.Append{Rows: []events.Row{row}}, events.Must))
}

func (h *house) many(n int) {
	h.t.Helper()
	for i := range n {
		h.put(&request.Resumed{Upstream: "a", WaitedUS: int64(i)})
	}
}

// delivery is what a receiver got in one call.
type delivery struct {
	id    string // X-Penstock-Delivery
	body  string
	lines []line
}

type line struct {
	Position int64           `json:"position"`
	Type     string          `json:"type"`
	Stream   string          `json:"stream"`
	Data     json.RawMessage `json:"data"`
}

// receiver checks signatures and keeps what it has taken.
type receiver struct {
	*httptest.Server
	t      *testing.T
	mu     sync.Mutex
	taken  []delivery
	faults []string
	// answer may refuse: 0 is 200. It is called with the number of the call, from 1.
	answer func(n int, w http.ResponseWriter, r *http.Request) int
	calls  int
	tried  []delivery
}

func newReceiver(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request) int) *receiver {
	r := &receiver{t: t, answer: answer}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	r.mu.Lock()
	r.calls++
	n := r.calls
	d := delivery{id: q.Header.Get("X-Penstock-Delivery"), body: string(body)}
	for _, text := range strings.Split(strings.TrimSuffix(d.body, "\n"), "\n") {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			r.faults = append(r.faults, fmt.Sprintf("not JSON: %q", text))
		}
		d.lines = append(d.lines, l)
	}
	if why := refusal(q, body, err); why != "" {
		r.faults = append(r.faults, why)
	}
	r.tried = append(r.tried, d)
	r.mu.Unlock()
	status := 0
	if r.answer != nil {
		status = r.answer(n, w, q)
	}
	if status == 0 || status/100 == 2 {
		r.mu.Lock()
		r.taken = append(r.taken, d)
		r.mu.Unlock()
		return
	}
	w.WriteHeader(status)
}

// quietAddress is one where nobody listens, nor will by chance: the kernel gives its port to nobody who asks for any, or calls somebody.
func quietAddress(t *testing.T) string {
	t.Helper()
	for {
		address := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(12_000))
		if l, err := net.Listen("tcp", address); err == nil {
			require.NoError(t, l.Close())
			return address
		}
	}
}

// refusal is what a careful receiver would object to.
func refusal(q *http.Request, body []byte, err error) string {
	t, mac, ok := strings.Cut(strings.TrimPrefix(q.Header.Get("X-Penstock-Signature"), "t="), ",v1=")
	sum := hmac.New(sha256.New, []byte(secret))
	sum.Write([]byte(t + "." + string(body)))
	seconds, errT := strconv.ParseInt(t, 10, 64)
	switch {
	case err != nil:
		return err.Error()
	case q.Method != http.MethodPost || q.Header.Get("Content-Type") != "application/x-ndjson":
		return "method or type"
	case !ok || mac != hex.EncodeToString(sum.Sum(nil)):
		return "signature " + q.Header.Get("X-Penstock-Signature")
	case errT != nil || time.Since(time.Unix(seconds, 0)).Abs() > time.Minute:
		return "time " + t
	}
	return ""
}

// positions of all lines that were taken, in the order in which they came.
func (r *receiver) positions() (list []int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.taken {
		for _, l := range d.lines {
			list = append(list, l.Position)
		}
	}
	return list
}

func (r *receiver) types() (list []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.taken {
		for _, l := range d.lines {
			list = append(list, l.Type)
		}
	}
	return list
}

// gets waits until n lines were taken and checks that they are all, in order, once each, from the given position.
func (r *receiver) gets(from, n int) {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return len(r.positions()) >= n }, patience, time.Millisecond)
	var want []int64
	for i := range n {
		want = append(want, int64(from+i))
	}
	require.Equal(r.t, want, r.positions())
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Empty(r.t, r.faults)
}
