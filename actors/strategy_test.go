package actors_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/request"
)

// serve makes n requests and counts what each upstream and each account got.
func (r *rig) counts(n int) map[string]int {
	r.t.Helper()
	got := map[string]int{}
	for range n {
		where, _ := r.goes(r.of(""))
		got[where]++
		got[where[:strings.Index(where, "/")]]++
	}
	return got
}

// Each strategy gives over the running dispatcher what it promises: counted at the scripted upstreams (C23, C54, E21, E22,
// B19, B50). The latency is the measured one, and not C55's constant.
func TestEachStrategyGivesTheDistributionItPromises(t *testing.T) {
	near := func(t *testing.T, got map[string]int, who string, want, within float64) {
		t.Helper()
		if math.Abs(float64(got[who])-want) > within {
			t.Errorf("%s got %d, want %.0f ± %.0f of %v", who, got[who], want, within, got)
		}
	}
	weights := func(t *testing.T, r *rig, a, b int) {
		t.Helper()
		for id, w := range map[string]int{"a": a, "b": b} {
			r.apply(upstream(id, func(u *catalog.Upstream) { u.Weight = w }))
		}
	}
	t.Run("weighted", func(t *testing.T) {
		r := remembering(t, append(many(), setting("scheduling.strategy", "weighted"))...)
		weights(t, r, 1, 3)
		// equal speed, so that only the weight tells: the scripted upstreams take a second of the dispatcher's time
		r.ups.script = func(o *actors.Outgoing) reply {
			return reply{header: jsonHeader, do: func() { r.late.Add(int64(time.Second)) }, body: texts(okBody)}
		}
		got := r.counts(800)
		near(t, got, "b", 600, 62) // five standard deviations
	})
	t.Run("weighted by speed", func(t *testing.T) {
		r := remembering(t, many()...)
		r.ups.script = func(o *actors.Outgoing) reply {
			took := 100 * time.Millisecond
			if o.Host == "b.test" {
				took *= 3
			}
			return reply{header: jsonHeader, do: func() { r.late.Add(int64(took)) }, body: texts(okBody)}
		}
		r.counts(30) // until both have been measured
		near(t, r.counts(800), "a", 600, 62)
	})
	t.Run("round robin", func(t *testing.T) {
		r := remembering(t, append(many(), setting("scheduling.strategy", "round_robin"))...)
		got := r.counts(60)
		for _, u := range []string{"a", "b"} {
			near(t, got, u, 30, 0)
		}
	})
	t.Run("least loaded", func(t *testing.T) {
		r := remembering(t, append(many(slots(10)), setting("scheduling.strategy", "least_loaded"))...)
		free := make(chan struct{})
		r.ups.script = func(*actors.Outgoing) reply { return reply{header: jsonHeader, hold: free, body: texts(okBody)} }
		var all []*begun
		for n := range 12 { // each is held: the next goes where less is held
			all = append(all, r.begin(r.of("")))
			r.until("the call to be made", func() bool { return r.sent("a")+r.sent("b") == n+1 })
		}
		if a, b := r.sent("a"), r.sent("b"); a != 6 || b != 6 {
			t.Errorf("a %d, b %d", a, b)
		}
		for _, u := range []string{"a", "b"} {
			for n := range 3 {
				if f, _ := r.system.Board().AccountFigures(fmt.Sprint(u, n+1)); f.Held != 2 {
					t.Errorf("account %s%d holds %d", u, n+1, f.Held)
				}
			}
		}
		close(free)
		for _, b := range all {
			<-b.over
		}
	})
	t.Run("longest unused", func(t *testing.T) {
		r := remembering(t, append(many(), setting("scheduling.strategy", "lru"))...)
		got := r.counts(60)
		near(t, got, "a", 30, 0)
		for _, u := range []string{"a", "b"} {
			for n := range 3 {
				near(t, got, fmt.Sprint(u, "/", u, n+1), 10, 0)
			}
		}
	})
	t.Run("score", func(t *testing.T) {
		r := remembering(t, append(many(), setting("scheduling.strategy", "score"),
			setting("scheduling.score", "error_rate=1"), setting("scheduling.score_top", "1"))...)
		r.reply("a", refusing(500, ""))
		for r.sent("a") == 0 {
			r.goes(r.of(""))
		}
		if got := r.counts(40); got["b"] != 40 {
			t.Errorf("one of two failed: %v", got)
		}
	})
	t.Run("of the key's group", func(t *testing.T) {
		r := remembering(t, append(many(), &catalog.Group{ID: "g", Multiplier: "1", Upstreams: []string{"a", "b"}, Strategy: "round_robin"})...)
		r.apply(key("k", func(k *catalog.Key) { k.Group = "g" }))
		if got := r.counts(20); got["a"] != 10 || got["b"] != 10 {
			t.Errorf("%v", got)
		}
	})
}

