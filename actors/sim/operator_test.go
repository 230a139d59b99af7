package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/catalog"
)

// operate is the operator's hand on breakers and blocks. It is in force when the command returns.
func (w *world) operate() {
	d := w.dice
	switch u, a := w.ups[d.IntN(len(w.ups))], w.accs[d.IntN(len(w.accs))]; d.IntN(4) {
	case 0, 1:
		action := []string{"open", "close"}[d.IntN(2)]
		w.trace("operator: %s %s", action, u.ID)
		w.law.forced(u.ID)
		if err := w.node.system.Breaker(u.ID, action); err != nil {
			w.law.fault("breaker %s %s: %v", u.ID, action, err)
		}
		w.law.obeyed(u.ID, action)
	case 2:
		until := time.Now().Add(time.Duration(1 + d.Int64N(int64(3*time.Second))))
		w.trace("operator: block %s", a.ID)
		if err := w.node.system.BlockAccount(a.ID, &until); err != nil {
			w.law.fault("block %s: %v", a.ID, err)
		}
	case 3:
		w.trace("operator: unblock %s", a.ID)
		if err := w.node.system.BlockAccount(a.ID, nil); err != nil {
			w.law.fault("unblock %s: %v", a.ID, err)
		}
	}
}

// again removes something from the catalogue and adds it again, as who mends a file does: an upstream with its accounts, an
// account, or a key. Calls that are running still have its slots.
func (w *world) again() {
	d := w.dice
	var all []catalog.Resource
	var kinds []catalog.Kind
	switch d.IntN(3) {
	case 0:
		u := w.ups[d.IntN(len(w.ups))]
		all, kinds = append(all, u), append(kinds, catalog.KindUpstream)
		for _, a := range w.accs {
			if a.Upstream == u.ID {
				all, kinds = append(all, a), append(kinds, catalog.KindAccount)
			}
		}
	case 1:
		all, kinds = append(all, w.accs[d.IntN(len(w.accs))]), append(kinds, catalog.KindAccount)
	case 2:
		all, kinds = append(all, w.keys[d.IntN(len(w.keys))]), append(kinds, catalog.KindKey)
	}
	w.trace("configured: %s %s is removed and added again", kinds[0], all[0].Ident())
	w.law.configured()
	for i := len(all) - 1; i >= 0; i-- {
		w.decide(catalog.Remove{Kind: kinds[i], ID: all[i].Ident()})
	}
	w.law.returns(all)
	w.enforce()
	for _, r := range all {
		w.decide(catalog.Apply{Resource: r})
	}
	w.enforce()
}

// recall takes the slot of a call that is under way back by hand.
func (w *world) recall() {
	var calls []*call
	for _, c := range w.clients {
		if n := len(c.calls); n > 0 && c.node == w.node && !c.over.Load() && !c.calls[n-1].closed {
			calls = append(calls, c.calls[n-1])
		}
	}
	if len(calls) == 0 {
		return
	}
	k := calls[w.dice.IntN(len(calls))]
	at, cancel := context.WithCancel(background)
	cancel() // the slot is free when the call has ended, for which nobody waits here
	_, err := w.node.system.Free(at, k.upstream, k.c.id, 0, "recalled")
	w.trace("operator: recalls the slot of %s at %s: %v", k.c.id, k.upstream, err)
	if err == nil {
		k.c.recalled, k.c.recalledAt = k.n, w.since()
	}
}

// take has the driver itself hold slots, as many as are free, so that the clients wait at several upstreams at once.
func (w *world) take() {
	for _, u := range w.ups {
		for range min(limit(u.Slots), 5) {
			w.taken++
			want := actors.Want{ID: actors.LeaseID{Request: fmt.Sprint("x", w.taken), Attempt: 1}, Key: w.keys[0].ID}
			l, no := w.node.system.Try(want, actors.Candidate{Upstream: u.ID, Accounts: w.accounts(u.ID), Model: "m"})
			if no != nil {
				break
			}
			w.held = append(w.held, l)
		}
	}
	w.trace("the driver holds %d slots", len(w.held))
}

// letGo frees slots that the driver holds, of several upstreams in one instant; each twice.
func (w *world) letGo(n int) {
	if w.polls { // the next look is at the same instant: nobody ages between the two
		w.law.look()
	}
	w.dice.Shuffle(len(w.held), func(i, j int) { w.held[i], w.held[j] = w.held[j], w.held[i] })
	n = min(n, len(w.held))
	w.trace("the driver lets %d slots go", n)
	for range 2 {
		for _, l := range w.held[:n] {
			w.node.system.Release(l, nil)
			if w.polls { // whoever answers a look goes on later: several upstreams are then asking their accounts at once
				w.node.system.Status(l.Upstream)
			}
		}
	}
	w.held = w.held[n:]
}

func (w *world) accounts(upstream string) (ids []string) {
	for _, a := range w.accs {
		if a.Upstream == upstream {
			ids = append(ids, a.ID)
		}
	}
	return ids
}

// echo says once more what was said of leases that are over. It changes nothing.
func (w *world) echo() {
	for _, c := range w.clients {
		if c.node != w.node || !c.over.Load() {
			continue
		}
		for _, k := range c.calls {
			id := actors.LeaseID{Request: c.id, Attempt: k.n}
			l := actors.Lease{ID: id, Upstream: k.upstream, Account: k.account}
			w.node.system.Report(l, actors.Outcome{Result: breaker.Failure, Class: "echo"})
			w.node.system.Release(l, &actors.Outcome{Result: breaker.Failure, Class: "echo"})
			w.node.system.Cancel(id, k.upstream)
		}
	}
	w.passTwice()
}

// passTwice gives a caller's slots back twice. The second time changes nothing.
func (w *world) passTwice() {
	gone := make(chan struct{})
	close(gone)
	for _, k := range w.keys {
		want := actors.Want{ID: actors.LeaseID{Request: "twice-" + k.ID}, Key: k.ID}
		if p, no := w.node.system.Admit("", k.ID, want, func() <-chan struct{} { return gone }); no == nil {
			w.node.system.Leave(p)
			w.node.system.Leave(p)
		}
	}
}
