package actors

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/penstock/penstock/domain/limit"
	"github.com/penstock/penstock/domain/money"
)

// budgetDesk is the budgets that callers share: of groups, of the platform, of upstreams. One actor has them all, so that
// money is set aside at all of those that a request needs, or at none, in one step.
type budgetDesk struct {
	sys *System
	of  map[string]*limit.Budget
}

// share is a part of a request's money at one shared budget.
type share struct {
	budget string
	amount money.Amount
}

// reserveBudgets sets money aside, all or nothing.
type reserveBudgets struct {
	quiet
	id    string
	of    []share // the new worst case of all attempts
	reply chan limit.Refusal
}

// settleBudgets ends a request at budgets.
type settleBudgets struct {
	quiet
	id   string
	of   []share // what it has cost
	at   time.Time
	paid bool // else it is refunded
}

// spendBudgets counts what was not reserved: the difference that a repricing makes.
type spendBudgets struct {
	quiet
	of []share
	at time.Time
}

type reconfigureBudgets struct {
	quiet
	of    map[string]limit.Money
	reply chan budgetsMissing
}

// budgetsMissing is the budgets with a rule that does not know what was spent before, and how much of that counts.
type budgetsMissing struct {
	names []string
	past  limit.Past
	err   error
}

func (m *reserveBudgets) refuse(r Reason) {
	tell(m.reply, limit.Refusal{Code: limitFault, Reason: string(r)})
}
func (m *reconfigureBudgets) refuse(r Reason) { tell(m.reply, budgetsMissing{err: reasonError(r)}) }

func (d *budgetDesk) receive(_ actor.Context, msg any) {
	d.sys.before("budgets", msg)
	now := d.sys.now()
	switch m := msg.(type) {
	case *reserveBudgets:
		m.reply <- d.reserve(m, now)
	case *settleBudgets:
		d.settle(m)
	case *spendBudgets:
		for _, s := range m.of {
			if b := d.of[s.budget]; b != nil {
				b.Spend(s.amount, m.at)
			}
		}
	case *reconfigureBudgets:
		m.reply <- d.reconfigure(m.of, now)
	case *inside[*budgetDesk]:
		m.perform(d)
	}
}

// reserve puts back what it has changed when one refuses.
func (d *budgetDesk) reserve(m *reserveBudgets, now time.Time) limit.Refusal {
	before := make([]money.Amount, 0, len(m.of)) // -1: none
	for i, s := range m.of {
		b := d.of[s.budget]
		if b == nil {
			before = append(before, -1)
			continue
		}
		held, had := b.Held(m.id)
		if !had {
			held = -1
		}
		if no := b.Reserve(m.id, s.amount, now); !no.OK() {
			for k := range i {
				d.putBack(m.of[k].budget, m.id, before[k])
			}
			return no
		}
		before = append(before, held)
	}
	return limit.Refusal{}
}

func (d *budgetDesk) putBack(budget, id string, held money.Amount) {
	switch b := d.of[budget]; {
	case b == nil:
	case held < 0:
		b.Refund(id)
	default:
		b.Reopen(id, held)
	}
}

func (d *budgetDesk) settle(m *settleBudgets) {
	for _, s := range m.of {
		b := d.of[s.budget]
		switch {
		case b == nil:
		case !m.paid:
			b.Refund(m.id)
		default:
			if _, ok := b.Settle(m.id, s.amount, m.at); !ok { // the budget is younger than the request
				b.Spend(s.amount, m.at)
			}
		}
	}
}

func (d *budgetDesk) reconfigure(of map[string]limit.Money, now time.Time) budgetsMissing {
	is := budgetsMissing{past: limit.Past{Since: now}}
	next := make(map[string]*limit.Budget, len(of))
	for name, rules := range of {
		b := d.of[name]
		if b == nil {
			b = limit.NewBudget(name, limit.Money{})
		}
		if b.Reconfigure(rules, now) {
			is.names, is.past = append(is.names, name), is.past.With(b.Missing(now))
		}
		next[name] = b
	}
	d.of = next
	return is
}

func (d *budgetDesk) after() {}

func (d *budgetDesk) fault(msg any) {
	if m, ok := msg.(*settleBudgets); ok { // what was settled before the fault is not held any more
		m.of = slices.DeleteFunc(m.of, func(s share) bool {
			b := d.of[s.budget]
			if b == nil {
				return true
			}
			_, held := b.Held(m.id)
			return !held
		})
		d.settle(m)
	}
	turnAway(msg, LocalFault)
}

func (d *budgetDesk) stop() {}

// placeBudgets starts and tells the actor of the shared budgets.
func (s *System) placeBudgets(of map[string]limit.Money) budgetsMissing {
	desk := s.budgets.Load()
	if desk == nil {
		if len(of) == 0 {
			return budgetsMissing{}
		}
		r := s.spawn("budgets", &budgetDesk{sys: s})
		desk = &r
		s.budgets.Store(desk)
	}
	m := &reconfigureBudgets{of: of, reply: make(chan budgetsMissing, 1)}
	s.send(desk.pid, m)
	is := answered(m.reply, desk.gone, budgetsMissing{err: reasonError(Stopped)})
	if is.err != nil {
		s.log.Error("shared budgets kept their old settings", "error", is.err)
	}
	return is
}

// reserveShares sets money aside at shared budgets, all or nothing.
func (s *System) reserveShares(id string, of []share) limit.Refusal {
	desk := s.budgets.Load()
	if desk == nil || len(of) == 0 {
		return limit.Refusal{}
	}
	m := &reserveBudgets{id: id, of: of, reply: make(chan limit.Refusal, 1)}
	s.send(desk.pid, m)
	return answered(m.reply, desk.gone, limit.Refusal{Code: limitFault, Reason: string(Stopped)})
}

// settleShares ends a request at shared budgets. It waits for nothing.
func (s *System) settleShares(id string, of []share, at time.Time, paid bool) {
	if desk := s.budgets.Load(); desk != nil && len(of) > 0 {
		s.send(desk.pid, &settleBudgets{id: id, of: of, at: at, paid: paid})
	}
}