// One budget of calls for a request: all of them, those to one upstream and those with one account (E23-E26).
func TestTheBudgetOfCallsHoldsForTheWholeRequest_E23_E26(t *testing.T) {
	for _, c := range []struct {
		name     string
		settings []string
		want     int
	}{
		{"by default six", nil, 6},
		{"fewer", []string{"failover.max_attempts", "3"}, 3},
		{"until nobody is left", []string{"failover.max_attempts", "0"}, 6},
		{"two at an upstream", []string{"failover.per_upstream", "2"}, 4},
		{"one at an upstream", []string{"failover.per_upstream", "1", "failover.max_attempts", "0"}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := remembering(t, many()...)
			for i := 0; i < len(c.settings); i += 2 {
				r.apply(setting(c.settings[i], c.settings[i+1]))
			}
			r.ups.script = func(*actors.Outgoing) reply { return refusing(429, "") }
			call := r.of("")
			if x := r.run(call); x.Status != 503 {
				t.Errorf("answer %d", x.Status)
			}
			if n := r.sent("a") + r.sent("b"); n != c.want || r.settlement(call.ID).Attempts != n {
				t.Errorf("%d calls, want %d", n, c.want)
			}
			r.laws()
		})
	}
	t.Run("a reused connection that was closed counts as well", func(t *testing.T) {
		r := remembering(t, append(pair(), setting("failover.per_account", "1"))...)
		r.reply("a", reply{fail: "stale"}, refusing(429, ""))
		call := r.of("")
		r.run(call)
		r.expect(call.ID, "admitted dispatched(1 a1) | failed(1 network same_account) dispatched(2 a1) | failed(2 http_429 next_account) dispatched(3 b1) | settled(completed 200 ok reported)")
	})
}

// E18, E19: blocked accounts are left out while another one serves; when all are blocked they are the last resort, unless
// the settings, or the operator who blocked them, say no.
func TestBlockedAccountsAreTheLastResort_E18_E19(t *testing.T) {
	for _, c := range []struct {
		name, how string
		byHand    bool
		status    int
		served    string
	}{
		{"last resort", "last_resort", false, 200, "a/a1"},
		{"reject", "reject", false, 503, "nobody"},
		{"the operator's block", "last_resort", true, 503, "nobody"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := remembering(t, upstream("a"), account("a1", "a"), key("k"), setting("scheduling.all_blocked", c.how))
			if c.byHand {
				until := r.Now().Add(time.Hour)
				if err := r.system.BlockAccount("a1", &until); err != nil {
					t.Fatal(err)
				}
			} else {
				r.reply("a", refusing(429, ""))
				r.run(r.of(""))
				r.until("the block", func() bool { f, _ := r.system.Board().AccountFigures("a1"); return !f.BlockedUntil.IsZero() })
			}
			call := r.of("")
			x := r.run(call)
			if got := r.served(call.ID); x.Status != c.status || got != c.served {
				t.Errorf("%d by %s: %s", x.Status, got, x.body())
			}
			r.laws()
		})
	}
	t.Run("while another serves", func(t *testing.T) {
		r := remembering(t, append(pair(), account("a2", "a"))...)
		r.reply("a", refusing(429, ""))
		if where, _ := r.goes(r.of("")); where != "a/a2" {
			t.Errorf("served by %s", where)
		}
		for range 5 {
			if where, _ := r.goes(r.of("")); where != "a/a2" {
				t.Errorf("served by %s", where)
			}
		}
		r.laws()
	})
}

// B17, E18, E19: the limit of one model at an account is known to the plan of the next request: it goes straight on, and its story says
// why; requests for other models stay.
func TestABlockOfAModelIsSeenByThePlan_E18(t *testing.T) {
	r := remembering(t, pair()...)
	r.reply("a", refusing(429, `{"error":{"message":"Rate limit reached for m in organization o on tokens per min. Please try again in 40s.","type":"tokens","code":"rate_limit_exceeded"}}`))
	if where, _ := r.goes(r.of("")); where != "b/b1" {
		t.Fatalf("served by %s", where)
	}
	r.until("the block", func() bool { return len(r.models("a")) == 1 })
	asked := r.board("a")
	call := r.of("")
	r.run(call)
	r.expect(call.ID, "admitted dispatched(1 b1) | settled(completed 200 ok reported)")
	left := r.streams()["request/"+call.ID][0].Facts[0].(*request.Admitted).Excluded
	if len(left) != 1 || left[0].Upstream != "a" || left[0].Account != "a1" || left[0].Reason != "model_blocked" || left[0].Until.Sub(r.Now()) < 30*time.Second {
		t.Errorf("left out: %+v", left)
	}
	if now := r.board("a"); now != asked {
		t.Errorf("a was asked all the same: %+v, before %+v", now, asked)
	}
	other := r.call("/v1/chat/completions", `{"model":"n","messages":[{"role":"user","content":"hi"}]}`)
	if where, _ := r.goes(other); where != "a/a1" {
		t.Errorf("another model is served by %s", where)
	}
	r.laws()
}

