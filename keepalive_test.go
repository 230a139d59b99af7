package penstock_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/cmd/mockllm/simulator"
)

// waitRig is a gateway whose upstream "a" has one slot, which a request that never ends holds until free is called, and whose
// waiting clients are kept alive after a second.
type waitRig struct {
	*rig
	up    *simulator.Server
	key   string
	free  func()
	heads atomic.Int32 // of answers that have come
}

const (
	aliveModel = "m-1"
	hangModel  = "hang"
)

func newWaitRig(t *testing.T, timeout string, more ...simulator.Rule) *waitRig {
	t.Helper()
	w := &waitRig{rig: newRig(t, nil)}
	w.up = w.upstream("a", fixed(), map[string]any{"slots": 1, "breaker": map[string]any{"failures": 1000}, "queue": map[string]any{"enabled": true, "timeout": timeout}})
	w.up.SetConfig(simulator.Config{Default: fixed(), Rules: append(more, simulator.Rule{Model: hangModel, Behavior: hanging()})})
	w.apply(
		map[string]any{"kind": "setting", "name": "keepalive.after", "value": "1s"},
		map[string]any{"kind": "setting", "name": "keepalive.every", "value": "1s"},
	)
	w.key = w.rig.key("team", nil)
	ctx, cancel := context.WithCancel(context.Background())
	w.free = cancel
	t.Cleanup(cancel)
	go func() {
		req := w.request(ctx, "/v1/chat/completions", `{"model":"hang","messages":[{"role":"user","content":"x"}]}`)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	w.await("the slot to be held", func() bool { return w.up.Stats().All.InFlight == 1 })
	return w
}

func hanging() simulator.Behavior {
	b := fixed()
	b.HangRate, b.HangMs = 1, 600_000
	return b
}

func (w *waitRig) request(ctx context.Context, path, body string) *http.Request {
	req, err := http.NewRequestWithContext(ctx, "POST", "http://"+w.gw.Addr()+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.key)
	return req
}

// heard is what a client got: until its head, and until its end.
type heard struct {
	c      dialectCase
	status int
	head   http.Header
	body   string
	err    error
	after  time.Duration // to the head
}

func (h *heard) id() string { return h.head.Get("X-Request-Id") }

// call sends a request in a goroutine.
func (w *waitRig) call(ctx context.Context, c dialectCase) chan *heard {
	done := make(chan *heard, 1)
	go func() {
		h, began := &heard{c: c}, time.Now()
		defer func() { done <- h }()
		resp, err := http.DefaultClient.Do(w.request(ctx, c.path, c.body))
		if h.err = err; err != nil {
			return
		}
		defer resp.Body.Close()
		h.status, h.head, h.after = resp.StatusCode, resp.Header, time.Since(began)
		w.heads.Add(1)
		b, err := io.ReadAll(resp.Body)
		h.body, h.err = string(b), err
	}()
	return done
}

// all sends what the cases say, and gives what their clients heard.
func (w *waitRig) all(meanwhile func(), cases ...dialectCase) []*heard {
	var calls []chan *heard
	for _, c := range cases {
		calls = append(calls, w.call(context.Background(), c))
	}
	if meanwhile != nil {
		meanwhile()
	}
	var hs []*heard
	for _, c := range calls {
		hs = append(hs, <-c)
	}
	return hs
}

// sign is what keeps a client of a dialect alive.
var sign = map[string]string{
	"openai-chat": "\n\n", "openai-responses": ": keepalive\n\n", "anthropic-messages": "event: ping\ndata: {\"type\":\"ping\"}\n\n", "gemini": "\n\n",
}

// kept are the streams that can be kept alive, one per dialect.
func kept(model string) []dialectCase {
	var cs []dialectCase
	for _, c := range dialectCases {
		if c.name == "chat stream" || c.name == "responses stream" || c.name == "messages stream" || c.name == "gemini stream" {
			c.path, c.body = strings.Replace(c.path, aliveModel, model, 1), strings.Replace(c.body, aliveModel, model, 1)
			cs = append(cs, c)
		}
	}
	return cs
}

// behind checks that a client has the head of a stream and signs of life, and gives what came behind them.
func (h *heard) behind(t *testing.T) string {
	t.Helper()
	rest := h.body
	for strings.HasPrefix(rest, sign[h.c.dialect]) {
		rest = strings.TrimPrefix(rest, sign[h.c.dialect])
	}
	if h.err != nil || h.status != 200 || h.head.Get("Content-Type") != "text/event-stream" || h.id() == "" || rest == h.body {
		t.Errorf("%s: %d %v %q, %v", h.c.name, h.status, h.head, h.body, h.err)
	}
	if h.after < time.Second {
		t.Errorf("%s: the head came after %v", h.c.name, h.after)
	}
	return rest
}

// refusedIn checks that a stream ends with the error event of its dialect, and nothing like a whole answer.
func (h *heard) refusedIn(t *testing.T, code string) {
	t.Helper()
	rest := h.behind(t)
	if !strings.HasPrefix(rest, h.c.errorMark) && !strings.HasPrefix(rest, "event: error") || !strings.Contains(rest, h.c.errorMark) || !strings.Contains(rest, code) || strings.Contains(rest, h.c.terminal) || !strings.HasSuffix(rest, "\n\n") {
		t.Errorf("%s: %q", h.c.name, rest)
	}
	for event := range strings.SplitSeq(strings.TrimSpace(rest), "\n") {
		if data, ok := strings.CutPrefix(event, "data: "); ok && !json.Valid([]byte(data)) {
			t.Errorf("%s: %q", h.c.name, data)
		}
	}
}

// Before keepalive.after a client that waited in vain gets a status and a body; after it, an event in the words of its dialect,
// while the log keeps the status (pain 56; A52, A46).
func TestAWaitInVainIsToldBeforeAndBehindTheHead(t *testing.T) {
	t.Parallel()
	w := newWaitRig(t, "400ms")
	after := func(d string) { w.apply(map[string]any{"kind": "setting", "name": "keepalive.after", "value": d}) }
	after("1m")
	for _, h := range w.all(nil, kept(aliveModel)...) {
		if h.status != 504 || !strings.Contains(h.body, "QUEUE_WAIT_TIMEOUT") || h.head.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %q", h.c.name, h.status, h.body)
		}
	}
	after("1s")
	plain := dialectCases[0]
	array := dialectCases[len(dialectCases)-1]
	var hs []*heard
	for wait, steady := 2500*time.Millisecond, false; !steady && wait < time.Minute; wait *= 2 { // a machine that stands still leaves signs out
		w.apply(map[string]any{"kind": "upstream", "id": "a", "base_url": w.up.URL(), "slots": 1,
			"capabilities": []string{"openai_chat_compatible", "openai_responses", "anthropic_messages", "gemini_native_generate"},
			"queue":        map[string]any{"enabled": true, "timeout": wait.String()}})
		hs, steady = w.all(nil, append(kept(aliveModel), plain, array)...), true
		for _, h := range hs[:4] {
			steady = steady && strings.Count(h.body, sign[h.c.dialect]) >= 2
		}
	}
	for _, h := range hs[:4] {
		h.refusedIn(t, "QUEUE_WAIT_TIMEOUT")
		if n := strings.Count(h.body, sign[h.c.dialect]); n < 2 {
			t.Errorf("%s: %d signs of life: %q", h.c.name, n, h.body)
		}
	}
	for _, h := range hs[4:] { // what has no sign of life is never answered early
		if h.status != 504 || h.after < 2*time.Second || !strings.Contains(h.body, "QUEUE_WAIT_TIMEOUT") || strings.HasPrefix(h.body, "\n") && h.c.name == "chat" {
			t.Errorf("%s: %d after %v %q", h.c.name, h.status, h.after, h.body)
		}
	}
	for _, h := range hs {
		if e := w.entry(h.id()); e.Status != 504 || e.Code != "QUEUE_WAIT_TIMEOUT" || e.Outcome != "rejected" || e.Sent {
			t.Errorf("%s: logged %+v", h.c.name, e)
		}
	}
}

