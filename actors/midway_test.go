package actors

import (
	"fmt"
	"testing"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/gate"
)

// TestWhatHappensWhileAnAccountIsAsked puts a message into the upstream's mailbox between TryLease and its answer: the
// pending grant counts as a holder, and it is settled by what is true when the answer comes.
func TestWhatHappensWhileAnAccountIsAsked(t *testing.T) {
	off := up("u", 1, -1)
	off.Active = false
	for _, c := range []struct {
		says    string
		message func(*house) any
		want    Reason // of a Try
		waits   Reason // of a waiter that is being served
		held    int
	}{
		{"the breaker opens (A43)", func(*house) any { return &switchBreaker{open: true, done: make(chan error, 1)} }, CircuitOpen, Evicted, 0},
		{"the attempt is cancelled (A60, A64)", func(*house) any { return &cancelLease{id: req("r").ID} }, Aborted, Aborted, 0},
		{"the upstream is switched off", func(h *house) any {
			return &reconfigureUpstream{spec: off, accounts: h.seat([]catalog.Account{acc("a", "u", 1)}, h.dir.Load()), figures: h.dir.Load().upstreams["u"].figures, reply: make(chan bool, 1)}
		}, UnknownUpstream, Evicted, 0},
		{"its slots are taken away: nobody is thrown out", func(h *house) any {
			return &reconfigureUpstream{spec: up("u", 0, -1), accounts: h.seat([]catalog.Account{acc("a", "u", 1)}, h.dir.Load()), figures: h.dir.Load().upstreams["u"].figures, reply: make(chan bool, 1)}
		}, "", "", 1},
		{"its account is removed", func(h *house) any {
			return &reconfigureUpstream{spec: up("u", 1, -1), figures: h.dir.Load().upstreams["u"].figures, reply: make(chan bool, 1)}
		}, NoAccount, Evicted, 0},
		{"a stranger leaves the queue", func(*house) any { return &leaveQueue{id: req("other").ID} }, "", "", 1},
	} {
		for _, queued := range []bool{false, true} {
			t.Run(fmt.Sprint(c.says, ", queued: ", queued), func(t *testing.T) {
				h := openHouse(t, Layout{})
				armed := false // only read and written in the account's actor, and before it is asked
				h.hooks.before = func(owner string, m any) {
					if _, ask := m.(*tryLease); owner == "a" && ask && armed {
						armed = false
						h.send(h.dir.Load().upstreams["u"].pid, c.message(h))
					}
				}
				h.Reconfigure(Layout{Upstreams: []catalog.Upstream{up("u", 1, -1)}, Accounts: []catalog.Account{acc("a", "u", 1)}})
				if !queued {
					armed = true
					l, no := h.Try(req("r"), onU)
					if got := reasonOf(no); got != c.want {
						t.Fatalf("%+v, %q, want %q", l, got, c.want)
					}
				} else {
					x := h.take("x", onU)
					w := h.wait("r", onU)
					w.queued()
					h.holds("u", 1, 1)
					armed = true
					h.Release(x, nil)
					w.ends(c.waits)
				}
				h.holds("u", c.held, 0)
			})
		}
	}
}

func reasonOf(no *Refusal) Reason {
	if no == nil {
		return ""
	}
	return no.Reason
}

func TestALongQueueIsLeftFromTheMiddleAndServedInOrder(t *testing.T) {
	const n = 3000
	h := openHouse(t, one(1, -1))
	var served []uint64
	h.hooks.granted = func(l Lease) { served = append(served, l.Ticket) }
	l := h.take("x", onU)
	ws := make([]*waiter, n)
	for i := range ws {
		ws[i] = h.wait(fmt.Sprint("r", i), onU)
		if p := ws[i].queued(); p.Position != i+1 {
			t.Fatalf("%+v", p)
		}
	}
	for i := 0; i < n; i += 3 {
		close(ws[i].gone)
		ws[i].ends(Aborted)
	}
	h.holds("u", 1, n-n/3)
	for i := range ws {
		if i%3 != 0 {
			h.Release(l, nil)
			l = ws[i].served()
		}
	}
	h.Release(l, nil)
	h.holds("u", 0, 0)
	for i := 2; i < len(served); i++ {
		if served[i] <= served[i-1] {
			t.Fatalf("ticket %d after %d", served[i], served[i-1])
		}
	}
}

// asked is a Try whose answer may be read later.
func (h *house) asked(name string, c Candidate) *tryUpstream {
	m := &tryUpstream{reply: make(chan struct{}, 1)}
	m.grant.try = m
	m.grant.reset(req(name), c.Accounts, h.now())
	h.send(h.dir.Load().upstreams[c.Upstream].pid, m)
	return m
}

