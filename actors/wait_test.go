package actors

import (
	"fmt"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/catalog"
)

// pair is two upstreams u and v with one slot and a queue each, and one account each.
func pair() Layout {
	return Layout{
		Upstreams: []catalog.Upstream{up("u", 1, -1), up("v", 1, -1)},
		Accounts:  []catalog.Account{acc("a", "u", -1), acc("b", "v", -1)},
	}
}

var onV = Candidate{Upstream: "v", Accounts: []string{"b"}}

func TestWaitEndsAtOnceWhenThereIsNothingToWaitFor(t *testing.T) {
	layout := Layout{
		Upstreams: []catalog.Upstream{
			up("noqueue", 0, 0), up("full", 0, 1), up("full2", 0, 1), up("open", 0, -1), up("blocked", 5, -1), up("dead", 5, -1), up("free", 5, -1),
		},
	}
	for _, u := range layout.Upstreams {
		layout.Accounts = append(layout.Accounts, acc("a-"+u.ID, u.ID, -1))
	}
	layout.Accounts[5].Active = false
	for _, c := range []struct {
		says   string
		at     []string
		reason Reason
		about  string
	}{
		{"no candidate has a queue (A51)", []string{"noqueue"}, ConcurrencyFull, "noqueue"},
		{"the queue is full (A53)", []string{"full"}, QueueFull, "full"},
		{"every queue is full (A53)", []string{"full", "full2"}, QueueFull, "full"},
		{"the only queue is full", []string{"noqueue", "full"}, QueueFull, "full"},
		{"the breaker is open", []string{"open"}, CircuitOpen, "open"},
		{"one open, one without a queue", []string{"open", "noqueue"}, ConcurrencyFull, "noqueue"},
		{"accounts are blocked for longer than the queue waits (pain 43)", []string{"blocked"}, NoAccount, "blocked"},
		{"accounts are inactive", []string{"dead"}, NoAccount, "dead"},
		{"unknown upstreams", []string{"nobody"}, UnknownUpstream, "nobody"},
		{"unknown and open", []string{"nobody", "open"}, CircuitOpen, "open"},
		{"no candidate at all", nil, UnknownUpstream, ""},
		{"one has a free slot: no wait", []string{"full", "open", "free"}, "", "free"},
	} {
		t.Run(c.says, func(t *testing.T) {
			h := openHouse(t, layout)
			must(h.Breaker("open", "open"))
			until := h.now().Add(2 * time.Minute)
			must(h.BlockAccount("a-blocked", &until))
			for _, id := range []string{"full", "full2"} {
				h.wait("before", Candidate{Upstream: id, Accounts: []string{"a-" + id}}).queued()
			}
			var cs []Candidate
			for _, id := range c.at {
				cs = append(cs, Candidate{Upstream: id, Accounts: []string{"a-" + id}})
			}
			w := h.wait("r", cs...)
			no := w.ends(c.reason)
			if c.reason == "" {
				if no.Upstream = w.lease.Upstream; w.lease.Ticket != 0 {
					t.Fatalf("%+v", w.lease)
				}
				h.Release(w.lease, nil)
			}
			if no.Upstream != c.about {
				t.Fatalf("it is about %q, want %q", no.Upstream, c.about)
			}
			if c.reason == NoAccount && c.about == "blocked" && !no.Until.Equal(until) {
				t.Fatalf("until %v", no.Until)
			}
			select {
			case p := <-w.place:
				t.Fatalf("it was told to be queued at %+v", p)
			default:
			}
		})
	}
}

func TestAFreedSlotIsHandedToTheWaiter(t *testing.T) { // A56, A57, A58, A62
	h := openHouse(t, one(1, -1))
	l := h.take("r1", onU)
	w := h.wait("r2", onU)
	p := w.queued()
	if p.Position != 1 || p.Ticket != 1 || len(p.Upstreams) != 1 || p.Upstreams[0] != "u" || !p.Deadline.Equal(h.now().Add(time.Minute)) {
		t.Fatalf("%+v", p)
	}
	if p := h.wait("r3", onU).queued(); p.Position != 2 || p.Ticket != 2 {
		t.Fatalf("%+v", p)
	}
	h.passTime(3 * time.Second)
	h.Release(l, nil)
	got := w.served()
	if got.Ticket != 1 || got.Waited != 3*time.Second || got.Account != "a" {
		t.Fatalf("%+v", got)
	}
	h.holds("u", 1, 1)
	if st := h.status("u"); st.Totals != (TotalsStatus{Queued: 2, Granted: 2}) || st.Waiting[0].Position != 1 {
		t.Fatalf("%+v", st)
	}
}

