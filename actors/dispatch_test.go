package actors_test

import (
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/catalog"
)

// What each end of the first attempt leads to: the facts, the answer, and whom the second attempt asks (A66, A71-A73,
// B21, B52-B55, D13-D15, E24, E25; pains 19, 47, 55-58).
func TestWhatFollowsAnAttempt(t *testing.T) {
	const served = " dispatched(2 b1) | settled(completed 200 ok reported)"
	next := func(class string) string {
		return "admitted dispatched(1 a1) | failed(1 " + class + " next_upstream)" + served
	}
	nextAccount := func(class string) string {
		return "admitted dispatched(1 a1) | failed(1 " + class + " next_account)" + served
	}
	const badRequest = `{"error":{"message":"messages: required","type":"invalid_request_error"}}`
	for _, c := range []struct {
		name   string
		first  reply
		stream bool
		story  string
		status int
		body   string // part of it
	}{
		{"success", whole(okBody), false, "admitted dispatched(1 a1) | settled(completed 200 ok reported)", 200, "hello"},
		{"stream", okStream(), true, "admitted dispatched(1 a1) | settled(completed 200 ok reported)", 200, done},
		{"stream without [DONE]", streaming(role, hello, finish), true, "admitted dispatched(1 a1) | settled(completed 200 ok estimated)", 200, hello},
		{"a whole answer to who asked for a stream", whole(okBody), true, "admitted dispatched(1 a1) | settled(completed 200 ok reported)", 200, "hello"},
		{"usage not reported", whole(`{"choices":[{"message":{"content":"hello"}}]}`), false, "admitted dispatched(1 a1) | settled(completed 200 ok estimated)", 200, "hello"},
		{"500", refusing(500, `{"error":{"message":"x"}}`), false, next("http_5xx"), 200, "hello"},
		{"529", refusing(529, ``), false, next("overloaded"), 200, "hello"},
		{"429", refusing(429, `{"error":{"message":"slow"}}`), false, nextAccount("http_429"), 200, "hello"},
		{"401", refusing(401, ``), false, nextAccount("auth"), 200, "hello"},
		{"402", refusing(402, ``), false, nextAccount("quota"), 200, "hello"},
		{"408", refusing(408, ``), false, next("http_4xx"), 200, "hello"},
		{"redirect", refusing(302, ``), false, next("invalid_answer"), 200, "hello"},
		{"not connected", reply{fail: actors.PhaseConnect}, false, next("network"), 200, "hello"},
		{"connect timeout", reply{fail: actors.PhaseConnectTimeout}, false, next("connect_timeout"), 200, "hello"},
		{"write failed", reply{fail: actors.PhaseWrite}, false, next("network"), 200, "hello"},
		{"closed before headers", reply{fail: actors.PhaseFirstByte}, false, next("network"), 200, "hello"},
		{"first byte timeout", reply{fail: actors.PhaseFirstTimeout}, false, next("first_byte_timeout"), 200, "hello"},
		{"no HTTP", reply{fail: actors.PhaseMalformed}, false, next("network"), 200, "hello"},
		{"empty", whole(""), false, next("empty_response"), 200, "hello"},
		{"garbage", whole("<html>"), false, next("invalid_answer"), 200, "hello"},
		{"an error in a success", whole(`{"error":{"message":"boom","type":"server_error"}}`), false, next("http_5xx"), 200, "hello"},
		{"an error about the request in a success", whole(badRequest), false, "admitted dispatched(1 a1) | settled(failed 400 UPSTREAM_HTTP_ERROR caller_fault none)", 400, "messages: required"},
		{"body cut", reply{header: jsonHeader, body: []chunk{{data: `{"cho`}, {err: actors.PhaseBody}}}, false, next("network"), 200, "hello"},
		{"body stands still", reply{header: jsonHeader, body: []chunk{{data: `{"cho`}, {err: actors.PhaseIdle}}}, false, next("idle_timeout"), 200, "hello"},
		{"stream closed before content", streaming(role), true, next("no_content_stream"), 200, "hello"},
		{"stream empty", streaming(), true, next("empty_response"), 200, "hello"},
		{"stream that ends before content", streaming(role, done), true, next("no_content_stream"), 200, "hello"},
		{"stream that is nothing but its end", streaming(done), true, next("no_content_stream"), 200, "hello"},
		{"stream that stops before content", streaming(role, finish, done), true, "admitted dispatched(1 a1) | settled(completed 200 ok estimated)", 200, finish},
		{"stream fails before content", streaming(role, inError), true, next("http_5xx"), 200, "hello"},
		{"stream breaks before content", reply{header: sseHeader, body: []chunk{{data: role}, {err: actors.PhaseBody}}}, true, next("network"), 200, "hello"},
		{"stream idle before content", reply{header: sseHeader, body: []chunk{{data: role}, {err: actors.PhaseIdle}}}, true, next("idle_timeout"), 200, "hello"},
		{"stream in an unknown encoding", reply{header: map[string]string{"Content-Type": "text/event-stream", "Content-Encoding": "magic"}}, true, next("invalid_answer"), 200, "hello"},
		{"400", refusing(400, badRequest), false, "admitted dispatched(1 a1) | settled(failed 400 caller_fault none)", 400, badRequest},
		{"404", refusing(404, badRequest), false, "admitted dispatched(1 a1) | settled(failed 404 http_4xx none)", 404, badRequest},
		{"422", refusing(422, badRequest), false, "admitted dispatched(1 a1) | settled(failed 422 caller_fault none)", 422, badRequest},
		{"the caller's fault in a stream", streaming(`data: ` + badRequest + "\n\n"), true, "admitted dispatched(1 a1) | settled(failed 400 UPSTREAM_HTTP_ERROR caller_fault none)", 400, "messages: required"},
		{"local fault", reply{fail: actors.PhaseLocal}, false, "admitted dispatched(1 a1) | settled(failed 503 LOCAL_FAULT local_fault none)", 503, "LOCAL_FAULT"},
		{"cut after content", streaming(role, hello), true, "admitted dispatched(1 a1) | settled(failed 200 STREAM_ERROR stream_cut estimated)", 200, `data: {"error":`},
		{"cut within an event", streaming(role, hello, `data: {"choi`), true, "admitted dispatched(1 a1) | settled(failed 200 STREAM_ERROR stream_cut estimated)", 200, hello + `data: {"error":`},
		{"no blank line at the end", streaming(hello, strings.TrimSpace(finish)), true, "admitted dispatched(1 a1) | settled(completed 200 ok estimated)", 200, hello + strings.TrimSpace(finish)},
		{"reset after content", reply{header: sseHeader, body: []chunk{{data: hello}, {err: actors.PhaseBody}}}, true, "admitted dispatched(1 a1) | settled(failed 200 STREAM_ERROR stream_cut estimated)", 200, `STREAM_ERROR`},
		{"idle after content", reply{header: sseHeader, body: []chunk{{data: hello}, {err: actors.PhaseIdle}}}, true, "admitted dispatched(1 a1) | settled(failed 200 REQUEST_TIMEOUT idle_timeout estimated)", 200, `REQUEST_TIMEOUT`},
		{"error event after content", streaming(hello, inError, done), true, "admitted dispatched(1 a1) | settled(failed 200 STREAM_ERROR stream_cut estimated)", 200, inError},
		{"content, error and end in one read", streaming(hello + inError + done), true, "admitted dispatched(1 a1) | settled(failed 200 STREAM_ERROR stream_cut estimated)", 200, inError},
		{"reset behind [DONE]", reply{header: sseHeader, body: []chunk{{data: hello + usage + done}, {err: actors.PhaseBody}}}, true, "admitted dispatched(1 a1) | settled(completed 200 ok reported)", 200, done},
		{"compressed stream", gzipped(role, hello, usage, done), true, "admitted dispatched(1 a1) | settled(completed 200 ok reported)", 200, ""},
		{"compressed stream that is broken", func() reply { r := gzipped(role, hello); r.body[1].data = "garbage!!"; return r }(), true, next("network"), 200, "hello"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, pair()...)
			r.reply("a", c.first)
			call := r.chat()
			if c.stream {
				call = r.stream()
				r.reply("b", okStream())
			}
			x := r.run(call)
			if x.Status != c.status || !strings.Contains(x.body(), c.body) || x.err != nil {
				t.Errorf("answer %d %s %v", x.Status, x.body(), x.err)
			}
			if strings.Contains(c.story, "STREAM_ERROR") && strings.Contains(x.body(), done) {
				t.Errorf("a cut stream looks complete: %s", x.body())
			}
			r.expect(call.ID, c.story)
		})
	}
}

