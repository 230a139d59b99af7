package actors

import (
	"time"

	"github.com/penstock/penstock/domain/gate"
)

// The steps of a grant, in their order: begin, setAside, askNext, answered, then settle or exhausted.

// begin sets a slot and a permit aside and asks the first account. A refusal with a Reason means that nothing was
// changed. A newcomer never overtakes: while a waiter is being served, and whenever one of them could be, there is no
// slot for it.
func (u *upstreamDesk) begin(g *grant, now time.Time) Refusal {
	if !u.spec.Active {
		return Refusal{Reason: UnknownUpstream, Upstream: u.id}
	}
	if ok, until := u.breaker.Check(now); !ok {
		return Refusal{Reason: CircuitOpen, Upstream: u.id, Until: until}
	}
	if u.serving != nil || !u.gate.Room() {
		return Refusal{Reason: ConcurrencyFull, Upstream: u.id}
	}
	if !u.usable(g, now) {
		reason, until := u.unable(g, now)
		return Refusal{Reason: reason, Upstream: u.id, Until: until}
	}
	if !u.setAside(g, now) {
		return Refusal{Reason: u.duplicate(g.id), Upstream: u.id}
	}
	u.askNext(g, now)
	return Refusal{}
}

// setAside takes the slot and the permit. The caller has looked at the breaker and at the gate; false means that the
// lease holds a slot already.
func (u *upstreamDesk) setAside(g *grant, now time.Time) bool {
	h, err := u.gate.Hold(g.id, g.key, now)
	if err != nil {
		return false
	}
	if g.recall != nil {
		h.Tag = g.recall
	}
	u.pending.add(g)
	u.permit(g, h, now)
	return true
}

// duplicate is why a lease that has a slot already gets no second one. One that is still being given back, after its
// asker left the queue, is gone in a moment; anything else is a fault of the asker.
func (u *upstreamDesk) duplicate(id LeaseID) Reason {
	if g := u.pending.find(id); g != nil && (g.void != "" || g.queued && u.gate.Waiter(id) == nil) {
		return ConcurrencyFull
	}
	return LocalFault
}

// permit takes a permit for a slot that is set aside.
func (u *upstreamDesk) permit(g *grant, h *gate.Holder, now time.Time) bool {
	p, ok, fact := u.breaker.Acquire(now)
	g.permit, h.Generation, h.Probe = p, p.Generation, p.Probe
	if fact != nil {
		u.record(fact, now)
	}
	return ok
}

// askNext asks the next account that may serve; false when there is none left. Asking is the last thing it does.
func (u *upstreamDesk) askNext(g *grant, now time.Time) bool {
	for g.at < len(g.accounts) {
		c := u.children[g.accounts[g.at]]
		g.at++
		if !u.may(c, g, now) {
			continue
		}
		if g.asked = c; !u.acquireOwn(c, g, now) {
			continue
		}
		g.now, g.ask.from = now, u.self
		u.sys.send(c.pid, &g.ask)
		return true
	}
	return false
}

// answered takes an account's answer.
func (u *upstreamDesk) answered(g *grant, now time.Time) {
	c := g.asked
	switch g.verdict {
	case verdictYes:
		if g.void != "" || u.children[c.spec.ID] == c && u.validOwn(c, g, now) {
			u.settle(g, now)
			return
		}
		u.freeAccount(c, g.id) // its own breaker opened meanwhile, or it was removed
	default:
		c.refused(g, now)
	}
	u.cancelOwn(g)
	if g.void == "" && u.askNext(g, now) {
		return
	}
	u.exhausted(g, now)
}

