package actors

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/account"
	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/limit"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/events"
)

// explode makes the actor of an owner panic on its next messages of one type.
func (h *house) explode(owner string, times int, msg any) (left *atomic.Int64) {
	left = &atomic.Int64{}
	left.Store(int64(times))
	h.hooks.before = func(o string, m any) {
		if o == owner && fmt.Sprintf("%T", m) == fmt.Sprintf("%T", msg) && left.Add(-1) >= 0 {
			panic("injected")
		}
	}
	return left
}

// explosive is a house with a hook that is set before the first message, so that no actor reads it meanwhile.
func explosive(t *testing.T, l Layout, owner string, times int, msg any) (*house, *atomic.Int64) {
	h := openHouse(t, Layout{})
	left := h.explode(owner, times, msg)
	h.Reconfigure(l)
	return h, left
}

func TestAPanicLosesNoSlotAndTheAskerHearsOfIt(t *testing.T) { // pain 34; more often than a supervisor would bear
	const times = 50
	full := Layout{Upstreams: []catalog.Upstream{up("u", 2, -1)}, Accounts: []catalog.Account{acc("a", "u", 2)}}
	for _, c := range []struct {
		says  string
		owner string
		msg   any
		want  Reason // of the asker
		ask   func(*house, Want) (Lease, *Refusal)
	}{
		{"the upstream, asked", "u", &tryUpstream{}, LocalFault, func(h *house, w Want) (Lease, *Refusal) { return h.Try(w, onU) }},
		{"the upstream, asked to wait", "u", &joinUpstream{}, LocalFault,
			func(h *house, w Want) (Lease, *Refusal) { return h.Wait(w, []Candidate{onU}, nil, nil) }},
		{"the upstream, when its account answers", "u", &leaseAnswer{}, LocalFault,
			func(h *house, w Want) (Lease, *Refusal) { return h.Try(w, onU) }},
		{"the upstream, when its account answers a joiner", "u", &leaseAnswer{}, LocalFault,
			func(h *house, w Want) (Lease, *Refusal) { return h.Wait(w, []Candidate{onU}, nil, nil) }},
		{"the account, asked", "a", &tryLease{}, LocalFault, func(h *house, w Want) (Lease, *Refusal) { return h.Try(w, onU) }},
		{"the account, asked for a joiner", "a", &tryLease{}, LocalFault,
			func(h *house, w Want) (Lease, *Refusal) { return h.Wait(w, []Candidate{onU}, nil, nil) }},
		{"the upstream, at a release", "u", &finishLease{}, "", func(h *house, w Want) (Lease, *Refusal) { return h.Try(w, onU) }},
		{"the account, at a release", "a", &freeAccount{}, "", func(h *house, w Want) (Lease, *Refusal) { return h.Try(w, onU) }},
	} {
		t.Run(c.says, func(t *testing.T) {
			h, left := explosive(t, full, c.owner, times, c.msg)
			for i := range times {
				l, no := c.ask(h, req(fmt.Sprint("r", i)))
				if c.want == "" {
					if no != nil {
						t.Fatalf("round %d: %+v", i, *no)
					}
					h.Release(l, nil)
				} else if no == nil || no.Reason != c.want {
					t.Fatalf("round %d: %+v %+v", i, l, no)
				}
				h.holds("u", 0, 0)
			}
			if left.Load() > 0 {
				t.Fatalf("%d panics did not happen", left.Load())
			}
			h.take("x", onU)
			h.take("y", onU)
			h.refused("z", onU, ConcurrencyFull)
			h.holds("u", 2, 0)
		})
	}
}

func TestAPanicWhileAWaiterIsServedTellsIt(t *testing.T) {
	for owner, msg := range map[string]any{"u": &leaseAnswer{}, "a": &tryLease{}} {
		h := openHouse(t, Layout{})
		armed := &atomic.Bool{}
		h.hooks.before = func(o string, m any) {
			if o == owner && fmt.Sprintf("%T", m) == fmt.Sprintf("%T", msg) && armed.Swap(false) {
				panic("injected")
			}
		}
		h.Reconfigure(one(1, -1))
		l := h.take("x", onU)
		first := h.wait("r1", onU)
		first.queued()
		second := h.wait("r2", onU)
		second.queued()
		armed.Store(true)
		h.Release(l, nil)
		first.ends(LocalFault)
		h.Release(second.served(), nil)
		h.holds("u", 0, 0)
	}
}

