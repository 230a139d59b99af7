package penstock_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/penstock/penstock"
	"github.com/penstock/penstock/adapters/sqlite/faultfs"
	"github.com/penstock/penstock/cmd/mockllm/simulator"
	"github.com/penstock/penstock/domain/ledger"
	"github.com/penstock/penstock/domain/money"
)

// The types by status, in OpenAI's dialects (which have ours), in Anthropic's and in Google's.
var (
	unauthorized = [3]string{"client_error", "authentication_error", "UNAUTHENTICATED"}
	forbidden    = [3]string{"client_error", "permission_error", "PERMISSION_DENIED"}
	invalid      = [3]string{"client_error", "invalid_request_error", "INVALID_ARGUMENT"}
	tooLarge     = [3]string{"request_too_large", "request_too_large", "INVALID_ARGUMENT"}
	unknown      = [3]string{"client_error", "not_found_error", "NOT_FOUND"}
	tooMany      = [3]string{"rate_limited", "rate_limit_error", "RESOURCE_EXHAUSTED"}
	unpaid       = [3]string{"billing_error", "billing_error", "RESOURCE_EXHAUSTED"}
	unavailable  = [3]string{"service_unavailable", "overloaded_error", "UNAVAILABLE"}
	late         = [3]string{"timeout", "timeout_error", "DEADLINE_EXCEEDED"}
)

// refusalRig is a gateway that refuses in every way.
type refusalRig struct {
	*rig
	keys  map[string]string  // secrets by key
	hangs context.CancelFunc // ends what occupies slots
	guess int
	ctx   context.Context
}

func newRefusalRig(t *testing.T, change func(*penstock.Config)) *refusalRig {
	r := &refusalRig{rig: newRig(t, change), keys: map[string]string{}}
	r.ctx, r.hangs = context.WithCancel(context.Background())
	t.Cleanup(r.hangs)
	return r
}

// by makes a key and gives the way to ask with it.
func (r *refusalRig) by(id string, key map[string]any) func(dialectCase) (*http.Response, string) {
	r.t.Helper()
	if r.keys[id] == "" {
		r.keys[id] = r.rig.key(id, key)
	}
	return func(d dialectCase) (*http.Response, string) { return r.as(d, r.keys[id]) }
}

// as asks with a secret.
func (r *refusalRig) as(d dialectCase, secret string, headers ...string) (*http.Response, string) {
	return r.post(d.path, d.body, append([]string{"Authorization", secret}, headers...)...)
}

// at gives the way to ask one upstream only.
func (r *refusalRig) at(upstream string) func(dialectCase) (*http.Response, string) {
	return r.by("at-"+upstream, map[string]any{"access": "restricted", "upstreams": []string{upstream}})
}

// used is ask after one request that is served.
func (r *refusalRig) used(ask func(dialectCase) (*http.Response, string)) func(dialectCase) (*http.Response, string) {
	r.t.Helper()
	if resp, body := ask(dialectCases[0]); resp.StatusCode != 200 {
		r.t.Fatalf("%d %s", resp.StatusCode, body)
	}
	return ask
}

// stranger is an address that nobody has used.
func (r *refusalRig) stranger() string {
	r.guess++
	return fmt.Sprintf("198.51.100.%d", r.guess)
}

// occupy begins a request that does not end by itself, until ok.
func (r *refusalRig) occupy(secret string, ok func() bool) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.ctx, "POST", "http://"+r.gw.Addr()+"/v1/chat/completions", strings.NewReader(`{"model":"hang","messages":[]}`))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", secret)
	go func() {
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	r.await("a request to be under way", ok)
}

// hanging is an upstream that does not answer to the model "hang".
func (r *refusalRig) hanging(id string, spec map[string]any) *simulator.Server {
	hang := fixed()
	hang.HangRate, hang.HangMs = 1, 600_000
	if spec == nil {
		spec = map[string]any{}
	}
	spec["timeouts"] = map[string]any{"first_byte": "1h"}
	s := r.upstream(id, fixed(), spec)
	s.SetConfig(simulator.Config{Default: fixed(), Rules: []simulator.Rule{{Model: "hang", Behavior: hang}}})
	return s
}

