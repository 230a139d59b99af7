package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/gate"
)

// upstreamDesk is one upstream: its slots, its queue, its breaker, and what it remembers of its accounts.
type upstreamDesk struct {
	sys      *System
	id       string
	self     *actor.PID
	spec     catalog.Upstream
	gate     *gate.Gate
	breaker  *breaker.Breaker
	own      *breaker.Set // of single accounts and models; nil: the settings ask for none
	notes    map[LeaseID]note
	children map[string]*child
	former   map[string]*child // accounts that are its own no more, while leases of theirs are held
	resort   bool              // who waits may be a last resort, to which an ordinary block does not matter
	pending  grantList         // slots set aside while an account is asked
	serving  *grant            // the waiter that is being served; hand-overs follow one another, so that tickets keep their order
	turn     *grant            // the waiter whose turn it is, before an account is asked
	alarm    alarm
	recalls  map[LeaseID]chan struct{} // of those that an operator wants back: closed when the slot is free
	closed   bool                      // stopping: everybody was answered
	figures  *upstreamFigures
}

// child is an account as its upstream sees it. The marks are the account's last answers, so that it is not asked in vain.
type child struct {
	ref
	spec     catalog.Account
	figures  *accountFigures
	full     bool
	inactive bool
	marks    map[string]mark // of blocks, by model ("": all)
}

// The messages to an upstream, beside those that ask for slots (ask.go).
type (
	// finishLease tells an outcome and, when free is set, ends a lease.
	finishLease struct {
		quiet
		id      LeaseID
		outcome Outcome
		told    bool // outcome is set
		free    bool
	}
	cancelLease struct {
		quiet
		id LeaseID
	}
	leaveQueue struct {
		quiet
		id  LeaseID
		why gate.Why
	}
	switchBreaker struct {
		quiet
		open  bool
		until time.Time   // of opening; zero: as long as the settings say
		key   breaker.Key // zero: the whole upstream
		done  chan error
	}
	restoreBreaker struct {
		quiet
		fact any
		at   time.Time
		done chan error
	}
	wakeUpstream struct{ quiet }
)

func newUpstreamDesk(s *System, spec catalog.Upstream) *upstreamDesk {
	u := &upstreamDesk{
		sys: s, id: spec.ID, spec: spec, gate: gate.New(gatePolicy(&spec)),
		breaker:  breaker.New(spec.ID, spec.Breaker.Policy(), s.now()),
		children: map[string]*child{}, notes: map[LeaseID]note{}, figures: &upstreamFigures{},
	}
	u.ownBreakers()
	u.publish()
	return u
}

func gatePolicy(spec *catalog.Upstream) gate.Policy {
	return gate.Policy{Slots: spec.Slots, Queue: spec.Queue.Gate(), PerKey: true}
}

func (u *upstreamDesk) receive(ctx actor.Context, msg any) {
	u.self = ctx.Self()
	if u.closed {
		turnAway(msg, u.sys.goneReason(Evicted))
		return
	}
	u.sys.before(u.id, msg)
	if m, ok := msg.(*leaseAnswer); ok { // part of what was begun a moment ago
		u.answered(m.grant, m.grant.now)
		return
	}
	now := u.sys.now()
	switch m := msg.(type) {
	case *tryUpstream:
		if r := u.begin(&m.grant, now); r.Reason != "" {
			m.refuseWith(r)
		}
	case *finishLease:
		u.finish(m, now)
		finishes.Put(m)
	case *joinUpstream:
		u.join(m, now)
	case *leaveQueue:
		u.gate.Leave(m.id, m.why)
	case *cancelLease:
		u.cancel(m.id, now)
	case *recallLease:
		m.reply <- u.recall(m)
	case *accountReady:
		if c := u.children[m.id]; c != nil {
			c.full, c.inactive = false, false
			clear(c.marks)
		}
	case *wakeUpstream:
		u.alarm.rang()
	case *switchBreaker:
		m.done <- u.force(m, now)
	case *restoreBreaker:
		u.breaker.Evolve(m.fact, m.at)
		if u.own != nil {
			u.own.Evolve(m.fact, m.at)
		}
		m.done <- nil
	case *reconfigureUpstream:
		u.reconfigure(m, now)
		m.reply <- true
	case *depart:
		u.depart(now)
		m.reply <- u.gate.Held()
	case *statusUpstream:
		m.reply <- u.status()
	}
}

// finish takes an outcome and frees the lease when it is over. Of a lease that is not held, nothing is believed: it
// was released before, and its outcome with it. Nor of one from before the upstream was removed and came back, which has no
// permit.
func (u *upstreamDesk) finish(m *finishLease, now time.Time) {
	h := u.gate.Holder(m.id)
	if h == nil || h.Phase == gate.Granting {
		return
	}
	if m.told && h.Generation != 0 {
		u.observe(h, &m.outcome, now)
	}
	if m.free {
		u.release(h, now)
	}
}