func TestAnAccountThatIsToldToFreeASlotIsNotPassedOver(t *testing.T) {
	h := openHouse(t, Layout{})
	var x Lease
	var next *tryUpstream
	h.hooks.before = func(_ string, m any) {
		if _, ok := m.(*unblockAccount); ok { // the account is busy; what it gets now comes in this order
			h.Release(x, nil)
			next = h.asked("next", onU)
		}
	}
	h.Reconfigure(Layout{Upstreams: []catalog.Upstream{up("u", -1, 0)}, Accounts: []catalog.Account{acc("a", "u", 1)}})
	x = h.take("x", onU)
	h.refused("y", onU, ConcurrencyFull) // its upstream remembers that it is full
	must(h.BlockAccount("a", nil))
	if <-next.reply; next.refusal.Reason != "" {
		t.Fatalf("%+v", next.refusal)
	}
}

func TestANewcomerDoesNotOvertakeWhileAWaiterIsServed(t *testing.T) {
	h := openHouse(t, Layout{})
	var newcomer *tryUpstream
	h.hooks.before = func(_ string, m any) {
		if ask, ok := m.(*tryLease); ok && ask.grant.id == req("r1").ID {
			newcomer = h.asked("newcomer", onU)
		}
	}
	h.Reconfigure(one(0, -1))
	w1 := h.wait("r1", onU)
	w1.queued()
	w2 := h.wait("r2", onU)
	w2.queued()
	h.Reconfigure(one(2, -1))
	w1.served()
	w2.served()
	if <-newcomer.reply; newcomer.refusal.Reason != ConcurrencyFull {
		t.Fatalf("%+v %+v", newcomer.lease, newcomer.refusal)
	}
	h.holds("u", 2, 0)
}

func TestWhoLeftAQueueWhileItWasServedIsServedElsewhere(t *testing.T) {
	h := openHouse(t, Layout{})
	h.hooks.before = func(owner string, m any) {
		if ask, ok := m.(*tryLease); ok && owner == "a" && ask.grant.id == req("r").ID {
			h.leave(h.dir.Load().upstreams["u"], req("r").ID, gate.TimedOut) // its time at u is over
		}
	}
	h.Reconfigure(pair())
	x, y := h.take("x", onU), h.take("y", onV)
	w := h.wait("r", onU, onV)
	w.queued()
	h.Release(x, nil)
	h.holds("u", 0, 0)
	h.Release(y, nil)
	if l := w.served(); l.Upstream != "v" {
		t.Fatalf("%+v", l)
	}
}

func TestAJoinerThatWasServedElsewhereTakesNoPlace(t *testing.T) {
	h := openHouse(t, Layout{Upstreams: []catalog.Upstream{up("u", -1, -1)}, Accounts: []catalog.Account{acc("a", "u", 0)}})
	j := &joinUpstream{party: &party{want: req("r"), said: make(chan said, answersMax)}}
	j.grant.join = j
	j.grant.reset(j.party.want, onU.Accounts, h.now())
	j.party.claim.grant()
	h.send(h.dir.Load().upstreams["u"].pid, j)
	h.holds("u", 0, 0)
	if len(j.party.said) != 0 {
		t.Fatalf("it was told %+v", <-j.party.said)
	}
}

func TestAGrantThatMeetsAClientThatWentAwayIsGivenBack(t *testing.T) { // A60, A64; both are ready at once: it has gone
	h := openHouse(t, Layout{
		Upstreams: []catalog.Upstream{up("u", 1, -1)}, Accounts: []catalog.Account{acc("a", "u", -1)},
		Keys: []catalog.Key{{ID: "k", Slots: count(1)}},
	})
	gone := make(chan struct{})
	close(gone)
	ends := map[Reason]int{}
	for i := range 100 {
		x := h.take(fmt.Sprint("x", i), onU)
		late := make(chan struct{})
		l, no := h.Wait(req(fmt.Sprint("r", i)), []Candidate{onU}, late, func(Place) {
			h.Release(x, nil)
			h.status("u") // the hand-over has ended
			close(late)
		})
		if ends[reasonOf(no)]++; no == nil {
			h.Release(l, nil)
		}
		h.holds("u", 0, 0)

		p, no := h.Admit("key/k", "k", req(fmt.Sprint("p", i)), nil)
		if no != nil {
			t.Fatalf("round %d: the caller's slot was lost: %+v", i, *no)
		}
		q, no := h.Admit("key/k", "k", req(fmt.Sprint("q", i)), func() <-chan struct{} { h.Leave(p); return gone })
		if ends["caller "+reasonOf(no)]++; no == nil {
			h.Leave(q)
		}
	}
	if ends[Aborted] != 100 || ends["caller "+Aborted] != 100 {
		t.Fatal(ends)
	}
}

func TestASlotThatIsFreedWhileItsAccountSaysFullIsNotForgotten(t *testing.T) { // pain 41
	h := openHouse(t, Layout{})
	var x Lease
	h.hooks.before = func(owner string, m any) {
		if ask, ok := m.(*tryLease); ok && owner == "a" && ask.grant.id == req("r").ID {
			h.Release(x, nil) // reaches the upstream before the account's "full" does
		}
	}
	h.Reconfigure(Layout{Upstreams: []catalog.Upstream{up("u", -1, -1)}, Accounts: []catalog.Account{acc("a", "u", 1)}})
	x = h.take("x", onU)
	h.wait("r", onU).served()
	h.holds("u", 1, 0)
}