// An account that is limited is blocked and the next account of the same upstream is asked; the next request goes to
// that one at once (D13; pain 57).
func TestLimitedAccountIsBlockedAndTheNextOneUsed(t *testing.T) {
	r := newRig(t, upstream("a"), upstream("b", second), account("a1", "a"), account("a2", "a"), account("b1", "b"), key("k"))
	limited := refusing(429, `{"error":{"message":"slow"}}`)
	limited.header = map[string]string{"Content-Type": "application/json", "Retry-After": "60"}
	r.reply("a", limited)
	first, then := r.chat(), r.chat()
	r.run(first)
	r.expect(first.ID, "admitted dispatched(1 a1) | failed(1 http_429 next_account) dispatched(2 a2) | settled(completed 200 ok reported)")
	r.run(then)
	r.expect(then.ID, "admitted dispatched(1 a2) | settled(completed 200 ok reported)")
	f, _ := r.system.Board().AccountFigures("a1")
	if wait := time.Until(f.BlockedUntil); f.Reason != "http_429" || wait < 50*time.Second || wait > time.Minute {
		t.Errorf("blocked for %v: %+v", wait, f)
	}
	if auth := r.ups.calls[1].auth; auth != "Bearer secret-of-a2" {
		t.Errorf("sent %q", auth)
	}
}

