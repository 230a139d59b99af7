package penstock_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/cmd/mockllm/simulator"
	"github.com/penstock/penstock/domain/ledger"
	"github.com/penstock/penstock/domain/money"
)

// limitedChat is a request whose answer is bounded: a thousand tokens of input at most, ten of output.
const limitedChat = `{"model":"m-1","max_tokens":10,"messages":[{"role":"user","content":"hello"}]}`

// opensOf is what a refusal says of its reopening.
func opensOf(t *testing.T, body string) (code, reason string, reopens time.Time) {
	t.Helper()
	var shape struct {
		Error struct {
			Code, Reason string
			Reopens      time.Time `json:"reopens_at"`
			Details      []struct {
				Code, Reason string
				Reopens      time.Time `json:"reopens_at"`
			}
		}
	}
	var gemini struct {
		Error struct {
			Code    int
			Details []struct {
				Code, Reason string
				Reopens      time.Time `json:"reopens_at"`
			}
		}
	}
	if json.Unmarshal([]byte(body), &shape) == nil {
		return shape.Error.Code, shape.Error.Reason, shape.Error.Reopens
	}
	if err := json.Unmarshal([]byte(body), &gemini); err != nil || len(gemini.Error.Details) == 0 {
		t.Fatalf("%v: %s", err, body)
	}
	d := gemini.Error.Details[0]
	return d.Code, d.Reason, d.Reopens
}

// arrivedAt is the millisecond that the id of a request tells.
func arrivedAt(t *testing.T, id string) time.Time {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(id, "-", "")[:12])
	if err != nil {
		t.Fatal(err)
	}
	var ms int64
	for _, x := range b {
		ms = ms<<8 | int64(x)
	}
	return time.UnixMilli(ms).UTC()
}

// A33, A36, pains 38, 72: fifty clients at once on rpm 60 get sixty answers, before and after a restart; a refusal names the very
// millisecond at which the first of them is a minute old.
func TestFiftyClientsNeverGetMoreThanTheirRequestsPerMinute(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("a", fixed(), nil)
	key := r.key("k", map[string]any{"limits": map[string]any{"rpm": 60}})
	var served atomic.Int64
	var mu sync.Mutex
	first := time.Now().Add(time.Hour)
	crowd := func() {
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				resp, body := r.post("/v1/chat/completions", limitedChat, "Authorization", key)
				switch resp.StatusCode {
				case 200:
					served.Add(1)
					mu.Lock()
					if at := arrivedAt(t, resp.Header.Get("X-Request-Id")); at.Before(first) {
						first = at
					}
					mu.Unlock()
				case 429:
				default:
					t.Errorf("%d %s", resp.StatusCode, body)
				}
			})
		}
		all.Wait()
	}
	refused := func() {
		t.Helper()
		resp, body := r.post("/v1/chat/completions", limitedChat, "Authorization", key)
		e := r.expect(resp, body, 429, "API_KEY_RATE_LIMITED", "RPM")
		if _, _, reopens := opensOf(t, body); !reopens.Equal(first.Add(time.Minute)) {
			t.Errorf("opens at %s, the first came at %s", reopens, first)
		}
		if e.Sent || e.Outcome != "rejected" || e.Stage != "auth_filter" || resp.Header.Get("Retry-After") == "" {
			t.Errorf("logged %+v, Retry-After %q", e, resp.Header.Get("Retry-After"))
		}
	}
	crowd()
	r.close()
	r.open()
	crowd()
	if n := served.Load(); n != 60 {
		t.Fatalf("%d were served", n)
	}
	refused()
	r.close()
	r.open()
	refused()
}

