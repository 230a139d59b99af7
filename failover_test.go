package penstock_test

import (
	"bufio"
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/cmd/mockllm/simulator"
)

// withRid puts a request id that the simulator counts into a body.
func withRid(body, rid string) string {
	return strings.NewReplacer(`"hi"`, `"[rid:`+rid+`] hi"`).Replace(body)
}

// Faults before the first content are answered by the second upstream; each try is sent once and logged with its
// class (A66, A71, A72, B21, B52, B53, D13-D15, D49, E24, E25; pains 19, 47, 55-57, 60).
func TestFaultsBeforeContentFailOver(t *testing.T) {
	faults := []struct {
		name       string
		change     func(*simulator.Behavior)
		class      string
		streamOnly bool
	}{
		{"500", func(b *simulator.Behavior) { b.ErrRate, b.ErrStatus = 1, 500 }, "http_5xx", false},
		{"502", func(b *simulator.Behavior) { b.ErrRate, b.ErrStatus = 1, 502 }, "http_5xx", false},
		{"529", func(b *simulator.Behavior) { b.ErrRate, b.ErrStatus = 1, 529 }, "overloaded", false},
		{"429", func(b *simulator.Behavior) { b.ErrRate, b.ErrStatus, b.RetryAfter = 1, 429, 60 }, "http_429", false},
		{"401", func(b *simulator.Behavior) { b.ErrRate, b.ErrStatus = 1, 401 }, "auth", false},
		{"reset", func(b *simulator.Behavior) { b.ResetRate = 1 }, "network", false},
		{"empty", func(b *simulator.Behavior) { b.EmptyRate = 1 }, "empty_response", false},
		{"garbage", func(b *simulator.Behavior) { b.GarbageRate = 1 }, "", false},
		{"closed before content", func(b *simulator.Behavior) { b.NoContentRate = 1 }, "no_content_stream", true},
		{"hangs", func(b *simulator.Behavior) { b.HangRate, b.HangMs = 1, 60000 }, "first_byte_timeout", false},
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			bad := fixed()
			f.change(&bad)
			patience := "1m" // of the machine that runs this
			if f.class == "first_byte_timeout" {
				patience = "100ms"
			}
			first := r.upstream("bad", bad, map[string]any{
				"priority": 0, "breaker": map[string]any{"failures": 1000000}, "timeouts": map[string]any{"first_byte": patience},
			})
			second := r.upstream("good", fixed(), map[string]any{"priority": 1})
			key := r.key("team", nil)
			n := 0
			for _, c := range dialectCases {
				if f.streamOnly && !c.stream || c.name == "gemini array" && (f.streamOnly || f.name == "garbage") {
					continue
				}
				n++
				rid := "r" + strconv.Itoa(n)
				resp, body := r.post(c.path, withRid(c.body, rid), "Authorization", key)
				if resp.StatusCode != 200 || c.stream && !strings.Contains(body, c.terminal) {
					t.Errorf("%s: %d %s", c.name, resp.StatusCode, body)
					continue
				}
				e := r.entry(resp.Header.Get("X-Request-Id"))
				if blocks := f.class == "http_429" || f.class == "auth"; blocks && n > 1 {
					if len(e.Attempts) != 1 || e.Upstream != "good" {
						t.Errorf("%s: the blocked account was tried again: %+v", c.name, e)
					}
					continue
				}
				if len(e.Attempts) != 2 || e.Attempts[0].Upstream != "bad" || e.Attempts[1].Upstream != "good" || e.Outcome != "completed" {
					t.Errorf("%s: logged %+v", c.name, e)
					continue
				}
				if f.class != "" && e.Attempts[0].Class != f.class {
					t.Errorf("%s: class %s, want %s", c.name, e.Attempts[0].Class, f.class)
				}
				if a, b := first.Requests()[rid].Attempts, second.Requests()[rid].Attempts; a != 1 || b != 1 {
					t.Errorf("%s: sent %d times to the first, %d to the second", c.name, a, b)
				}
			}
			r.nothingHeld("bad")
			r.nothingHeld("good")
		})
	}
}

