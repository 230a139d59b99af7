package actors

import (
	"cmp"
	"time"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/dialect"
	"github.com/penstock/penstock/domain/failure"
	"github.com/penstock/penstock/domain/limit"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/domain/routing"
)

// purse is what a request has cost so far, by the facts that are stored or will be, and where.
type purse struct {
	cost   money.Amount // of the caller
	tokens int64
	spent  []UsedUpstream   // at the upstreams' prices, one for each attempt
	room   [2]UsedUpstream  // for those of most requests
	funded []string         // budgets of upstreams, and of former groups, at which money is set aside
	group  string           // budget of the group at which some is
	held   pricing.Bound    // what the next attempt may cost, by limits that are strict
	strict bool             // those of the caller are
	sure   bool             // the upstream's is
	most   *pricing.Ask     // the request's bounds, once they were needed: they take a walk over its body
	short  *failure.Refusal // of an upstream whose budget had none left
	paidBy string           // of the user's own money, since it was reserved
}

// count adds what a failed attempt has cost; times -1 takes it back, since it is told otherwise.
func (p *purse) count(f *request.Failed, times int64) {
	p.cost += f.Cost * money.Amount(times)
	p.tokens += f.Usage.Total() * times
	p.atUpstream(f.N, f.UpstreamCost*money.Amount(times))
}

func (p *purse) atUpstream(attempt int, cost money.Amount) {
	if attempt > 0 && attempt <= len(p.spent) {
		p.spent[attempt-1].Cost += cost
	}
}

// discard drops facts that will not be stored: what they tell of is told by the settlement.
func (l *life) discard() {
	l.untell(l.facts)
	l.facts = l.facts[:0]
}

func (l *life) untell(facts []any) {
	for _, f := range facts {
		if x, ok := f.(*request.Failed); ok {
			l.purse.count(x, -1)
		}
	}
}

// charged is the estimate that the windows of tokens take on arrival. Counting tokens uses none.
func (l *life) charged() int64 {
	if l.c.Endpoint.Kind == dialect.CountTokens {
		return 0
	}
	return l.inputEstimate()
}

// bills notes what the whole request has cost; the limits learn it when the pass is given back.
func (l *life) bills(s *request.Settled) {
	p := &l.purse
	p.atUpstream(l.attempts, s.UpstreamCost)
	l.pass.paid, l.pass.paidBy = l.sent, p.paidBy
	l.pass.bill = limit.Settlement{At: l.tookAt, Cost: p.cost + s.Cost, Tokens: p.tokens + s.Usage.Total()}
	if l.pass.bill.Tokens == 0 && !known(s) {
		l.pass.bill.Tokens = -1
	}
}

// settleShared ends the request at the budgets that callers share.
func (l *life) settleShared() {
	if l.d.System.budgets.Load() == nil {
		return
	}
	of := []share{{platformBudget, l.pass.bill.Cost}}
	if g := l.c.Ask.Group; g != "" {
		of = append(of, share{groupBudget(g), l.pass.bill.Cost})
	}
	add := func(budget string, a money.Amount) {
		for i := range of {
			if of[i].budget == budget {
				of[i].amount += a
				return
			}
		}
		of = append(of, share{budget, a})
	}
	for _, s := range l.purse.spent {
		add(upstreamBudget(s.Upstream), s.Cost)
	}
	for _, budget := range l.purse.funded {
		add(budget, 0)
	}
	if l.purse.group != "" {
		add(l.purse.group, 0)
	}
	l.d.System.settleShares(l.c.ID, of, l.pass.bill.At, l.pass.paid)
}

// limitRefusal is what the client is told of a limit.
func (l *life) limitRefusal(no limit.Refusal) *failure.Refusal {
	r := failure.New(string(no.Code), no.Reason).WithUntil(no.Reopens, l.now())
	return &r
}

// reopens is the moment at which a limit of the caller opens, which is exact; of other refusals nothing is promised.
func reopens(r failure.Refusal) time.Time {
	if r.Stage == failure.StageAuthFilter {
		return r.Until
	}
	return time.Time{}
}

func moneyed(l *catalog.Limits) bool { return l != nil && (l.Budget != "" || len(l.Spending) > 0) }

const strict = "strict"

// own says whether money of the caller's own is limited, that of its key and of its user, and whether strictly.
func (l *life) own() (limited, strictly bool) {
	limited, mode := moneyed(l.key.Limits), l.key.Budget
	user := l.snap.User(l.c.Ask.User)
	if user == nil {
		return limited || l.pass.funded, limited && mode == strict
	}
	strictly = limited && cmp.Or(mode, user.Budget) == strict
	if moneyed(user.Limits) || l.pass.funded {
		limited, strictly = true, strictly || user.Budget == strict
	}
	return limited, strictly
}

