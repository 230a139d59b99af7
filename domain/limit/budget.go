package limit

import (
	"math"
	"time"

	"github.com/penstock/penstock/domain/money"
)

// Budget is a limit of money that many callers share: of a group, of the platform, of an upstream. It keeps the set of
// requests that it has set money aside for, never a counter, so that repeating a command changes nothing. Make it with
// NewBudget.
type Budget struct {
	owner string
	m     meter
	held  map[string]money.Amount // by request
}

// NewBudget makes one with nothing spent. owner is its name in refusals, such as "group/team-a".
func NewBudget(owner string, p Money) *Budget {
	b := &Budget{owner: owner, held: map[string]money.Amount{}}
	b.m.configure(p, math.MinInt64)
	return b
}

// Reconfigure sets other rules from the next request on. Sums of periods that stay are kept. When it says true a rule is
// new: read the settlements before now, Fill them in, and say Filled; or Unread, when that fails. Until then the new rule counts
// from now on.
func (b *Budget) Reconfigure(p Money, now time.Time) (missing bool) {
	return b.m.configure(p, now.UnixMicro())
}

// Check says whether anything is left.
func (b *Budget) Check(now time.Time) Refusal {
	return b.m.check(BudgetExceeded, b.owner, now.UnixMicro())
}

// Reserve sets the worst case of a request aside, or an estimate when the budget is postpaid; Unbounded is for what has
// none. Again for the same request, it is the new worst case of all its attempts together (top up on failover); when
// that is refused, what was set aside stays.
func (b *Budget) Reserve(id string, worst money.Amount, now time.Time) Refusal {
	own, again := b.held[id]
	held, no := b.m.grant(BudgetExceeded, b.owner, worst, own, now.UnixMicro())
	if no.OK() || again {
		b.held[id] = held
	}
	return no
}

// Held is what is set aside for a request; false when it is not known.
func (b *Budget) Held(id string) (money.Amount, bool) {
	a, ok := b.held[id]
	return a, ok
}

// Refund gives back what was set aside for a request that sends nothing. False when it is not known.
func (b *Budget) Refund(id string) bool {
	held, ok := b.held[id]
	if ok {
		delete(b.held, id)
		b.m.reserved -= held
	}
	return ok
}

// Settle replaces what was set aside by what the request has cost. over is by how much that is more. Only the first of
// several settlements counts; the others, and those of requests that are not known, say false (pains 16, 20).
func (b *Budget) Settle(id string, cost money.Amount, at time.Time) (over money.Amount, ok bool) {
	held := b.held[id]
	if !b.Refund(id) {
		return 0, false
	}
	b.m.spend(at.UnixMicro(), cost)
	return max(cost-held, 0), true
}

// Spend counts what was spent without a reservation here: a settlement that is folded, or the difference of a reprice
// at the time of the settlement that it corrects.
func (b *Budget) Spend(cost money.Amount, at time.Time) { b.m.spend(at.UnixMicro(), cost) }

// Reopen restores what was set aside for a request that is open, without asking.
func (b *Budget) Reopen(id string, held money.Amount) {
	b.m.reserved += held - b.held[id]
	b.held[id] = held
}

// Fill counts a settlement from before Reconfigure for the rules that are new since. See Reconfigure.
func (b *Budget) Fill(cost money.Amount, at time.Time) { b.m.fill(at.UnixMicro(), cost) }

// Missing is how much of what was spent before is not known yet.
func (b *Budget) Missing(now time.Time) Past { return b.m.missing(now) }

// Unread says that what is missing could not be told to its end: until it is, from the beginning, a strict rule that misses some
// refuses.
func (b *Budget) Unread(now time.Time) { b.m.unread(now.UnixMicro()) }

// Filled ends Fill: nothing is missing any more.
func (b *Budget) Filled() { b.m.filled() }

// BudgetView is a budget for people.
type BudgetView struct {
	Owner    string
	Mode     Mode
	Reserved money.Amount
	Open     int // requests that have money set aside
	Sums     []Sum
}

// View is the state at a time.
func (b *Budget) View(now time.Time) BudgetView {
	return BudgetView{b.owner, b.m.mode, b.m.reserved, len(b.held), b.m.views(now.UnixMicro())}
}