// A34, §3 row 21, pains 23, 24, 73: fifty clients on a strict budget of one dollar never spend more, whatever ends in the
// middle, and all of it is used as far as another request fits.
func TestFiftyClientsNeverSpendMoreThanAStrictBudget(t *testing.T) {
	for name, own := range map[string]func(*rig) string{
		"of a key": func(r *rig) string {
			return r.key("k", map[string]any{"budget": "strict", "limits": map[string]any{"budget": "1"}})
		},
		"of a group": func(r *rig) string {
			r.apply(map[string]any{"kind": "group", "id": "g", "upstreams": []string{"a"}, "budget": "strict", "limits": map[string]any{"budget": "1"}})
			return r.key("k", map[string]any{"group": "g"})
		},
		"of the platform": func(r *rig) string {
			r.apply(map[string]any{"kind": "setting", "name": "platform.monthly", "value": "1"}, map[string]any{"kind": "setting", "name": "platform.budget", "value": "strict"})
			return r.key("k", nil)
		},
		"of an upstream": func(r *rig) string {
			r.apply(map[string]any{"kind": "upstream", "id": "a", "base_url": r.up["a"].URL(), "capabilities": []string{"openai_chat_compatible"},
				"budget": "strict", "limits": map[string]any{"budget": "1"}})
			return r.key("k", nil)
		},
		"of a balance": func(r *rig) string {
			r.apply(map[string]any{"kind": "user", "id": "u", "budget": "strict"})
			r.book(&ledger.Credited{User: "u", ID: "c", Amount: money.USD})
			return r.key("k", map[string]any{"user": "u"})
		},
		"of a subscription": func(r *rig) string {
			r.apply(map[string]any{"kind": "user", "id": "u", "budget": "strict"})
			r.book(&ledger.Granted{User: "u", Subscription: ledger.Subscription{ID: "s", Starts: time.Now().Add(-time.Hour), Daily: money.USD}})
			return r.key("k", map[string]any{"user": "u"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			b := fixed()
			b.PromptTokens, b.CachedTokens, b.OutTokens, b.TTFBMs = 20, 0, 10, 5
			r.upstream("a", b, nil)
			r.apply(map[string]any{"kind": "price", "id": "p", "model": "m-*", "input": "100", "output": "500"}) // 0.007 each
			key := own(r)
			code := cmp.Or(map[string]string{
				"of a key": "API_KEY_QUOTA_EXCEEDED", "of a balance": "BALANCE_EXHAUSTED", "of a subscription": "SUBSCRIPTION_EXHAUSTED",
			}[name], "BUDGET_EXCEEDED")
			var stop atomic.Bool
			ask := func() (n int) {
				for !stop.Load() {
					req, _ := http.NewRequest("POST", "http://"+r.gw.Addr()+"/v1/chat/completions", strings.NewReader(limitedChat))
					req.Header.Set("Authorization", key)
					resp, err := http.DefaultClient.Do(req)
					if err != nil {
						return n
					}
					resp.Body.Close()
					if n++; resp.StatusCode == 429 {
						return n
					}
				}
				return n
			}
			crowd := func() {
				var all sync.WaitGroup
				for range 50 {
					all.Go(func() { ask() })
				}
				all.Wait()
			}
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() { ask() })
			}
			r.await("some are served", func() bool { return r.up["a"].Stats().All.Requests > 30 })
			stop.Store(true)
			all.Wait()
			stop.Store(false)
			r.close()
			r.open()
			crowd()
			for range 200 { // alone, so that nothing is set aside for others
				resp, body := r.post("/v1/chat/completions", limitedChat, "Authorization", key)
				if resp.StatusCode != 200 {
					if e := r.expect(resp, body, 429, code, ""); e.Sent {
						t.Errorf("logged %+v", e)
					}
					if resp.Header.Get("X-Should-Retry") != "false" {
						t.Error("a client would try again")
					}
					break
				}
			}
			var sum money.Amount
			for _, e := range r.logs("&outcome=completed") {
				a, err := money.Parse(e.Cost)
				if err != nil {
					t.Fatal(err)
				}
				sum += a
			}
			if sum > money.USD || sum < 98*money.USD/100 {
				t.Errorf("%s was spent", sum)
			}
		})
	}
}

