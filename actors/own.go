package actors

import (
	"time"

	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/failure"
)

// What an upstream knows of its accounts one by one: the breakers of single accounts and models, which it has when its
// settings ask for them, and what accounts have said of their blocks.

// note is what a lease holds beside its slots. Most leases have none.
type note struct {
	model string
	own   breaker.Permit
	trial bool // it probes a block of its account
}

// marksMax bounds what is kept of an account's blocks; callers name models.
const marksMax = 256

// mark is what an account has said of a block.
type mark struct {
	until time.Time // zero: while the probe of the block is in flight
	last  bool      // a last resort was refused too: an operator has blocked it
}

// markMin is the least time for which a refusal is believed: a block may be over when its refusal is read.
const markMin = time.Millisecond

// refused takes an account's refusal. From here on the account is shut for this grant, until the account, an operator or the
// alarm says that something has changed: whatever it answers, who waits is never served to it in a circle.
func (c *child) refused(g *grant, now time.Time) {
	switch g.verdict {
	case verdictFull:
		c.full = true
	case verdictInactive:
		c.inactive = true
	case verdictFault:
		g.faulted = true
	case verdictBlocked:
		until := g.until
		if least := now.Add(markMin); !until.IsZero() && until.Before(least) {
			until = least
		}
		if c.marks == nil || len(c.marks) >= marksMax {
			c.marks = map[string]mark{}
		}
		c.marks[g.scope] = mark{until, g.last}
	}
}

// shut says whether an account is known to be blocked for what a grant asks for, and until when, if that is known.
func (c *child) shut(g *grant, now time.Time) (until time.Time, is bool) {
	if len(c.marks) == 0 {
		return time.Time{}, false
	}
	until, is = c.shutFor("", g.last, now)
	if at, too := c.shutFor(g.model, g.last, now); too {
		is = true
		if at.After(until) {
			until = at
		}
	}
	return until, is
}

func (c *child) shutFor(model string, last bool, now time.Time) (until time.Time, is bool) {
	m, is := c.marks[model]
	return m.until, is && (m.last || !last) && (m.until.IsZero() || now.Before(m.until))
}

// may says whether an account may be asked: nothing that is known of it stands in the way.
func (u *upstreamDesk) may(c *child, g *grant, now time.Time) bool {
	if c == nil || c.full || c.inactive {
		return false
	}
	if _, shut := c.shut(g, now); shut {
		return false
	}
	ok, _ := u.checkOwn(c, g, now)
	return ok
}

func ownKey(c *child, g *grant) breaker.Key { return breaker.Key{Account: c.spec.ID, Model: g.model} }

func (u *upstreamDesk) checkOwn(c *child, g *grant, now time.Time) (bool, time.Time) {
	if u.own == nil {
		return true, time.Time{}
	}
	return u.own.Check(ownKey(c, g), now)
}

// acquireOwn takes the permit of the account and model that is about to be asked.
func (u *upstreamDesk) acquireOwn(c *child, g *grant, now time.Time) bool {
	if u.own == nil {
		return true
	}
	p, ok, fact := u.own.Acquire(ownKey(c, g), now)
	g.own = p
	if fact != nil {
		u.record(fact, now)
	}
	return ok
}

// validOwn says whether the permit still counts, after it was taken anew where it has to be.
func (u *upstreamDesk) validOwn(c *child, g *grant, now time.Time) bool {
	return u.own == nil || u.own.Valid(ownKey(c, g), g.own) || u.acquireOwn(c, g, now)
}

// cancelOwn gives the permit of a grant back.
func (u *upstreamDesk) cancelOwn(g *grant) {
	if u.own != nil && g.asked != nil {
		u.own.Cancel(ownKey(g.asked, g), g.own)
	}
	g.own = breaker.Permit{}
}

// note keeps what the lease of a grant holds beside its slots.
func (u *upstreamDesk) note(g *grant) {
	if u.own != nil || g.trial {
		u.notes[g.id] = note{model: g.model, own: g.own, trial: g.trial}
	}
}

