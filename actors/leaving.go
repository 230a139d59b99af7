package actors

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/penstock/penstock/domain/access"
	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/gate"
	"github.com/penstock/penstock/domain/limit"
)

// What is removed from the catalogue while its slots are taken lives on until they are free: calls that are running take up
// what it may do, should it come back.

// leaving is what was removed and still has holders. It serves nobody. It ends with the next change of the catalogue that
// finds it free.
type leaving struct {
	upstreams map[string]*upstreamRef
	accounts  map[string]*accountRef
	callers   map[CallerID]*callerRef
}

// holder is the actor that knows who holds slots of an upstream; nil: nobody does.
func (d *directory) holder(upstream string) *upstreamRef {
	return either(upstream, d.upstreams, d.leaving.upstreams)
}

// account is the actor of an account, which may serve nobody any more; nil: there is none.
func (d *directory) account(id string) *accountRef {
	return either(id, d.accounts, d.leaving.accounts)
}

// caller is the actor that knows what requests of a caller are running; nil: none is, unless it is in force.
func (d *directory) caller(id CallerID) *callerRef { return either(id, d.callers, d.leaving.callers) }

func either[K comparable, R any](id K, inForce, leaving map[K]*R) *R {
	if r := inForce[id]; r != nil {
		return r
	}
	return leaving[id]
}

// depart takes an owner of slots out of service, as it is not in the catalogue any more. It may be told again, and may come
// back.
type depart struct {
	quiet
	reply chan int // how many of its slots are taken
}

func (m *depart) refuse(Reason) { tell(m.reply, 1) } // not yet: it is told again

func (s *System) depart(r ref) (held int) {
	m := &depart{reply: make(chan int, 1)}
	s.send(r.pid, m)
	return answered(m.reply, r.gone, 0)
}

// part takes everything out of service that is not in the directory any more. It returns what can be stopped.
func (s *System) part(was, is *directory) (removed []ref) {
	is.leaving = leaving{map[string]*upstreamRef{}, map[string]*accountRef{}, map[CallerID]*callerRef{}}
	removed = slices.Concat(
		parted(s, is.upstreams, is.leaving.upstreams, was.upstreams, was.leaving.upstreams),
		parted(s, is.accounts, is.leaving.accounts, was.accounts, was.leaving.accounts),
		parted(s, is.callers, is.leaving.callers, was.callers, was.leaving.callers))
	s.bequeathAll(was, is)
	return removed
}

// parted does so with one kind, of which some are in force. Those that have holders leave.
func parted[R interface{ at() ref }](s *System, inForce, leave map[string]R, from ...map[string]R) (removed []ref) {
	for _, known := range from {
		for id, r := range known {
			if _, is := inForce[id]; is {
				continue
			}
			if s.depart(r.at()) > 0 {
				leave[id] = r
			} else {
				removed = append(removed, r.at())
			}
		}
	}
	return removed
}

func addresses[R interface{ at() ref }](of ...map[string]R) (all []ref) {
	for _, known := range of {
		for _, r := range known {
			all = append(all, r.at())
		}
	}
	return all
}

// depart evicts who waits, and forgets all but who holds slots: what they tell from here on is of an earlier life.
func (u *upstreamDesk) depart(now time.Time) {
	spec := u.spec
	spec.Active = false
	u.reconfigure(&reconfigureUpstream{spec: spec, figures: &upstreamFigures{}}, now)
	u.forgetOwn()
	clear(u.notes)
	for h := range u.gate.Holders {
		own := u.gate.Holder(h.ID)
		own.Generation, own.Probe = 0, false
	}
	for g := u.pending.head; g != nil; g = g.next {
		g.permit = breaker.Permit{}
	}
}

// dismiss lets accounts go that are none of the upstream's any more, and keeps in mind those that have its leases.
func (u *upstreamDesk) dismiss(children map[string]*child) {
	gone := map[string]*child{}
	for _, known := range []map[string]*child{u.former, u.children} {
		for id, c := range known {
			if children[id] == nil {
				gone[id] = c
			}
		}
	}
	u.former = nil
	if len(gone) == 0 {
		return
	}
	u.former = map[string]*child{}
	for h := range u.gate.Holders {
		if c := gone[h.Account]; c != nil {
			u.former[h.Account] = c
		}
	}
	for id := range gone {
		if u.own != nil {
			u.own.RemoveAccount(id)
		}
	}
}

