package affinity

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
)

var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return start.Add(d) }

func key(session string) Key { return Key{"k", "openai_responses", session} }

func success(upstream string, tokens int64, planned, settled time.Duration) Success {
	return Success{Upstream: upstream, Account: upstream + "-1", Tokens: tokens, Planned: at(planned), At: at(settled)}
}

// C56, B12, PR #198: after 5 minutes without a success, and 30 minutes after it was bound, a binding has ended.
func TestABindingSlidesAndEnds_C56(t *testing.T) {
	const m = time.Minute
	table := New(Limits{})
	if c := table.Succeed(key("s"), success("a", 10, 0, 0)); c != Created {
		t.Fatal(c)
	}
	if b := table.Find(key("s"), at(5*m-1)); b.Upstream != "a" || b.Account != "a-1" || b.Tokens != 10 {
		t.Errorf("%+v", b)
	}
	if b := table.Find(key("s"), at(5*m)); !b.IsZero() {
		t.Errorf("found after the sliding expiry: %+v", b)
	}
	for i := 1; i <= 7; i++ { // each success prolongs it
		if c := table.Succeed(key("s"), success("a", 1, time.Duration(i)*4*m-1, time.Duration(i)*4*m)); c != Unchanged {
			t.Fatal(i, c)
		}
	}
	if b := table.Find(key("s"), at(30*m-1)); b.Tokens != 17 || !b.Since.Equal(start) {
		t.Errorf("%+v", b)
	}
	if b := table.Find(key("s"), at(30*m)); !b.IsZero() {
		t.Errorf("found after the absolute expiry: %+v", b)
	}
	if c := table.Succeed(key("s"), success("a", 3, 30*m, 30*m)); c != Created || table.Find(key("s"), at(30*m)).Tokens != 3 {
		t.Error("an ended binding is not made anew")
	}
}

func TestSessionsOfOthersAreOthers_C56(t *testing.T) {
	table := New(Limits{})
	table.Succeed(key("s"), success("a", 1, 0, 0))
	for _, other := range []Key{{"x", "openai_responses", "s"}, {"k", "anthropic_messages", "s"}, key("t"), key("")} {
		if b := table.Find(other, start); !b.IsZero() {
			t.Errorf("%v finds %+v", other, b)
		}
	}
	if c := table.Succeed(key(""), success("a", 1, 0, 0)); c != Unchanged || table.Len() != 1 {
		t.Error("a request without a session was bound (sub2api#3127)")
	}
}

// Of requests that ran at once, one that was planned before the binding moved does not move it back.
func TestALateSuccessDoesNotUndoAMove(t *testing.T) {
	table := New(Limits{})
	table.Succeed(key("s"), success("a", 5, 0, time.Second))
	if c := table.Succeed(key("s"), success("b", 7, 2*time.Second, 3*time.Second)); c != Moved {
		t.Error(c)
	}
	if c := table.Succeed(key("s"), success("a", 1, 2*time.Second, 4*time.Second)); c != Unchanged {
		t.Error(c)
	}
	if b := table.Find(key("s"), at(4*time.Second)); b.Upstream != "b" || b.Tokens != 7 || !b.Since.Equal(at(3*time.Second)) {
		t.Errorf("%+v", b)
	}
}

