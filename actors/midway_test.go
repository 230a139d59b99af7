package actors

import (
	"fmt"
	"testing"

	"github.com/penstock/penstock/domain/catalog"
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
		{"the upstream is switched off", func(*house) any {
			return &reconfigureUpstream{spec: off, accounts: []catalog.Account{acc("a", "u", 1)}, reply: make(chan []*accountRef, 1)}
		}, UnknownUpstream, Evicted, 0},
		{"its slots are taken away: nobody is thrown out", func(*house) any {
			return &reconfigureUpstream{spec: up("u", 0, -1), accounts: []catalog.Account{acc("a", "u", 1)}, reply: make(chan []*accountRef, 1)}
		}, "", "", 1},
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