func (r *refusalRig) behaving(id string, spec map[string]any, change func(*simulator.Behavior)) {
	b := fixed()
	change(&b)
	r.upstream(id, b, spec)
}

// callers are the refusals that lie in what a key may do.
func (r *refusalRig) callers() []*refused {
	now := time.Now().UTC()
	clock := func(by time.Duration) string { return now.Add(by).Format("15:04") }
	until := now.Add(2 * time.Hour).Truncate(time.Minute)
	tomorrow := func(period string) map[string]any {
		return map[string]any{"spending": []any{map[string]any{"period": period, "limit": "0.00001"}}}
	}
	r.apply(
		map[string]any{"kind": "price", "id": "p", "model": "m-1", "input": "100", "output": "500"},
		map[string]any{"kind": "setting", "name": "trusted_proxies", "value": "127.0.0.1"},
		map[string]any{"kind": "setting", "name": "auth.failures", "value": "3"},
		map[string]any{"kind": "group", "id": "codex", "upstreams": []string{"a"}, "clients": []string{"codex"}},
		map[string]any{"kind": "group", "id": "empty"},
		map[string]any{"kind": "group", "id": "poor", "upstreams": []string{"a"}, "limits": tomorrow("daily")},
		map[string]any{"kind": "user", "id": "off", "disabled": true}, map[string]any{"kind": "user", "id": "u", "limits": tomorrow("monthly")},
		map[string]any{"kind": "user", "id": "broke", "budget": "strict"}, map[string]any{"kind": "user", "id": "member"}, map[string]any{"kind": "user", "id": "gone"},
	)
	r.book(&ledger.Credited{User: "broke", ID: "c", Amount: money.Amount(1)})
	r.book(&ledger.Adjusted{User: "broke", ID: "a", Amount: -1, Note: "a slip"})
	r.book(&ledger.Granted{User: "member", Subscription: ledger.Subscription{ID: "s", Starts: now.Add(-time.Hour), Daily: 1}})
	r.book(&ledger.Granted{User: "gone", Subscription: ledger.Subscription{ID: "s", Starts: now.Add(-2 * time.Hour), Expires: now.Add(-time.Hour), Daily: 1}})
	limits := func(l map[string]any) map[string]any { return map[string]any{"limits": l} }
	r.used(r.by("bound", map[string]any{"max_ips": 1}))
	busy := r.rig.key("busy", map[string]any{"slots": 1})
	for i := range 21 { // one is served, twenty wait
		r.occupy(busy, func() bool {
			var st struct{ Running int }
			r.read("/api/v1/keys/busy/status", &st)
			return st.Running == i+1
		})
	}
	return []*refused{
		// First, since those who wait for it do so for thirty seconds.
		{code: "CALLER_CONCURRENCY_FULL", status: 429, types: tooMany, stage: "auth_filter", retry: "1", ask: func(d dialectCase) (*http.Response, string) { return r.as(d, busy) }},
		{code: "MISSING_API_KEY", status: 401, stage: "auth", final: true, plain: "Missing API key", ask: func(d dialectCase) (*http.Response, string) { return r.post(d.path, d.body) }}, // A14, A18
		{code: "INVALID_API_KEY", status: 401, stage: "auth", final: true, plain: "Invalid API key", ask: func(d dialectCase) (*http.Response, string) { // A15
			return r.as(d, "sk-pen-nobody", "X-Forwarded-For", r.stranger())
		}},
		{code: "API_KEY_EXPIRED", status: 401, stage: "auth", final: true, plain: "API key has expired", ask: r.by("expired", map[string]any{"expires_at": "2020-01-01T00:00:00Z"})}, // A16
		{code: "API_KEY_DISABLED", status: 401, stage: "auth", final: true, plain: "API key is disabled", ask: r.by("disabled", map[string]any{"user": "off"})},                      // A17
		{code: "IP_DENIED", status: 403, types: forbidden, stage: "auth_filter", final: true, ask: r.by("elsewhere", map[string]any{"ips": map[string]any{"allow": []string{"203.0.113.0/24"}}})},
		{code: "OUTSIDE_HOURS", status: 403, types: forbidden, stage: "auth_filter", final: true, shut: until, ask: r.by("day", map[string]any{"curfew": map[string]any{"from": clock(-2 * time.Hour), "to": clock(2 * time.Hour)}})},
		{code: "CLIENT_NOT_ALLOWED", status: 403, types: forbidden, stage: "auth_filter", final: true, ask: r.by("coder", map[string]any{"group": "codex"})},
		{code: "TOO_MANY_IPS", status: 401, types: unauthorized, stage: "auth_filter", final: true, ask: func(d dialectCase) (*http.Response, string) { // D52
			return r.as(d, r.keys["bound"], "X-Forwarded-For", r.stranger())
		}},
		{code: "AUTH_THROTTLED", status: 429, types: tooMany, stage: "auth_filter", retry: "exact", ask: func(d dialectCase) (*http.Response, string) { // D37
			who := r.stranger()
			for range 3 {
				r.as(dialectCases[0], "sk-pen-guess", "X-Forwarded-For", who)
			}
			return r.as(d, "sk-pen-guess", "X-Forwarded-For", who)
		}},
		{code: "API_KEY_MODEL_NOT_ALLOWED", status: 403, types: forbidden, stage: "auth_filter", final: true, ask: r.by("narrow", map[string]any{"models": []string{"other"}})}, // A35
		{code: "API_KEY_RATE_LIMITED", reason: "RPM", status: 429, types: tooMany, stage: "auth_filter", retry: "exact", ask: r.used(r.by("rpm", limits(map[string]any{"rpm": 1})))},
		{code: "API_KEY_RATE_LIMITED", reason: "TPM", status: 429, types: tooMany, stage: "auth_filter", retry: "exact", ask: r.used(r.by("tpm", limits(map[string]any{"tpm": 900})))},
		{code: "API_KEY_QUOTA_EXCEEDED", reason: "DAILY", status: 429, types: unpaid, stage: "auth_filter", retry: "exact", final: true, ask: r.used(r.by("daily", limits(tomorrow("daily"))))}, // A34
		{code: "API_KEY_QUOTA_EXCEEDED", reason: "MONTHLY", status: 429, types: unpaid, stage: "auth_filter", retry: "exact", final: true, ask: r.used(r.by("monthly", limits(tomorrow("monthly"))))},
		{code: "API_KEY_QUOTA_EXCEEDED", reason: "ROLLING", status: 429, types: unpaid, stage: "auth_filter", retry: "exact", final: true, ask: r.used(r.by("rolling", limits(tomorrow("rolling"))))},
		{code: "API_KEY_QUOTA_EXCEEDED", reason: "TOTAL", status: 429, types: unpaid, stage: "auth_filter", final: true, ask: r.used(r.by("total", limits(map[string]any{"budget": "0.00001"})))},
		{code: "BALANCE_EXHAUSTED", reason: "TOTAL", status: 429, types: unpaid, stage: "auth_filter", final: true, ask: r.by("broke", map[string]any{"user": "broke"})},
		{code: "SUBSCRIPTION_EXHAUSTED", reason: "DAILY", status: 429, types: unpaid, stage: "auth_filter", retry: "exact", final: true, ask: r.used(r.by("member", map[string]any{"user": "member"}))},
		{code: "SUBSCRIPTION_EXHAUSTED", reason: "EXPIRED", status: 429, types: unpaid, stage: "auth_filter", final: true, ask: r.by("gone", map[string]any{"user": "gone"})},
		{code: "BUDGET_EXCEEDED", reason: "MONTHLY", status: 429, types: unpaid, stage: "auth_filter", retry: "exact", final: true, ask: r.used(r.by("user", map[string]any{"user": "u"}))},
		{code: "BUDGET_EXCEEDED", reason: "DAILY", status: 429, types: unpaid, stage: "auth_filter", retry: "exact", final: true, ask: r.used(r.by("group", map[string]any{"group": "poor"}))},
		{code: "BUDGET_UNBOUNDABLE", status: 400, types: invalid, stage: "admission", final: true, only: []string{"chat", "gemini"}, // Anthropic's clients always say max_tokens
			ask: r.by("careful", map[string]any{"budget": "strict", "limits": map[string]any{"budget": "1"}})},
		{code: "NO_ACCOUNTS_IN_GROUP", status: 503, types: unavailable, stage: "candidate_selection", ask: r.by("empty", map[string]any{"group": "empty"})}, // D46
	}
}

