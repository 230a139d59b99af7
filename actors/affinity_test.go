package actors_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/request"
)

// remembering is a rig whose gateway knows sessions. Upstreams without a priority are drawn by chance.
func remembering(t *testing.T, resources ...catalog.Resource) *rig {
	r := newRig(t, resources...)
	r.Affinity = actors.NewAffinity(&r.snap.Load().Settings.Scheduling)
	seed := uint64(0)
	r.Random = func() uint64 { seed += 0x9e3779b97f4a7c15; return seed }
	return r
}

// of makes a request of a session.
func (r *rig) of(session string) *actors.Call {
	c := r.chat()
	c.Ask.Session, c.Ask.Capability = session, string(c.Endpoint.Capability)
	return c
}

// served is "upstream/account" of the last attempt.
func (r *rig) served(id string) string {
	r.t.Helper()
	at := "nobody"
	for _, row := range r.streams()["request/"+id] {
		for _, f := range row.Facts {
			if d, ok := f.(*request.Dispatched); ok {
				at = d.Upstream + "/" + d.Account
			}
		}
	}
	return at
}

// affinity is what the log shows of a request's binding: why the last attempt went where it went, else the plan's word.
func (r *rig) affinity(id string) string {
	r.t.Helper()
	said := ""
	for _, row := range r.streams()["request/"+id] {
		for _, f := range row.Facts {
			switch f := f.(type) {
			case *request.Admitted:
				said = f.Affinity
			case *request.Dispatched:
				if strings.HasPrefix(f.Why, "affinity_") {
					said = f.Why
				}
			}
		}
	}
	return said
}

// go_ runs a request and says who served it and what became of the binding.
func (r *rig) goes(c *actors.Call) (where, why string) {
	r.t.Helper()
	r.run(c)
	return r.served(c.ID), r.affinity(c.ID)
}

// many are two equal upstreams with three accounts each.
func many(change ...func(*catalog.Upstream)) []catalog.Resource {
	rs := []catalog.Resource{key("k"), upstream("a", change...), upstream("b", change...)}
	for _, u := range []string{"a", "b"} {
		for n := range 3 {
			rs = append(rs, account(fmt.Sprint(u, n+1), u))
		}
	}
	return rs
}

// A session goes on with the account that served it; other sessions, and requests without one, are spread (C56, C57, B12,
// B13).
func TestASessionStaysWithTheAccountThatServedIt_C56_C57(t *testing.T) {
	r := remembering(t, many()...)
	home, first := map[string]string{}, map[string]bool{}
	for round := range 6 {
		for n := range 8 {
			s := fmt.Sprint("s", n)
			where, why := r.goes(r.of(s))
			switch {
			case round == 0:
				if home[s], first[where[:1]] = where, true; why != "" {
					t.Errorf("%s: first request %s", s, why)
				}
			case where != home[s] || why != "affinity_hit":
				t.Errorf("%s: %s %s, bound to %s", s, where, why, home[s])
			}
		}
	}
	if len(first) != 2 {
		t.Errorf("sessions began at %v", first)
	}
	spread := map[string]bool{}
	for range 40 {
		where, why := r.goes(r.of(""))
		if spread[where[:1]] = true; why != "" {
			t.Errorf("without a session: %s", why)
		}
	}
	if len(spread) != 2 {
		t.Errorf("requests without a session went to %v", spread)
	}
	if c := r.Affinity.Counts(); c.Bindings != 8 || c.Hit != 40 || c.Miss != 8 || c.Created != 8 || c.Moved != 0 {
		t.Errorf("counts %+v", c)
	}
	if st := r.Affinity.Status("", r.Now(), 3); st.Bindings != 8 || len(st.Sessions) != 3 || st.Sessions[0].Session != "s7" {
		t.Errorf("status %+v", st)
	}
	r.laws()
}

// Only a success binds, and it binds to who gave it (B48, C56): not to who failed first, and not when nobody served.
func TestOnlyASuccessBinds(t *testing.T) {
	r := remembering(t, pair()...)
	r.reply("a", refusing(500, ""))
	if where, _ := r.goes(r.of("s")); where != "b/b1" {
		t.Fatalf("served by %s", where)
	}
	if where, why := r.goes(r.of("s")); where != "b/b1" || why != "affinity_hit" {
		t.Errorf("%s %s", where, why)
	}
	r.reply("a", refusing(500, ""))
	r.reply("b", refusing(500, ""))
	r.goes(r.of("lost"))
	r.reply("a", refusing(400, ""))
	r.goes(r.of("wrong"))
	gone := r.of("gone")
	r.reply("a", reply{header: jsonHeader, do: gone.Gone.Fire, body: texts(okBody)})
	r.goes(gone)
	if n := r.Affinity.Counts().Bindings; n != 1 {
		t.Errorf("%d bindings", n)
	}
	r.laws()
}

