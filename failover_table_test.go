package penstock_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/penstock/penstock/cmd/mockllm/simulator"
)

// What the client gets when the first upstream has a fault.
const (
	taken   = "taken over" // by the second upstream, whole
	passed  = "passed on"  // the first one's error, with its status
	broken  = "broken off" // after content: an error in the stream and no end of it
	fine    = "answered"   // by the first one: it was no fault
	neither = ""           // such a fault there is not
)

// expected is what one fault means for one way of answering.
type expected struct {
	end     string
	class   string
	counted bool // by the breaker
	blocked bool // the account
	status  int  // that the client gets when nobody serves; 0: 503
}

// fault is one line of the table. The zero stream is that of whole.
type faultCase struct {
	name          string
	change        func(*simulator.Behavior)
	only          []string // dialects; nil: all
	whole, stream expected
	silent        bool // it is noticed by a timeout: that of the other faults is long, as machines may be slow
}

func says(n int) func(*simulator.Behavior) {
	return func(b *simulator.Behavior) { b.ErrRate, b.ErrStatus = 1, n }
}

func after(n int, change func(*simulator.Behavior)) func(*simulator.Behavior) {
	return func(b *simulator.Behavior) { change(b); b.FaultAfter = n }
}

var (
	network  = expected{end: taken, class: "network", counted: true}
	http5xx  = expected{end: taken, class: "http_5xx", counted: true}
	crowded  = expected{end: taken, class: "overloaded", counted: true}
	limited  = expected{end: taken, class: "http_429", blocked: true}
	unread   = expected{end: taken, class: "invalid_answer", counted: true}
	cutOff   = expected{end: broken, class: "stream_cut", counted: true}
	noStream = expected{end: neither}
)

const (
	edgePage = "<!DOCTYPE html><html><head><title>Just a moment...</title></head></html>"
	busy400  = `{"type":"error","error":{"code":400,"type":"invalid_request_error","message":"The model is overloaded. Try again later."}}`
	loose429 = `{"error":{"code":429,"message":"Too many requests","type":"rate_limit_error"}}`
)

// faultCases are the faults of the failover bench, by the failure table of the design (B52-B58, D13-D17, E23-E26; pains
// 19, 33, 44-60).
var faultCases = []faultCase{
	{name: "500", change: says(500), whole: http5xx},
	{name: "502", change: says(502), whole: http5xx},
	{name: "503", change: says(503), whole: http5xx},
	{name: "529", change: says(529), whole: crowded},
	{name: "429 with Retry-After", change: func(b *simulator.Behavior) { says(429)(b); b.RetryAfter = 7 }, whole: limited},
	{name: "429 without", change: func(b *simulator.Behavior) { says(429)(b); b.ErrBody = loose429 }, whole: limited},
	{name: "401", change: says(401), whole: expected{end: taken, class: "auth", blocked: true}},
	{name: "402", change: says(402), whole: expected{end: taken, class: "quota", blocked: true}},
	{name: "403 HTML of an edge", change: func(b *simulator.Behavior) {
		says(403)(b)
		b.ErrBody, b.ErrContentType = edgePage, "text/html; charset=UTF-8"
	}, whole: expected{end: taken, class: "http_4xx"}},
	{name: "404", change: says(404), whole: expected{end: passed, class: "http_4xx", status: 404}},
	{name: "400", change: says(400), whole: expected{end: passed, class: "caller_fault", status: 400}},
	{name: "400 overloaded by type", change: func(b *simulator.Behavior) { says(400)(b); b.ErrType = "overloaded_error" }, whole: crowded},
	{name: "400 overloaded in words", change: func(b *simulator.Behavior) { says(400)(b); b.ErrBody = busy400 },
		whole: expected{end: taken, class: "overloaded"}}, // words may quote the caller: they harm no upstream
	{name: "reset before headers", change: func(b *simulator.Behavior) { b.ResetRate = 1 }, whole: network},
	{name: "reset after headers", change: func(b *simulator.Behavior) { b.ResetAfterHeaders = 1 }, whole: network},
	{name: "stall before first byte", silent: true, change: func(b *simulator.Behavior) { b.HangRate, b.HangMs = 1, 60000 },
		whole: expected{end: taken, class: "first_byte_timeout", counted: true, status: 504}},
	{name: "empty 200", change: func(b *simulator.Behavior) { b.EmptyRate = 1 }, whole: expected{end: taken, class: "empty_response", counted: true}},
	{name: "closed before content", change: func(b *simulator.Behavior) { b.NoContentRate = 1 }, whole: noStream,
		stream: expected{end: taken, class: "no_content_stream", counted: true}},
	{name: "error event before content", only: []string{"openai-chat", "openai-responses", "gemini"},
		change: after(0, func(b *simulator.Behavior) { b.MidstreamErrRate = 1 }), whole: noStream, stream: http5xx},
	{name: "overloaded before content", only: []string{"anthropic-messages"},
		change: after(0, func(b *simulator.Behavior) { b.MidstreamErrRate = 1 }), whole: noStream, stream: crowded},
	{name: "error event after content", change: after(3, func(b *simulator.Behavior) { b.MidstreamErrRate = 1 }), whole: noStream, stream: cutOff},
	{name: "response.failed before content", only: []string{"openai-responses"}, change: after(0, func(b *simulator.Behavior) { b.FailedRate = 1 }), whole: http5xx},
	{name: "response.failed after content", only: []string{"openai-responses"}, change: after(3, func(b *simulator.Behavior) { b.FailedRate = 1 }),
		whole: http5xx, stream: cutOff},
	{name: "cut mid-stream", change: after(3, func(b *simulator.Behavior) { b.TruncRate = 1 }), whole: network, stream: cutOff},
	{name: "cut before the end events", change: after(1000, func(b *simulator.Behavior) { b.TruncRate = 1 }), whole: network, stream: cutOff},
	{name: "stall mid-stream", silent: true, change: after(3, func(b *simulator.Behavior) { b.StallRate, b.StallMs = 1, 60000 }),
		whole:  expected{end: taken, class: "idle_timeout", counted: true, status: 504},
		stream: expected{end: broken, class: "idle_timeout", counted: true}},
	{name: "garbage JSON", change: func(b *simulator.Behavior) { b.GarbageRate = 1 }, whole: unread,
		stream: expected{end: taken, class: "no_content_stream", counted: true}},
	{name: "wrong content type", change: func(b *simulator.Behavior) { b.WrongTypeRate = 1 }, whole: unread},
	{name: "oversized line", change: func(b *simulator.Behavior) { b.Chunks, b.ChunkBytes, b.RespBytes = 2, 1200<<10, 2400<<10 },
		whole: expected{end: fine, class: "ok"}},
	{name: "line without an end", change: func(b *simulator.Behavior) { b.OversizedRate = 1 }, whole: unread,
		stream: expected{end: taken, class: "no_content_stream", counted: true}},
}

