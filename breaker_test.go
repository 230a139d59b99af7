package penstock_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/cmd/mockllm/simulator"
)

// breakerView is what a test reads of an upstream's status.
type breakerView struct {
	Breaker  breakerState
	Breakers []breakerState
	Accounts []struct {
		ID, State, Reason, Source string
		Until, Resets             *time.Time
		Models                    []struct{ Model, State, Reason string }
	}
}

type breakerState struct {
	Account, Model, State string
	Since                 time.Time
	Until                 *time.Time
	Failures, Reopened    int
	Last                  []struct {
		Class, Account, Model, Request, Said string
		Status                               int
	}
	History []struct{ To, By, Class string }
}

// way is how the state came to be: "open by failures, half_open by time …".
func (b breakerState) way() string {
	var steps []string
	for _, h := range b.History {
		steps = append(steps, h.To+" by "+h.By)
	}
	return strings.Join(steps, ", ")
}

func (r *rig) breaker(id string) (v breakerView) {
	r.t.Helper()
	r.read("/api/v1/upstreams/"+id+"/status", &v)
	return v
}

// ask makes a request and says its status.
func (r *rig) ask(key string) int {
	r.t.Helper()
	resp, _ := r.post("/v1/chat/completions", chatBody("x"), "Authorization", key)
	return resp.StatusCode
}

func (r *rig) behave(id string, change func(*simulator.Behavior)) {
	r.t.Helper()
	b := fixed()
	change(&b)
	if err := r.up[id].SetConfig(simulator.Config{Default: b}); err != nil {
		r.t.Fatal(err)
	}
}

func healthy(*simulator.Behavior) {}

// A scripted outage: five failures open the breaker, nothing is sent while it is open, single probes follow, a failed one
// postpones the next, two good ones close it within one interval of the recovery (A41-A43, A72, C52, C60, D18; pains 49,
// 51, 52).
func TestTheBreakerThroughAnOutage(t *testing.T) {
	r := newRig(t, nil)
	up := r.upstream("a", fixed(), map[string]any{"breaker": map[string]any{"open_for": "300ms", "probe_every": "1s", "open_growth": "3", "open_max": "1h"}})
	key := r.key("team", nil)
	if got := r.ask(key); got != 200 {
		t.Fatal(got)
	}
	r.behave("a", says(503))
	for i := range 5 {
		if v := r.breaker("a").Breaker; v.State != "closed" || v.Failures != i {
			t.Fatalf("before failure %d: %+v", i+1, v)
		}
		r.ask(key)
	}
	open := r.breaker("a").Breaker
	if open.State != "open" || open.Failures != 5 || open.Until == nil || len(open.Last) != 5 {
		t.Fatalf("after five failures: %+v", open)
	}
	if e := open.Last[4]; e.Class != "http_5xx" || e.Status != 503 || e.Account != "a-1" || e.Model == "" || e.Request == "" || e.Said == "" {
		t.Errorf("evidence %+v", e)
	}

	// The upstream thinks for a while, so that all askers of one round meet the same probe.
	r.behave("a", func(b *simulator.Behavior) { says(503)(b); b.TTFBMs = 100 })
	r.after(*open.Until)
	up.ResetStats()
	r.crowd(key, 20)
	failed := r.breaker("a").Breaker
	if s := up.Stats().All; s.MaxInFlight != 1 || s.Requests != int64(failed.Reopened) || s.Requests == 0 {
		t.Errorf("%d requests came through, %d at once, for %d failed probes", s.Requests, s.MaxInFlight, failed.Reopened)
	}
	if failed.State != "open" || failed.Until == nil || failed.Until.Sub(failed.Since) < time.Second {
		t.Fatalf("after a failed probe: %+v", failed)
	}

	r.behave("a", healthy)
	up.ResetStats()
	r.after(*failed.Until)
	for range 2 {
		if got := r.ask(key); got != 200 {
			t.Errorf("the upstream has recovered and its time is over, but a request got %d", got)
		}
	}
	closed := r.breaker("a").Breaker
	if closed.State != "closed" || closed.Failures != 0 || closed.Reopened != 0 || len(closed.Last) == 0 {
		t.Errorf("after two good probes: %+v", closed)
	}
	if late := closed.Since.Sub(*failed.Until); late > time.Second {
		t.Errorf("in service again only %v after the time of the probe", late)
	}
	if way := closed.way(); !strings.HasPrefix(way, "open by failures, half_open by time, open by probe") || !strings.HasSuffix(way, "half_open by time, closed by probes") {
		t.Errorf("history %s", way)
	}
	r.nothingHeld("a")
}