// An account that lacks what this caller asks for is good for others: it is not blocked, and not asked again.
// D6, D12: what failed in a request is left out of its further leases.
func TestAnAccountIsAskedOnce(t *testing.T) {
	r := newRig(t, append(pair(), account("a2", "a"))...)
	const lacks = `{"error":{"message":"your project does not have access to model m"}}`
	r.reply("a", refusing(403, lacks), refusing(403, lacks))
	call, then := r.chat(), r.chat()
	r.run(call)
	r.run(then)
	r.expect(call.ID, "admitted dispatched(1 a1) | failed(1 auth next_account) dispatched(2 a2) | failed(2 auth next_account) dispatched(3 b1) | settled(completed 200 ok reported)")
	r.expect(then.ID, "admitted dispatched(1 a1) | settled(completed 200 ok reported)")
}

// A reused connection that closes without a byte gets one more attempt, on a new connection of the same lease, that no
// breaker counts.
func TestStaleConnectionGetsOneMoreAttempt(t *testing.T) {
	stale := reply{fail: actors.PhaseStale}
	for name, c := range map[string]struct {
		then  []reply
		story string
	}{
		"then served": {nil, "settled(completed 200 ok reported)"},
		"then refused": {[]reply{refusing(500, "")},
			"failed(2 http_5xx next_upstream) dispatched(3 b1) | settled(completed 200 ok reported)"},
		"stale again": {[]reply{stale},
			"failed(2 network next_upstream) dispatched(3 b1) | settled(completed 200 ok reported)"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, pair(func(u *catalog.Upstream) { u.Breaker.Failures = 1 }, slots(1))...)
			r.reply("a", append([]reply{stale}, c.then...)...)
			call := r.chat()
			r.run(call)
			r.expect(call.ID, "admitted dispatched(1 a1) | failed(1 network same_account) dispatched(2 a1) | "+c.story)
			if len(r.ups.calls) < 2 || r.ups.calls[0].fresh || !r.ups.calls[1].fresh {
				t.Errorf("calls %+v", r.ups.calls)
			}
			f, _ := r.system.Board().Figures("a")
			if want := uint64(min(len(c.then), 1)); f.Failures != want {
				t.Errorf("%d failures are counted, want %d", f.Failures, want)
			}
		})
	}
}