// A binding ends when it is not used for affinity.sliding, and affinity.absolute after it was made.
func TestBindingsExpire(t *testing.T) {
	r := remembering(t, append(pair(), setting("affinity.sliding", "10m"), setting("affinity.absolute", "25m"))...)
	r.Affinity.Limit(&r.snap.Load().Settings.Scheduling)
	r.reply("a", refusing(500, ""))
	r.goes(r.of("s")) // to b, which comes second without a binding
	for _, c := range []struct {
		after time.Duration
		want  string
	}{{9 * time.Minute, "b/b1"}, {9 * time.Minute, "b/b1"}, {8 * time.Minute, "a/a1"}, {11 * time.Minute, "a/a1"}} {
		r.late.Add(int64(c.after))
		if where, _ := r.goes(r.of("s")); where != c.want {
			t.Errorf("after %v: %s, want %s", c.after, where, c.want)
		}
	}
	r.reply("a", refusing(500, ""))
	r.goes(r.of("t"))
	r.late.Add(int64(11 * time.Minute))
	if where, why := r.goes(r.of("t")); where != "a/a1" || why != "" {
		t.Errorf("unused for longer than sliding: %s %s", where, why)
	}
}

// A bound account is left when it cannot serve, or not well, and the log says why. Without anybody better it stays.
func TestABoundAccountIsLeftForAReason_C57_C58(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(r *rig) (undo func())
		where  string
		why    string
	}{
		{"full", func(r *rig) func() {
			free := make(chan struct{})
			r.reply("b", reply{header: jsonHeader, hold: free, body: texts(okBody)})
			h := r.begin(r.of("s"))
			r.until("the call to be made", func() bool { return r.sent("b") == 2 })
			return func() { close(free); <-h.over }
		}, "a/a1", "affinity_escaped_full"},
		{"blocked", func(r *rig) func() {
			until := r.Now().Add(time.Hour)
			if err := r.system.BlockAccount("b1", &until); err != nil {
				r.t.Fatal(err)
			}
			return func() {}
		}, "a/a1", "affinity_escaped_blocked"},
		{"its breaker open", func(r *rig) func() { _ = r.system.Breaker("b", "open"); return func() {} }, "a/a1", "affinity_escaped_circuit_open"},
		{"account disabled", func(r *rig) func() {
			off := account("b1", "b")
			off.Active = false
			r.apply(off)
			return func() {}
		}, "a/a1", "affinity_escaped_disabled"},
		{"account expired", func(r *rig) func() {
			old, past := account("b1", "b"), r.Now().Add(-time.Second)
			old.ExpiresAt = &past
			r.apply(old)
			return func() {}
		}, "a/a1", "affinity_escaped_expired"},
		{"upstream gone", func(r *rig) func() {
			r.remove(catalog.KindAccount, "b1")
			r.remove(catalog.KindUpstream, "b")
			return func() {}
		}, "a/a1", "affinity_escaped_gone"},
		{"not granted any more", func(r *rig) func() {
			r.apply(key("k", func(k *catalog.Key) { k.Access, k.Upstreams = "restricted", []string{"a"} }))
			return func() {}
		}, "a/a1", "affinity_escaped_not_granted"},
		{"affinity off", func(r *rig) func() { r.apply(setting("affinity.mode", "off")); return func() {} }, "a/a1", ""},
		{"a better tier leads", func(r *rig) func() { r.apply(setting("affinity.mode", "leading_run")); return func() {} }, "a/a1", "affinity_escaped_tier"},
		{"nothing has changed", func(*rig) func() { return func() {} }, "b/b1", "affinity_hit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := remembering(t, upstream("a"), upstream("b", second, slots(1)), account("a1", "a"), account("b1", "b"), key("k"))
			r.reply("a", refusing(500, ""))
			if where, _ := r.goes(r.of("s")); where != "b/b1" {
				t.Fatalf("bound to %s", where)
			}
			undo := c.change(r)
			where, why := r.goes(r.of("s"))
			undo()
			if where != c.where || why != c.why {
				t.Errorf("%s %s, want %s %s", where, why, c.where, c.why)
			}
			r.laws()
		})
	}
}