// bodies are the refusals that lie in the request.
func (r *refusalRig) bodies() []*refused {
	ask := func(change func(*dialectCase)) func(dialectCase) (*http.Response, string) {
		return func(d dialectCase) (*http.Response, string) { change(&d); return r.as(d, r.keys["good"]) }
	}
	r.by("good", nil)
	return []*refused{
		{code: "REQUEST_BODY_INVALID", reason: "seed", status: 400, types: invalid, stage: "admission", final: true, says: "seed", ask: ask(func(d *dialectCase) {
			d.body = strings.Replace(d.body, "{", `{"seed":1,"seed":2,`, 1)
		})},
		{code: "REQUEST_TOO_LARGE", status: 413, types: tooLarge, stage: "admission", final: true, unlogged: "it was not read far enough to know its key", ask: ask(func(d *dialectCase) {
			d.body = strings.Replace(d.body, "{", `{"x":"`+strings.Repeat("x", 70_000)+`",`, 1)
		})},
		{code: "ENDPOINT_NOT_FOUND", status: 404, types: unknown, final: true, unlogged: "nobody is known for it", only: []string{"chat"}, ask: ask(func(d *dialectCase) { d.path += "/more" })},
	}
}

// places are the refusals for want of an upstream.
func (r *refusalRig) places() []*refused {
	r.upstream("shut", fixed(), nil)
	r.must("POST", "/api/v1/upstreams/shut/breaker", map[string]any{"action": "open", "until": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)})
	r.upstream("picky", fixed(), map[string]any{"model_rules": []any{map[string]any{"type": "exact", "value": "other"}}})
	r.upstream("blocked", fixed(), nil)
	r.must("POST", "/api/v1/accounts/blocked-1/block", map[string]any{"until": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)})
	r.upstream("spent", fixed(), map[string]any{"limits": map[string]any{"budget": "0.00001"}})
	for id, spec := range map[string]map[string]any{
		"full":   {"slots": 1},
		"long":   {"slots": 1, "queue": map[string]any{"enabled": true, "max_length": 1, "timeout": "1h"}},
		"slow":   {"slots": 1, "queue": map[string]any{"enabled": true, "timeout": "20ms"}},
		"leaves": {"slots": 1, "queue": map[string]any{"enabled": true, "timeout": "1h"}},
	} {
		s := r.hanging(id, spec)
		r.at(id)
		r.occupy(r.keys["at-"+id], func() bool { return s.Stats().All.InFlight == 1 })
	}
	r.occupy(r.keys["at-long"], func() bool { return r.waiting("long") == 1 })
	pinned := r.by("pinned", map[string]any{"access": "restricted", "upstreams": []string{"blocked", "a"}})
	return []*refused{
		{code: "NO_AUTHORIZED_UPSTREAMS", status: 403, types: forbidden, stage: "candidate_selection", final: true, ask: r.by("nowhere", map[string]any{"access": "restricted", "upstreams": []string{}})}, // A50, C59
		{code: "ALL_UPSTREAMS_UNAVAILABLE", reason: "UPSTREAM_CIRCUIT_OPEN", status: 503, types: unavailable, stage: "candidate_selection", retry: "soon", ask: r.at("shut")},                              // A49, C60
		{code: "ALL_UPSTREAMS_UNAVAILABLE", reason: "MODEL_NOT_ALLOWED", status: 503, types: unavailable, stage: "candidate_selection", ask: r.at("picky")},                                                // A53
		{code: "ALL_UPSTREAMS_UNAVAILABLE", reason: "NO_HEALTHY_CANDIDATES", status: 503, types: unavailable, stage: "candidate_selection", retry: "soon", ask: r.at("blocked")},
		{code: "ALL_UPSTREAMS_UNAVAILABLE", reason: "CONCURRENCY_FULL", status: 503, types: unavailable, stage: "candidate_selection", ask: r.at("full")}, // A51, C61
		{code: "ALL_UPSTREAMS_UNAVAILABLE", reason: "QUEUE_FULL", status: 503, types: unavailable, stage: "candidate_selection", ask: r.at("long")},
		{code: "ALL_UPSTREAMS_UNAVAILABLE", reason: "CONTINUATION_PINNED", status: 503, types: unavailable, stage: "candidate_selection", retry: "soon", only: []string{"responses", "responses stream"}, ask: func(d dialectCase) (*http.Response, string) {
			return r.pinned(d, pinned)
		}},
		{code: "QUEUE_WAIT_TIMEOUT", reason: "QUEUE_WAIT_TIMEOUT", status: 504, types: late, stage: "queue", ask: r.at("slow")},                             // A52, C62
		{code: "BUDGET_EXCEEDED", reason: "TOTAL", status: 429, types: unpaid, stage: "auth_filter", final: true, ask: r.used(r.at("spent"))},               // C35
		{code: "CLIENT_DISCONNECTED", reason: "QUEUE_WAIT_ABORTED", status: 499, stage: "queue", outcome: "cancelled", ask: r.leaving(r.keys["at-leaves"])}, // A54
	}
}