// When nothing succeeded, the client gets what the operator chose (A46, A83, D47, D48), with the upstream's Retry-After.
func TestExhausted(t *testing.T) {
	const gave = `{"error":{"message":"the second"}}`
	for _, c := range []struct {
		how, story string
		status     int
		body       string
		last       int
	}{
		{"unified", "settled(failed 503 UPSTREAM_HTTP_ERROR http_5xx none)", 503, "UPSTREAM_HTTP_ERROR", 502},
		{"bad_gateway", "settled(failed 502 UPSTREAM_HTTP_ERROR http_5xx none)", 502, "UPSTREAM_HTTP_ERROR", 502},
		{"last_answer", "settled(failed 502 UPSTREAM_HTTP_ERROR http_5xx none)", 502, gave, 502},
		{"last_answer", "settled(failed 503 UPSTREAM_HTTP_ERROR overloaded none)", 503, gave, 529},
		{"last_answer", "settled(failed 503 UPSTREAM_HTTP_ERROR auth none)", 503, "UPSTREAM_HTTP_ERROR", 401},
	} {
		t.Run(c.how, func(t *testing.T) {
			r := newRig(t, append(pair(), setting("on_exhausted", c.how))...)
			r.reply("a", refusing(500, ""))
			last := refusing(c.last, gave)
			last.header = map[string]string{"Content-Type": "application/json", "Retry-After": "7"}
			r.reply("b", last)
			call := r.chat()
			x := r.run(call)
			if x.Status != c.status || !strings.Contains(x.body(), c.body) || x.header("Retry-After") != "7" {
				t.Errorf("answer %d %v %s", x.Status, x.Headers, x.body())
			}
			r.expect(call.ID, "admitted dispatched(1 a1) | failed(1 http_5xx next_upstream) dispatched(2 b1) | "+c.story)
		})
	}
}

// Our credential never reaches the client, not even in an error that the upstream words with it, and stands in no event.
func TestCredentialsNeverComeBack(t *testing.T) {
	r := newRig(t, append(pair(), setting("failover_on_auth", "false"), setting("on_exhausted", "last_answer"))...)
	r.reply("a", refusing(400, `{"error":{"message":"secret-of-a1 is odd"}}`), refusing(401, `{"error":{"message":"secret-of-a1 is wrong"}}`))
	for _, want := range []int{400, 503} {
		call := r.chat()
		x := r.run(call)
		if x.Status != want || strings.Contains(x.body(), "secret-of") {
			t.Errorf("answer %d %s", x.Status, x.body())
		}
		if s := r.settlement(call.ID); s.Evidence == "" || strings.Contains(s.Evidence, "secret-of") {
			t.Errorf("evidence %q", s.Evidence)
		}
	}
	r.laws()
}

// Neither does it in an error that is compressed although nobody asked for that, nor in one within a stream.
func TestCredentialsNeverComeBackInOtherForms(t *testing.T) {
	squeezed := gzipped(`{"error":{"message":"secret-of-a1 is odd"}}`)
	squeezed.status, squeezed.header = 400, map[string]string{"Content-Type": "application/json", "Content-Encoding": "gzip"}
	within := streaming(hello, `data: {"error":{"message":"secret-of-a1 has expired"}}`+"\n\n")
	bare := streaming(hello, `data: {"error":{"message":"secret-of-a1 has expired"}}`) // without its blank line
	for name, rep := range map[string]reply{"compressed": squeezed, "within a stream": within, "at the end of one": bare} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, pair()...)
			r.reply("a", rep)
			call := r.chat()
			if name != "compressed" {
				call = r.stream()
			}
			x := r.run(call)
			if x.header("Content-Encoding") != "" || !strings.Contains(x.body(), "*** ") || strings.Contains(x.body(), "secret-of") {
				t.Errorf("answer %d %v %s", x.Status, x.Headers, x.body())
			}
			if s := r.settlement(call.ID); !strings.HasPrefix(s.Evidence, "*** ") {
				t.Errorf("evidence %q", s.Evidence)
			}
		})
	}
	r := newRig(t, pair()...) // what does not tell of it passes as it came
	odd := gzipped(`{"error":{"message":"odd"}}`)
	odd.status, odd.header = 400, squeezed.header
	r.reply("a", odd)
	if x := r.run(r.chat()); x.header("Content-Encoding") != "gzip" || x.body() != odd.body[0].data {
		t.Errorf("answer %d %v", x.Status, x.Headers)
	}
}