// after waits for a moment of the gateway's clock, which is ours.
func (r *rig) after(moment time.Time) {
	r.t.Helper()
	r.await("the time to be over", func() bool { return !time.Now().Before(moment) })
}

// crowd makes requests at once and waits for all.
func (r *rig) crowd(key string, n int) {
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			req, _ := http.NewRequest("POST", "http://"+r.gw.Addr()+"/v1/chat/completions", strings.NewReader(chatBody("x")))
			req.Header.Set("Authorization", key)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				r.t.Error(err)
				return
			}
			resp.Body.Close()
		})
	}
	all.Wait()
}

// What an operator does by hand holds for the very next request, and its facts say who it was (pain 49).
func TestTheOperatorsHandIsSeenByTheNextRequest(t *testing.T) {
	r := newRig(t, nil)
	up := r.upstream("a", fixed(), map[string]any{"breaker": map[string]any{"per": "account_model", "failures": 1}})
	key := r.key("team", nil)
	for name, step := range map[string]struct{ path, shut, again string }{
		"breaker":               {"/api/v1/upstreams/a/breaker", `{"action":"open"}`, `{"action":"close"}`},
		"breaker for a while":   {"/api/v1/upstreams/a/breaker", `{"action":"open","until":"2999-01-01T00:00:00Z"}`, `{"action":"close"}`},
		"account's and model's": {"/api/v1/upstreams/a/breaker", `{"action":"open","account":"a-1","model":"m"}`, `{"action":"close","account":"a-1","model":"m"}`},
		"all of them at once":   {"/api/v1/upstreams/a/breaker", `{"action":"open","account":"a-1","model":"m"}`, `{"action":"close"}`},
		"block":                 {"/api/v1/accounts/a-1/block", `{"until":"2999-01-01T00:00:00Z"}`, `{"until":null}`},
	} {
		for range 3 {
			r.must("POST", step.path, json.RawMessage(strings.ReplaceAll(step.shut, `"m"`, `"`+chatModel+`"`)))
			before := up.Stats().All.Requests
			if got := r.ask(key); got != 503 || up.Stats().All.Requests != before {
				t.Errorf("%s: out of service, but a request got %d", name, got)
			}
			r.must("POST", step.path, json.RawMessage(strings.ReplaceAll(step.again, `"m"`, `"`+chatModel+`"`)))
			if got := r.ask(key); got != 200 || up.Stats().All.Requests != before+1 {
				t.Errorf("%s: in service again, but a request got %d", name, got)
			}
		}
	}
	for _, name := range []string{"upstream.opened", "upstream.closed", "account.blocked", "account.unblocked"} {
		status, body := r.admin("GET", "/api/v1/events?type="+name, nil)
		if status != 200 || strings.Count(string(body), `"operator"`) < 3 {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
}

// chatModel is the model that chatBody asks for.
var chatModel = func() string {
	var body struct{ Model string }
	_ = json.Unmarshal([]byte(chatBody("x")), &body)
	return body.Model
}()

// Breakers with their growth and evidence, those of accounts and models, and blocks with their probes are after a restart
// what they were before it (pains 46, 50).
func TestBreakersAndBlocksAreTheSameAfterARestart(t *testing.T) {
	r := newRig(t, nil)
	r.apply(map[string]any{"kind": "setting", "name": "scheduling.all_blocked", "value": "reject"})
	keys := map[string]string{}
	for id, breaker := range map[string]map[string]any{
		"grown":    {"failures": 2, "open_for": "50ms", "probe_every": "1h", "open_max": "2h"},
		"closed":   {"failures": 1, "successes": 1, "open_for": "50ms"},
		"single":   {"failures": 1, "open_for": "1h", "per": "account_model"},
		"quota":    nil,
		"model":    nil,
		"by hand":  nil,
		"switched": {"per": "account_model"},
	} {
		id := strings.ReplaceAll(id, " ", "-")
		r.upstream(id, fixed(), map[string]any{"breaker": breaker})
		keys[id] = r.key("key-"+id, map[string]any{"access": "restricted", "upstreams": []string{id}})
	}
	ask := func(id string, want int) {
		t.Helper()
		if got := r.ask(keys[id]); got != want {
			t.Fatalf("%s: %d, want %d", id, got, want)
		}
	}
	for id, times := range map[string]int{"grown": 2, "closed": 1, "single": 1} {
		r.behave(id, says(500))
		for range times {
			ask(id, 503)
		}
	}
	r.after(*r.breaker("grown").Breaker.Until)
	ask("grown", 503) // the probe
	r.behave("closed", healthy)
	r.after(*r.breaker("closed").Breaker.Until)
	ask("closed", 200)
	r.behave("quota", func(b *simulator.Behavior) { says(429)(b); b.ErrType, b.RetryAfter = "insufficient_quota", 7200 })
	r.behave("model", func(b *simulator.Behavior) {
		says(429)(b)
		b.RetryAfter = 60
		b.ErrBody = `{"error":{"message":"Rate limit reached for gpt-x in organization org-1 on tokens per min (TPM)","type":"tokens","code":"rate_limit_exceeded"}}`
	})
	ask("quota", 503)
	ask("model", 503)
	r.must("POST", "/api/v1/upstreams/by-hand/breaker", map[string]any{"action": "open", "until": "2999-01-01T00:00:00Z"})
	r.must("POST", "/api/v1/accounts/by-hand-1/block", map[string]any{"until": "2999-01-01T00:00:00Z"})
	r.must("POST", "/api/v1/upstreams/switched/breaker", map[string]any{"action": "open", "account": "switched-1", "model": "other"})

	before := map[string]any{}
	for id := range keys {
		before[id] = r.lasting(id)
	}
	grown, single, quota, model := r.breaker("grown").Breaker, r.breaker("single"), r.breaker("quota").Accounts[0], r.breaker("model").Accounts[0]
	if grown.State != "open" || grown.Reopened != 1 || len(grown.Last) != 3 || len(grown.History) != 3 {
		t.Errorf("grown: %+v", grown)
	}
	if single.Breaker.State != "closed" || len(single.Breakers) != 1 || single.Breakers[0].State != "open" || single.Breakers[0].Account != "single-1" || single.Breakers[0].Model != chatModel {
		t.Errorf("single: %+v", single)
	}
	if quota.State != "blocked" || quota.Reason != "quota" || quota.Resets == nil || time.Until(*quota.Until) > 5*time.Minute || time.Until(*quota.Resets) < time.Hour {
		t.Errorf("quota: %+v", quota)
	}
	if model.State != "ready" || len(model.Models) != 1 || model.Models[0].State != "blocked" || model.Models[0].Model != chatModel {
		t.Errorf("model: %+v", model)
	}
	r.close()
	r.open()
	for id := range keys {
		if now := r.lasting(id); !reflect.DeepEqual(now, before[id]) {
			t.Errorf("%s after the restart\n%v\nbefore\n%v", id, now, before[id])
		}
	}
	for _, id := range []string{"grown", "single", "quota", "model", "by-hand"} {
		ask(id, 503)
		if n := r.up[id].Stats().All.Requests; id != "grown" && n > 1 {
			t.Errorf("%s: %d requests came through", id, n)
		}
	}
	ask("closed", 200)
	ask("switched", 200)
}

// lasting is the part of an upstream's status that outlives a process, as the API writes it.
func (r *rig) lasting(id string) map[string]any {
	r.t.Helper()
	var all map[string]any
	r.read("/api/v1/upstreams/"+id+"/status", &all)
	if b := all["breaker"].(map[string]any); len(b["history"].([]any)) == 0 {
		delete(b, "since") // it has never turned: closed since the process began
	}
	return map[string]any{"breaker": all["breaker"], "breakers": all["breakers"], "accounts": all["accounts"]}
}

// A quota whose end nobody knows is tried again by single calls once its block is over; one that succeeds ends it, one that
// fails blocks again (pains 46, 50).
func TestABlockIsFollowedBySingleProbes(t *testing.T) {
	r := newRig(t, nil)
	r.apply(map[string]any{"kind": "setting", "name": "block.max", "value": "1s"})
	up := r.upstream("a", fixed(), nil)
	key := r.key("team", nil)
	r.behave("a", func(b *simulator.Behavior) { says(429)(b); b.RetryAfter = 3600 })
	resp, _ := r.post("/v1/chat/completions", chatBody("x"), "Authorization", key)
	if after := resp.Header.Get("Retry-After"); resp.StatusCode != 503 || after != "1" {
		t.Errorf("%d, Retry-After %q: the account is tried again after a second", resp.StatusCode, after)
	}
	account := r.breaker("a").Accounts[0]
	if account.State != "blocked" || account.Source != "retry-after" || account.Resets == nil {
		t.Fatalf("%+v", account)
	}
	r.after(*account.Until)
	if s := r.breaker("a").Accounts[0].State; s != "probing" {
		t.Errorf("state %s", s)
	}
	r.behave("a", func(b *simulator.Behavior) { b.TTFBMs = 300 })
	up.ResetStats()
	r.crowd(key, 10)
	if n := up.Stats().All.Faulted; n != 0 {
		t.Errorf("%d faults", n)
	}
	if s := r.breaker("a").Accounts[0].State; s != "ready" {
		t.Errorf("state %s after a good probe", s)
	}
	if got := r.ask(key); got != 200 {
		t.Error(got)
	}
	if _, body := r.admin("GET", "/api/v1/events?type=account.unblocked", nil); !strings.Contains(string(body), `"by":"probe"`) {
		t.Errorf("%s", body)
	}
}

// Nobody else is left and the upstream asked for a moment: the same account is asked again after it, once, and holds no
// slot meanwhile (D14, E24).
func TestTheSameAccountIsAskedAgainAfterAShortWait(t *testing.T) {
	r := newRig(t, nil)
	up := r.upstream("a", fixed(), map[string]any{"slots": 1})
	key := r.key("team", nil)
	r.behave("a", func(b *simulator.Behavior) { says(429)(b); b.RetryAfter = 1 })
	done := make(chan int, 1)
	began := time.Now()
	go func() {
		req, _ := http.NewRequest("POST", "http://"+r.gw.Addr()+"/v1/chat/completions", strings.NewReader(chatBody("x")))
		req.Header.Set("Authorization", key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			done <- 0
			return
		}
		resp.Body.Close()
		done <- resp.StatusCode
	}()
	r.await("the first refusal", func() bool { return up.Stats().All.Completed == 1 })
	r.await("the slot to be free", func() bool {
		_, body := r.admin("GET", "/api/v1/upstreams/a/status", nil)
		return strings.Contains(string(body), `"held":[]`)
	})
	r.behave("a", healthy)
	if got := <-done; got != 200 || time.Since(began) < time.Second {
		t.Errorf("%d after %v", got, time.Since(began))
	}
	e := r.logs("")[0]
	if len(e.Attempts) != 2 || e.Attempts[0].Class != "http_429" || e.Attempts[0].Account != e.Attempts[1].Account || e.Outcome != "completed" {
		t.Errorf("logged %+v", e)
	}
	if a := r.breaker("a").Accounts[0]; a.State != "ready" {
		t.Errorf("%+v", a)
	}
	r.behave("a", func(b *simulator.Behavior) { says(429)(b); b.RetryAfter = 1 })
	if got := r.ask(key); got != 503 || up.Stats().All.Requests != 4 {
		t.Errorf("%d, %d requests: one repetition, then the account is blocked", got, up.Stats().All.Requests)
	}
	if a := r.breaker("a").Accounts[0]; a.State != "blocked" || a.Reason != "http_429" {
		t.Errorf("%+v", a)
	}
}

// What is removed and added again begins anew, and goes on so after a restart: breakers and blocks of its earlier life do not
// come back.
func TestARestartBringsNoBreakerOrBlockOfAnEarlierLifeBack(t *testing.T) {
	r := newRig(t, nil)
	up := r.upstream("a", fixed(), map[string]any{"breaker": map[string]any{"per": "account_model"}})
	key := r.key("k", nil)
	for path, body := range map[string]map[string]any{
		"/api/v1/upstreams/a/breaker":  {"action": "open", "until": "2999-01-01T00:00:00Z"},
		"/api/v1/accounts/a-1/block":   {"until": "2999-01-01T00:00:00Z"},
		"/api/v1/upstreams/a/breaker?": {"action": "open", "until": "2999-01-01T00:00:00Z", "account": "a-1", "model": "gpt-5"},
	} {
		if status, body := r.admin("POST", path, body); status/100 != 2 {
			t.Fatalf("%s: %d %s", path, status, body)
		}
	}
	for _, path := range []string{"/api/v1/accounts/a-1", "/api/v1/upstreams/a"} {
		if status, body := r.admin("DELETE", path, nil); status/100 != 2 {
			t.Fatalf("%s: %d %s", path, status, body)
		}
	}
	r.apply(map[string]any{"kind": "upstream", "id": "a", "base_url": up.URL(), "capabilities": []string{"openai_chat_compatible"},
		"breaker": map[string]any{"per": "account_model"}},
		map[string]any{"kind": "account", "id": "a-1", "upstream": "a", "api_key": "sk-new"})
	for _, when := range []string{"when it is back", "after a restart"} {
		if v := r.breaker("a"); v.Breaker.State != "closed" || len(v.Breaker.History) > 0 || len(v.Breakers) > 0 || v.Accounts[0].State != "ready" {
			t.Errorf("%s: %+v", when, v)
		}
		if status := r.ask(key); status != 200 {
			t.Errorf("%s: %d", when, status)
		}
		r.close()
		r.open()
	}
}
