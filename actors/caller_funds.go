package actors

import (
	"time"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/limit"
	"github.com/penstock/penstock/domain/money"
)

// Funds is what a user was given by operators. The zero value is nothing.
type Funds struct {
	Lives         bool // on its balance, since something was booked on it
	Credited      money.Amount
	Subscriptions []limit.Subscription // in the order in which they pay
}

// policyOf is what a user and its keys may use: by the catalogue, and by what it was given. The caller holds changing.
func (s *System) policyOf(user *catalog.User, keys []catalog.Key) limit.Policy {
	p := catalog.CallerPolicy(user, keys)
	if user != nil && s.funds != nil {
		f := s.funds(user.ID)
		p.Balance = p.Balance || f.Lives
		p.Credited, p.Subscriptions = f.Credited, f.Subscriptions
	}
	return p
}

// takeFunds lets actors of users know what they were given; of none, all of them. It is in force when it returns.
func (s *System) takeFunds(users ...string) {
	s.changing.Lock()
	defer s.changing.Unlock()
	dir := s.dir.Load()
	callers := dir.callers
	var of []*callerRef
	for _, user := range users {
		if r := callers[callerID(user, "")]; r != nil {
			of = append(of, r)
		}
	}
	if len(users) == 0 {
		for _, r := range callers {
			if r.user != nil {
				of = append(of, r)
			}
		}
	}
	var missing []*callerRef
	past := limit.Past{Since: s.now()}
	for _, r := range of {
		p, is := s.policyOf(r.user, r.keys), reconfigured{}
		s.reported(r.id, within(s, r.ref, func(d *callerDesk) { is = d.limit(p, s.now()) }))
		if is.missing {
			missing, past = append(missing, r), past.With(is.past)
		}
	}
	s.learnPast(dir, missing, past, budgetsMissing{})
}

// Steady runs do while no limit is told what was spent before: what do stores and tells, in either order, is counted once. do
// may not change the configuration.
func (s *System) Steady(do func() error) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	return do()
}

// Repriced tells the limits by how much a request that was settled at a time costs more now, or less: those of its caller and
// whoever pays for it, and the budgets that callers share; upstreams has the differences of their costs. Store the fact and
// call it within one Steady. It waits for nothing.
func (s *System) Repriced(key, user, group, paidBy string, at time.Time, cost money.Amount, upstreams []UsedUpstream) {
	owner, dir := callerID(user, key), s.dir.Load()
	if r := dir.caller(owner); r != nil && cost != 0 {
		s.send(r.pid, &spendCaller{Spent: limit.Spent{Key: key, PaidBy: paidBy, At: at, Cost: cost}})
	}
	if r := dir.keys[key]; r != nil && r.id != owner && cost != 0 {
		s.send(r.pid, &spendCaller{Spent: limit.Spent{Key: key, At: at, Cost: cost, Moved: true}})
	}
	desk := s.budgets.Load()
	if desk == nil {
		return
	}
	of := []share{{platformBudget, cost}, {groupBudget(group), cost}}
	for _, u := range upstreams {
		of = append(of, share{upstreamBudget(u.Upstream), u.Cost})
	}
	s.send(desk.pid, &spendBudgets{of: of, at: at})
}
