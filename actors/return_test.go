package actors

import (
	"testing"

	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/catalog"
)

// What is removed from the catalogue while its slots are taken and comes back has them still taken: a limit is exact,
// whatever an operator does meanwhile.

func TestAnUpstreamThatComesBackStillHasTheCallsOfItsEarlierLife(t *testing.T) {
	for says, rounds := range map[string]int{"removed once": 1, "removed and added again many times": 5} {
		t.Run(says, func(t *testing.T) {
			h := openHouse(t, one(2, -1))
			x, y := h.take("x", onU), h.take("y", onU)
			for range rounds {
				h.Reconfigure(Layout{})
				h.refused("r0", onU, UnknownUpstream)
				if _, ok := h.Board().Figures("u"); ok {
					t.Fatal("it is still on the board")
				}
				h.Reconfigure(one(2, -1))
			}
			h.holds("u", 2, 0)
			h.refused("r1", onU, ConcurrencyFull)
			w := h.wait("r2", onU)
			w.queued()
			h.Release(x, nil)
			h.Release(w.served(), nil)
			h.holds("u", 1, 0)
			h.Reconfigure(Layout{})
			h.Release(y, nil) // while it is away
			h.Reconfigure(one(2, -1))
			h.holds("u", 0, 0)
		})
	}
}

func TestAnAccountThatComesBackStillHasTheCallsOfItsEarlierLife(t *testing.T) {
	with := Layout{
		Upstreams: []catalog.Upstream{up("u", -1, -1), up("v", -1, -1)},
		Accounts:  []catalog.Account{acc("a", "u", 1), acc("b", "v", -1)},
	}
	without, moved := with, with
	without.Accounts = with.Accounts[1:]
	moved.Accounts = []catalog.Account{acc("a", "v", 1), acc("b", "v", -1)}
	atV := Candidate{Upstream: "v", Accounts: []string{"a"}}
	for says, c := range map[string]struct {
		over  []Layout
		again Candidate
	}{
		"it was removed":                          {[]Layout{without, with}, onU},
		"it was removed with its upstream":        {[]Layout{{}, with}, onU},
		"it has moved to another upstream":        {[]Layout{moved}, atV},
		"it has moved, and back":                  {[]Layout{moved, with}, onU},
		"it was removed and came back at another": {[]Layout{without, moved}, atV},
		"all was removed, and it is at another":   {[]Layout{{}, moved}, atV},
	} {
		t.Run(says, func(t *testing.T) {
			h := openHouse(t, with)
			x := h.take("x", onU)
			for _, l := range c.over {
				h.Reconfigure(l)
			}
			h.refused("r1", c.again, ConcurrencyFull)
			w := h.wait("r2", c.again)
			w.queued()
			if f, _ := h.Board().AccountFigures("a"); f.Held != 1 || f.Upstream != c.again.Upstream {
				t.Fatalf("%+v", f)
			}
			h.Release(x, nil)
			y := w.served()
			h.Release(x, nil) // once more: must not free another one's slot
			h.refused("r3", c.again, ConcurrencyFull)
			h.Release(y, nil)
			h.take("z", c.again)
		})
	}
}

func TestAKeyThatComesBackStillHasTheRequestsOfItsEarlierLife(t *testing.T) {
	owned := func(user string, slots int) Layout {
		l := Layout{Users: []catalog.User{{ID: "u"}, {ID: "v"}}, Keys: []catalog.Key{{ID: "k", User: user, Slots: count(slots)}, {ID: "other", User: "u"}}}
		return l
	}
	without := owned("u", 1)
	without.Keys = without.Keys[1:]
	nobodys := Layout{Keys: []catalog.Key{{ID: "k", Slots: count(1)}}}
	for says, over := range map[string][]Layout{
		"it was removed":                        {without, owned("u", 1)},
		"it was removed with its user":          {{}, owned("u", 1)},
		"it has moved to another user":          {owned("v", 1)},
		"it has moved, and back":                {owned("v", 1), owned("u", 1)},
		"it has moved over nobody":              {nobodys, owned("v", 1)},
		"its user is gone":                      {nobodys},
		"it was removed, and is another user's": {without, owned("v", 1)},
		"all was removed, and it is another's":  {{}, owned("v", 1)},
		"all was removed, and it is nobody's":   {{}, nobodys},
		"all was removed twice":                 {{}, owned("u", 1), {}, owned("u", 1)},
	} {
		t.Run(says, func(t *testing.T) {
			h := openHouse(t, owned("u", 2))
			x, y := h.enter(t, "x", "k").ends(""), h.enter(t, "y", "k").ends("")
			for _, l := range over {
				h.Reconfigure(l)
			}
			e := h.enter(t, "r1", "k").waits()
			h.Leave(x)
			if n := h.waitingFor(t, "k"); n != 1 {
				t.Fatalf("%d wait for the one slot, which y has", n)
			}
			h.Leave(y)
			z := e.ends("")
			h.Leave(x)
			h.Leave(y) // once more: must not free another one's slot
			last := h.enter(t, "r2", "k").waits()
			h.Leave(z)
			h.Leave(last.ends(""))
		})
	}
}