// A refused key opens nothing; an address that guesses is stopped for a while, others and those who hold a key go on (D37).
func TestWhoGuessesKeysIsStopped(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("a", fixed(), nil)
	r.apply(map[string]any{"kind": "setting", "name": "auth.failures", "value": "3"}, map[string]any{"kind": "setting", "name": "auth.block", "value": "1s"})
	used, fresh := r.key("used", nil), r.key("fresh", nil)
	if resp, body := r.post("/v1/chat/completions", limitedChat, "Authorization", used); resp.StatusCode != 200 {
		t.Fatal(body)
	}
	began := time.Now()
	for range 3 {
		if resp, body := r.post("/v1/chat/completions", limitedChat, "Authorization", "sk-guess"); resp.StatusCode != 401 {
			t.Fatal(body)
		}
	}
	resp, body := r.post("/v1/chat/completions", limitedChat, "Authorization", fresh)
	if time.Since(began) < 500*time.Millisecond {
		e := r.expect(resp, body, 429, "AUTH_THROTTLED", "")
		if _, _, reopens := opensOf(t, body); e.Sent || resp.Header.Get("Retry-After") != "1" || reopens.IsZero() {
			t.Errorf("%v %s %+v", resp.Header, body, e)
		}
	}
	if resp, body := r.post("/v1/chat/completions", limitedChat, "Authorization", used); resp.StatusCode != 200 {
		t.Errorf("who had a key is shut out: %s", body)
	}
	r.await("the end of the block", func() bool {
		resp, _ := r.post("/v1/chat/completions", limitedChat, "Authorization", fresh)
		return resp.StatusCode == 200
	})
}