// pinned goes on from an answer of an account that is blocked since.
func (r *refusalRig) pinned(d dialectCase, ask func(dialectCase) (*http.Response, string)) (*http.Response, string) {
	first := d
	first.body, first.stream = strings.Replace(d.body, `,"stream":true`, "", 1), false
	_, body := ask(first)
	_, id, _ := strings.Cut(body, `"id":"resp_`)
	id, _, _ = strings.Cut(id, `"`)
	r.must("POST", "/api/v1/accounts/a-1/block", map[string]any{"until": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)})
	defer r.must("POST", "/api/v1/accounts/a-1/block", map[string]any{"until": nil})
	d.body = strings.Replace(d.body, "{", `{"previous_response_id":"resp_`+id+`",`, 1)
	return ask(d)
}

// leaving is a client that goes away while it waits: nobody reads what it is told, so only the log has it.
func (r *refusalRig) leaving(secret string) func(dialectCase) (*http.Response, string) {
	return func(d dialectCase) (*http.Response, string) {
		before := r.logs("&outcome=cancelled")
		r.leave("leaves", d.path, d.body, secret)
		id := ""
		r.await("its end", func() bool {
			for _, e := range r.logs("&outcome=cancelled") {
				if !slices.ContainsFunc(before, func(b logged) bool { return b.RequestID == e.RequestID }) {
					id = e.RequestID
				}
			}
			return id != ""
		})
		return &http.Response{StatusCode: 499, Header: http.Header{"X-Request-Id": {id}}}, ""
	}
}