// Behind its signs of life a stream is the stream that a direct call gives, byte for byte.
func TestAnAnswerGoesOnBehindTheHead(t *testing.T) {
	t.Parallel()
	w := newWaitRig(t, "30s")
	hs := w.all(func() { w.waitFor(4); w.alive(4); w.free() }, kept(aliveModel)...)
	for _, h := range hs {
		_, want := send(t, w.up.URL()+h.c.path, h.c.body, "Authorization", "Bearer x")
		if rest := h.behind(t); normal(rest) != normal(want) {
			t.Errorf("%s:\n got %q\nwant %q", h.c.name, rest, want)
		}
		if e := w.entry(h.id()); e.Outcome != "completed" || e.Status != 200 || e.UsageSource != "reported" || e.Queue == nil || e.Queue.WaitedMS < 1000 {
			t.Errorf("%s: logged %+v", h.c.name, e)
		}
	}
	w.nothingHeld("a")
}

func (w *waitRig) waitFor(n int) {
	w.await("the waiters", func() bool { return w.waiting("a") == n })
}

// alive waits until n who wait have the heads of their answers, and a little, so that whoever measures it finds the wait longer than
// it takes to be kept alive.
func (w *waitRig) alive(n int32) {
	w.await("signs of life", func() bool { return w.heads.Load() >= n })
	time.Sleep(200 * time.Millisecond)
}