// Every refusal of limits and access, in the four dialects: code, status, Retry-After, log row, nothing sent (A33, A34, A36,
// B8, D28, D35, D36, D39, D52, §3 row 19).
func TestRefusalsOfLimitsAndAccessInEveryDialect(t *testing.T) {
	r := newRig(t, nil)
	up := r.upstream("a", fixed(), nil)
	hour := time.Now().UTC()
	clock := func(by time.Duration) string { return hour.Add(by).Format("15:04") }
	r.apply(
		map[string]any{"kind": "price", "id": "p", "model": "m-1", "input": "100", "output": "500"},
		map[string]any{"kind": "setting", "name": "trusted_proxies", "value": "127.0.0.1,10.0.0.0/8"},
		map[string]any{"kind": "group", "id": "codex", "upstreams": []string{"a"}, "clients": []string{"codex"}},
		map[string]any{"kind": "group", "id": "poor", "upstreams": []string{"a"}, "limits": map[string]any{"budget": "0.000001"}},
		map[string]any{"kind": "user", "id": "u", "limits": map[string]any{"spending": []any{map[string]any{"period": "daily", "limit": "0.000001"}}}},
		map[string]any{"kind": "user", "id": "broke", "budget": "postpaid"}, map[string]any{"kind": "user", "id": "strict", "budget": "strict"},
		map[string]any{"kind": "user", "id": "member"}, map[string]any{"kind": "user", "id": "later"}, map[string]any{"kind": "user", "id": "ended"},
	)
	r.book(&ledger.Credited{User: "broke", ID: "c", Amount: 1})
	r.book(&ledger.Credited{User: "strict", ID: "c", Amount: 1})
	r.book(&ledger.Adjusted{User: "strict", ID: "a", Amount: -1, Note: "was not meant"})
	r.book(&ledger.Granted{User: "member", Subscription: ledger.Subscription{ID: "s", Starts: hour.Add(-100 * time.Hour), Weekly: 1}})
	r.book(&ledger.Granted{User: "later", Subscription: ledger.Subscription{ID: "s", Starts: hour.Add(time.Hour), Weekly: 1}})
	r.book(&ledger.Granted{User: "ended", Subscription: ledger.Subscription{ID: "s", Starts: hour.Add(-2 * time.Hour), Expires: hour.Add(-time.Hour), Daily: 1}})
	for _, c := range []struct {
		name, code, reason string
		status             int
		key                map[string]any
		uses               bool // served once before
		opens              bool
	}{
		{"rpm", "API_KEY_RATE_LIMITED", "RPM", 429, map[string]any{"limits": map[string]any{"rpm": 1}}, true, true},
		{"tpm", "API_KEY_RATE_LIMITED", "TPM", 429, map[string]any{"limits": map[string]any{"tpm": 900}}, true, true},
		{"spending", "API_KEY_QUOTA_EXCEEDED", "DAILY", 429, map[string]any{"limits": map[string]any{"spending": []any{map[string]any{"period": "daily", "limit": "0.01"}}}}, true, true},
		{"rolling", "API_KEY_QUOTA_EXCEEDED", "", 429, map[string]any{"limits": map[string]any{"spending": []any{map[string]any{"period": "rolling", "hours": 1, "limit": "0.01"}}}}, true, true},
		{"budget", "API_KEY_QUOTA_EXCEEDED", "", 429, map[string]any{"limits": map[string]any{"budget": "0.01"}}, true, false},
		{"user", "BUDGET_EXCEEDED", "", 429, map[string]any{"user": "u"}, true, true},
		{"group", "BUDGET_EXCEEDED", "", 429, map[string]any{"group": "poor"}, true, false},
		{"balance", "BALANCE_EXHAUSTED", "TOTAL", 429, map[string]any{"user": "broke"}, true, false},
		{"strict balance", "BALANCE_EXHAUSTED", "TOTAL", 429, map[string]any{"user": "strict"}, false, false},
		{"subscription", "SUBSCRIPTION_EXHAUSTED", "WEEKLY", 429, map[string]any{"user": "member"}, true, true},
		{"subscription that has not begun", "SUBSCRIPTION_EXHAUSTED", "EXPIRED", 429, map[string]any{"user": "later"}, false, true},
		{"subscription that is over", "SUBSCRIPTION_EXHAUSTED", "EXPIRED", 429, map[string]any{"user": "ended"}, false, false},
		{"unboundable", "BUDGET_UNBOUNDABLE", "", 400, map[string]any{"budget": "strict", "limits": map[string]any{"budget": "10"}}, false, false},
		{"ips", "IP_DENIED", "", 403, map[string]any{"ips": map[string]any{"allow": []string{"192.0.2.0/24"}}}, false, false},
		{"curfew", "OUTSIDE_HOURS", "", 403, map[string]any{"curfew": map[string]any{"from": clock(-2 * time.Hour), "to": clock(2 * time.Hour)}}, false, true},
		{"clients", "CLIENT_NOT_ALLOWED", "", 403, map[string]any{"group": "codex"}, false, false},
		{"max_ips", "TOO_MANY_IPS", "", 401, map[string]any{"max_ips": 1}, true, false},
	} {
		key := r.key(strings.NewReplacer("_", "-", " ", "-").Replace(c.name), c.key)
		ask := func(path, address string) (*http.Response, string) {
			body := `{"model":"m-1","messages":[{"role":"user","content":"hello"}]}`
			if c.name == "unboundable" {
				body = strings.Replace(body, "m-1", "m-2", 1)
			}
			return r.post(path, body, "Authorization", key, "X-Forwarded-For", "192.0.2.7, "+address)
		}
		if c.uses {
			if resp, body := ask("/v1/chat/completions", "198.51.100.1"); resp.StatusCode != 200 {
				t.Fatalf("%s: %s", c.name, body)
			}
		}
		before := up.Stats().All.Requests
		for _, path := range []string{"/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1beta/models/m-1:generateContent"} {
			if c.name == "unboundable" {
				path = strings.Replace(path, "m-1", "m-2", 1)
			}
			resp, body := ask(path, "198.51.100.2")
			code, reason, reopens := opensOf(t, body)
			if resp.StatusCode != c.status || code != c.code || c.reason != "" && reason != c.reason || !strings.Contains(body, `"did_send_upstream":false`) {
				t.Errorf("%s on %s: %d %s", c.name, path, resp.StatusCode, body)
			}
			if c.opens != reopens.After(time.Now()) {
				t.Errorf("%s on %s opens at %s", c.name, path, reopens)
			}
			retry := resp.Header.Get("Retry-After")
			if want := fmt.Sprint(int(time.Until(reopens).Seconds()) + 1); c.opens && c.status == 429 && retry != want && retry+"?" != fmt.Sprint(int(time.Until(reopens).Seconds())+2)+"?" {
				t.Errorf("%s on %s: Retry-After %q, opens in %s", c.name, path, retry, want)
			}
			if e := r.entry(resp.Header.Get("X-Request-Id")); e.Code != c.code || e.Status != c.status || e.Sent || e.Outcome != "rejected" {
				t.Errorf("%s on %s is logged as %+v", c.name, path, e)
			}
		}
		if n := up.Stats().All.Requests; n != before {
			t.Errorf("%s: the upstream saw %d requests", c.name, n-before)
		}
	}
	r.nothingHeld("a")
}