// A bound upstream that is slow, or that fails too often, is left for one that is not; the figures are those of its own
// answers.
func TestASlowOrFailingAccountIsLeft(t *testing.T) {
	t.Run("slow", func(t *testing.T) {
		r := remembering(t, append(pair(), setting("affinity.escape_ttft", "50ms"))...)
		r.reply("a", refusing(500, ""))
		r.reply("b", reply{header: jsonHeader, do: func() { r.late.Add(int64(time.Second)) }, body: texts(okBody)})
		r.goes(r.of("s"))
		if where, why := r.goes(r.of("s")); where != "a/a1" || why != "affinity_escaped_slow" {
			t.Errorf("%s %s", where, why)
		}
		if f, _ := r.system.Board().AccountFigures("b1"); f.TTFT < time.Second {
			t.Errorf("figures %+v", f)
		}
	})
	t.Run("failing", func(t *testing.T) {
		r := remembering(t, append(pair(), key("onlyb", func(k *catalog.Key) { k.Access, k.Upstreams = "restricted", []string{"b"} }))...)
		r.reply("a", refusing(500, ""))
		r.goes(r.of("s"))
		for n := range 10 {
			if where, why := r.goes(r.of("s")); where != "b/b1" || why != "affinity_hit" {
				f, _ := r.system.Board().Figures("b")
				if f.Failing < 0.5 || where != "a/a1" || why != "affinity_escaped_failing" {
					t.Errorf("after %d failures: %s %s, %+v", n, where, why, f)
				}
				if g, _ := r.system.Board().AccountFigures("b1"); g.Failing < f.Failing-0.05 || g.LastUsed.IsZero() || n < 3 {
					t.Errorf("after %d failures: account %+v", n, g)
				}
				r.laws()
				return
			}
			for range 2 {
				r.reply("b", refusing(500, ""))
				failing := r.of("")
				failing.Key = r.snap.Load().Key("onlyb")
				r.run(failing)
			}
		}
		t.Error("stayed although b failed")
	})
}

// C58: a session moves up to an upstream that wants such sessions, once.
func TestASessionMigratesUp_C58(t *testing.T) {
	migration := func(u *catalog.Upstream) {
		u.AffinityMigration = &catalog.Migration{Enabled: true, Metric: "length", Threshold: 10_000, Direction: "below"}
	}
	r := remembering(t, pair(migration)...)
	r.reply("a", refusing(500, ""))
	r.goes(r.of("s"))
	if where, why := r.goes(r.of("s")); where != "a/a1" || why != "affinity_migrated" {
		t.Errorf("%s %s", where, why)
	}
	if where, why := r.goes(r.of("s")); where != "a/a1" || why != "affinity_hit" {
		t.Errorf("after it has moved: %s %s", where, why)
	}
	if c := r.Affinity.Counts(); c.Migrated != 1 || c.Moved != 1 {
		t.Errorf("counts %+v", c)
	}
}

func (r *rig) responses(body string) *actors.Call {
	c := r.call("/v1/responses", body)
	c.Ask.Session, c.Ask.Continues, c.Ask.Capability = c.Scan.Session, c.Scan.Continuation, string(c.Endpoint.Capability)
	return c
}

const (
	respBody   = `{"id":"resp_1","object":"response","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"hi"}]}],"usage":{"input_tokens":7,"output_tokens":2}}`
	respStream = `{"model":"m","stream":true,"input":"hi"}`
)

// What goes on from a response goes to the account that has it, in whichever way the answer came, and nowhere else: when
// that account cannot serve the request is refused (B54, E25).
func TestAContinuationIsPinned_E25(t *testing.T) {
	events := []string{
		"event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\"}}\n\n",
		"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"hi\"}\n\n",
		"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\",\"usage\":{\"input_tokens\":7,\"output_tokens\":2}}}\n\n",
	}
	for name, rep := range map[string]reply{"whole": whole(respBody), "stream": streaming(events...)} {
		t.Run(name, func(t *testing.T) {
			r := remembering(t, pair()...)
			r.reply("a", refusing(500, ""))
			r.reply("b", rep)
			first := r.responses(`{"model":"m","input":"hi"}`)
			if name == "stream" {
				first = r.responses(respStream)
			}
			r.run(first)
			if s := r.settlement(first.ID); s.ResponseID != "resp_1" {
				t.Fatalf("settled %+v", s)
			}
			const next = `{"model":"m","previous_response_id":"resp_1","input":"more"}`
			r.reply("b", whole(respBody))
			if where, why := r.goes(r.responses(next)); where != "b/b1" || why != "affinity_pinned" {
				t.Errorf("%s %s", where, why)
			}
			other := r.responses(next)
			other.Ask.Key = "somebody else"
			r.reply("a", whole(respBody))
			if where, why := r.goes(other); where != "a/a1" || why != "" {
				t.Errorf("another caller's: %s %s", where, why)
			}
			until := r.Now().Add(time.Hour)
			if err := r.system.BlockAccount("b1", &until); err != nil {
				t.Fatal(err)
			}
			call := r.responses(next)
			x := r.run(call)
			if x.Status != 503 || !strings.Contains(x.body(), "CONTINUATION_PINNED") {
				t.Errorf("%d %s", x.Status, x.body())
			}
			if r.sent("a") != 2 {
				t.Errorf("a got %d calls", r.sent("a"))
			}
			r.laws()
		})
	}
}