// A table against a plain list: expiry, moves, and who has to go when it is full.
func TestATableIsAsAPlainListWouldBe(t *testing.T) {
	type row struct {
		k Key
		b Binding
	}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		l := Limits{Entries: 1 + r.IntN(8), Sliding: 10 * time.Second, Absolute: 40 * time.Second}
		table, list := New(l), []row{} // the last used at the end
		now := time.Duration(0)
		dead := func(b Binding) bool { return at(now).Sub(b.Used) >= l.Sliding || at(now).Sub(b.Since) >= l.Absolute }
		for step := range 300 {
			now += time.Duration(r.IntN(3000)) * time.Millisecond
			k := key(fmt.Sprint(r.IntN(12)))
			s := success(string(rune('a'+r.IntN(3))), 1, now-time.Duration(r.IntN(9))*time.Second, now)
			i := 0
			for i < len(list) && list[i].k != k {
				i++
			}
			fresh := row{k, Binding{s.Upstream, s.Account, 1, s.At, s.At}}
			switch {
			case i == len(list):
				for len(list) > 0 && (len(list) >= l.Entries || dead(list[0].b)) {
					list = list[1:]
				}
				list = append(list, fresh)
			case dead(list[i].b):
				list = append(append(list[:i:i], list[i+1:]...), fresh)
			case list[i].b.Upstream == s.Upstream:
				old := list[i]
				old.b.Tokens++
				if s.At.After(old.b.Used) {
					old.b.Used = s.At
					list = append(append(list[:i:i], list[i+1:]...), old)
				} else {
					list[i] = old
				}
			case !list[i].b.Since.After(s.Planned):
				list = append(append(list[:i:i], list[i+1:]...), fresh)
			}
			table.Succeed(k, s)
			if table.Len() != len(list) {
				t.Fatalf("seed %d step %d: %d bindings, want %d", seed, step, table.Len(), len(list))
			}
			at := at(now)
			for _, row := range list {
				want := row.b
				if dead(row.b) {
					want = Binding{}
				}
				if got := table.Find(row.k, at); got != want {
					t.Fatalf("seed %d step %d: %v is %+v, want %+v", seed, step, row.k, got, want)
				}
			}
			n := 0
			for k, b := range table.All(at) {
				if table.Find(k, at) != b {
					t.Fatalf("seed %d step %d: All yields %v", seed, step, k)
				}
				n++
			}
			if r.IntN(40) == 0 && len(list) > 0 {
				table.Forget(list[0].k)
				list = list[1:]
			}
			if r.IntN(60) == 0 {
				l.Entries = 1 + r.IntN(8)
				table.Limit(l)
				list = list[max(len(list)-l.Entries, 0):]
			}
		}
	}
}

func TestAFullTableReusesItsMemory(t *testing.T) {
	table := New(Limits{Entries: 100})
	keys := make([]Key, 200)
	for i := range keys {
		keys[i] = key(fmt.Sprint(i))
		table.Succeed(keys[i], success("a", 1, 0, 0))
	}
	i, s := 0, success("a", 1, 0, 0)
	if n := testing.AllocsPerRun(1000, func() {
		table.Succeed(keys[i%200], s)
		table.Find(keys[(i+7)%200], start)
		i++
	}); n > 0 || table.Len() != 100 || table.of.Rows() != 100 {
		t.Errorf("%v allocations, %d bindings in %d entries", n, table.Len(), table.of.Rows())
	}
}

func admitted(session string) *request.Admitted {
	return &request.Admitted{Ask: request.Ask{Key: "k", Capability: "openai_responses", Dialect: "openai-responses", Session: session}}
}

func settled(outcome request.Outcome, tokens int64) *request.Settled {
	return &request.Settled{Outcome: outcome, Sent: true, Usage: pricing.Usage{Input: tokens, CachedInput: 1}}
}

// DESIGN §6: a restart has the bindings that the facts of the last minutes tell of, and only successes bind (B48).
func TestFactsMakeTheSameMemoryAsTheRequestsThemselves(t *testing.T) {
	live, back := NewMemory(Limits{}), NewMemory(Limits{})
	fold := NewFold(back)
	type event struct {
		id   string
		fact any
		at   time.Time
	}
	var log []event
	add := func(id string, d time.Duration, f any) { log = append(log, event{id, f, at(d)}) }
	add("old", 0, &request.Dispatched{N: 1, Upstream: "z", Account: "z-1"}) // it began before what is read
	add("r1", 1, admitted("s1"))
	add("r1", 2, &request.Dispatched{N: 1, Upstream: "a", Account: "a-1"})
	add("r2", 3, admitted("s2"))
	add("r1", 4, &request.Failed{N: 1})
	add("r1", 5, &request.Dispatched{N: 2, Upstream: "b", Account: "b-1"})
	add("r2", 6, &request.Dispatched{N: 1, Upstream: "c", Account: "c-1"})
	add("r1", 7, settled(request.Completed, 10))
	live.Learn(Served{Caller: "k", Capability: "openai_responses", Dialect: "openai-responses", Session: "s1", Success: Success{"b", "b-1", 11, at(1), at(7)}})
	for i, outcome := range []request.Outcome{request.FailedOutcome, request.Cancelled, request.Abandoned, request.RejectedOut} {
		add(fmt.Sprint("x", i), 8, admitted("s1"))
		add(fmt.Sprint("x", i), 8, &request.Dispatched{N: 1, Upstream: "bad", Account: "bad-1"})
		add(fmt.Sprint("x", i), 9, settled(outcome, 5))
	}
	add("r2", 10, settled(request.Completed, 20))
	live.Learn(Served{Caller: "k", Capability: "openai_responses", Dialect: "openai-responses", Session: "s2", Success: Success{"c", "c-1", 21, at(3), at(10)}})
	add("old", 11, settled(request.Completed, 1))
	add("gone", 12, &request.Rejected{})
	add("gone", 13, "something else")
	for _, e := range log {
		fold.Evolve(e.id, e.fact, e.at)
	}
	if len(fold.open) != 0 {
		t.Errorf("%d requests are open", len(fold.open))
	}
	for _, tables := range [][2]*Table{{live.Sessions, back.Sessions}, {live.Pins, back.Pins}} {
		if tables[0].Len() != 2 || tables[1].Len() != 2 {
			t.Fatalf("%d and %d bindings", tables[0].Len(), tables[1].Len())
		}
		for k, b := range tables[0].All(at(20)) {
			if got := tables[1].Find(k, at(20)); got != b {
				t.Errorf("%v: %+v from facts, %+v live", k, got, b)
			}
		}
	}
}