// afterwards are the ends that come after something was sent.
func (r *refusalRig) afterwards() []*refused {
	r.behaving("broken", map[string]any{"breaker": map[string]any{"failures": 1000}}, func(b *simulator.Behavior) { b.ErrRate, b.ErrStatus = 1, 500 })
	r.behaving("reset", map[string]any{"breaker": map[string]any{"failures": 1000}}, func(b *simulator.Behavior) { b.ResetRate = 1 })
	r.behaving("silent", map[string]any{"breaker": map[string]any{"failures": 1000}, "timeouts": map[string]any{"first_byte": "30ms"}}, func(b *simulator.Behavior) { b.HangRate, b.HangMs = 1, 60_000 })
	r.behaving("cut", map[string]any{"breaker": map[string]any{"failures": 1000}}, func(b *simulator.Behavior) { b.TruncRate, b.FaultAfter = 1, 2 })
	r.behaving("endless", nil, func(b *simulator.Behavior) { b.Chunks, b.ChunkBytes, b.ChunkMs = 1000, 3000, 1 })
	r.hanging("called-back", nil)
	r.apply(map[string]any{"kind": "setting", "name": "failover.max_attempts", "value": "1"})
	strict := map[string]any{"access": "restricted", "upstreams": []string{"endless"}, "budget": "strict", "limits": map[string]any{"budget": "100"}}
	return []*refused{
		{code: "UPSTREAM_HTTP_ERROR", reason: "http_5xx", status: 503, types: unavailable, stage: "upstream_response", outcome: "failed", sent: true, ask: r.at("broken")},
		{code: "UPSTREAM_NETWORK_ERROR", reason: "network", status: 503, types: unavailable, stage: "upstream_request", outcome: "failed", sent: true, ask: r.at("reset")},
		{code: "REQUEST_TIMEOUT", reason: "first_byte_timeout", status: 504, types: late, stage: "upstream_response", outcome: "failed", sent: true, ask: r.at("silent")},
		{code: "STREAM_ERROR", reason: "stream_cut", status: 502, types: [3]string{"stream_error", "api_error", "INTERNAL"}, stage: "downstream_streaming", outcome: "failed", sent: true, inside: true, ask: r.at("cut")},
		{code: "BUDGET_EXCEEDED", reason: "RESERVATION_EXCEEDED", status: 429, types: unpaid, stage: "downstream_streaming", outcome: "failed", sent: true, inside: true, ask: func() func(dialectCase) (*http.Response, string) {
			ask := r.by("strict", strict)
			return func(d dialectCase) (*http.Response, string) {
				d.body = strings.Replace(d.body, "{", map[string]string{"openai-chat": `{"max_tokens":10,`, "openai-responses": `{"max_output_tokens":10,`,
					"gemini": `{"generationConfig":{"maxOutputTokens":10},`}[d.dialect], 1)
				d.body = strings.Replace(d.body, `"max_tokens":99`, `"max_tokens":10`, 1)
				if d.dialect == "anthropic-messages" {
					d.body = "{" + d.body
				}
				return ask(d)
			}
		}()},
		{code: "CANCELLED_BY_OPERATOR", status: 503, types: unavailable, stage: "upstream_response", outcome: "failed", sent: true, ask: func() func(dialectCase) (*http.Response, string) {
			ask := r.at("called-back")
			return func(d dialectCase) (*http.Response, string) {
				d.body, d.path = strings.Replace(d.body, "m-1", "hang", 1), strings.Replace(d.path, "m-1", "hang", 1)
				go func() {
					r.await("the slot to be held", func() bool {
						return len(r.board("called-back").Held) == 1 && r.up["called-back"].Stats().All.InFlight == 1
					})
					r.must("DELETE", "/api/v1/upstreams/called-back/leases/"+r.board("called-back").Held[0].RequestID, nil)
				}()
				return ask(d)
			}
		}()},
	}
}