// Reasoning that only one account can read goes to that account; with affinity.reasoning = drop another one gets the
// request without it.
func TestEncryptedReasoningIsPinnedOrDropped(t *testing.T) {
	const body = `{"model":"m","prompt_cache_key":"s","input":[{"role":"user","content":"hi"},{"type":"reasoning","encrypted_content":"xyz"},{"role":"user","content":"more"}]}`
	for _, how := range []string{"pin", "drop"} {
		t.Run(how, func(t *testing.T) {
			r := remembering(t, append(pair(), setting("affinity.reasoning", how))...)
			r.reply("a", refusing(500, ""))
			r.reply("b", whole(respBody), whole(respBody))
			r.run(r.responses(`{"model":"m","prompt_cache_key":"s","input":"hi"}`))
			if where, _ := r.goes(r.responses(body)); where != "b/b1" {
				t.Errorf("served by %s", where)
			}
			if got := r.ups.calls[len(r.ups.calls)-1].body; got != body {
				t.Errorf("its own account got %s", got)
			}
			_ = r.system.Breaker("b", "open")
			r.reply("a", whole(respBody))
			call := r.responses(body)
			x := r.run(call)
			if how == "pin" {
				if x.Status != 503 || !strings.Contains(x.body(), "CONTINUATION_PINNED") {
					t.Errorf("%d %s", x.Status, x.body())
				}
				return
			}
			last := r.ups.calls[len(r.ups.calls)-1]
			if x.Status != 200 || last.host != "a.test" || strings.Contains(last.body, "xyz") || !strings.Contains(last.body, "more") {
				t.Errorf("%d: %s got %s", x.Status, last.host, last.body)
			}
			r.laws()
		})
	}
}

// What a restart reads of the log is what the dead process knew (bindings survive a restart).
func TestBindingsComeBackFromTheLog(t *testing.T) {
	r := remembering(t, append(many(), setting("affinity.absolute", "1h"), setting("affinity.sliding", "1h"))...)
	r.Affinity.Limit(&r.snap.Load().Settings.Scheduling)
	for n := range 60 {
		switch n % 6 {
		case 1:
			r.reply("a", refusing(500, ""))
		case 2:
			r.reply("b", refusing(429, ""))
		case 3:
			r.late.Add(int64(7 * time.Minute))
		}
		if n%3 == 0 {
			r.reply("a", whole(respBody))
			r.reply("b", whole(respBody))
			r.run(r.responses(fmt.Sprintf(`{"model":"m","prompt_cache_key":"p%d","input":"hi"}`, n%7)))
			continue
		}
		r.run(r.of(fmt.Sprint("s", n%11)))
	}
	if err := r.journal.Sync(context.Background()); err != nil {
		t.Fatal(err)
	}
	again := actors.NewAffinity(&r.snap.Load().Settings.Scheduling)
	if err := again.Load(context.Background(), r.store, r.Now()); err != nil {
		t.Fatal(err)
	}
	said := func(a *actors.Affinity) string {
		var lines []string
		for _, s := range a.Status("", r.Now(), 1000).Sessions {
			s.Since, s.Used = s.Since.Truncate(time.Microsecond), s.Used.Truncate(time.Microsecond)
			lines = append(lines, fmt.Sprint(s))
		}
		return strings.Join(lines, "\n")
	}
	if was, is := said(r.Affinity), said(again); was != is || strings.Count(is, "\n") < 5 {
		t.Errorf("before\n%s\nafter\n%s", was, is)
	}
	if was, is := r.Affinity.Counts().Pins, again.Counts().Pins; was != is || is == 0 {
		t.Errorf("%d pins, before %d", is, was)
	}
	r.laws()
}