// unnote gives it back.
func (u *upstreamDesk) unnote(id LeaseID, account string) {
	n, ok := u.notes[id]
	if !ok {
		return
	}
	delete(u.notes, id)
	if u.own != nil {
		u.own.Cancel(breaker.Key{Account: account, Model: n.model}, n.own)
	}
}

// blame tells the breakers an outcome: that of the account and model, if there are such, all of them; that of the
// upstream then only what is not of one account. A success is good news for both.
func (u *upstreamDesk) blame(id LeaseID, p breaker.Permit, o *Outcome, e breaker.Evidence) {
	r := o.Result
	if u.own != nil {
		n, noted := u.notes[id]
		if !noted { // the lease is older than these breakers
			n.model = o.Model
		}
		if fact := u.own.Record(breaker.Key{Account: e.Account, Model: n.model}, n.own, r, e); fact != nil {
			u.turned(fact, e.At)
		}
		if r == breaker.Failure && !failure.Class(o.Class).Shared() {
			r = breaker.Neutral
		}
	}
	if fact := u.breaker.Record(p, r, e); fact != nil {
		u.turned(fact, e.At)
	}
}

// force is the operator's hand: on one account and model, or on the whole upstream, of which closing closes everything.
func (u *upstreamDesk) force(m *switchBreaker, now time.Time) error {
	switch whole := m.key == (breaker.Key{}); {
	case !whole && u.own == nil:
		return ErrNoOwnBreaker
	case !whole && m.open:
		if f := u.own.ForceOpen(m.key, now, m.until); f != nil {
			u.turned(f, now)
		}
	case !whole:
		u.closeOwn(m.key, now)
	case m.open:
		u.turned(u.breaker.ForceOpen(now, m.until), now)
	default:
		if f := u.breaker.ForceClose(now); f != nil {
			u.turned(f, now)
		}
		if u.own != nil {
			for _, b := range u.own.All() {
				u.closeOwn(b.Key, now)
			}
		}
	}
	return nil
}

func (u *upstreamDesk) closeOwn(k breaker.Key, now time.Time) {
	if f := u.own.ForceClose(k, now); f != nil {
		u.turned(f, now)
	}
}

// turned records a change of a breaker. When one opened, nobody waits on who could be served by nothing else.
func (u *upstreamDesk) turned(fact any, now time.Time) {
	u.record(fact, now)
	f, opened := fact.(*breaker.Opened)
	if !opened {
		return
	}
	r := Refusal{Reason: Evicted, Upstream: u.id, Until: f.Until}
	if f.Account == "" {
		u.evict(r, nil)
		return
	}
	u.evict(r, func(j *joinUpstream) bool {
		for _, id := range j.grant.accounts {
			if c := u.children[id]; c != nil && c.spec.Active {
				if ok, _ := u.checkOwn(c, &j.grant, now); ok {
					return false
				}
			}
		}
		return true
	})
}

// ownBreakers makes the breakers of accounts and models follow the settings.
func (u *upstreamDesk) ownBreakers() {
	switch p := u.spec.Breaker.Policy(); {
	case !u.spec.Breaker.PerAccountModel():
		u.forgetOwn()
	case u.own == nil:
		u.own = breaker.NewSet(u.id, p)
	default:
		u.own.Reconfigure(p)
	}
}

// forgetOwn takes the breakers of accounts and models away. Their permits are void: those of later ones have the same numbers.
func (u *upstreamDesk) forgetOwn() {
	if u.own == nil {
		return
	}
	u.own = nil
	for id, n := range u.notes {
		n.own = breaker.Permit{}
		u.notes[id] = n
	}
	for g := u.pending.head; g != nil; g = g.next {
		g.own = breaker.Permit{}
	}
}

// sooner is the sooner of two times; those that are not after now do not count.
func sooner(first, at, now time.Time) time.Time {
	if at.After(now) && (first.IsZero() || at.Before(first)) {
		return at
	}
	return first
}