// A stream that the upstream cuts after content ends with an error event of the dialect and never with a terminal
// marker; nobody else takes over (A65, A73, B22, B23, D17; pains 33, 56; B59, B75).
func TestCutStreamsNeverLookComplete(t *testing.T) {
	for _, fault := range []string{"cut", "reset while silent"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			b := fixed()
			b.FaultAfter = 3
			patience := "1m" // of the machine that runs this
			if fault == "cut" {
				b.TruncRate = 1
			} else {
				b.StallRate, b.StallMs, patience = 1, 60_000, "500ms"
			}
			r.upstream("a", b, map[string]any{"timeouts": map[string]any{"idle": patience}, "breaker": map[string]any{"failures": 1000}})
			spare := r.upstream("b", fixed(), map[string]any{"priority": 1})
			r.apply(map[string]any{"kind": "price", "model": "m-1", "input": "1", "output": "1"})
			key := r.key("team", nil)
			for _, c := range dialectCases {
				if !c.stream {
					continue
				}
				resp, body := r.post(c.path, c.body, "Authorization", key)
				if resp.StatusCode != 200 {
					t.Errorf("%s: %d", c.name, resp.StatusCode)
				}
				if strings.Contains(body, c.terminal) {
					t.Errorf("%s: a terminal marker after a cut: %s", c.name, body)
				}
				if !strings.Contains(body, c.errorMark) {
					t.Errorf("%s: no error event: %s", c.name, body)
				}
				e := r.entry(resp.Header.Get("X-Request-Id"))
				if e.Outcome != "failed" || len(e.Attempts) != 1 || e.Stage != "downstream_streaming" || e.UsageSource == "reported" || e.UsageSource == "none" || e.Cost == "0" {
					t.Errorf("%s: logged %+v", c.name, e)
				}
			}
			if n := spare.Stats().All.Requests; n != 0 {
				t.Errorf("another upstream got %d requests", n)
			}
			r.nothingHeld("a")
		})
	}
}

// The caller's own fault is answered with the upstream's words, at once, and cools nobody (B54, B55, E25; pains 53, 58).
func TestCallersFaultsPassUnchanged(t *testing.T) {
	r := newRig(t, nil)
	b := fixed()
	b.ErrRate, b.ErrStatus, b.ErrBody = 1, 400, `{"error":{"message":"prompt is too long: 9 tokens","type":"invalid_request_error","code":"context_length_exceeded"}}`
	r.upstream("a", b, map[string]any{"breaker": map[string]any{"failures": 1}})
	spare := r.upstream("b", fixed(), map[string]any{"priority": 1})
	key := r.key("team", nil)
	for range 3 {
		resp, body := r.post("/v1/chat/completions", chatBody("x"), "Authorization", key)
		if resp.StatusCode != 400 || body != b.ErrBody {
			t.Fatalf("%d %s", resp.StatusCode, body)
		}
		if e := r.entry(resp.Header.Get("X-Request-Id")); e.Outcome != "failed" || !e.Sent || e.Cost != "0" || e.Attempts[0].Class != "caller_fault" {
			t.Errorf("logged %+v", e)
		}
	}
	if n := spare.Stats().All.Requests; n != 0 {
		t.Errorf("another upstream got %d requests", n)
	}
}

// When every attempt fails the client gets one unified error that says so (A46, A83, D47, D48), and the breaker opens
// after its threshold: then nothing is sent any more (A41, A43, C52, C60).
func TestExhaustedThenOpen(t *testing.T) {
	r := newRig(t, nil)
	b := fixed()
	b.ErrRate, b.ErrStatus = 1, 503
	up := r.upstream("a", b, map[string]any{"breaker": map[string]any{"failures": 2, "open_for": "300s"}})
	key := r.key("team", nil)
	for range 2 {
		resp, body := r.post("/v1/chat/completions", chatBody("x"), "Authorization", key)
		if e := r.expect(resp, body, 503, "UPSTREAM_HTTP_ERROR", "http_5xx"); !e.Sent || e.Outcome != "failed" {
			t.Errorf("logged %+v", e)
		}
	}
	resp, body := r.post("/v1/chat/completions", chatBody("x"), "Authorization", key)
	if e := r.expect(resp, body, 503, "ALL_UPSTREAMS_UNAVAILABLE", "UPSTREAM_CIRCUIT_OPEN"); e.Sent || len(e.Excluded) != 1 {
		t.Errorf("logged %+v", e)
	}
	if resp.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After although the end is known")
	}
	if n := up.Stats().All.Requests; n != 2 {
		t.Errorf("%d requests reached the upstream", n)
	}
	if status, out := r.admin("POST", "/api/v1/upstreams/a/breaker", map[string]any{"action": "close"}); status/100 != 2 {
		t.Fatalf("force close: %d %s", status, out)
	}
	if err := up.SetConfig(simulator.Config{Default: fixed()}); err != nil {
		t.Fatal(err)
	}
	if resp, _ := r.post("/v1/chat/completions", chatBody("x"), "Authorization", key); resp.StatusCode != 200 {
		t.Errorf("a closed breaker is not seen by the next request: %d", resp.StatusCode)
	}
}