// models are those that are blocked on their own at the accounts of an upstream.
func (r *rig) models(upstream string) (all []actors.BlockStatus) {
	s, _ := r.system.Status(upstream)
	for _, a := range s.Accounts {
		all = append(all, a.Models...)
	}
	return all
}

// board are the figures of an upstream that change when it is asked for a lease and grants it.
func (r *rig) board(upstream string) time.Time {
	f, _ := r.system.Board().Figures(upstream)
	return f.LastUsed
}

// B50: what answers say of the limits of an account is on the board and in the upstream's status, and the strategy score goes
// by it, as much as its weights say.
func TestTheScoreGoesByWhatAnswersSayOfLimits_B50(t *testing.T) {
	r := remembering(t, upstream("a"), account("a1", "a"), account("a2", "a"), account("a3", "a"), key("k"),
		setting("scheduling.strategy", "score"), setting("scheduling.score", "quota=1"))
	left := map[string]string{"a1": "10", "a2": "80", "a3": "50"}
	resets := map[string]string{"a1": "600", "a2": "7200", "a3": "1200"}
	r.ups.script = func(o *actors.Outgoing) reply {
		header := map[string]string{"Content-Type": "application/json"}
		for _, h := range o.Headers {
			if id, is := strings.CutPrefix(h.Value, "Bearer secret-of-"); is {
				header["X-Ratelimit-Limit-Tokens"], header["X-Ratelimit-Remaining-Tokens"], header["X-Ratelimit-Reset-Tokens"] = "100", left[id], "30s"
				header["X-Codex-Primary-Used-Percent"], header["X-Codex-Primary-Reset-After-Seconds"] = "5", resets[id]
			}
		}
		return reply{header: header, body: texts(okBody)}
	}
	seen := map[string]bool{}
	for range 3 { // what is not known counts as unused, so that each is asked once
		where, _ := r.goes(r.of(""))
		seen[where] = true
		r.until("its word of its limits", func() bool {
			f, _ := r.system.Board().AccountFigures(strings.TrimPrefix(where, "a/"))
			return !f.Quota.IsZero()
		})
	}
	if len(seen) != 3 {
		t.Fatalf("asked %v", seen)
	}
	goes := func(weights, want string) {
		t.Helper()
		r.apply(setting("scheduling.score", weights))
		for range 4 {
			if where, _ := r.goes(r.of("")); where != want {
				t.Errorf("by %s: served by %s, want %s", weights, where, want)
			}
		}
	}
	goes("quota=1", "a/a2")
	goes("reset=1", "a/a1") // its quota lapses first
	goes("quota=1,reset=0.1", "a/a2")
	s, _ := r.system.Status("a")
	for _, a := range s.Accounts {
		want := map[string]float64{"a1": 0.1, "a2": 0.8, "a3": 0.5}[a.ID]
		if q := a.Quota; q == nil || math.Abs(q.Left-want) > 1e-6 || q.Until == nil || q.Lapses == nil || q.Until.After(*q.Lapses) || q.Told.IsZero() {
			t.Errorf("%s: %+v", a.ID, q)
		}
	}
	f := r.system.Board().Account("a1")
	if math.Abs(f.QuotaUsed-0.9) > 1e-6 || f.QuotaReset == 0 {
		t.Errorf("the plan sees %+v", f)
	}
	r.laws()
}

// E18, D24: an account that has expired serves nobody, not even when the catalogue's snapshot is older than its actor.
func TestAnExpiredAccountServesNobody_E18(t *testing.T) {
	soon := time.Now().Add(time.Hour)
	a := account("a1", "a")
	a.ExpiresAt = &soon
	r := remembering(t, upstream("a"), upstream("b", second), a, account("b1", "b"), key("k"))
	if where, _ := r.goes(r.of("")); where != "a/a1" {
		t.Errorf("before: %s", where)
	}
	r.late.Add(int64(2 * time.Hour))
	if where, _ := r.goes(r.of("")); where != "b/b1" {
		t.Errorf("after: %s", where)
	}
	r.laws()
}

// E13-E17: an upstream's name in front of a model selects that upstream; the body then says the bare name.
func TestAnUpstreamsNameSelectsIt_E13_E17(t *testing.T) {
	r := remembering(t, pair()...)
	call := r.call("/v1/chat/completions", `{"model":"b/gpt-5","messages":[{"role":"user","content":"hi"}]}`)
	if where, _ := r.goes(call); where != "b/b1" {
		t.Errorf("served by %s", where)
	}
	if got := r.ups.calls[0].body; !strings.Contains(got, `"model":"gpt-5"`) {
		t.Errorf("sent %s", got)
	}
	r.apply(key("k", func(k *catalog.Key) { k.Access, k.Upstreams = "restricted", []string{"a"} }))
	call = r.call("/v1/chat/completions", `{"model":"b/gpt-5","messages":[{"role":"user","content":"hi"}]}`)
	if x := r.run(call); x.Status != 403 || !strings.Contains(x.body(), "NO_AUTHORIZED_UPSTREAMS") {
		t.Errorf("not granted: %d %s", x.Status, x.body())
	}
	r.laws()
}