// An upstream that fails before its first content is failed over behind the head as well; when all fail, or answer in one piece,
// the client is told in its stream.
func TestFailuresBehindTheHead(t *testing.T) {
	t.Parallel()
	bad, whole := fixed(), fixed()
	bad.ErrRate, bad.ErrStatus = 1, 500
	whole.ErrRate, whole.ErrStatus, whole.ErrBody = 1, 200, `{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi"}}],`+
		`"usage":{"prompt_tokens":9,"completion_tokens":1},"content":[{"type":"text","text":"hi"}],"output":[{"type":"message","content":[{"type":"output_text","text":"hi"}]}],`+
		`"candidates":[{"content":{"parts":[{"text":"hi"}]}}]}`
	cut, packed, teapot := fixed(), fixed(), fixed()
	cut.TruncRate = 1
	packed.Compress = "gzip"
	teapot.ErrRate, teapot.ErrStatus, teapot.ErrBody = 1, 503, `{"error":{"type":"kettle","message":"short and stout"}}`
	for _, c := range []struct {
		name     string
		behavior simulator.Behavior
		second   bool // another upstream can serve
		code     string
		last     bool // on_exhausted: last_answer
	}{
		{"failed over", bad, true, "", false},
		{"all failed", bad, false, "UPSTREAM_HTTP_ERROR", false},
		{"all failed, in the words of the last", teapot, false, "short and stout", true},
		{"in one piece, failed over", whole, true, "", false},
		{"in one piece", whole, false, "UPSTREAM_HTTP_ERROR", false},
		{"compressed", packed, true, "", false},
		{"cut in the middle", cut, false, "STREAM_ERROR", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWaitRig(t, "30s", simulator.Rule{Model: aliveModel, Behavior: c.behavior})
			if c.last {
				w.apply(map[string]any{"kind": "setting", "name": "on_exhausted", "value": "last_answer"})
			}
			freeB := func() {}
			if c.second && c.name != "compressed" {
				w.upstream("b", fixed(), map[string]any{"priority": 1, "slots": 1, "queue": map[string]any{"enabled": true, "timeout": "30s"}})
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				hold := w.request(ctx, "/v1/chat/completions", `{"model":"hang","messages":[{"role":"user","content":"y"}]}`)
				w.rig.up["b"].SetConfig(simulator.Config{Default: fixed(), Rules: []simulator.Rule{{Model: hangModel, Behavior: hanging()}}})
				freeB = func() { // when "a" has failed somebody
					w.await("a failure", func() bool { return w.up.Stats().All.Requests > 1 })
					cancel()
				}
				go func() {
					if resp, err := http.DefaultClient.Do(hold); err == nil {
						_, _ = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
				}()
				w.await("b to be held", func() bool { return w.rig.up["b"].Stats().All.InFlight == 1 })
			}
			hs := w.all(func() { w.waitFor(4); w.alive(4); w.free(); freeB() }, kept(aliveModel)...)
			for _, h := range hs {
				switch {
				case c.second:
					if rest := h.behind(t); !strings.Contains(rest, h.c.terminal) {
						t.Errorf("%s: %q", h.c.name, rest)
					}
				case c.code == "STREAM_ERROR":
					if rest := h.behind(t); !strings.Contains(rest, h.c.errorMark) || strings.Contains(rest, h.c.terminal) {
						t.Errorf("%s: %q", h.c.name, rest)
					}
				default:
					h.refusedIn(t, c.code)
				}
				e := w.entry(h.id())
				if want := map[bool]string{true: "completed", false: "failed"}[c.second]; e.Outcome != want || !e.Sent || !c.second && c.code != "STREAM_ERROR" && e.Status < 400 {
					t.Errorf("%s: logged %+v", h.c.name, e)
				}
			}
			w.nothingHeld("a")
		})
	}
}

// A client that goes while it is kept alive leaves the queue at once.
func TestAClientGoesWhileItIsKeptAlive(t *testing.T) {
	t.Parallel()
	w := newWaitRig(t, "30s")
	ctx, leave := context.WithCancel(context.Background())
	for _, c := range kept(aliveModel) {
		resp, err := http.DefaultClient.Do(w.request(ctx, c.path, c.body))
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%s: %v", c.name, err)
		}
		defer resp.Body.Close()
	}
	w.waitFor(4)
	leave()
	w.waitFor(0)
	w.await("the log", func() bool { return len(w.logs("&outcome=cancelled")) == 4 })
	for _, e := range w.logs("&outcome=cancelled") {
		if e.Status != 499 || e.Sent || e.Queue == nil || e.Queue.State != "aborted" || !e.ClientGone {
			t.Errorf("logged %+v", e)
		}
	}
	w.free()
	w.await("the slot to be free", func() bool { return w.up.Stats().All.InFlight == 0 })
	w.nothingHeld("a")
}

// Who waits for a slot of its own user is kept alive by the same clock.
func TestACallerIsKeptAliveWhileItWaitsForItsOwnSlot(t *testing.T) {
	t.Parallel()
	w := newWaitRig(t, "30s")
	w.apply(map[string]any{"kind": "user", "id": "u", "slots": 1})
	w.key = w.rig.key("own", map[string]any{"user": "u"})
	ctx, leave := context.WithCancel(context.Background())
	first := w.call(ctx, dialectCases[0]) // waits for the upstream, and has the user's slot
	w.waitFor(1)
	c := kept(aliveModel)[1]
	second := w.call(context.Background(), c)
	w.alive(1)
	leave()
	w.free()
	h := <-second
	<-first
	if rest := h.behind(t); !strings.Contains(rest, c.terminal) {
		t.Errorf("%q", rest)
	}
}