// A client that goes is noticed while the upstream thinks and while it streams; the upstream's call ends, and what it
// had produced is billed (A63-A65, B61; pains 9, 11, 30-33).
func TestClientGoneAfterDispatch(t *testing.T) {
	r := newRig(t, nil)
	b := fixed()
	b.TTFBMs = 2000
	slow := r.upstream("a", b, nil)
	r.apply(map[string]any{"kind": "price", "model": "m-1", "input": "1000", "output": "1000"})
	key := r.key("team", nil)

	ctx, cancel := context.WithCancel(context.Background())
	req, _ := http.NewRequestWithContext(ctx, "POST", "http://"+r.gw.Addr()+"/v1/chat/completions", strings.NewReader(chatBody("thinking")))
	req.Header.Set("Authorization", key)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	r.await("the upstream to think", func() bool { return slow.Stats().All.InFlight == 1 })
	cancel()
	<-done
	r.await("the upstream's call to end", func() bool { return slow.Stats().All.InFlight == 0 })

	b.TTFBMs, b.Chunks, b.ChunkMs = 0, 100, 20
	if err := slow.SetConfig(simulator.Config{Default: b}); err != nil {
		t.Fatal(err)
	}
	req, _ = http.NewRequest("POST", "http://"+r.gw.Addr()+"/v1/messages", strings.NewReader(strings.Replace(dialectCases[6].body, `"hi"`, `"[rid:streaming]"`, 1)))
	req.Header.Set("Authorization", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(resp.Body)
	for n := 0; n < 3 && lines.Scan(); {
		if strings.Contains(lines.Text(), "text_delta") {
			n++
		}
	}
	resp.Body.Close()
	r.await("the upstream's stream to end", func() bool { return slow.Stats().All.InFlight == 0 })
	r.await("two settlements", func() bool { return len(r.logs("&outcome=cancelled")) == 2 })
	for _, e := range r.logs("&outcome=cancelled") {
		if e.Status != 499 || !e.ClientGone || !e.Sent || e.Code != "CLIENT_DISCONNECTED" {
			t.Errorf("logged %+v", e)
		}
		if e.Stream && (e.UsageSource != "partial" || e.Usage.Input != 800 || e.Usage.Output == 0 || e.Cost == "0") {
			t.Errorf("the stream is logged as %+v", e)
		}
	}
	r.nothingHeld("a")
	if _, body := r.admin("GET", "/api/v1/upstreams/a/status", nil); !strings.Contains(string(body), `"state":"closed"`) || strings.Contains(string(body), `"failures":1`) {
		t.Errorf("a client that went counts as a failure: %s", body)
	}
}

// With drain the answer is read to its end for its usage (pain 12, 31).
func TestDrainReadsOnForTheUsage(t *testing.T) {
	r := newRig(t, nil)
	b := fixed()
	b.Chunks, b.ChunkMs = 10, 15
	up := r.upstream("a", b, map[string]any{"on_disconnect": "drain"})
	key := r.key("team", nil)
	req, _ := http.NewRequest("POST", "http://"+r.gw.Addr()+"/v1/chat/completions", strings.NewReader(strings.Replace(chatBody("x"), "{", `{"stream":true,`, 1)))
	req.Header.Set("Authorization", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	bufio.NewScanner(resp.Body).Scan()
	resp.Body.Close()
	r.await("the end of the answer", func() bool { return up.Stats().All.Completed == 1 })
	r.await("the settlement", func() bool { return len(r.logs("&outcome=cancelled")) == 1 })
	if e := r.logs("&outcome=cancelled")[0]; e.UsageSource != "reported" || e.Usage.Output != 50 || !e.ClientGone {
		t.Errorf("logged %+v", e)
	}
}

// An upstream that compresses although it was asked not to: the bytes pass, a copy is read for usage (wire list 44).
func TestCompressedAnswersPassAndAreMetered(t *testing.T) {
	for _, enc := range []string{"gzip", "deflate", "br", "zstd"} {
		t.Run(enc, func(t *testing.T) {
			r := newRig(t, nil)
			b := fixed()
			b.Compress = enc
			up := r.upstream("a", b, nil)
			key := r.key("team", nil)
			for _, c := range dialectCases {
				if strings.HasPrefix(c.name, "gemini ") || c.name == "chat stream" { // the spliced usage chunk stays in
					continue
				}
				direct, want := send(t, up.URL()+c.path, c.body, "Authorization", "x", "Accept-Encoding", "identity")
				resp, got := r.post(c.path, c.body, "Authorization", key, "Accept-Encoding", "identity")
				if resp.StatusCode != 200 || resp.Header.Get("Content-Encoding") != direct.Header.Get("Content-Encoding") || len(got) == 0 || len(want) == 0 {
					t.Fatalf("%s: %d %v", c.name, resp.StatusCode, resp.Header)
				}
				if e := r.entry(resp.Header.Get("X-Request-Id")); e.Outcome != "completed" || e.Usage.Output != 50 || e.UsageSource != "reported" {
					t.Errorf("%s: logged %+v", c.name, e)
				}
			}
		})
	}
}

// Headers: the client's credentials and those of the connection stay here, the upstream's credential goes in the form
// of the dialect, everything else passes (A67, A68; C19-C21, C30).
func TestHeadersToTheUpstream(t *testing.T) {
	r := newRig(t, nil)
	up := r.upstream("a", fixed(), map[string]any{
		"headers": map[string]any{"x-team": "ours"}, "upstream_models": map[string]any{"m-1": "real-1"},
	})
	key := r.key("team", nil)
	for _, c := range []struct{ path, body, header, value string }{
		{"/v1/chat/completions", dialectCases[0].body, "authorization", "Bearer sk-a"},
		{"/v1/messages", dialectCases[5].body, "x-api-key", "sk-a"},
		{"/v1beta/models/m-1:generateContent", dialectCases[7].body, "x-goog-api-key", "sk-a"},
	} {
		resp, _ := r.post(c.path+"?beta=true", c.body, "Authorization", "Bearer "+key, "Cookie", "a=b", "X-Forwarded-For", "1.2.3.4",
			"Anthropic-Beta", "x-1", "Accept-Encoding", "gzip", "X-Team", "theirs", "Connection", "X-Hop", "X-Hop", "1")
		if resp.StatusCode != 200 {
			t.Fatalf("%s: %d", c.path, resp.StatusCode)
		}
		last, _ := up.Last()
		h := last.Headers
		if h[c.header] != c.value || h["anthropic-beta"] != "x-1" || h["accept-encoding"] != "identity" || h["x-team"] != "ours" {
			t.Errorf("%s: headers %v", c.path, h)
		}
		for _, name := range []string{"cookie", "x-forwarded-for", "x-hop"} {
			if h[name] != "" {
				t.Errorf("%s: %s went upstream", c.path, name)
			}
		}
		if c.header != "authorization" && h["authorization"] != "" {
			t.Errorf("%s: authorization went upstream", c.path)
		}
		if !strings.Contains(last.Path, "beta=true") || !strings.Contains(last.Path+string(last.Body), "real-1") || strings.Contains(string(last.Body), "m-1") {
			t.Errorf("%s: sent %s %s", c.path, last.Path, last.Body)
		}
	}
}

func TestBodiesThatAreNotValidAreRefused(t *testing.T) {
	r := newRig(t, nil)
	up := r.upstream("a", fixed(), nil)
	key := r.key("team", nil)
	for _, body := range []string{``, `[]`, `{"model":1}`, `{"model":"a","model":"b"}`, `{"stream":"yes"}`, `{"model":"m"} x`, "{\"model\":\"\xff\"}"} {
		resp, got := r.post("/v1/chat/completions", body, "Authorization", key)
		r.expect(resp, got, 400, "REQUEST_BODY_INVALID", "")
		if strings.HasPrefix(body, `{"model":1`) && !strings.Contains(got, "model") {
			t.Errorf("the field is not named: %s", got)
		}
	}
	if n := up.Stats().All.Requests; n != 0 {
		t.Errorf("%d requests reached the upstream", n)
	}
	_ = time.Now
}

// An open breaker, a force-opened one and a blocked account are as before after a restart.
func TestBreakersAndBlocksSurviveARestart(t *testing.T) {
	r := newRig(t, nil)
	bad := fixed()
	bad.ErrRate, bad.ErrStatus = 1, 500
	r.upstream("a", bad, map[string]any{"breaker": map[string]any{"failures": 1}})
	r.upstream("b", fixed(), map[string]any{"priority": 1})
	key := r.key("team", nil)
	if resp, _ := r.post("/v1/chat/completions", chatBody("x"), "Authorization", key); resp.StatusCode != 200 {
		t.Fatal(resp.StatusCode)
	}
	until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	if status, body := r.admin("POST", "/api/v1/accounts/b-1/block", map[string]any{"until": until}); status/100 != 2 {
		t.Fatalf("%d %s", status, body)
	}
	r.close()
	r.open()
	resp, body := r.post("/v1/chat/completions", chatBody("x"), "Authorization", key)
	if resp.StatusCode != 503 {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if e := r.entry(resp.Header.Get("X-Request-Id")); len(e.Excluded) != 3 || e.Excluded[0].Reason != "circuit_open" || e.Excluded[1].Reason != "no_account" || e.Excluded[2].Reason != "blocked" {
		t.Errorf("logged %+v", e)
	}
}