// X-Forwarded-For is believed from trusted proxies only, and only what they wrote themselves (D28, D36).
func TestTheClientsAddressIsTheOneThatATrustedProxySaw(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("a", simulator.Healthy(), nil)
	key := r.key("k", map[string]any{"ips": map[string]any{"allow": []string{"203.0.113.0/24"}}})
	ask := func(forwarded string) int {
		resp, _ := r.post("/v1/chat/completions", limitedChat, "Authorization", key, "X-Forwarded-For", forwarded)
		return resp.StatusCode
	}
	if got := ask("203.0.113.5"); got != 403 {
		t.Errorf("nobody is trusted: %d", got)
	}
	r.apply(map[string]any{"kind": "setting", "name": "trusted_proxies", "value": "127.0.0.0/8, 10.0.0.0/8"})
	for forwarded, want := range map[string]int{
		"203.0.113.5": 200, "203.0.113.5, 10.1.1.1": 200, "198.51.100.1, 203.0.113.5:1234": 200, "203.0.113.5, 198.51.100.1": 403,
		"203.0.113.5, unknown": 403, "": 403,
	} {
		if got := ask(forwarded); got != want {
			t.Errorf("%q: %d, want %d", forwarded, got, want)
		}
	}
}

// Addresses that a key is bound to are known after a restart (D39, D52).
func TestBoundAddressesAndSpendingSurviveARestart(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("a", fixed(), nil)
	r.apply(map[string]any{"kind": "price", "id": "p", "model": "m-1", "input": "100", "output": "500"},
		map[string]any{"kind": "setting", "name": "trusted_proxies", "value": "127.0.0.1"})
	bound := r.key("bound", map[string]any{"max_ips": 2})
	daily := r.key("daily", nil)
	ask := func(key, address string) int {
		resp, _ := r.post("/v1/chat/completions", limitedChat, "Authorization", key, "X-Forwarded-For", address)
		return resp.StatusCode
	}
	if a, b, c := ask(bound, "192.0.2.1"), ask(bound, "192.0.2.2"), ask(bound, "192.0.2.3"); a != 200 || b != 200 || c != 401 {
		t.Fatalf("%d %d %d", a, b, c)
	}
	if got := ask(daily, "192.0.2.1"); got != 200 {
		t.Fatal(got)
	}
	_, text := r.admin("GET", "/api/v1/keys/daily", nil)
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	// The limit is younger than what was spent, which counts all the same.
	status, body := r.admin("PATCH", "/api/v1/keys/daily", map[string]any{"limits": map[string]any{"spending": []any{map[string]any{"period": "daily", "limit": "0.01"}}}})
	if status/100 != 2 {
		t.Fatalf("%d %s", status, body)
	}
	for range 2 {
		if got := ask(daily, "192.0.2.1"); got != 429 {
			t.Errorf("spent before the limit: %d", got)
		}
		_, shown := r.admin("GET", "/api/v1/keys/daily/status", nil)
		var st struct {
			Spending []struct {
				Period, Spent string
				Recovers      time.Time `json:"recovers_at"`
			}
		}
		tomorrow := midnight(time.Now()).AddDate(0, 0, 1)
		if err := json.Unmarshal(shown, &st); err != nil || len(st.Spending) != 1 || st.Spending[0].Spent == "0" || !st.Spending[0].Recovers.Equal(tomorrow) {
			t.Errorf("%v: %s", err, shown)
		}
		if a, c := ask(bound, "192.0.2.2"), ask(bound, "192.0.2.3"); a != 200 || c != 401 {
			t.Errorf("bound: %d %d", a, c)
		}
		r.close()
		r.open()
	}
}