// stray is a key whose requests hold slots at a caller that it does not belong to any more.
type stray struct {
	key string
	at  *callerRef
}

// bequeathAll has the slots of keys that were removed, or have another owner, count at whoever has the key by now.
func (s *System) bequeathAll(was, is *directory) {
	for key, r := range was.keys {
		if is.keys[key] != r {
			s.strays = append(s.strays, stray{key, r})
		}
	}
	s.strays = slices.DeleteFunc(s.strays, func(x stray) bool {
		to := is.keys[x.key]
		if to == x.at { // it is back, and its slots count there
			return true
		}
		m := &bequeath{key: x.key, reply: make(chan int, 1)}
		if to != nil {
			m.heir = to.pid
		}
		s.send(x.at.pid, m)
		return answered(m.reply, x.at.gone, 0) == 0
	})
}

// The messages between callers of which one has a key that was the other's.
type (
	// bequeath hands the slots of a key on, which is not the asked caller's any more, to count there until they are free.
	bequeath struct {
		quiet
		key   string
		heir  *actor.PID // nil: it is nobody's
		reply chan int   // how many there are
	}
	inherit struct {
		quiet
		key     string
		holders []gate.Holder
		bound   *access.Bindings // nil: none were known
	}
)

func (m *bequeath) refuse(Reason) { tell(m.reply, 1) } // not yet: it is told again

func (d *callerDesk) bequeath(m *bequeath, now time.Time) int {
	if d.keys[m.key] != nil {
		delete(d.keys, m.key)
		d.evict(Evicted, func(key string) bool { return key == m.key })
		d.policy.Keys = slices.DeleteFunc(d.policy.Keys, func(k limit.Key) bool { return k.ID == m.key })
		d.limits.Reconfigure(d.policy, now)
	}
	var holders []gate.Holder
	for h := range d.gate.Holders {
		if h.Key == m.key {
			holders = append(holders, h)
		}
	}
	for _, x := range d.late[m.key] {
		if m.heir != nil {
			d.sys.send(m.heir, &spendCaller{Spent: x, left: true})
		}
	}
	delete(d.late, m.key)
	legacy := &inherit{key: m.key, bound: d.bound[m.key]}
	delete(d.bound, m.key)
	switch {
	case m.heir == nil || len(holders) == 0:
		delete(d.heirs, m.key)
	case d.heirs[m.key] != m.heir:
		d.heirs[m.key] = m.heir
		legacy.holders = holders
	}
	if m.heir != nil && (legacy.bound != nil || legacy.holders != nil) {
		d.sys.send(m.heir, legacy)
	}
	return len(holders)
}

// recount lets keys that are new, or back, count the slots that are held for them already.
func (d *callerDesk) recount(keys map[string]*gate.Gate) {
	for h := range d.gate.Holders {
		if own := keys[h.Key]; own != nil {
			own.Adopt(h.ID, h.Key, h.Since) // of keys that have stayed it is there
		}
	}
	for key := range keys {
		delete(d.heirs, key)
	}
}

// inherit counts slots at their key that are held elsewhere: who holds them tells when they are free. It also takes the addresses over
// that the key was bound to.
func (d *callerDesk) inherit(m *inherit) {
	for _, h := range m.holders {
		if own := d.keys[h.Key]; own != nil {
			own.Adopt(h.ID, h.Key, h.Since)
		}
	}
	if b := d.bound[m.key]; b != nil && m.bound != nil {
		b.Inherit(m.bound)
	}
}

// depart evicts who waits. The limits of the user go on counting what is running; what its keys spend from here on is spent
// elsewhere.
func (d *callerDesk) depart(now time.Time) {
	d.keys = map[string]*gate.Gate{}
	d.evict(Evicted, func(string) bool { return true })
	d.policy.Keys = nil
	d.limits.Reconfigure(d.policy, now)
}
