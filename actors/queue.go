package actors

import (
	"errors"
	"time"

	"github.com/penstock/penstock/domain/gate"
)

// join serves a newcomer that would wait: at once when it can be, else it gets a place in the queue.
func (u *upstreamDesk) join(j *joinUpstream, now time.Time) {
	id := j.party.want.ID
	if u.gate.Holder(id) != nil || u.gate.Waiter(id) != nil {
		j.refuse(u.duplicate(id))
		return
	}
	r := u.begin(&j.grant, now)
	switch r.Reason {
	case "": // an account is asked; what follows, follows
	case ConcurrencyFull, NoAccount:
		u.enqueue(j, now)
	default:
		j.say(said{kind: saidRefused, refusal: r})
	}
}

// enqueue gives a place in the queue, or says why not. Waiting for accounts that cannot serve before the wait is over
// would be in vain (pain 43).
func (u *upstreamDesk) enqueue(j *joinUpstream, now time.Time) {
	if !j.party.claim.waiting() {
		return
	}
	r := Refusal{Reason: ConcurrencyFull, Upstream: u.id}
	if !u.usable(&j.grant, now) {
		r.Reason, r.Until = u.unable(&j.grant, now)
	}
	q := u.gate.Queue()
	if q == nil || r.Reason == NoAccount && (r.Until.IsZero() || r.Until.After(now.Add(q.Timeout))) {
		j.say(said{kind: saidRefused, refusal: u.expecting(r, now)})
		return
	}
	w, err := u.gate.Enqueue(j.party.want.ask(j), now)
	switch {
	case errors.Is(err, gate.ErrQueueFull):
		r.Reason = QueueFull
	case errors.Is(err, gate.ErrTooLate):
		r.Reason = TooLate
	case err != nil:
		r.Reason = LocalFault
	default:
		u.resort = u.resort || j.grant.last
		at := u.gate.Position(w.ID)
		s := said{kind: saidJoined, position: at, ticket: w.Ticket, deadline: w.Deadline}
		s.expected, s.estimated = u.gate.ExpectedWait(at)
		j.say(s)
		return
	}
	j.say(said{kind: saidRefused, refusal: u.expecting(r, now)})
}

// expecting adds to a refusal for want of a slot when one more would have its turn, as far as that is known.
func (u *upstreamDesk) expecting(r Refusal, now time.Time) Refusal {
	switch r.Reason {
	case ConcurrencyFull, QueueFull, TooLate:
		if wait, known := u.gate.ExpectedWait(u.gate.Waiting() + 1); known && r.Until.IsZero() {
			r.Until = now.Add(wait)
		}
	}
	return r
}

// expire tells those whose deadline is over. One that is being served elsewhere has only not left yet.
func (u *upstreamDesk) expire(now time.Time) {
	for w := u.gate.Overdue(now); w != nil; w = u.gate.Overdue(now) {
		j, at := w.Tag.(*joinUpstream), u.gate.Position(w.ID)
		if !j.party.claim.waiting() {
			u.gate.Leave(w.ID, gate.Moved)
			continue
		}
		u.gate.Leave(w.ID, gate.TimedOut)
		j.say(said{kind: saidEvicted, refusal: Refusal{Reason: TimedOut, Upstream: u.id, Position: at}})
	}
}

// serve hands a free slot to the first waiter that can be served. It begins one hand-over and the account's answer
// leads back here.
func (u *upstreamDesk) serve(now time.Time) {
	for u.serving == nil && u.spec.Active && u.gate.Room() && u.anyUsable(now) {
		if ok, _ := u.breaker.Check(now); !ok {
			return
		}
		w := u.gate.Next(now, func(w *gate.Waiter) bool { return u.usable(&w.Tag.(*joinUpstream).grant, now) })
		if w == nil {
			return
		}
		j := w.Tag.(*joinUpstream)
		if !j.party.claim.waiting() {
			u.gate.Leave(w.ID, gate.Moved) // served elsewhere; its leaving is on the way
			continue
		}
		g := &j.grant
		g.reset(j.party.want, g.accounts, w.Since)
		g.queued = true
		if u.turn = g; !u.setAside(g, now) {
			u.unserve()
			continue
		}
		u.serving = g
		asked := u.askNext(g, now)
		if u.turn = nil; !asked {
			u.exhausted(g, now)
			return
		}
	}
}

// unserve ends the turn of a waiter in a fault, such as a panic: it gives back what was set aside, and tells the waiter.
func (u *upstreamDesk) unserve() {
	g := u.turn
	if g == nil {
		return
	}
	u.turn = nil
	u.drop(g)
	if u.gate.Leave(g.id, gate.Moved) {
		u.refuse(g, Refusal{Reason: LocalFault, Upstream: u.id})
	}
}

// anyUsable spares the walk through a long queue while every account is full.
func (u *upstreamDesk) anyUsable(now time.Time) bool {
	for _, c := range u.children {
		if _, shut := c.shutFor("", u.resort, now); !c.full && !c.inactive && !shut {
			return true
		}
	}
	return false
}

// evict empties the queue of everybody that which accepts (nil: all), with a reason.
func (u *upstreamDesk) evict(r Refusal, which func(*joinUpstream) bool) {
	for at, w := range u.gate.Waiters {
		j := w.Tag.(*joinUpstream)
		if which != nil && !which(j) {
			continue
		}
		u.gate.Leave(w.ID, gate.Moved)
		r.Position = at
		j.say(said{kind: saidEvicted, refusal: r})
	}
}

// setAlarm wakes the actor when the next waiter's time is over, or the first account that is
// blocked, or whose own breaker is open, may be asked again.
func (u *upstreamDesk) setAlarm(now time.Time) {
	first := u.gate.NextDeadline()
	for _, c := range u.children {
		for _, m := range c.marks {
			first = sooner(first, m.until, now)
		}
	}
	if u.own != nil {
		first = sooner(first, u.own.Opens(now), now)
	}
	u.alarm.set(u.sys, u.self, first, now, &wakeUpstream{})
}
