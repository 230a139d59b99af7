package actors

import (
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/domain/limit"
	"github.com/penstock/penstock/domain/money"
)

// share names.
const platformBudget = "platform"

func groupBudget(id string) string    { return "group/" + id }
func upstreamBudget(id string) string { return "upstream/" + id }

// learnPast tells rules that are new what was spent before them. When the whole past has to be read, it tells all balances of the
// directory what was spent from them, so that it is not read again for each user that comes to live on one.
func (s *System) learnPast(dir *directory, callers []*callerRef, past limit.Past, budgets budgetsMissing) {
	if len(callers)+len(budgets.names) == 0 || s.history == nil {
		return
	}
	if len(budgets.names) > 0 {
		past = past.With(budgets.past)
	}
	spent := make(map[CallerID]*pastSpent, len(callers))
	for _, r := range callers {
		spent[r.id] = &pastSpent{before: past.Since}
	}
	now := s.now()
	for id, r := range dir.callers {
		if past.Whole && r.dark && spent[id] == nil {
			spent[id] = &pastSpent{before: past.Since, only: limit.PaidByBalance}
			callers = append(callers, r)
			s.reported(r.id, within(s, r.ref, func(d *callerDesk) { d.limits.Wonder(now) }))
		}
	}
	shared := make(map[string]*pastSpent, len(budgets.names))
	for _, name := range budgets.names {
		shared[name] = &pastSpent{before: past.Since}
	}
	err := s.history(past, func(u *Used) {
		owner, alone := callerID(u.User, u.Key), callerID("", u.Key) // alone: the key has left its user since
		x := limit.Spent{Key: u.Key, PaidBy: u.PaidBy, At: u.Settled, Cost: u.Cost}
		if spent[owner].add(x); owner != alone {
			spent[alone].add(x)
		}
		x.Key, x.PaidBy = "", ""
		shared[groupBudget(u.Group)].add(x)
		shared[platformBudget].add(x)
		for _, a := range u.Upstreams {
			x.Cost = a.Cost
			shared[upstreamBudget(a.Upstream)].add(x)
		}
	})
	if err != nil {
		s.log.Error("limits do not know what was spent before", "error", err)
		return
	}
	for _, r := range callers {
		err := within(s, r.ref, func(d *callerDesk) {
			spent[r.id].each(d.limits.Fill)
			d.limits.Filled(past.Whole)
		})
		s.reported(r.id, err)
		r.dark = r.dark && (err != nil || !past.Whole)
	}
	if len(budgets.names) > 0 {
		s.reported("budgets", within(s, *s.budgets.Load(), func(d *budgetDesk) {
			for name, list := range shared {
				if b := d.of[name]; b != nil {
					list.each(func(x limit.Spent) { b.Fill(x.Cost, x.At) })
					b.Filled()
				}
			}
		}))
	}
}

// pastSpent collects what one owner has spent: by its moments, and summed up before they count.
type pastSpent struct {
	before time.Time
	only   string                       // of this payer; "": of all
	whole  map[limit.Spent]money.Amount // by key and payer, at before and without a cost
	list   []limit.Spent
}

// add takes one; nil takes none.
func (p *pastSpent) add(x limit.Spent) {
	switch {
	case p == nil || x.Cost == 0 || p.only != "" && x.PaidBy != p.only:
	case x.At.Before(p.before):
		cost := x.Cost
		x.At, x.Cost = time.Time{}, 0
		if p.whole == nil {
			p.whole = map[limit.Spent]money.Amount{}
		}
		p.whole[x] += cost
	default:
		p.list = append(p.list, x)
	}
}

// each tells it all: sums as if they had been spent just before the moments that count.
func (p *pastSpent) each(tell func(limit.Spent)) {
	for x, cost := range p.whole {
		x.At, x.Cost = p.before.Add(-time.Microsecond), cost
		tell(x)
	}
	for _, x := range p.list {
		tell(x)
	}
}

func (s *System) reported(whose string, err error) {
	if err != nil {
		s.log.Error("limits do not know what was spent before", "of", whose, "error", err)
	}
}

// minute is how far back the windows of rates reach.
const minute = time.Minute

// RestoreRates brings the windows of rates to where they were: what was sent within the last minute counts from its
// arrival on, and what it has used beyond its estimate from its settlement on. Call it before there is traffic. Where nobody
// has such a window the history is not read.
func (s *System) RestoreRates(now time.Time) error {
	dir := s.dir.Load()
	if s.history == nil || !dir.rated {
		return nil
	}
	of := map[*callerRef][]Used{}
	err := s.history(limit.Past{Since: now.Add(-minute - time.Second)}, func(u *Used) {
		if r := dir.keys[u.Key]; r != nil && !u.summed {
			of[r] = append(of[r], *u)
		}
	})
	for r, list := range of {
		err = errors.CombineErrors(err, within(s, r.ref, func(d *callerDesk) {
			for _, u := range list {
				if u.Tokens < 0 {
					u.Tokens = u.Estimate
				}
				if now.Sub(u.Arrived) <= minute {
					d.limits.Charge(u.Key, 1, min(u.Estimate, u.Tokens), u.Arrived)
				}
				d.limits.Charge(u.Key, 0, u.Tokens-u.Estimate, u.Settled)
			}
		}))
	}
	return err
}
