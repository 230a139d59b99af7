package actors

import (
	"sync"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/domain/gate"
)

// tryUpstream asks for a slot once. It comes from a pool and goes back only after its reply was received; until then
// it belongs to the upstream.
type tryUpstream struct {
	quiet
	grant   grant
	reply   chan struct{} // of capacity 1: the fields below are set
	lease   Lease
	refusal Refusal
	tainted bool // somebody may still look at it: not for the pool
}

var (
	tries        = sync.Pool{New: func() any { return &tryUpstream{reply: make(chan struct{}, 1)} }}
	finishes     = sync.Pool{New: func() any { return &finishLease{} }}
	freeAccounts = sync.Pool{New: func() any { return &freeAccount{} }}
)

func (m *tryUpstream) grantIt(l Lease) {
	m.lease, m.refusal = l, Refusal{}
	m.reply <- struct{}{}
}

func (m *tryUpstream) refuseWith(r Refusal) {
	m.refusal = r
	m.reply <- struct{}{}
}

func (m *tryUpstream) refuse(r Reason) { m.refuseWith(Refusal{Reason: r}) }

// turnAway answers whoever asked with msg, if anybody did.
func turnAway(msg any, r Reason) {
	switch m := msg.(type) {
	case interface{ refuse(Reason) }:
		m.refuse(r)
	case *switchBreaker:
		tell(m.done, reasonError(r))
	case *restoreBreaker:
		tell(m.done, reasonError(r))
	case *blockAccount:
		tell(m.done, reasonError(r))
	case *unblockAccount:
		tell(m.done, reasonError(r))
	case *restoreAccount:
		tell(m.done, reasonError(r))
	case *reconfigureUpstream:
		tell(m.reply, false)
	case *statusUpstream:
		tell(m.reply, nil)
	case *recallLease:
		tell(m.reply, nil)
	}
}

// tell answers at most once, and never blocks. A nil channel hears nothing.
func tell[T any](c chan T, v T) {
	select {
	case c <- v:
	default:
	}
}

// receive waits for an answer; false when the actor is gone and has given none. One that was idle has answered already, so
// that this is looked at first, which costs a fifth of a wait for either.
func receive[T any](reply chan T, gone chan struct{}) (v T, ok bool) {
	select {
	case v = <-reply:
		return v, true
	default:
	}
	select {
	case v = <-reply:
		return v, true
	case <-gone:
	}
	select {
	case v = <-reply:
		return v, true
	default:
		return v, false
	}
}

// answered receives an answer, or gives none when the actor is gone.
func answered[T any](reply chan T, gone chan struct{}, none T) T {
	if v, ok := receive(reply, gone); ok {
		return v
	}
	return none
}

var errStopped = errors.New("stopped")

// await is answered, for those who only want to know that it is done.
func await(done chan error, gone chan struct{}) error { return answered(done, gone, errStopped) }

// inside has something done by an actor with what it owns.
type inside[D any] struct {
	quiet
	do   func(D)
	done chan error
}

func (m *inside[D]) refuse(r Reason) { tell(m.done, reasonError(r)) }

func (m *inside[D]) perform(desk D) {
	m.do(desk)
	m.done <- nil
}

// within runs do in the actor of a desk of that kind, and returns when it is done. do may not ask any actor.
func within[D any](s *System, r ref, do func(D)) error {
	m := &inside[D]{do: do, done: make(chan error, 1)}
	s.send(r.pid, m)
	return await(m.done, r.gone)
}

func reasonError(r Reason) error { return errors.Newf("the actor did not answer: %s", r) }

// Try asks one upstream once and never waits in its queue. The refusal is nil when there is a lease.
func (s *System) Try(w Want, c Candidate) (Lease, *Refusal) {
	r, refusal := s.upstream(c.Upstream)
	if refusal != nil {
		return Lease{}, refusal
	}
	m := tries.Get().(*tryUpstream)
	m.grant.try, m.grant.model, m.grant.last = m, c.Model, c.LastResort
	m.grant.reset(w, c.Accounts, time.Time{})
	s.send(r.pid, m)
	if _, ok := receive(m.reply, r.gone); !ok { // it never got there
		return Lease{}, &Refusal{Reason: s.goneReason(UnknownUpstream), Upstream: c.Upstream}
	}
	lease, no := m.lease, m.refusal
	if !m.tainted {
		m.grant.accounts = nil
		tries.Put(m)
	}
	if no.Reason == "" {
		return lease, nil
	}
	refusal = &Refusal{Reason: no.Reason, Upstream: c.Upstream, Until: no.Until, Position: no.Position}
	return Lease{}, refusal
}

// Report tells an outcome while the lease goes on being held: success at the first content, failure when the stream
// breaks later. It never blocks. A lease that is not held is ignored.
func (s *System) Report(l Lease, o Outcome) { s.finish(l.Upstream, l.ID, &o, false) }

// Release frees the slot at the upstream and at the account, once however often it is called, and never blocks. o may
// carry the outcome, so that one message does both; nil: there is nothing (more) to tell, and a probe without an
// outcome frees its place uncounted. What a lease tells of an upstream that was removed meanwhile is not believed.
func (s *System) Release(l Lease, o *Outcome) { s.finish(l.Upstream, l.ID, o, true) }

func (s *System) finish(upstream string, id LeaseID, o *Outcome, free bool) {
	r := s.dir.Load().holder(upstream)
	if r == nil {
		return
	}
	m := finishes.Get().(*finishLease)
	m.id, m.told, m.free = id, o != nil, free
	if o != nil {
		m.outcome = *o
	} else {
		m.outcome = Outcome{}
	}
	s.send(r.pid, m)
}

// Cancel makes sure that an attempt is neither held nor queued at an upstream. It covers a grant that is under way, is
// idempotent and never blocks. Who waits for it is answered with Aborted.
func (s *System) Cancel(id LeaseID, upstream string) {
	if r := s.dir.Load().holder(upstream); r != nil {
		s.send(r.pid, &cancelLease{id: id})
	}
}

// leave takes a waiter out of one queue.
func (s *System) leave(r *upstreamRef, id LeaseID, why gate.Why) {
	s.send(r.pid, &leaveQueue{id: id, why: why})
}
