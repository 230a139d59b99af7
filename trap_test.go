package penstock_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// answers is an upstream that answers with what it is told to.
func (r *rig) answers(id string, priority int, answer http.HandlerFunc) {
	r.t.Helper()
	s := httptest.NewServer(answer)
	r.t.Cleanup(s.Close)
	r.apply(map[string]any{
		"kind": "upstream", "id": id, "base_url": s.URL, "priority": priority, "breaker": map[string]any{"failures": 1000},
		"capabilities": []string{"openai_chat_compatible", "openai_responses", "anthropic_messages", "gemini_native_generate"},
	}, map[string]any{"kind": "account", "id": id + "-1", "upstream": id, "api_key": "sk-" + id})
}

// sse answers with a stream.
func sse(stream string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, stream)
	}
}

// What an error says is no output, however long it is, and no error is billed (pain 14: new-api#5288, #5289, #5290); what had
// been said before it is (pain 9).
func TestWordsOfErrorsAreNeverBilled(t *testing.T) {
	long := strings.Repeat("many words ", 4000)
	failed := `{"error":{"message":"` + long + `","type":"invalid_request_error","code":"invalid_prompt"}}`
	const said = `data: {"choices":[{"index":0,"delta":{"content":"four"}}]}` + "\n\n"
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		body   string
		source string
		output int64
	}{
		"refused":                {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(400); _, _ = io.WriteString(w, failed) }, dialectCases[0].body, "none", 0},
		"refused as a stream":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(400); _, _ = io.WriteString(w, failed) }, dialectCases[1].body, "none", 0},
		"within a success":       {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, failed) }, dialectCases[0].body, "none", 0},
		"in a stream":            {sse("data: " + failed + "\n\n"), dialectCases[1].body, "none", 0},
		"in a stream, with text": {sse(said + "data: " + failed + "\n\n"), dialectCases[1].body, "estimated", 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.answers("a", 0, c.answer)
			r.apply(map[string]any{"kind": "price", "model": "m-1", "input": "0", "output": "1000000", "per_request": "1"})
			resp, _ := r.post("/v1/chat/completions", c.body, "Authorization", r.key("team", nil))
			cost := "0"
			if c.output > 0 {
				cost = fmt.Sprint(1 + c.output)
			}
			e := r.entry(resp.Header.Get("X-Request-Id"))
			if e.Outcome != "failed" || e.UsageSource != c.source || e.Usage.Output != c.output || e.Cost != cost || e.Unpriced {
				t.Errorf("logged %+v", e)
			}
		})
	}
}

