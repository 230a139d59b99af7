package actors

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/account"
	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/catalog"
)

// split is the upstream "u" with the accounts "a" and "b" and breakers for each account and model.
func split() Layout {
	u := up("u", -1, -1)
	u.Breaker.Per = catalog.BreakerPerAccountModel
	return Layout{Upstreams: []catalog.Upstream{u}, Accounts: []catalog.Account{acc("a", "u", -1), acc("b", "u", -1)}}
}

func asks(model string, accounts ...string) Candidate {
	return Candidate{Upstream: "u", Accounts: accounts, Model: model}
}

func bad(class string) *Outcome { return &Outcome{Result: breaker.Failure, Class: class, Model: "m"} }

func TestABreakerOfAnAccountAndModelLeavesTheOthersAlone(t *testing.T) {
	h := openHouse(t, split())
	for range 3 {
		h.Release(h.take("x", asks("m", "a")), bad("http_5xx"))
	}
	if no := h.refused("r1", asks("m", "a"), CircuitOpen); !no.Until.Equal(h.now().Add(100 * time.Second)) {
		t.Fatalf("%+v", no)
	}
	for _, c := range []Candidate{asks("m", "b"), asks("n", "a")} {
		h.Release(h.take("r2", c), nil)
	}
	if l := h.take("r3", asks("m", "a", "b")); l.Account != "b" {
		t.Fatalf("%+v", l)
	}
	s := h.status("u")
	if s.Breaker.State != breaker.StateClosed || s.Breaker.Failures != 0 || len(s.Breakers) != 1 || s.Breakers[0].Account != "a" || s.Breakers[0].Model != "m" {
		t.Fatalf("%+v %+v", s.Breaker, s.Breakers)
	}
	h.passTime(100 * time.Second)
	probe := h.take("r4", asks("m", "a"))
	if !probe.Probe {
		t.Fatalf("%+v", probe)
	}
	h.refused("r5", asks("m", "a"), CircuitOpen) // one at a time
	h.Release(probe, nil)                        // cancelled: uncounted
	for range 2 {
		h.Release(h.take("r6", asks("m", "a")), &Outcome{Result: breaker.Success})
	}
	if l := h.take("r7", asks("m", "a")); l.Probe {
		t.Fatalf("%+v", l)
	}
	if got := h.recorded(); got != "upstream/u Opened, upstream/u HalfOpened, upstream/u Closed" {
		t.Fatal(got)
	}
}

func TestWhatIsOfTheWholeUpstreamOpensItsOwnBreaker(t *testing.T) {
	h := openHouse(t, split())
	for _, model := range []string{"m", "n", "o"} { // none of these has three failures
		h.Release(h.take("x", asks(model, "a")), bad("network"))
	}
	h.refused("r", asks("p", "b"), CircuitOpen)
}

func TestWhoWaitsForAnAccountWhoseOwnBreakerOpensIsEvicted(t *testing.T) {
	l := split()
	l.Accounts[0].Slots, l.Accounts[1].Slots = count(1), count(1)
	h := openHouse(t, l)
	la, _ := h.take("x", asks("m", "a")), h.take("y", asks("m", "b"))
	only, both := h.wait("r1", asks("m", "a")), h.wait("r2", asks("m", "a", "b"))
	only.queued()
	both.queued()
	h.fail(la, 3)
	if no := only.ends(Evicted); no.Until.IsZero() {
		t.Fatalf("%+v", no)
	}
	h.holds("u", 2, 1)
	must(h.Switch("u", Switch{}))
	h.Release(la, nil)
	if got := both.served(); got.Account != "a" {
		t.Fatalf("%+v", got)
	}
}

