package actors

import (
	"fmt"
	"testing"

	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/catalog"
)

func TestMoreSlotsServeWhoWaits(t *testing.T) {
	h := openHouse(t, one(1, -1))
	h.take("x", onU)
	var ws []*waiter
	for i := range 4 {
		w := h.wait(fmt.Sprint("r", i), onU)
		w.queued()
		ws = append(ws, w)
	}
	h.Reconfigure(one(3, -1))
	ws[0].served()
	ws[1].served()
	h.holds("u", 3, 2)
	h.Reconfigure(one(-1, -1))
	ws[2].served()
	ws[3].served()
	h.holds("u", 5, 0)
}

func TestFewerSlotsThrowNobodyOutAndGrantNothingUntilEnoughAreFree(t *testing.T) {
	h := openHouse(t, one(3, -1))
	ls := []Lease{h.take("r1", onU), h.take("r2", onU), h.take("r3", onU)}
	w := h.wait("w", onU)
	w.queued()
	h.Reconfigure(one(1, -1))
	h.holds("u", 3, 1)
	h.Release(ls[0], nil)
	h.Release(ls[1], nil)
	h.holds("u", 1, 1)
	h.refused("r4", onU, ConcurrencyFull)
	h.Release(ls[2], nil)
	w.served()
	h.holds("u", 1, 0)
}

func TestWhoCannotBeServedAnyMoreIsEvicted(t *testing.T) {
	off := one(1, -1)
	off.Upstreams[0].Active = false
	gone := one(1, -1)
	gone.Accounts = []catalog.Account{acc("b", "u", -1)}
	idle := one(1, -1)
	idle.Accounts[0].Active = false
	for says, l := range map[string]Layout{
		"the upstream is removed":    {},
		"the upstream is not active": off,
		"its account is removed":     gone,
		"its account is not active":  idle,
	} {
		t.Run(says, func(t *testing.T) {
			h := openHouse(t, one(1, -1))
			x := h.take("x", onU)
			w := h.wait("r", onU)
			w.queued()
			h.Reconfigure(l)
			if no := w.ends(Evicted); no.Upstream != "u" {
				t.Fatalf("%+v", no)
			}
			h.Report(x, Outcome{Result: breaker.Success}) // holders finish
			h.Release(x, nil)
			if len(l.Upstreams) > 0 {
				if st := h.status("u"); len(st.Held) != 0 {
					t.Fatalf("%+v", st.Held)
				}
			}
		})
	}
}

func TestARemovedUpstreamIsUnknownAndComesBackEmpty(t *testing.T) {
	h := openHouse(t, one(1, 0))
	h.Release(h.take("x", onU), nil)
	h.Reconfigure(Layout{})
	h.refused("r1", onU, UnknownUpstream)
	if _, ok := h.Board().Figures("u"); ok {
		t.Fatal("it is still on the board")
	}
	if _, ok := h.Board().AccountFigures("a"); ok {
		t.Fatal("its account is still on the board")
	}
	h.Reconfigure(one(1, 0))
	if st := h.status("u"); st.Totals.Granted != 0 {
		t.Fatalf("%+v", st)
	}
	h.Release(h.take("r2", onU), nil)
	h.holds("u", 0, 0)
}

func TestAccountsComeAndGo(t *testing.T) {
	two := Layout{Upstreams: []catalog.Upstream{up("u", -1, -1)}, Accounts: []catalog.Account{acc("a", "u", 1), acc("b", "u", 1)}}
	ab := Candidate{Upstream: "u", Accounts: []string{"a", "b"}}
	onlyA := two
	onlyA.Accounts = two.Accounts[:1]
	h := openHouse(t, onlyA)
	x := h.take("x", ab)
	w := h.wait("w", ab)
	w.queued()
	h.Reconfigure(two)
	if l := w.served(); l.Account != "b" {
		t.Fatalf("%+v", l)
	}
	onlyB := two
	onlyB.Accounts = two.Accounts[1:]
	h.Reconfigure(onlyB)
	h.Release(x, nil) // its account is gone
	h.Release(w.lease, nil)
	if l := h.take("y", ab); l.Account != "b" {
		t.Fatalf("%+v", l)
	}
	h.holds("u", 1, 0)
}

func TestTheSameLayoutAgainChangesNothing(t *testing.T) {
	h := openHouse(t, pair())
	x := h.take("x", onU)
	h.fail(x, 2)
	w := h.wait("r", onU)
	w.queued()
	for range 10 {
		h.Reconfigure(pair())
	}
	st := h.status("u")
	if len(st.Held) != 1 || len(st.Waiting) != 1 || st.Breaker.Failures != 2 {
		t.Fatalf("%+v", st)
	}
	h.Release(x, nil)
	w.served()
}