func TestANewcomerDoesNotOvertake(t *testing.T) {
	h := openHouse(t, one(1, -1))
	for i := range 500 {
		l := h.take(fmt.Sprint("a", i), onU)
		w := h.wait(fmt.Sprint("b", i), onU)
		w.queued()
		h.Release(l, nil)
		h.refused(fmt.Sprint("c", i), onU, ConcurrencyFull) // behind the release, before the hand-over ends
		h.Release(w.served(), nil)
	}
}

func TestAWaiterAtTwoUpstreamsIsServedOnceByWhicheverFreesFirst(t *testing.T) { // pain 41
	for _, first := range []string{"u", "v"} {
		h := openHouse(t, pair())
		held := map[string]Lease{"u": h.take("x", onU), "v": h.take("y", onV)}
		w := h.wait("r", onU, onV)
		if p := w.queued(); fmt.Sprint(p.Upstreams) != "[u v]" {
			t.Fatalf("%+v", p)
		}
		h.Release(held[first], nil)
		if l := w.served(); l.Upstream != first {
			t.Fatalf("served by %s, want %s", l.Upstream, first)
		}
		h.holds("u", 1, 0)
		h.holds("v", 1, 0)
		h.Release(held["u"], nil)
		h.Release(held["v"], nil)
		h.Release(w.lease, nil)
		h.holds("u", 0, 0)
		h.holds("v", 0, 0)
	}
}

func TestACandidateNamedTwiceIsJoinedOnce(t *testing.T) {
	h := openHouse(t, one(0, -1))
	if p := h.wait("r", onU, onU).queued(); len(p.Upstreams) != 1 {
		t.Fatalf("%+v", p)
	}
	h.holds("u", 0, 1)
	h.wait("r", onU).ends(LocalFault) // the same attempt cannot wait twice
	h.holds("u", 0, 1)
}

func TestEachQueueHasItsOwnTimeoutAndTheLastOneEndsTheWait(t *testing.T) { // A52, A59
	l := pair()
	l.Upstreams[0].Queue.Timeout = catalog.Duration(5 * time.Millisecond)
	l.Upstreams[1].Queue.Timeout = catalog.Duration(60 * time.Millisecond)
	h := openHouse(t, l)
	h.take("x", onU)
	y := h.take("y", onV)
	timedOut := func(id string, n uint64) {
		for h.status(id).Totals.TimedOut != n {
			time.Sleep(time.Millisecond) // polling: the alarm is real, the clock is the house's
		}
	}
	w := h.wait("r", onU, onV)
	if p := w.queued(); !p.Deadline.Equal(h.now().Add(60 * time.Millisecond)) {
		t.Fatalf("the deadline is the latest, got %v", p.Deadline.Sub(h.now()))
	}
	h.passTime(59 * time.Millisecond)
	timedOut("u", 1)
	h.holds("v", 1, 1)
	h.passTime(time.Millisecond)
	if no := w.ends(TimedOut); no.Upstream != "v" || no.Position != 1 {
		t.Fatalf("ended with %+v", no)
	}
	for _, id := range []string{"u", "v"} {
		h.holds(id, 1, 0)
		if st := h.status(id); st.Totals != (TotalsStatus{Queued: 1, Granted: 1, TimedOut: 1}) {
			t.Fatalf("%s: %+v", id, st.Totals)
		}
	}
	// A queue that was left early does not serve; the other one still does.
	l.Upstreams[1].Queue.Timeout = catalog.Duration(time.Minute)
	h.Reconfigure(l)
	w = h.wait("r2", onU, onV)
	w.queued()
	h.passTime(5 * time.Millisecond)
	timedOut("u", 2)
	h.Release(y, nil)
	if l := w.served(); l.Upstream != "v" {
		t.Fatalf("%+v", l)
	}
}