// reserve sets the worst case of the request aside at everything that pays for it, in the order of B32: the caller's own, then
// its group's and the platform's; again before each further attempt, and after a wait, since others may have spent meanwhile
// (B11, B47). Where no limit is strict it only looks whether anything is left.
func (l *life) reserve() *failure.Refusal {
	own, mustBound := l.own()
	var room [2]share
	shared := room[:0]
	if g := l.snap.Group(l.c.Ask.Group); g != nil && moneyed(g.Limits) {
		shared = append(shared, share{budget: groupBudget(g.ID)})
		if p := &l.purse; p.group != shared[0].budget {
			if p.group != "" { // the key was moved to another one meanwhile
				p.funded = append(p.funded, p.group)
			}
			p.group = shared[0].budget
		}
		mustBound = mustBound || g.Budget == strict
	}
	if g := &l.snap.Settings.Guards; g.PlatformDaily > 0 || g.PlatformMonthly > 0 {
		shared = append(shared, share{budget: platformBudget})
		mustBound = mustBound || g.PlatformStrict
	}
	if l.purse.strict = false; !own && len(shared) == 0 {
		return nil
	}
	var worst money.Amount
	if mustBound {
		var offers []catalog.Offer
		for i := range l.tries {
			if t := &l.tries[i]; !t.dead {
				offers = append(offers, l.offer(t.Candidate))
			}
		}
		if worst = l.worst(offers).Caller; worst >= 0 {
			l.purse.held.Caller = worst
			worst += l.purse.cost
		}
	}
	l.purse.strict = mustBound && worst >= 0
	if own {
		by, no := l.d.System.reserve(l.pass, worst)
		if !no.OK() {
			return l.limitRefusal(no)
		}
		l.purse.paidBy = by
	}
	for i := range shared {
		shared[i].amount = worst
	}
	if len(shared) > 0 {
		if no := l.d.System.reserveShares(l.c.ID, append([]share(nil), shared...)); !no.OK() {
			return l.limitRefusal(no)
		}
	}
	return nil
}

// fund sets money aside at the upstream that has been leased, at its own prices. False: its budget has none left, the lease is
// given back, and the request does not ask it again.
func (l *life) fund() bool {
	if l.purse.sure = false; !moneyed(l.up.Limits) {
		return true
	}
	of := share{budget: upstreamBudget(l.up.ID)}
	if l.up.Budget == strict {
		of.amount = l.worst([]catalog.Offer{l.offer(l.cand)}).Upstream
		l.purse.held.Upstream, l.purse.sure = of.amount, of.amount >= 0
	}
	if of.amount >= 0 {
		for _, s := range l.purse.spent {
			if s.Upstream == l.up.ID {
				of.amount += s.Cost
			}
		}
	}
	no := l.d.System.reserveShares(l.c.ID, []share{of})
	if no.OK() {
		l.purse.funded = append(l.purse.funded, of.budget)
		return true
	}
	l.purse.short = l.limitRefusal(no)
	for i := range l.tries {
		if t := &l.tries[i]; t.Upstream.ID == l.up.ID {
			t.dead, t.reason, t.until = true, NoBudget, no.Reopens
		}
	}
	l.release()
	return false
}

func (l *life) offer(c *routing.Candidate) catalog.Offer {
	return catalog.Offer{Upstream: l.snap.Upstream(c.Upstream.ID), Model: l.modelAt(c), UpstreamModel: c.UpstreamModel}
}

// worst is the most that one attempt can cost, limit.Unbounded where nobody knows.
func (l *life) worst(offers []catalog.Offer) pricing.Bound {
	if l.c.Endpoint.Kind == dialect.CountTokens {
		return pricing.Bound{}
	}
	p := &l.purse
	if p.most == nil {
		most := bounds(l.c)
		p.most = &most
	}
	var most pricing.Bound
	for _, at := range l.priced() {
		b, err := l.snap.Worst(payer(&l.c.Ask), *p.most, at, offers...)
		if err != nil {
			return pricing.Bound{Upstream: limit.Unbounded, Caller: limit.Unbounded}
		}
		most = most.Max(b)
	}
	return most
}

// soon is longer than it takes from a reservation until its request is admitted: what waits is admitted before it does.
const soon = time.Second

// priced is when the prices are in force that will count: those of the moment of Admitted, which has come or will in a moment.
func (l *life) priced() []time.Time {
	if l.version > 0 {
		return []time.Time{l.admittedAt.Truncate(time.Microsecond)}
	}
	now := l.now()
	return []time.Time{now, now.Add(soon)}
}