func TestABlockOfOneModelLeavesTheOthersAlone(t *testing.T) {
	h := openHouse(t, one(-1, 0))
	l := h.take("x", asks("m", "a"))
	h.Release(l, &Outcome{Block: &Block{Model: "m", Ask: account.Ask{Until: h.now().Add(time.Minute), Reason: "http_429", Source: "retry-after"}}})
	if no := h.refused("r1", asks("m", "a"), NoAccount); !no.Until.Equal(h.now().Add(time.Minute)) {
		t.Fatalf("%+v", no)
	}
	h.take("r2", asks("n", "a"))
	if s := h.status("u").Accounts[0]; s.State != "ready" || len(s.Models) != 1 || s.Models[0].Model != "m" || s.Models[0].State != "blocked" {
		t.Fatalf("%+v", s)
	}
	h.passTime(time.Minute)
	h.take("r3", asks("m", "a"))
}

func TestAfterAQuotaOnlySingleCallsAreMadeUntilOneServes(t *testing.T) { // pain 50
	h := openHouse(t, one(-1, 0))
	h.Release(h.take("x", onU), &Outcome{Block: &Block{Ask: account.Ask{
		Until: h.now().Add(time.Minute), Resets: h.now().Add(time.Hour), Probe: true, Reason: "quota", Source: "retry-after",
	}}})
	h.passTime(time.Minute)
	probe := h.take("r1", onU)
	h.refused("r2", onU, NoAccount)
	if s := h.status("u").Accounts[0]; s.State != "probing" {
		t.Fatalf("%+v", s)
	}
	h.Release(probe, nil) // gone without an outcome: its place is free
	probe = h.take("r3", onU)
	h.Report(probe, Outcome{Result: breaker.Success})
	h.take("r4", onU)
	h.take("r5", onU)
	h.Release(probe, nil)
	if got := h.recorded(); got != "account/a Blocked, account/a Unblocked" {
		t.Fatal(got)
	}
}

func TestAsALastResortAnAccountServesUnlessTheOperatorBlockedIt(t *testing.T) { // E19
	h := openHouse(t, one(-1, 0))
	h.Release(h.take("x", onU), &Outcome{Block: &Block{Ask: account.Ask{Until: h.now().Add(time.Minute), Reason: "http_429"}}})
	h.refused("r1", onU, NoAccount)
	last := onU
	last.LastResort = true
	h.Release(h.take("r2", last), nil)
	until := h.now().Add(time.Hour)
	must(h.BlockAccount("a", &until))
	h.refused("r3", last, NoAccount)
}

// A waiter whose accounts all refuse is asked for again only when something has changed: else its upstream would serve it in
// a circle for ever.
func TestAWaiterThatIsRefusedWaitsForANews(t *testing.T) {
	last := Candidate{Upstream: "u", Accounts: []string{"a"}, Model: "m", LastResort: true}
	for _, c := range []struct {
		says string
		news func(h *house, blockedFor time.Duration)
	}{
		{"the operator lifts the block", func(h *house, _ time.Duration) { must(h.BlockAccount("a", nil)) }},
		{"the block ends", func(h *house, blockedFor time.Duration) {
			h.passTime(blockedFor)
			h.send(h.dir.Load().upstreams["u"].pid, &wakeUpstream{})
		}},
	} {
		t.Run(c.says, func(t *testing.T) {
			h := openHouse(t, Layout{})
			var asks atomic.Int64
			h.hooks.before = func(_ string, m any) {
				if _, ask := m.(*tryLease); ask {
					asks.Add(1)
				}
			}
			l := one(1, -1)
			l.Accounts = append(l.Accounts, acc("b", "u", -1)) // could serve others
			h.Reconfigure(l)
			x := h.take("x", onU)
			w := h.wait("r", last)
			w.queued()
			until := h.now().Add(30 * time.Second)
			must(h.BlockAccount("a", &until))
			h.Release(x, nil)
			h.holds("u", 0, 1)
			for range 100 { // each is a message more that could lead to another round
				h.status("u")
			}
			if n := asks.Load(); n != 2 {
				t.Fatalf("the account was asked %d times, not once by each", n)
			}
			c.news(h, 30*time.Second)
			if l := w.served(); l.Account != "a" {
				t.Fatalf("%+v", l)
			}
		})
	}
}