func TestAClientThatGoesAwayLeavesTheQueue(t *testing.T) { // A54, A59, A64
	h := openHouse(t, pair())
	x, y := h.take("x", onU), h.take("y", onV)
	w := h.wait("r", onU, onV)
	w.queued()
	close(w.gone)
	w.ends(Aborted)
	for _, id := range []string{"u", "v"} {
		h.holds(id, 1, 0)
		if st := h.status(id); st.Totals.Aborted != 1 || st.Totals.TimedOut != 0 {
			t.Fatalf("%+v", st.Totals)
		}
	}
	h.Release(x, nil)
	h.Release(y, nil)
	h.holds("u", 0, 0)
	h.holds("v", 0, 0)
}

func TestCancelMakesSureThatNothingIsHeldOrQueued(t *testing.T) { // A60
	h := openHouse(t, one(1, -1))
	l := h.take("r1", onU)
	w := h.wait("r2", onU)
	w.queued()
	h.Cancel(req("r2").ID, "u")
	h.Cancel(req("r2").ID, "u")
	w.ends(Aborted)
	h.holds("u", 1, 0)
	h.Cancel(l.ID, "u")
	h.Cancel(l.ID, "u")
	h.Cancel(l.ID, "nobody")
	h.holds("u", 0, 0)
	if st := h.status("u"); st.Totals != (TotalsStatus{Queued: 1, Granted: 1, Aborted: 1}) {
		t.Fatalf("%+v", st.Totals)
	}
}

func TestAWaiterIsServedWhenAnAccountFreesUp(t *testing.T) { // pain 41
	layout := Layout{Upstreams: []catalog.Upstream{up("u", -1, -1)}, Accounts: []catalog.Account{acc("a", "u", 1), acc("b", "u", 1)}}
	ab := Candidate{Upstream: "u", Accounts: []string{"a", "b"}}
	minute := testStart.Add(30 * time.Second)
	for _, c := range []struct {
		says    string
		before  func(*house) Lease
		event   func(*house, Lease)
		account string
	}{
		{"another lease of the account ends", func(h *house) Lease { l := h.take("x", onU); h.take("y", ab); return l },
			func(h *house, l Lease) { h.Release(l, nil) }, "a"},
		{"the operator unblocks it", func(h *house) Lease {
			must(h.BlockAccount("a", &minute))
			must(h.BlockAccount("b", &minute))
			return Lease{}
		}, func(h *house, _ Lease) { must(h.BlockAccount("b", nil)) }, "b"},
		{"it gets more slots", func(h *house) Lease { h.take("x", onU); h.take("y", ab); return Lease{} },
			func(h *house, _ Lease) {
				l := layout
				l.Accounts = []catalog.Account{acc("a", "u", 1), acc("b", "u", 2)}
				h.Reconfigure(l)
			}, "b"},
	} {
		t.Run(c.says, func(t *testing.T) {
			h := openHouse(t, layout)
			l := c.before(h)
			w := h.wait("r", ab)
			w.queued()
			c.event(h, l)
			if got := w.served(); got.Account != c.account {
				t.Fatalf("%+v", got)
			}
		})
	}
}

func TestAWaiterForAnotherAccountIsNotHeldUpByTheFirst(t *testing.T) { // pain 41
	h := openHouse(t, Layout{Upstreams: []catalog.Upstream{up("u", 2, -1)}, Accounts: []catalog.Account{acc("a", "u", 1), acc("b", "u", 1)}})
	onB := Candidate{Upstream: "u", Accounts: []string{"b"}}
	x, y := h.take("x", onU), h.take("y", onB)
	first := h.wait("first", onU)
	first.queued()
	second := h.wait("second", onB)
	second.queued()
	h.Release(y, nil)
	if l := second.served(); l.Account != "b" {
		t.Fatalf("%+v", l)
	}
	h.holds("u", 2, 1)
	h.Release(x, nil)
	first.served()
}

func TestABlockThatEndsWakesTheWaiter(t *testing.T) { // pains 43, 49
	h := &house{t: t}
	h.System = NewSystem(Options{}) // the real clock: the alarm is real
	defer h.Stop(t.Context())
	h.Reconfigure(one(1, -1))
	for block, waited := 30*time.Millisecond, false; !waited; block *= 2 { // a machine that stands still finds the block at its end
		until := time.Now().Add(block)
		must(h.BlockAccount("a", &until))
		w := h.wait("r", onU)
		<-w.done
		if waited = len(w.place) > 0; time.Now().Before(until) {
			t.Fatal("served while blocked")
		}
		h.Release(w.served(), nil)
	}
}