// What was spent on days whose events retention has taken away still counts, to the last digit (A34, pain 22).
func TestMoneyOfDaysThatAreTakenAwayIsStillSpent(t *testing.T) {
	if storeOf != nil {
		t.Skip("the history is written into the embedded store")
	}
	r, _ := aged(t, map[string]string{"retention.events": "5"})
	o := offline(t, r)
	_, err := o.CloseBooks(t.Context(), midnight(time.Now()).AddDate(0, 0, -1).Format(time.DateOnly))
	if err != nil {
		t.Fatal(err)
	}
	report, err := o.AuditVerify(t.Context(), nil)
	if err != nil || report.Archived == 0 {
		t.Fatalf("%+v %v", report, err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	r.open()
	var spent money.Amount
	for _, l := range ask[items[struct {
		Key  string
		Cost money.Amount
	}]](r, "GET", "/api/v1/billing?by=key", nil).Items {
		if l.Key == "key-a" {
			spent = l.Cost
		}
	}
	if spent == 0 {
		t.Fatal("the history has nothing of key-a")
	}
	exact := r.key("key-a", nil)
	r.close() // whoever has a past was in the catalogue before
	r.open()
	r.apply(map[string]any{"kind": "key", "id": "key-a", "access": "unrestricted", "hash": r.hash("key-a"), "limits": map[string]any{"budget": spent.String()}})
	for range 2 {
		resp, body := r.post("/v1/chat/completions", limitedChat, "Authorization", exact)
		r.expect(resp, body, 429, "API_KEY_QUOTA_EXCEEDED", "")
		r.close()
		r.open()
	}
	r.apply(map[string]any{"kind": "key", "id": "key-a", "access": "unrestricted", "hash": r.hash("key-a"), "limits": map[string]any{"budget": (spent + 1).String()}})
	if resp, body := r.post("/v1/chat/completions", limitedChat, "Authorization", exact); resp.StatusCode != 200 {
		t.Errorf("a ten-billionth of a dollar is left: %s", body)
	}
}

// hash is the hash of a key as a resource file has it.
func (r *rig) hash(id string) string {
	sum := sha256.Sum256([]byte(r.secret[id]))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// An upstream whose own budget is used up is passed over; when it was the last one, the refusal says so (C35, C52).
func TestAnUpstreamWithoutMoneyIsPassedOver(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("a", fixed(), map[string]any{"priority": 1, "limits": map[string]any{"budget": "0.001"}})
	r.upstream("b", fixed(), map[string]any{"priority": 2, "limits": map[string]any{"budget": "0.2"}})
	r.apply(map[string]any{"kind": "price", "id": "p", "model": "m-*", "input": "100", "output": "500"}) // 0.125 each
	key := r.key("k", nil)
	var served []string
	for {
		resp, body := r.post("/v1/chat/completions", limitedChat, "Authorization", key)
		if resp.StatusCode != 200 {
			if e := r.expect(resp, body, 429, "BUDGET_EXCEEDED", ""); e.Sent || len(e.Excluded) != 2 || e.Excluded[0].Reason != "budget_exceeded" {
				t.Errorf("logged %+v", e)
			}
			break
		}
		e := r.entry(resp.Header.Get("X-Request-Id"))
		if served = append(served, e.Upstream); len(served) > 9 {
			break
		}
	}
	if got := strings.Join(served, " "); got != "a b b" {
		t.Errorf("served by %s", got)
	}
	r.nothingHeld("a")
	r.nothingHeld("b")
}

// A strict budget is kept over failovers: what a failed attempt has cost counts, and what was set aside is given back (pain 73).
func TestAFailoverKeepsAStrictBudget(t *testing.T) {
	r := newRig(t, nil)
	broken := fixed()
	broken.ErrRate, broken.ErrStatus = 1, 503
	r.upstream("a", broken, map[string]any{"priority": 1})
	b := fixed()
	b.PromptTokens, b.CachedTokens, b.OutTokens = 20, 0, 10
	r.upstream("b", b, map[string]any{"priority": 2})
	r.apply(map[string]any{"kind": "price", "id": "p", "model": "m-*", "input": "100", "output": "500"}) // 0.007 each, at most 0.0123
	key := r.key("k", map[string]any{"budget": "strict", "limits": map[string]any{"budget": "0.03"}})
	served := 0
	for ; served < 9; served++ {
		resp, body := r.post("/v1/chat/completions", limitedChat, "Authorization", key)
		if resp.StatusCode != 200 {
			r.expect(resp, body, 429, "API_KEY_QUOTA_EXCEEDED", "")
			break
		}
	}
	if served != 3 { // after three, 0.009 is left
		t.Errorf("%d were served", served)
	}
}