// Whatever an account refuses with, and whenever the block that it tells of ends, it is not asked again by the same grant.
func TestARefusalShutsTheAccountForTheGrant(t *testing.T) {
	h := openHouse(t, one(1, -1))
	now := h.now()
	for _, v := range []verdict{verdictFull, verdictBlocked, verdictInactive, verdictFault} {
		for _, last := range []bool{false, true} {
			for _, scope := range []string{"", "m"} {
				for _, until := range []time.Time{{}, now.Add(-time.Second), now, now.Add(time.Second)} {
					u := newUpstreamDesk(h.System, up("u", 1, -1))
					c := &child{spec: acc("a", "u", 1)}
					u.children["a"] = c
					g := &grant{model: "m", accounts: []string{"a"}, last: last, verdict: v, scope: scope, until: until}
					c.refused(g, now)
					if u.usable(g, now) && !g.faulted { // a faulted grant is refused
						t.Errorf("verdict %d, last resort %v, model %q, until %v: may be asked again", v, last, scope, until.Sub(now))
					}
				}
			}
		}
	}
}

// An ordinary block of all accounts does not hold up a last resort that waits for a slot.
func TestALastResortThatWaitsIsServedInSpiteOfABlock(t *testing.T) { // E19
	h := openHouse(t, one(2, -1))
	x := h.take("x", onU)
	h.Report(x, Outcome{Block: &Block{Ask: account.Ask{Until: h.now().Add(time.Minute), Reason: "http_429"}}})
	h.refused("y", onU, NoAccount)
	last := onU
	last.LastResort = true
	h.take("z", last)
	w := h.wait("r", last)
	w.queued()
	h.Release(x, nil)
	w.served()
}

func TestSwitchingABreakerThatIsNotThereIsRefused(t *testing.T) {
	h := openHouse(t, one(-1, 0))
	if err := h.Switch("u", Switch{Open: true, Of: breaker.Key{Account: "a", Model: "m"}}); err == nil {
		t.Fatal("there are no such breakers")
	}
	if err := h.Switch("u", Switch{Open: true, Until: h.now()}); err == nil {
		t.Fatal("that is over")
	}
	must(h.Switch("u", Switch{Open: true, Until: h.now().Add(time.Hour)}))
	if no := h.refused("r", onU, CircuitOpen); !no.Until.Equal(h.now().Add(time.Hour)) {
		t.Fatalf("%+v", no)
	}
}

// Breakers of accounts and models that are taken away and set up again know nothing of the probes of the earlier ones.
func TestProbesOfBreakersThatWereTakenAwayAreNotThoseOfTheNewOnes(t *testing.T) {
	per, whole := one(-1, 0), one(-1, 0)
	per.Upstreams[0].Breaker.Per = catalog.BreakerPerAccountModel
	ask := onU
	ask.Model = "m"
	for _, outcome := range []*Outcome{nil, {Result: breaker.Success}, {Result: breaker.Failure, Class: "http_429", Model: "m"}} {
		h := openHouse(t, per)
		probe := func(name string) Lease {
			must(h.Switch("u", Switch{Open: true, Of: breaker.Key{Account: "a", Model: "m"}}))
			h.passTime(200 * time.Second)
			l := h.take(name, ask)
			if !l.Probe {
				t.Fatalf("%+v", l)
			}
			return l
		}
		first := probe("r1")
		h.Reconfigure(whole)
		h.Reconfigure(per)
		second := probe("r2")
		h.Release(first, outcome)
		h.refused("r3", ask, CircuitOpen)
		if b := h.status("u").Breakers[0]; b.State != breaker.StateHalfOpen || !b.Probing {
			t.Fatalf("%+v", b)
		}
		h.Release(second, nil)
		h.take("r4", ask)
	}
}
