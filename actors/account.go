package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/penstock/penstock/domain/account"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/gate"
)

// accountDesk is one credential: its slots and its block. It answers TryLease at once and never waits for anybody. It
// outlives its place at an upstream, as long as one of its slots is taken.
type accountDesk struct {
	sys      *System
	upstream *actor.PID // whose it is; nobody else is served
	spec     catalog.Account
	gate     *gate.Gate
	blocks   account.Blocks
	trials   map[LeaseID]account.Permit // calls that probe a block
	refused  bool                       // said "full" since a slot was freed: the upstream must hear when there is one
	figures  *accountFigures
}

// The messages to an account, beside tryLease (grant.go).
type (
	freeAccount struct {
		quiet
		id LeaseID
	}
	// accountServed tells that a call has brought content, when it probes a block.
	accountServed struct {
		quiet
		id LeaseID
	}
	blockAccount struct {
		quiet
		model string // "": all
		ask   account.Ask
		done  chan error // nil: nobody waits for it
	}
	unblockAccount struct {
		quiet
		by   string
		done chan error
	}
	reconfigureAccount struct {
		quiet
		spec     catalog.Account
		upstream *actor.PID
		figures  *accountFigures // where it shows itself from here on
	}
	restoreAccount struct {
		quiet
		fact any
		at   time.Time
		done chan error
	}
)

// accountReady tells the upstream that an account may serve again.
type accountReady struct {
	quiet
	id string
}

// newAccountDesk makes one that serves nobody before it is told its settings.
func newAccountDesk(s *System, id string) *accountDesk {
	return &accountDesk{
		sys: s, spec: catalog.Account{ID: id}, gate: gate.New(gate.Policy{}),
		blocks: account.Blocks{Account: id}, trials: map[LeaseID]account.Permit{}, figures: &accountFigures{},
	}
}

func (a *accountDesk) receive(_ actor.Context, msg any) {
	a.sys.before(a.spec.ID, msg)
	switch m := msg.(type) {
	case *tryLease:
		a.try(m)
	case *freeAccount:
		a.free(m.id)
		freeAccounts.Put(m)
	case *accountServed:
		if f := a.blocks.Succeeded(a.trials[m.id]); f != nil {
			a.record(f, a.sys.now())
			a.ready()
		}
	case *blockAccount:
		now := a.sys.now()
		if f := a.blocks.Apply(now, m.model, m.ask); f != nil {
			a.record(f, now)
		}
		tell(m.done, nil)
	case *unblockAccount:
		now := a.sys.now()
		if facts := a.blocks.Clear(now, m.by); len(facts) > 0 {
			for _, f := range facts {
				a.record(f, now)
			}
			a.ready()
		}
		tell(m.done, nil)
	case *reconfigureAccount:
		a.spec, a.upstream = m.spec, m.upstream
		a.gate.Reconfigure(gate.Policy{Slots: m.spec.Slots})
		if a.figures != m.figures {
			a.figures = m.figures
			a.show()
		}
		a.publish()
		a.ready()
	case *depart:
		a.spec.Active, a.upstream = false, nil
		a.blocks = account.Blocks{Account: a.spec.ID} // should it come back, nothing is known of it
		clear(a.trials)
		m.reply <- a.gate.Held()
	case *restoreAccount:
		a.blocks.Evolve(m.fact, m.at)
		a.show()
		a.ready()
		m.done <- nil
	}
}

// try answers with the grant's verdict. Answering is the last thing it does: from then on the grant is another's.
func (a *accountDesk) try(m *tryLease) {
	g := m.grant
	now := g.now
	g.verdict, g.until, g.scope, g.trial = verdictYes, time.Time{}, "", false
	if m.from != a.upstream || !a.spec.Active || a.spec.ExpiresAt != nil && !now.Before(*a.spec.ExpiresAt) {
		g.verdict = verdictInactive
	} else if p, ok := a.permit(g, now); ok {
		switch a.gate.Take(g.id, g.key, a.spec.ID, now) {
		case nil:
			if p.Probe != 0 {
				a.trials[g.id], g.trial = p, true
			}
		case gate.ErrFull:
			a.blocks.Release(p)
			g.verdict, a.refused = verdictFull, true
		default:
			a.blocks.Release(p)
			g.verdict = verdictFault
		}
	}
	a.publish()
	a.sys.send(m.from, &g.answer)
}

// permit asks the blocks. When one stands in the way it writes the verdict: until when, and for which model.
func (a *accountDesk) permit(g *grant, now time.Time) (account.Permit, bool) {
	p, ok, until := a.blocks.Acquire(g.model, now)
	if ok || g.last && !a.blockedByOperator(g.model, now) {
		return p, true
	}
	g.verdict, g.until, g.scope = verdictBlocked, until, g.model
	if whole, until := a.blocks.Whole().Check(now); !whole {
		g.until, g.scope = until, ""
	}
	a.refused = a.refused || g.until.IsZero() // it hears when the probe has ended
	return account.Permit{}, false
}

func (a *accountDesk) blockedByOperator(model string, now time.Time) bool {
	for _, v := range a.blocks.Views(now) {
		if v.Source == account.Operator && (v.Model == "" || v.Model == model) {
			return true
		}
	}
	return false
}

func (a *accountDesk) free(id LeaseID) {
	if p, probed := a.trials[id]; probed {
		delete(a.trials, id)
		a.blocks.Release(p)
	}
	freed := a.gate.Free(id)
	a.publish()
	if freed && a.refused {
		a.ready()
	}
}

func (a *accountDesk) ready() {
	if a.refused = false; a.upstream != nil {
		a.sys.send(a.upstream, &accountReady{id: a.spec.ID})
	}
}

func (a *accountDesk) after() {}

func (a *accountDesk) fault(msg any) {
	switch m := msg.(type) {
	case *tryLease:
		a.free(m.grant.id)
		m.grant.verdict = verdictFault
		a.sys.send(m.from, &m.grant.answer)
	case *freeAccount:
		a.free(m.id)
	default:
		turnAway(msg, LocalFault)
	}
}

// stop has nobody to answer: who is asked by message only is answered before the last message.
func (a *accountDesk) stop() {}

func (a *accountDesk) record(fact any, now time.Time) {
	a.show()
	a.sys.record("account/"+a.spec.ID, a.spec.Upstream, fact, now)
}

// show puts the blocks on the board.
func (a *accountDesk) show() {
	all := a.blocks.Whole()
	a.figures.block.Store(&blockView{all.Until(), all.Reason(), all.Source() == account.Operator, a.blocks.AnyModel(), a.blocks.Clone()})
}

func (a *accountDesk) publish() {
	put(&a.figures.held, int64(a.gate.Held()))
	put(&a.figures.slots, int64(a.gate.Slots()))
	if a.figures.active.Load() != a.spec.Active {
		a.figures.active.Store(a.spec.Active)
	}
}