// settle makes a lease of a grant whose account said yes, unless it is not wanted any more. Answering the asker is the
// last thing it does.
func (u *upstreamDesk) settle(g *grant, now time.Time) {
	h := u.gate.Holder(g.id)
	if g.void == "" && !u.breaker.Valid(g.permit) && !u.permit(g, h, now) {
		g.void = CircuitOpen // the breaker opened meanwhile (A43)
	}
	var w *gate.Waiter
	if g.queued {
		w = u.gate.Waiter(g.id) // nil: it has left the queue meanwhile, and was told
	}
	switch {
	case g.void != "", g.queued && w == nil, g.join != nil && !g.win():
		u.giveBack(g)
		switch {
		case !g.queued:
			u.refuse(g, Refusal{Reason: g.void, Upstream: u.id, Until: u.breaker.Until()})
		case g.void == "":
			u.gate.Leave(g.id, gate.Moved)
		case g.void == Recalled && u.gate.Leave(g.id, gate.Moved):
			u.refuse(g, Refusal{Reason: Recalled, Upstream: u.id})
		}
		return
	}
	u.gate.Confirm(g.id, g.asked.spec.ID)
	u.pending.remove(g)
	u.note(g)
	u.used(g.asked, now)
	lease := Lease{ID: g.id, Upstream: u.id, Account: g.asked.spec.ID, Generation: g.permit.Generation, Probe: g.permit.Probe || g.own.Probe}
	if g.queued {
		lease.Ticket, lease.Waited = w.Ticket, now.Sub(w.Since)
		u.serving = nil
		u.gate.Leave(g.id, gate.Served)
	}
	u.sys.granted(lease)
	if g.try != nil {
		g.try.grantIt(lease)
	} else {
		g.join.say(said{kind: saidGranted, lease: lease})
	}
}

// exhausted ends a grant that no account said yes to. A waiter keeps its place, a newcomer may take one.
func (u *upstreamDesk) exhausted(g *grant, now time.Time) {
	u.drop(g)
	reason, until := u.unable(g, now)
	switch {
	case g.void != "":
		reason, until = g.void, time.Time{}
	case g.faulted:
		reason = LocalFault
	case g.queued:
		return
	case g.join != nil:
		u.enqueue(g.join, now)
		return
	}
	if g.queued && !u.gate.Leave(g.id, gate.Moved) {
		return // was told already
	}
	u.refuse(g, Refusal{Reason: reason, Upstream: u.id, Until: until})
}

// giveBack frees all that a grant holds: the account's slot, ours and the permit.
func (u *upstreamDesk) giveBack(g *grant) {
	u.freeAccount(g.asked, g.id)
	u.drop(g)
}

// drop frees what a grant holds here.
func (u *upstreamDesk) drop(g *grant) {
	if !g.pending {
		return
	}
	u.pending.remove(g)
	u.gate.Free(g.id)
	u.gone(g.id)
	u.breaker.Cancel(g.permit)
	u.cancelOwn(g)
	u.endTurn(g)
}

// endTurn lets the next waiter be served, if this one is.
func (u *upstreamDesk) endTurn(g *grant) {
	if u.serving == g {
		u.serving = nil
	}
}

// refuse answers the asker of a grant. A joiner whose claim is taken hears nothing: it has stopped listening.
func (u *upstreamDesk) refuse(g *grant, r Refusal) {
	switch {
	case g.try != nil:
		g.try.refuseWith(r)
	case g.won:
		g.join.say(said{kind: saidLost, refusal: r})
	case g.queued:
		g.join.say(said{kind: saidEvicted, refusal: r})
	case r.Reason != "":
		g.join.say(said{kind: saidRefused, refusal: r})
	}
}

// usable says whether one of the accounts may be asked.
func (u *upstreamDesk) usable(g *grant, now time.Time) bool {
	for _, id := range g.accounts {
		if u.may(u.children[id], g, now) {
			return true
		}
	}
	return false
}

// unable says what stands in the way of all of these accounts: full ones may free up; blocked ones, and those whose own
// breaker is open, at a known time.
func (u *upstreamDesk) unable(g *grant, now time.Time) (Reason, time.Time) {
	reason, until := NoAccount, time.Time{}
	for _, id := range g.accounts {
		c := u.children[id]
		if c == nil || c.inactive {
			continue
		}
		at, out := c.shut(g, now)
		if ok, opens := u.checkOwn(c, g, now); !ok {
			reason = CircuitOpen
			if out = true; opens.After(at) {
				at = opens
			}
		}
		if !out {
			return ConcurrencyFull, time.Time{}
		}
		if !at.IsZero() && (until.IsZero() || at.Before(until)) {
			until = at
		}
	}
	return reason, until
}