// check provokes each refusal in every dialect, and looks at what it left behind.
func (r *refusalRig) check(rows []*refused) {
	for _, c := range rows {
		r.t.Run(strings.Trim(c.code+" "+c.reason, " "), func(t *testing.T) {
			outer := r.t
			r.t = t
			defer func() { r.t = outer }()
			for _, d := range refusing(c.inside) {
				if c.only != nil && !slices.Contains(c.only, d.name) {
					continue
				}
				requests := map[string]int64{}
				for id, up := range r.up {
					requests[id] = int64(up.Stats().All.Requests)
				}
				began := time.Now()
				resp, body := c.ask(d)
				if c.status == 499 {
					c.ids = append(c.ids, resp.Header.Get("X-Request-Id"))
				} else {
					r.seen(c, d, began, resp, body)
				}
				for id, up := range r.up {
					if n := int64(up.Stats().All.Requests); !c.sent && n != requests[id] && c.reason != "CONTINUATION_PINNED" {
						t.Errorf("%s: upstream %s has got %d requests", d.name, id, n-requests[id])
					}
				}
				if t.Failed() {
					t.Fatalf("in %s", d.name)
				}
			}
			c.logged(r.rig)
		})
	}
}

// Every code with which the gateway refuses or ends a request, end to end in every dialect, as one answer and as a stream: status,
// whole body, Retry-After, x-should-retry, log row, whether anything was sent, and that nothing is left behind. A14-A18, A33-A36,
// A46, A49-A55, C59-C62, D44-D47, D52.
func TestEveryRefusalInEveryDialect(t *testing.T) {
	if storeOf != nil {
		t.Skip("a store out of order is the embedded one")
	}
	r := newRefusalRig(t, func(c *penstock.Config) { c.BodyMax = 64 << 10 })
	r.hanging("a", nil)
	rows := append(r.callers(), r.bodies()...)
	rows = append(rows, r.places()...)
	r.check(rows)
	last := r.afterwards()
	r.check(last)
	rows = append(rows, last...)
	r.hangs()
	for id := range r.up {
		r.await("nothing to be held at "+id, func() bool { return len(r.board(id).Held) == 0 && r.waiting(id) == 0 })
		r.nothingHeld(id)
	}
	rows = append(rows, troubled(t)...)
	covers(t, rows)
}