// observe feeds the breaker, the figures and the account's block.
func (u *upstreamDesk) observe(h *gate.Holder, o *Outcome, now time.Time) {
	u.figures.observe(o, now)
	c := u.children[h.Account]
	if c != nil {
		c.figures.recent.observe(o, now)
		c.figures.quota.tell(&o.Quota, now)
	}
	if o.Result == breaker.Success {
		h.Phase = gate.Streaming
		if c != nil && u.notes[h.ID].trial {
			u.sys.send(c.pid, &accountServed{id: h.ID})
		}
	}
	if o.Block != nil && c != nil {
		u.sys.send(c.pid, &blockAccount{model: o.Block.Model, ask: o.Block.Ask})
	}
	u.blame(h.ID, breaker.Permit{Generation: h.Generation, Probe: h.Probe}, o, breaker.Evidence{
		At: now, Class: o.Class, Status: o.Status, Account: h.Account, Model: o.Model, Request: h.ID.Request, Said: o.Said,
	})
}

// release frees a holder here and at its account; a probe without an outcome is freed uncounted.
func (u *upstreamDesk) release(h *gate.Holder, now time.Time) {
	id, c := h.ID, u.children[h.Account]
	if c == nil {
		c = u.former[h.Account]
	}
	u.breaker.Cancel(breaker.Permit{Generation: h.Generation, Probe: h.Probe})
	u.unnote(id, h.Account)
	u.gate.Release(id, now)
	u.gone(id)
	u.freeAccount(c, id)
}

// freeAccount tells an account to free a slot; nil: there is none. The account gets this before any later TryLease,
// so that it may be taken for free from here on.
func (u *upstreamDesk) freeAccount(c *child, id LeaseID) {
	if c == nil {
		return
	}
	c.full = false
	m := freeAccounts.Get().(*freeAccount)
	m.id = id
	u.sys.send(c.pid, m)
}

// cancel makes sure that a lease is neither held nor queued, nor about to be.
func (u *upstreamDesk) cancel(id LeaseID, now time.Time) {
	if w := u.gate.Waiter(id); w != nil {
		u.gate.Leave(id, gate.Aborted)
		w.Tag.(*joinUpstream).say(said{kind: saidEvicted, refusal: Refusal{Reason: Aborted, Upstream: u.id}})
	}
	if g := u.pending.find(id); g != nil {
		g.void = Aborted
	} else if h := u.gate.Holder(id); h != nil {
		u.release(h, now)
	}
}

func (u *upstreamDesk) record(fact any, now time.Time) {
	u.sys.record("upstream/"+u.id, u.id, fact, now)
}

// after tells those whose time is over, serves who can be served now, and sets the alarm for what comes later.
func (u *upstreamDesk) after() {
	if u.closed {
		return
	}
	if u.gate.Waiting() > 0 {
		now := u.sys.now()
		u.expire(now)
		u.serve(now)
		u.setAlarm(now)
	} else {
		u.resort = false
	}
	u.publish()
}

func (u *upstreamDesk) publish() {
	f := u.figures
	put(&f.state, int64(u.breaker.State()))
	put(&f.until, nanos(u.breaker.Until()))
	probing := int64(0)
	if u.breaker.Probing() {
		probing = 1
	}
	put(&f.probing, probing)
	put(&f.held, int64(u.gate.Held()))
	put(&f.slots, int64(u.gate.Slots()))
	put(&f.waiting, int64(u.gate.Waiting()))
}

// fault leaves nothing set aside for a message that panicked, frees what it wanted to free, and answers its asker.
func (u *upstreamDesk) fault(msg any) {
	switch m := msg.(type) {
	case *tryUpstream:
		u.drop(&m.grant)
	case *joinUpstream:
		u.drop(&m.grant)
		u.gate.Leave(m.party.want.ID, gate.Moved)
	case *leaseAnswer:
		g := m.grant
		switch h := u.gate.Holder(g.id); {
		case h != nil && h.Phase != gate.Granting: // given already, and nobody has heard of it
			u.endTurn(g)
			u.release(h, u.sys.now())
		case g.verdict == verdictYes:
			u.giveBack(g)
		default:
			u.drop(g)
		}
		if left := g.queued && u.gate.Leave(g.id, gate.Moved); left || !g.queued || g.won {
			u.refuse(g, Refusal{Reason: LocalFault, Upstream: u.id})
		}
		return
	case *finishLease:
		if h := u.gate.Holder(m.id); h != nil && m.free {
			u.release(h, u.sys.now())
		}
	case *wakeUpstream: // else nobody would be woken any more
		u.alarm.rang()
	case nil:
		u.unserve()
		u.alarm.set(u.sys, u.self, u.sys.now().Add(afterPanic), u.sys.now(), &wakeUpstream{})
	}
	turnAway(msg, LocalFault)
}

// stop answers everybody: waiters, and who waits for an account.
func (u *upstreamDesk) stop() {
	u.closed = true
	u.alarm.off()
	r := Refusal{Reason: u.sys.goneReason(Evicted), Upstream: u.id}
	u.evict(r, nil)
	for g := u.pending.head; g != nil; g = u.pending.head {
		u.pending.remove(g)
		if g.try != nil {
			g.try.tainted = true // the account may still have it
		}
		if !g.queued {
			u.refuse(g, r)
		}
	}
}
