package actors

import (
	"slices"
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
	need := s.unread.with(unread{callers, past, budgets.names}, dir)
	if len(budgets.names) > 0 {
		need.past = need.past.With(budgets.past)
	}
	if len(need.callers)+len(need.budgets) == 0 {
		return
	}
	again := !s.unread.empty()
	s.unread = unread{}
	t := s.newTeller(dir, &need)
	s.settling.wait()
	if err := s.history(need.past, t.see); err != nil {
		s.log.Error("limits do not know what was spent before; strict ones refuse until they do", "error", err)
		s.misses(need)
		return
	}
	t.tell()
	if t.end(need.past.Whole); again {
		s.log.Info("limits know again what was spent before")
	}
}

// teller tells limits what was spent before them, while it is read.
type teller struct {
	sys     *System
	keys    map[string]*callerRef
	callers []*callerRef
	spent   map[CallerID]*pastSpent
	shared  map[string]*pastSpent // budgets
	kept    int
}

func (s *System) newTeller(dir *directory, need *unread) *teller {
	t := &teller{
		sys: s, keys: dir.keys, callers: slices.Clone(need.callers), spent: make(map[CallerID]*pastSpent, len(need.callers)),
		shared: make(map[string]*pastSpent, len(need.budgets)),
	}
	before := need.past.Since
	for _, r := range need.callers {
		t.spent[r.id] = &pastSpent{before: before}
	}
	for id, r := range dir.callers {
		if need.past.Whole && r.dark && t.spent[id] == nil {
			t.spent[id] = &pastSpent{before: before, only: limit.PaidByBalance}
			t.callers = append(t.callers, r)
			s.reported(r.id, within(s, r.ref, func(d *callerDesk) { d.limits.Wonder(s.now()) }))
		}
	}
	for _, name := range need.budgets {
		t.shared[name] = &pastSpent{before: before}
	}
	return t
}

// see takes what one request has used.
func (t *teller) see(u *Used) {
	owner := callerID(u.User, u.Key)
	x := limit.Spent{Key: u.Key, PaidBy: u.PaidBy, At: u.Settled, Cost: u.Cost}
	t.kept += t.spent[owner].add(x)
	if r := t.keys[u.Key]; r != nil && r.id != owner {
		t.kept += t.spent[r.id].add(limit.Spent{Key: u.Key, At: u.Settled, Cost: u.Cost, Moved: true})
	}
	x.Key, x.PaidBy = "", ""
	t.kept += t.shared[groupBudget(u.Group)].add(x) + t.shared[platformBudget].add(x)
	for _, a := range u.Upstreams {
		x.Cost = a.Cost
		t.kept += t.shared[upstreamBudget(a.Upstream)].add(x)
	}
	if t.kept >= pastKept {
		t.tell()
	}
}

// tell tells what is kept.
func (t *teller) tell() {
	t.kept = 0
	for _, r := range t.callers {
		if p := t.spent[r.id]; len(p.list) > 0 {
			t.sys.reported(r.id, within(t.sys, r.ref, func(d *callerDesk) { p.each(d.limits.Fill) }))
		}
	}
	t.budgets(func(b *limit.Budget, p *pastSpent) {
		p.each(func(x limit.Spent) { b.Fill(x.Cost, x.At) })
	})
}

// end tells the sums, and that this is all.
func (t *teller) end(whole bool) {
	for _, r := range t.callers {
		err := within(t.sys, r.ref, func(d *callerDesk) {
			p := t.spent[r.id]
			if p.sum(d.limits.Fill); p.only != "" {
				d.limits.FilledBalance()
			} else {
				d.limits.Filled(whole)
			}
		})
		t.sys.reported(r.id, err)
		r.dark = r.dark && (err != nil || !whole)
	}
	t.budgets(func(b *limit.Budget, p *pastSpent) {
		p.sum(func(x limit.Spent) { b.Fill(x.Cost, x.At) })
		b.Filled()
	})
}

func (t *teller) budgets(do func(*limit.Budget, *pastSpent)) {
	if len(t.shared) == 0 {
		return
	}
	t.sys.reported("budgets", within(t.sys, *t.sys.budgets.Load(), func(d *budgetDesk) {
		for name, p := range t.shared {
			if b := d.of[name]; b != nil {
				do(b, p)
			}
		}
	}))
}

// pastKept is how many settlements are kept before they are told, so that a long past takes no more memory than a short one.
const pastKept = 1 << 15

// pastSpent collects what one owner has spent: by its moments, and summed up before they count.
type pastSpent struct {
	before time.Time
	only   string                       // of this payer; "": of all
	whole  map[limit.Spent]money.Amount // by key and payer, at before and without a cost
	list   []limit.Spent
}

// add takes one; nil takes none. It says how many more are kept.
func (p *pastSpent) add(x limit.Spent) (more int) {
	switch {
	case p == nil || x.Cost == 0 || p.only != "" && x.PaidBy != p.only:
		return 0
	case x.At.Before(p.before):
		cost := x.Cost
		x.At, x.Cost = time.Time{}, 0
		if p.whole == nil {
			p.whole = map[limit.Spent]money.Amount{}
		}
		p.whole[x] += cost
		return 0
	}
	p.list = append(p.list, x)
	return 1
}

// each tells what is kept, and keeps it no more.
func (p *pastSpent) each(tell func(limit.Spent)) {
	for _, x := range p.list {
		tell(x)
	}
	p.list = nil
}

// sum tells what was spent before the moments count, as if it had been spent just before them.
func (p *pastSpent) sum(tell func(limit.Spent)) {
	for x, cost := range p.whole {
		x.At, x.Cost = p.before.Add(-time.Microsecond), cost
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
	if !dir.rated {
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