// troubled are the refusals that lie in the gateway itself.
func troubled(t *testing.T) (rows []*refused) {
	disk := faultfs.Register("refusals-test")
	r := newRefusalRig(t, func(c *penstock.Config) { c.StoreVFS, c.Rooms = "refusals-test", 20 })
	ask := r.by("good", nil)
	check := func(c *refused) {
		c.ask = ask
		r.check([]*refused{c})
		rows = append(rows, c)
	}
	check(&refused{code: "NO_UPSTREAMS_CONFIGURED", status: 503, types: unavailable, stage: "candidate_selection"})
	r.upstream("narrow", fixed(), map[string]any{"capabilities": []string{"openai_extended"}})
	check(&refused{code: "ALL_UPSTREAMS_UNAVAILABLE", reason: "CAPABILITY_NOT_SUPPORTED", status: 503, types: unavailable, stage: "candidate_selection"})
	r.hanging("a", map[string]any{"model_rules": []any{map[string]any{"type": "exact", "value": "other"}, map[string]any{"type": "regex", "value": "."}}})
	r.apply(map[string]any{"kind": "setting", "name": "scheduling.public_names_only", "value": "true"})
	check(&refused{code: "UNKNOWN_MODEL", status: 404, types: unknown, stage: "candidate_selection", final: true}) // E13-E17
	r.apply(map[string]any{"kind": "setting", "name": "scheduling.public_names_only", "value": "false"})
	for i := range 20 {
		r.occupy(r.keys["good"], func() bool { return r.up["a"].Stats().All.InFlight == int64(i+1) })
	}
	check(&refused{code: "STORE_OVERLOADED", status: 503, types: unavailable, stage: "admission", retry: "1", unlogged: "the store has enough to do"})
	r.hangs()
	r.await("room", func() bool { resp, _ := ask(dialectCases[0]); return resp.StatusCode == 200 })
	r.gw.Drain(true)
	check(&refused{code: "DRAINING", status: 503, types: unavailable, stage: "admission", retry: "1"})
	r.gw.Drain(false)
	disk.Fail(faultfs.Write, 0, sqlite3.FULL)
	_, _ = ask(dialectCases[0]) // which finds it out
	check(&refused{code: "STORE_UNAVAILABLE", status: 503, types: unavailable, stage: "admission", retry: "1", unlogged: "the store is out of order"})
	disk.Heal()
	r.await("the store to be back", func() bool { resp, _ := ask(dialectCases[0]); return resp.StatusCode == 200 })
	if err := r.gw.StopActors(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(&refused{code: "LOCAL_FAULT", reason: "stopped", status: 503, types: unavailable, stage: "admission", retry: "1"}) // A55
	return rows
}
