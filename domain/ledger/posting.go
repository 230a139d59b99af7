package ledger

import (
	"cmp"
	"slices"
	"strings"

	"github.com/penstock/penstock/domain/limit"
	"github.com/penstock/penstock/domain/money"
)

// Accounts of the books that are no one's own. What stands in them with a plus has been earned or is owed to somebody;
// with a minus, it was paid in, was spent, or somebody owes it.
const (
	Credits     = "credits"     // what operators credited: money that came in
	Adjustments = "adjustments" // what they corrected
	Revenue     = "revenue"     // what callers were charged
)

// BalanceOf is the account with what is left of a user's credit.
func BalanceOf(user string) string { return "balance/" + user }

// SubscriptionOf is the account with what a subscription has paid.
func SubscriptionOf(user, id string) string { return "subscription/" + user + "/" + id }

// OwedBy is the account with what a user that lives on no money of its own has spent, or a key without a user.
func OwedBy(user, key string) string {
	if user == "" {
		return "owed/key/" + key
	}
	return "owed/" + user
}

// CostOf is the account with what an upstream has cost, PayableTo that with what it is owed for it.
func CostOf(upstream string) string { return "cost/" + upstream }

// PayableTo is the account with what an upstream is owed.
func PayableTo(upstream string) string { return "payable/" + upstream }

// PaidByBalance is what Usage.PaidBy says when the user's balance pays.
const PaidByBalance = limit.PaidByBalance

// Side is one line of a posting.
type Side struct {
	Account string       `json:"account"`
	Amount  money.Amount `json:"amount"`
}

// Posting is one entry of the books: its sides sum to zero.
type Posting []Side

// Sum is 0.
func (p Posting) Sum() (sum money.Amount) {
	for _, s := range p {
		sum += s.Amount
	}
	return sum
}

// On is what the posting changes an account by.
func (p Posting) On(account string) (sum money.Amount) {
	for _, s := range p {
		if s.Account == account {
			sum += s.Amount
		}
	}
	return sum
}

// moved is a posting of an amount from one account to another.
func moved(from, to string, amount money.Amount) Posting {
	return Posting{{to, amount}, {from, -amount}}
}

// Posting books the credit.
func (c Credited) Posting() Posting { return moved(Credits, BalanceOf(c.User), c.Amount) }

// Posting books the adjustment.
func (a Adjusted) Posting() Posting { return moved(Adjustments, BalanceOf(a.User), a.Amount) }

// Usage is what somebody has used, or the difference that a repricing makes to it.
type Usage struct {
	Key          string
	User         string       // "" for a key without one
	PaidBy       string       // as request.Admitted tells it
	Upstream     string       // that was used
	Cost         money.Amount // of the caller
	UpstreamCost money.Amount // of the operator
}

// payer is the account that is charged.
func (u Usage) payer() string {
	if u.PaidBy == PaidByBalance {
		return BalanceOf(u.User)
	}
	if id, ok := strings.CutPrefix(u.PaidBy, limit.PaidBySubscription); ok {
		return SubscriptionOf(u.User, id)
	}
	return OwedBy(u.User, u.Key)
}

// Posting books what the caller pays, and what the upstream is owed.
func (u Usage) Posting() Posting {
	return append(moved(u.payer(), Revenue, u.Cost), moved(CostOf(u.Upstream), PayableTo(u.Upstream), u.UpstreamCost)...)
}

// Trial is the sums of postings by account. Make one with make.
type Trial map[string]money.Amount

// Add adds a posting.
func (t Trial) Add(p Posting) {
	for _, s := range p {
		t[s.Account] += s.Amount
	}
}

// Sum is 0 when every posting was.
func (t Trial) Sum() (sum money.Amount) {
	for _, amount := range t {
		sum += amount
	}
	return sum
}

// Accounts are those with something in them, in order of their names.
func (t Trial) Accounts() []Side {
	list := make([]Side, 0, len(t))
	for account, amount := range t {
		if amount != 0 {
			list = append(list, Side{account, amount})
		}
	}
	slices.SortFunc(list, func(a, b Side) int { return cmp.Compare(a.Account, b.Account) })
	return list
}