// What a failed attempt had used is the upstream's on the bill, attempt by attempt, and the caller's nowhere (pains 7, 8, 13:
// bifrost#3357, sub2api#5856).
func TestFailedAttemptsAreOnTheBillOfTheirUpstream(t *testing.T) {
	r := newRig(t, nil)
	r.answers("a", 0, sse("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":20,\"output_tokens\":1}}}\n\n"+
		"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"boom\"}}\n\n"))
	r.upstream("b", fixed(), map[string]any{"priority": 1})
	r.apply(map[string]any{"kind": "price", "model": "m-1", "input": "1000000", "output": "0", "cached_input": "0"})
	resp, body := r.post("/v1/messages", dialectCases[6].body, "Authorization", r.key("team", nil))
	if resp.StatusCode != 200 {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	type line struct {
		Upstream     string
		Attempts     int64
		Cost         string
		UpstreamCost string `json:"upstream_cost"`
	}
	lines := map[string]line{}
	for _, l := range ask[items[line]](r, "GET", "/api/v1/billing?by=upstream", nil).Items {
		lines[l.Upstream] = l
	}
	want := map[string]line{"a": {"a", 1, "0", "20"}, "b": {"b", 1, "800", "800"}}
	for id, w := range want {
		if lines[id] != w {
			t.Errorf("bill of %s: %+v, want %+v", id, lines[id], w)
		}
	}
	if e := r.entry(resp.Header.Get("X-Request-Id")); e.Cost != "800" || len(e.Attempts) != 2 {
		t.Errorf("logged %+v", e)
	}
}

// Of an upstream's answer, whole, streamed or refused, the client gets no header that is the connection's or shows the operator's
// account, above all no limits of it, which clients take for their own (wire 1.5); all others pass, and our id wins.
func TestHeadersOfAnswersShowNoAccount(t *testing.T) {
	shown := map[string]string{"Request-Id": "req_1", "Retry-After": "7", "Openai-Processing-Ms": "12", "X-Should-Retry": "true"}
	hidden := map[string]string{
		"X-Ratelimit-Remaining-Requests": "3", "Anthropic-Ratelimit-Unified-Status": "allowed", "Openai-Organization": "org-1", "Openai-Project": "p",
		"Anthropic-Organization-Id": "o", "Set-Cookie": "a=b", "Cf-Ray": "r", "X-Envoy-Upstream-Service-Time": "1", "Server": "edge", "Via": "1.1 x",
		"Alt-Svc": "h3", "Strict-Transport-Security": "max-age=1", "Nel": "{}", "Report-To": "{}", "Access-Control-Allow-Origin": "*", "Keep-Alive": "timeout=5",
		"X-Request-Id": "theirs", "Proxy-Authenticate": "Basic",
	}
	with := func(status int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for _, set := range []map[string]string{shown, hidden} {
				for k, v := range set {
					w.Header().Set(k, v)
				}
			}
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		body   string
	}{
		"whole":   {with(200, "application/json", `{"choices":[{"message":{"content":"hi"}}]}`), dialectCases[0].body},
		"stream":  {with(200, "text/event-stream", "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: [DONE]\n\n"), dialectCases[1].body},
		"refused": {with(400, "application/json", `{"error":{"message":"no"}}`), dialectCases[0].body},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.answers("a", 0, c.answer)
			resp, body := r.post("/v1/chat/completions", c.body, "Authorization", r.key("team", nil))
			for k, v := range shown {
				if resp.Header.Get(k) != v {
					t.Errorf("%s is %q: %d %s", k, resp.Header.Get(k), resp.StatusCode, body)
				}
			}
			for k, v := range hidden {
				if got := resp.Header.Get(k); got == v || got != "" && k != "X-Request-Id" {
					t.Errorf("%s: %s reached the client", k, got)
				}
			}
		})
	}
}

// Prompts are large: what a coding agent sends passes without any setting (pain 61: envoyproxy/ai-gateway#827, #1209).
func TestLargePromptsPassByDefault(t *testing.T) {
	r := newRig(t, nil)
	up := r.upstream("a", fixed(), nil)
	body := strings.Replace(dialectCases[0].body, `"hi"`, `"`+strings.Repeat("x", 12<<20)+`"`, 1)
	if resp, got := r.post("/v1/chat/completions", body, "Authorization", r.key("team", nil)); resp.StatusCode != 200 {
		t.Fatalf("%d %.200s", resp.StatusCode, got)
	}
	if n := up.Stats().All.Requests; n != 1 {
		t.Errorf("%d requests reached the upstream", n)
	}
}

// To look at what is stored is no generation: it reaches no upstream and stands on no bill (pain 21: litellm#17814).
func TestReadsAreNoGenerations(t *testing.T) {
	r := newRig(t, nil)
	up := r.upstream("a", fixed(), nil)
	r.apply(map[string]any{"kind": "price", "model": "*", "input": "1", "output": "1", "per_request": "1"})
	key := r.key("team", nil)
	for _, path := range []string{"/v1/responses/resp_1", "/v1/chat/completions/c1", "/v1/models", "/v1/models/m-1", "/v1beta/models", "/v1beta/models/m-1"} {
		req, err := http.NewRequest("GET", "http://"+r.gw.Addr()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	if resp, body := r.post("/v1/messages/count_tokens", dialectCases[5].body, "Authorization", key); resp.StatusCode != 200 {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	if n := up.Stats().All.Requests; n != 1 {
		t.Errorf("%d requests reached the upstream, one of which counts tokens", n)
	}
	for _, l := range ask[items[struct {
		Cost         string
		UpstreamCost string `json:"upstream_cost"`
	}]](r, "GET", "/api/v1/billing?by=key", nil).Items {
		if l.Cost != "0" || l.UpstreamCost != "0" {
			t.Errorf("billed %+v", l)
		}
	}
}