// A grant is no more once its account was removed, also when that is back before it has answered.
func TestAnAccountThatComesBackGrantsNothingOfItsEarlierLife(t *testing.T) {
	h := openHouse(t, Layout{})
	with, without := one(-1, 0), one(-1, 0)
	with.Accounts[0].Slots, without.Accounts = count(1), nil
	armed := false // only read and written in the account's actor, and before it is asked
	over := make(chan struct{})
	h.hooks.before = func(owner string, m any) {
		if _, ask := m.(*tryLease); owner == "a" && ask && armed {
			armed = false
			u := h.dir.Load().upstreams["u"]
			old := h.dir.Load().accounts["a"]
			again := seated{&accountRef{ref: old.ref, id: "a", figures: &accountFigures{upstream: "u"}}, with.Accounts[0]}
			for _, seats := range [][]seated{nil, {again}} {
				h.send(u.pid, &reconfigureUpstream{spec: with.Upstreams[0], accounts: seats, figures: u.figures, reply: make(chan bool, 1)})
			}
			close(over)
		}
	}
	h.Reconfigure(with)
	armed = true
	h.refused("r", onU, ConcurrencyFull)
	<-over
	h.holds("u", 0, 0)
	h.take("x", onU)
	h.refused("y", onU, ConcurrencyFull)
}

// waitingFor is how many wait for slots of a key or its user, once what was told before is done.
func (h *house) waitingFor(t *testing.T, key string) (n int) {
	t.Helper()
	for range 2 { // what the first one has told another
		if err := within(h.System, h.dir.Load().keys[key].ref, func(d *callerDesk) { n = d.gate.Waiting() }); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func TestAUserThatComesBackStillHasTheRequestsOfItsEarlierLife(t *testing.T) {
	h := openHouse(t, family())
	p1, p2 := h.enter(t, "r1", "k1").ends(""), h.enter(t, "r2", "k2").ends("")
	h.Reconfigure(Layout{})
	h.enter(t, "r3", "k1").ends(UnknownCaller)
	h.Reconfigure(family())
	e := h.enter(t, "r4", "k2").waits()
	h.Leave(p1)
	h.Leave(e.ends(""))
	h.Leave(p2)
}

// What a call of an earlier life tells is no news of the present one.
func TestOutcomesOfAnEarlierLifeAreNotBelieved(t *testing.T) {
	h := openHouse(t, one(5, 0))
	x := h.take("x", onU)
	h.fail(x, 3)
	if st := h.status("u"); st.Breaker.State != breaker.StateOpen {
		t.Fatalf("%+v", st.Breaker)
	}
	h.Reconfigure(Layout{})
	h.fail(x, 3)
	h.Reconfigure(one(5, 0))
	h.fail(x, 3)
	st := h.status("u")
	if st.Breaker.State != breaker.StateClosed || st.Breaker.Failures != 0 || len(st.Breaker.History) != 0 || st.Health.Failing != 0 {
		t.Fatalf("%+v %+v", st.Breaker, st.Health)
	}
	y := h.take("y", onU)
	h.fail(y, 2)
	h.Release(x, &Outcome{Result: breaker.Success})
	if st := h.status("u"); st.Breaker.Failures != 2 {
		t.Fatalf("%+v", st.Breaker)
	}
	h.Release(y, nil)
	h.holds("u", 0, 0)
}