// A panic behind a message, when the next waiter is served, keeps no slot set aside: it costs that waiter its place only.
func TestAPanicWhenTheNextOneIsServedKeepsNoSlot(t *testing.T) {
	h := openHouse(t, Layout{})
	h.onFact = panicOnce[*breaker.HalfOpened]()
	l := Layout{Upstreams: []catalog.Upstream{up("u", 1, -1)}, Accounts: []catalog.Account{acc("a", "u", -1), acc("b", "u", -1)}}
	l.Upstreams[0].Breaker.Per, l.Upstreams[0].Queue.Timeout = catalog.BreakerPerAccountModel, catalog.Duration(time.Hour)
	h.Reconfigure(l)
	both := Candidate{Upstream: "u", Accounts: []string{"a", "b"}, Model: "m"}
	x := h.take("x", Candidate{Upstream: "u", Accounts: []string{"b"}, Model: "m"})
	var ws []*waiter
	for _, name := range []string{"r1", "r2"} {
		w := h.wait(name, both)
		w.queued()
		ws = append(ws, w)
	}
	must(h.Switch("u", Switch{Open: true, Of: breaker.Key{Account: "a", Model: "m"}}))
	h.passTime(200 * time.Second)
	h.Release(x, nil)
	ws[0].ends(LocalFault)
	h.send(h.dir.Load().upstreams["u"].pid, &wakeUpstream{}) // the clock of the alarm stands still
	if y := ws[1].served(); y.Account != "a" || !y.Probe {
		t.Fatalf("%+v", y)
	}
	h.Release(ws[1].lease, nil)
	h.holds("u", 0, 0)
	h.take("z", both)
	h.holds("u", 1, 0)
}

// panicOnce is an onFact that panics on the first fact of a kind.
func panicOnce[F events.Fact]() func(events.Fact) {
	over := false
	return func(f events.Fact) {
		if _, is := f.(F); is && !over {
			over = true
			panic("injected")
		}
	}
}

// A panic at the last step of a grant, behind the confirmation of its slot, keeps nothing either.
func TestAPanicWhenALeaseIsGivenKeepsNoSlot(t *testing.T) {
	for _, queued := range []bool{false, true} {
		h := openHouse(t, Layout{})
		armed := &atomic.Bool{}
		h.hooks.granted = func(Lease) {
			if armed.Swap(false) {
				panic("injected")
			}
		}
		h.Reconfigure(one(1, -1))
		if queued {
			x := h.take("x", onU)
			w := h.wait("r", onU)
			w.queued()
			armed.Store(true)
			h.Release(x, nil)
			w.ends(LocalFault)
		} else {
			armed.Store(true)
			h.refused("r", onU, LocalFault)
		}
		h.Release(h.take("y", onU), nil)
		w := h.wait("z", onU)
		h.Release(w.served(), nil)
		h.holds("u", 0, 0)
	}
}

func TestAPanicAtAProbeKeepsItsPlaceFree(t *testing.T) {
	for _, per := range []string{"", catalog.BreakerPerAccountModel} {
		h := openHouse(t, Layout{})
		h.onFact = panicOnce[*breaker.HalfOpened]()
		l := one(1, 0)
		l.Upstreams[0].Breaker.Per = per
		h.Reconfigure(l)
		of := breaker.Key{}
		if per != "" {
			of = breaker.Key{Account: "a", Model: "m"}
		}
		must(h.Switch("u", Switch{Open: true, Of: of}))
		h.passTime(200 * time.Second)
		ask := onU
		ask.Model = "m"
		h.refused("r1", ask, LocalFault)
		if l := h.take("r2", ask); !l.Probe {
			t.Fatalf("%+v", l)
		}
		h.holds("u", 1, 0)
	}
}

func TestAPanicKeepsBreakerQueueAndSettings(t *testing.T) {
	h, _ := explosive(t, one(1, -1), "u", 50, &statusUpstream{})
	l := h.take("x", onU)
	h.fail(l, 2)
	w := h.wait("r", onU)
	w.queued()
	for range 50 {
		if _, ok := h.Status("u"); ok {
			t.Fatal("it did not panic")
		}
	}
	if st := h.status("u"); st.Breaker.Failures != 2 || len(st.Waiting) != 1 || len(st.Held) != 1 {
		t.Fatalf("%+v", st)
	}
	h.Report(l, Outcome{Result: breaker.Success})
	h.Release(l, nil)
	w.served()
}

func TestAPanicAtReconfigureKeepsTheOldSettings(t *testing.T) {
	h := openHouse(t, Layout{})
	armed := &atomic.Bool{}
	h.hooks.before = func(_ string, m any) {
		if _, ok := m.(*reconfigureUpstream); ok && armed.Swap(false) {
			panic("injected")
		}
	}
	h.Reconfigure(one(1, 0))
	armed.Store(true)
	h.Reconfigure(one(5, 0))
	h.take("x", onU)
	h.refused("y", onU, ConcurrencyFull)
	if _, ok := h.Board().AccountFigures("a"); !ok {
		t.Fatal("its account is not known any more")
	}
	h.Reconfigure(one(5, 0))
	h.take("z", onU)
}