func (f *faultCase) expects(c *dialectCase) expected {
	if f.only != nil && !slices.Contains(f.only, c.dialect) {
		return noStream
	}
	if c.stream && f.stream != (expected{}) {
		return f.stream
	}
	if f.whole.end == neither && !c.stream {
		return noStream
	}
	return f.whole
}

// failoverBench is two upstreams, the first of which has a fault.
type failoverBench struct {
	*rig
	first, second *simulator.Server
	key           string
	good          map[string]string // whole answers by dialect case
	lines         []string
}

// sight is what was seen of one request.
type sight struct {
	status           int
	upstreams        []string // that were asked, in order
	classes          []string
	counted, blocked bool // of the first upstream
	retryAfter       bool
	end              string
}

func (s sight) String() string {
	marks := ""
	if s.counted {
		marks += " counted"
	}
	if s.blocked {
		marks += " blocked"
	}
	return fmt.Sprintf("%s, %d, %s%s", s.end, s.status, strings.Join(s.classes, "+"), marks)
}

func TestFailoverTable(t *testing.T) {
	for name, both := range map[string]bool{"second healthy": false, "both faulty": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failoverTable(t, both)
		})
	}
}

func failoverTable(t *testing.T, both bool) {
	b := &failoverBench{rig: newRig(t, nil), good: map[string]string{}}
	limits := map[string]any{"breaker": map[string]any{"failures": 1000}}
	b.first = b.upstream("first", fixed(), limits)
	limits["priority"] = 1
	b.second = b.upstream("second", fixed(), limits)
	b.key = b.rig.key("team", nil)
	for _, c := range ways() {
		_, whole := send(t, b.second.URL()+c.path, c.body, "Authorization", "x")
		b.good[c.name] = normal(whole)
	}
	n := 0
	for i := range faultCases {
		n += b.row(&faultCases[i], both)
	}
	b.nothingHeld("first")
	b.nothingHeld("second")
	t.Logf("%d requests\n%-32s %-8s %-8s %s\n%s", n, "FAULT", "SECOND", "ANSWER", "SEEN (end, status, classes)", strings.Join(b.lines, "\n"))
}

// ways are the four dialects, whole and as a stream.
func ways() []dialectCase {
	var list []dialectCase
	for _, c := range dialectCases {
		if slices.Contains([]string{"chat", "chat stream", "responses", "responses stream", "messages", "messages stream", "gemini", "gemini stream"}, c.name) {
			list = append(list, c)
		}
	}
	return list
}

// row plays one fault in all ways and writes its lines of the table: one for whole answers, one for streams, and more
// only when the dialects differ.
func (b *failoverBench) row(f *faultCase, both bool) (n int) {
	b.t.Helper()
	good, bad := fixed(), fixed()
	f.change(&bad)
	b.becomes(b.first, bad)
	if both {
		good = bad
	}
	b.becomes(b.second, good)
	if f.silent {
		b.patience("150ms")
		defer b.patience("20s")
	}
	seen := map[string][]string{}
	for _, c := range ways() {
		want := f.expects(&c)
		if want.end == neither {
			continue
		}
		n++
		got := b.play(&c, want)
		b.judge(f, &c, both, want, got)
		line := fmt.Sprintf("%-32s %-8s %-8s %s", f.name, map[bool]string{true: "faulty", false: "healthy"}[both],
			map[bool]string{true: "stream", false: "whole"}[c.stream], got)
		seen[line] = append(seen[line], c.dialect)
	}
	for _, line := range slices.Sorted(mapKeys(seen)) {
		b.lines = append(b.lines, fmt.Sprintf("%s (%d dialects)", line, len(seen[line])))
	}
	return n
}