// sub2api#2991: a response, a conversation and encrypted reasoning know their account for longer than a cache lasts.
func TestWhatPinsARequest(t *testing.T) {
	m := NewMemory(Limits{})
	m.Learn(Served{Caller: "k", Capability: "openai_responses", Dialect: "openai-responses", Session: "s", Continuation: "conv_1", Response: "resp_1", Success: success("a", 1, 0, 0)})
	m.Learn(Served{Caller: "k", Capability: "anthropic_messages", Dialect: "anthropic-messages", Session: "claude", Response: "msg_1", Success: success("c", 1, 0, 0)})
	now := at(time.Hour)
	for _, c := range []struct {
		name string
		ask  Ask
		pin  Pin
		is   string
	}{
		{"the response", Ask{Key: key("other"), Continuation: "resp_1"}, PinContinuation, "a"},
		{"the conversation", Ask{Key: key(""), Continuation: "conv_1"}, PinContinuation, "a"},
		{"an unknown response pins nothing", Ask{Key: key("s"), Continuation: "resp_9"}, PinNone, ""},
		{"another caller's", Ask{Key: Key{"x", "openai_responses", "s"}, Continuation: "resp_1"}, PinNone, ""},
		{"reasoning of the session", Ask{Key: key("s"), Reasoning: true}, PinReasoning, "a"},
		{"a compaction of it", Ask{Key: key("s"), Reasoning: true, Ciphertext: true}, PinCiphertext, "a"},
		{"reasoning without a session", Ask{Key: key(""), Reasoning: true}, PinNone, ""},
		{"the cache is cold after an hour", Ask{Key: key("s")}, PinNone, ""},
		{"messages pin nothing", Ask{Key: Key{"k", "anthropic_messages", "claude"}, Continuation: "msg_1"}, PinNone, ""},
	} {
		if got := m.Find(c.ask, now); got.Pin != c.pin || got.Binding.Upstream != c.is {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	if got := m.Find(Ask{Key: key("s")}, at(time.Minute)); got.Pin != PinNone || got.Binding.Upstream != "a" {
		t.Errorf("%+v", got)
	}
	m.Limit(Limits{Entries: 1})
	if m.Sessions.Len() != 1 || m.Pins.Len() != 1 {
		t.Errorf("%d sessions, %d pins", m.Sessions.Len(), m.Pins.Len())
	}
}

func BenchmarkFindAndSucceed(b *testing.B) {
	m := NewMemory(Limits{})
	keys := make([]Key, 10_000)
	for i := range keys {
		keys[i] = key(fmt.Sprintf("%036d", i))
	}
	s := success("a", 1, 0, 0)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		k := keys[i%len(keys)]
		m.Find(Ask{Key: k}, start)
		m.Learn(Served{Caller: k.Caller, Capability: k.Capability, Session: k.Session, Success: s})
	}
}
