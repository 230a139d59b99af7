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
	if !u.usable(j.grant.accounts, now) {
		r.Reason, r.Until = u.unable(j.grant.accounts, now)
	}
	q := u.gate.Queue()
	if q == nil || r.Reason == NoAccount && (r.Until.IsZero() || r.Until.After(now.Add(q.Timeout))) {
		j.say(said{kind: saidRefused, refusal: r})
		return
	}
	w, err := u.gate.Join(j.party.want.ID, j.party.want.Key, now, j)
	switch {
	case errors.Is(err, gate.ErrQueueFull):
		r.Reason = QueueFull
	case err != nil:
		r.Reason = LocalFault
	default:
		j.say(said{kind: saidJoined, position: u.gate.Waiting(), ticket: w.Ticket, deadline: w.Deadline, timeout: q.Timeout})
		return
	}
	j.say(said{kind: saidRefused, refusal: r})
}

// serve hands a free slot to the first waiter that can be served. It begins one hand-over and the account's answer
// leads back here.
func (u *upstreamDesk) serve(now time.Time) {
	for u.serving == nil && u.spec.Active && u.anyUsable(now) {
		if ok, _ := u.breaker.Check(now); !ok {
			return
		}
		w := u.gate.Next(func(w *gate.Waiter) bool { return u.usable(w.Tag.(*joinUpstream).grant.accounts, now) })
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
		if !u.setAside(g, now) {
			u.gate.Leave(w.ID, gate.Moved)
			u.refuse(g, Refusal{Reason: LocalFault, Upstream: u.id})
			continue
		}
		u.serving = g
		u.askNext(g, now)
	}
}

// anyUsable spares the walk through a long queue while every account is full.
func (u *upstreamDesk) anyUsable(now time.Time) bool {
	for _, c := range u.children {
		if c.usable(now) {
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

// setAlarm wakes the actor when the first blocked account may be asked again.
func (u *upstreamDesk) setAlarm(now time.Time) {
	var first time.Time
	for _, c := range u.children {
		if now.Before(c.until) && (first.IsZero() || c.until.Before(first)) {
			first = c.until
		}
	}
	if first.IsZero() || u.alarm != nil && !first.Before(u.alarmAt) {
		return
	}
	if u.alarm != nil {
		u.alarm.Stop()
	}
	self := u.self
	u.alarmAt = first
	u.alarm = time.AfterFunc(first.Sub(now), func() { u.sys.send(self, &wakeUpstream{}) })
}