// One budget of attempts for all upstreams and accounts of a request (D5, E23, E26).
func TestAttemptBudget(t *testing.T) {
	rs := append(pair(), setting("failover.max_attempts", "2"), account("a2", "a"))
	r := newRig(t, rs...)
	r.reply("a", refusing(429, ""), refusing(429, ""))
	call := r.chat()
	if x := r.run(call); x.Status != 503 {
		t.Errorf("answer %d", x.Status)
	}
	r.expect(call.ID, "admitted dispatched(1 a1) | failed(1 http_429 next_account) dispatched(2 a2) | settled(failed 503 UPSTREAM_HTTP_ERROR http_429 none)")
}

// What a failed attempt had used is told with its cost, and never paid by a caller who got nothing for it (pain 13).
func TestUsageOfAFailedAttempt(t *testing.T) {
	const start = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":20,\"output_tokens\":1}}}\n\n"
	const broke = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"boom\"}}\n\n"
	r := newRig(t, pair()...)
	r.reply("a", streaming(start, broke))
	r.reply("b", streaming(start, broke))
	call := r.call("/v1/messages", `{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]}`)
	r.run(call)
	r.expect(call.ID, "admitted dispatched(1 a1) | failed(1 http_5xx next_upstream) dispatched(2 b1) | settled(failed 503 UPSTREAM_HTTP_ERROR http_5xx partial)")
	if s := r.settlement(call.ID); s.Usage.Input != 20 || s.UpstreamCost == 0 || s.Cost != 0 {
		t.Errorf("settled %+v", s)
	}
}

// Of a stream that breaks off the last report is billed, and with it what has passed since: Anthropic's first one says that a token
// was put out (pains 9, 11).
func TestAPartialReportIsBilledWithWhatHasPassed(t *testing.T) {
	const start = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":20,\"output_tokens\":1}}}\n\n"
	text := "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"" + strings.Repeat("four", 100) + "\"}}\n\n"
	r := newRig(t, pair()...)
	r.reply("a", replyOf(chunk{data: start + text}, chunk{err: actors.PhaseBody}))
	call := r.call("/v1/messages", `{"model":"m","max_tokens":900,"stream":true,"messages":[{"role":"user","content":"hi"}]}`)
	r.run(call)
	r.expect(call.ID, "admitted dispatched(1 a1) | settled(failed 200 STREAM_ERROR stream_cut partial)")
	if s := r.settlement(call.ID); s.Usage.Input != 20 || s.Usage.Output != 100 || s.Cost != 2200000 { // 20 × 1 + 100 × 2 USD per million
		t.Errorf("settled %+v", s)
	}
}

// Counting tokens is never billed and means nothing to a breaker, in success and failure.
func TestCountTokensIsNeutral(t *testing.T) {
	r := newRig(t, pair(func(u *catalog.Upstream) { u.Breaker.Failures = 1 })...)
	r.reply("a", refusing(500, ""), whole(`{"input_tokens":12}`))
	r.reply("b", whole(`{"input_tokens":12}`))
	const body = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	failing, good := r.call("/v1/messages/count_tokens", body), r.call("/v1/messages/count_tokens", body)
	r.run(failing)
	r.run(good)
	r.expect(failing.ID, "admitted dispatched(1 a1) | failed(1 http_5xx next_upstream) dispatched(2 b1) | settled(completed 200 ok none)")
	r.expect(good.ID, "admitted dispatched(1 a1) | settled(completed 200 ok none)")
	if f, _ := r.system.Board().Figures("a"); f.Failures != 0 || f.Successes != 0 || f.TTFT != 0 {
		t.Errorf("figures %+v", f)
	}
}
