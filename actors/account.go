package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/penstock/penstock/domain/account"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/gate"
)

// accountDesk is one credential: its slots and its block. It is a child of its upstream's actor, answers TryLease at
// once and never waits for anybody.
type accountDesk struct {
	sys      *System
	upstream *actor.PID
	spec     catalog.Account
	gate     *gate.Gate
	block    account.Block
	refused  bool // said "full" since a slot was freed: the upstream must hear when there is one
	figures  *accountFigures
}

// The messages to an account, beside tryLease (grant.go).
type (
	freeAccount struct {
		quiet
		id LeaseID
	}
	blockAccount struct {
		quiet
		until  time.Time
		reason string
		source string
		done   chan error // nil: nobody waits for it
	}
	unblockAccount struct {
		quiet
		by   string
		done chan error
	}
	reconfigureAccount struct {
		quiet
		spec catalog.Account
	}
	restoreAccount struct {
		quiet
		fact any
		done chan error
	}
)

// accountReady tells the upstream that an account may serve again.
type accountReady struct {
	quiet
	id string
}

func newAccountDesk(s *System, upstream *actor.PID, spec catalog.Account) *accountDesk {
	a := &accountDesk{
		sys: s, upstream: upstream, spec: spec, gate: gate.New(gate.Policy{Slots: spec.Slots}),
		block: account.Block{Account: spec.ID}, figures: &accountFigures{upstream: spec.Upstream},
	}
	a.publish()
	return a
}

func (a *accountDesk) receive(_ actor.Context, msg any) {
	a.sys.before(a.spec.ID, msg)
	switch m := msg.(type) {
	case *tryLease:
		a.try(m.grant)
	case *freeAccount:
		a.free(m.id)
		freeAccounts.Put(m)
	case *blockAccount:
		if f := a.block.Set(a.sys.now(), m.until, m.reason, m.source); f != nil {
			a.record(f)
		}
		tell(m.done, nil)
	case *unblockAccount:
		if f := a.block.Clear(a.sys.now(), m.by); f != nil {
			a.record(f)
			a.ready()
		}
		tell(m.done, nil)
	case *reconfigureAccount:
		a.spec = m.spec
		a.gate.Reconfigure(gate.Policy{Slots: m.spec.Slots})
		a.publish()
		a.ready()
	case *restoreAccount:
		a.block.Evolve(m.fact)
		a.show()
		a.ready()
		m.done <- nil
	}
}

// try answers with the grant's verdict. Answering is the last thing it does: from then on the grant is another's.
func (a *accountDesk) try(g *grant) {
	now := a.sys.now()
	g.verdict, g.until = verdictYes, time.Time{}
	switch {
	case !a.spec.Active:
		g.verdict = verdictInactive
	case a.block.Active(now):
		g.verdict, g.until = verdictBlocked, a.block.Until()
	default:
		switch _, err := a.gate.Hold(g.id, g.key, now); err {
		case nil:
			a.gate.Confirm(g.id, a.spec.ID)
		case gate.ErrFull:
			g.verdict, a.refused = verdictFull, true
		default:
			g.verdict = verdictFault
		}
	}
	a.publish()
	a.sys.send(a.upstream, &g.answer)
}

func (a *accountDesk) free(id LeaseID) {
	freed := a.gate.Free(id)
	a.publish()
	if freed && a.refused {
		a.ready()
	}
}

func (a *accountDesk) ready() {
	a.refused = false
	a.sys.send(a.upstream, &accountReady{id: a.spec.ID})
}

func (a *accountDesk) after() {}

func (a *accountDesk) fault(msg any) {
	switch m := msg.(type) {
	case *tryLease:
		a.gate.Free(m.grant.id)
		m.grant.verdict = verdictFault
		a.sys.send(a.upstream, &m.grant.answer)
	case *freeAccount:
		a.free(m.id)
	default:
		turnAway(msg, LocalFault)
	}
}

// stop has nobody to answer: who is asked by message only is answered before the last message.
func (a *accountDesk) stop() {}

func (a *accountDesk) record(fact any) {
	a.show()
	a.sys.record("account/"+a.spec.ID, a.spec.Upstream, fact)
}

// show puts the block on the board.
func (a *accountDesk) show() {
	a.figures.block.Store(&blockView{a.block.Until(), a.block.Reason()})
}

func (a *accountDesk) publish() {
	put(&a.figures.held, int64(a.gate.Held()))
	put(&a.figures.slots, int64(a.gate.Slots()))
	if a.figures.active.Load() != a.spec.Active {
		a.figures.active.Store(a.spec.Active)
	}
}