// patience sets how long the gateway waits for the upstreams.
func (b *failoverBench) patience(d string) {
	for _, id := range []string{"first", "second"} {
		b.must("PATCH", "/api/v1/upstreams/"+id, map[string]any{"timeouts": map[string]any{"first_byte": d, "idle": d}})
	}
}

func mapKeys(m map[string][]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func (b *failoverBench) becomes(s *simulator.Server, behavior simulator.Behavior) {
	b.t.Helper()
	if err := s.SetConfig(simulator.Config{Default: behavior}); err != nil {
		b.t.Fatal(err)
	}
}

// play makes one request on clean breakers and accounts and looks at what came of it.
func (b *failoverBench) play(c *dialectCase, want expected) sight {
	b.t.Helper()
	for _, id := range []string{"first", "second"} {
		b.must("POST", "/api/v1/upstreams/"+id+"/breaker", map[string]any{"action": "close"})
		b.must("POST", "/api/v1/accounts/"+id+"-1/block", map[string]any{"until": nil})
	}
	resp, body := b.post(c.path, c.body, "Authorization", b.key)
	s := sight{status: resp.StatusCode, retryAfter: resp.Header.Get("Retry-After") != "", end: b.endOf(c, resp, body, want)}
	var story struct{ Request logged }
	b.read("/api/v1/requests/"+resp.Header.Get("X-Request-Id"), &story)
	for i, a := range story.Request.Attempts {
		if all := story.Request.Attempts; a.Class == "network" && i+1 < len(all) && a.Upstream == all[i+1].Upstream {
			continue // a pooled connection was dead; what counts is what came of the new one
		}
		s.upstreams, s.classes = append(s.upstreams, a.Upstream), append(s.classes, a.Class)
	}
	var first struct {
		Breaker  struct{ Failures int }
		Accounts []struct{ State string }
	}
	b.read("/api/v1/upstreams/first/status", &first)
	s.counted, s.blocked = first.Breaker.Failures > 0, first.Accounts[0].State == "blocked"
	return s
}

// endOf says how the answer ended for the client. What looks whole must be whole.
func (b *failoverBench) endOf(c *dialectCase, resp *http.Response, body string, want expected) string {
	b.t.Helper()
	ended := c.stream && strings.Contains(body, c.terminal)
	switch {
	case resp.StatusCode != 200:
		if c.stream && ended {
			return "an end in an error: " + body
		}
		if strings.Contains(body, `"did_send_upstream":true`) {
			return "refused"
		}
		return passed
	case normal(body) == b.good[c.name]:
		return taken
	case want.end == fine && (!c.stream || ended) && len(body) > 2<<20 && (c.stream || json.Valid([]byte(body))):
		return fine
	case c.stream && !ended && (strings.Contains(body, c.errorMark) || strings.Contains(body, "event: error")):
		return broken
	}
	return fmt.Sprintf("a false end: %.2000s", body)
}

func (b *failoverBench) judge(f *faultCase, c *dialectCase, both bool, want expected, got sight) {
	b.t.Helper()
	end, status, upstreams, classes := want.end, 200, []string{"first"}, []string{want.class}
	switch {
	case want.end == passed:
		status = want.status
	case want.end == taken && both:
		end, status = "refused", 503
		if want.status != 0 {
			status = want.status
		}
		upstreams, classes = []string{"first", "second"}, []string{want.class, want.class}
	case want.end == taken:
		upstreams, classes = []string{"first", "second"}, []string{want.class, "ok"}
	}
	if got.end != end || got.status != status || !slices.Equal(got.upstreams, upstreams) || !slices.Equal(got.classes, classes) ||
		got.counted != want.counted || got.blocked != want.blocked {
		b.t.Errorf("%s, %s, both %v: seen %v by %v; expected %s, %d, %v by %v, counted %v, blocked %v",
			f.name, c.name, both, got, got.upstreams, end, status, classes, upstreams, want.counted, want.blocked)
	}
	if end == "refused" && want.blocked && !got.retryAfter {
		b.t.Errorf("%s, %s: no Retry-After although the end of the blocks is known", f.name, c.name)
	}
}

func (r *rig) must(method, path string, body any) {
	r.t.Helper()
	if status, out := r.admin(method, path, body); status/100 != 2 {
		r.t.Fatalf("%s %s: %d %s", method, path, status, out)
	}
}

func (r *rig) read(path string, into any) {
	r.t.Helper()
	status, out := r.admin("GET", path, nil)
	if err := json.Unmarshal(out, into); status != 200 || err != nil {
		r.t.Fatalf("%s: %d %s", path, status, out)
	}
}