// Who asks an actor for whatever it may be hears of a panic, instead of waiting for an answer for ever.
func TestAPanicAtAnyQuestionIsHeard(t *testing.T) {
	until := testStart.Add(time.Hour)
	for says, c := range map[string]struct {
		owner string
		msg   any
		ask   func(*house) error
	}{
		"a slot is wanted back": {"u", &recallLease{}, func(h *house) error {
			_, err := h.Free(h.t.Context(), "u", "x", 0, "")
			return err
		}},
		"a breaker is opened":     {"u", &switchBreaker{}, func(h *house) error { return h.Breaker("u", "open") }},
		"a breaker is restored":   {"u", &restoreBreaker{}, func(h *house) error { return h.Restore(&breaker.Opened{Upstream: "u"}, testStart) }},
		"an account is blocked":   {"a", &blockAccount{}, func(h *house) error { return h.BlockAccount("a", &until) }},
		"an account is unblocked": {"a", &unblockAccount{}, func(h *house) error { return h.BlockAccount("a", nil) }},
		"a block is restored":     {"a", &restoreAccount{}, func(h *house) error { return h.Restore(&account.Blocked{Account: "a"}, testStart) }},
	} {
		t.Run(says, func(t *testing.T) {
			h, left := explosive(t, one(1, 0), c.owner, 1, c.msg)
			l := h.take("x", onU)
			heard := make(chan error, 1)
			go func() { heard <- c.ask(h) }()
			select {
			case err := <-heard:
				if err == nil || left.Load() > 0 {
					t.Errorf("%v, %d panics did not happen", err, left.Load())
				}
			case <-time.After(time.Minute):
				t.Fatal("nobody answers")
			}
			h.Release(l, nil)
			h.take("y", onU)
		})
	}
}

// Whoever waits later is still told when its time is over.
func TestAPanicAtAnAlarmLosesNoLaterOne(t *testing.T) {
	l := one(1, -1)
	l.Upstreams[0].Queue.Timeout = catalog.Duration(time.Millisecond)
	h, left := explosive(t, l, "u", 1, &wakeUpstream{})
	h.take("x", onU)
	for _, name := range []string{"r1", "r2"} {
		w := h.wait(name, onU)
		w.queued()
		h.passTime(time.Second)
		w.ends(TimedOut)
	}
	c, gone := explosive(t, Layout{}, "key/alone", 1, &wakeCaller{})
	c.callerTimeout = time.Millisecond
	c.Reconfigure(family())
	if _, no := c.Admit("", "alone", req("x"), nil); no != nil {
		t.Fatal(*no)
	}
	for _, name := range []string{"r1", "r2"} {
		e := c.enter(t, name, "alone").waits()
		c.passTime(time.Second)
		e.ends(TimedOut)
	}
	if left.Load() > 0 || gone.Load() > 0 {
		t.Error("no panic happened")
	}
}

// What a request has set aside and what it has cost is counted although an actor panics when it ends.
func TestAPanicAtTheEndOfARequestCountsItsCost(t *testing.T) {
	budget := &catalog.Limits{Budget: "1"}
	l := Layout{Keys: []catalog.Key{{ID: "k", Limits: budget, Budget: "strict"}}, Budgets: map[string]limit.Money{platformBudget: {Mode: limit.Strict, Rules: []limit.Rule{{Limit: money.USD}}}}}
	for owner, msg := range map[string]any{"key/k": &leaveCaller{}, "budgets": &settleBudgets{}} {
		h, left := explosive(t, l, owner, 1, msg)
		p, no := h.Admit("", "k", req("r"), nil)
		if no != nil {
			t.Fatal(*no)
		}
		_, refused := h.reserve(p, money.USD/2)
		if shared := h.reserveShares("r", []share{{platformBudget, money.USD / 2}}); !refused.OK() || !shared.OK() {
			t.Fatal(refused, shared)
		}
		h.settleShares("r", []share{{platformBudget, money.USD / 4}}, h.now(), true)
		h.settled(p, money.USD/4, 5)
		if v := h.viewed(t, "k").Keys[0].Sums[0]; v.Reserved != 0 || v.Spent != money.USD/4 {
			t.Errorf("%s: the key: %+v", owner, v)
		}
		if v := h.shared(t, platformBudget).Sums[0]; v.Reserved != 0 || v.Spent != money.USD/4 {
			t.Errorf("%s: the platform: %+v", owner, v)
		}
		if left.Load() > 0 {
			t.Errorf("%s: no panic happened", owner)
		}
	}
}

func TestAPanicOfACallerIsHeardAndLosesNoSlot(t *testing.T) {
	h, _ := explosive(t, Layout{Users: []catalog.User{{ID: "u", Slots: count(1)}}, Keys: []catalog.Key{{ID: "k", User: "u"}}}, "user/u", 50, &admit{})
	for range 50 {
		if _, no := h.Admit("user/u", "k", req("r"), nil); no == nil || no.Reason != LocalFault {
			t.Fatalf("%+v", no)
		}
	}
	p, no := h.Admit("user/u", "k", req("r"), nil)
	if no != nil {
		t.Fatalf("%+v", *no)
	}
	h.Leave(p)
}
