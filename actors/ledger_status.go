package actors

import (
	"time"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/limit"
	"github.com/penstock/penstock/domain/money"
)

// AccountView is what a user was given, what it has spent of it, and what is left, for people.
type AccountView struct {
	User          string               `json:"user"`
	OnBalance     bool                 `json:"on_balance"`    // it lives on its balance: without credit it is served nothing
	Budget        string               `json:"budget"`        // how balance and subscriptions are kept: strict, postpaid
	Credited      money.Amount         `json:"credited"`      // credits and adjustments together
	Spent         money.Amount         `json:"spent"`         // of the balance
	Reserved      money.Amount         `json:"reserved"`      // for requests that are running
	Overdraft     money.Amount         `json:"overdraft"`     // by how much the balance may be below zero
	Left          money.Amount         `json:"left"`          // that the next request may use: credited + overdraft - spent - reserved
	Running       int                  `json:"running"`       // requests between their admission and their end
	Subscriptions []SubscriptionStatus `json:"subscriptions"` // in the order in which they pay
}

// SubscriptionStatus is one subscription with its windows.
type SubscriptionStatus struct {
	ID       string        `json:"id"`
	Group    string        `json:"group,omitempty"` // only for keys of that group
	Starts   time.Time     `json:"starts"`
	Expires  time.Time     `json:"expires,omitzero"` // absent: never
	Overflow bool          `json:"overflow"`         // the balance pays what it has no room for
	InForce  bool          `json:"in_force"`
	Windows  []SpentStatus `json:"windows"` // resets_at is when the next one begins
}

// Account looks at what a user was given and has left; false when the catalogue does not know it.
func (l *Ledger) Account(user string) (AccountView, bool) {
	u := l.catalog().User(user)
	if u == nil {
		return AccountView{}, false
	}
	return l.account(u)
}

// Accounts is Account of every user of the catalogue, in the order of their ids.
func (l *Ledger) Accounts() []AccountView {
	users := l.catalog().Users()
	list := make([]AccountView, 0, len(users))
	for i := range users {
		if v, ok := l.account(&users[i]); ok {
			list = append(list, v)
		}
	}
	return list
}

func (l *Ledger) account(u *catalog.User) (v AccountView, ok bool) {
	r := l.system.dir.Load().callers[callerID(u.ID, "")]
	if r == nil {
		return v, false
	}
	var is limit.View
	if err := within(l.system, r.ref, func(d *callerDesk) { is = d.limits.View(l.system.now()) }); err != nil {
		return v, false
	}
	f := l.Funds(u.ID)
	v = AccountView{User: u.ID, Budget: is.Mode.String(), Credited: f.Credited, Running: is.Open, Subscriptions: subscriptionStatus(is)}
	if b := is.Balance; b != nil {
		v.OnBalance, v.Credited, v.Spent, v.Reserved, v.Overdraft, v.Left = true, b.Credited, b.Spent, b.Reserved, b.Overdraft, b.Left()
	}
	return v, true
}

func subscriptionStatus(v limit.View) []SubscriptionStatus {
	list := make([]SubscriptionStatus, 0, len(v.Subscriptions))
	for _, s := range v.Subscriptions {
		of := &s.Subscription
		list = append(list, SubscriptionStatus{
			ID: of.ID, Group: of.Group, Starts: of.Starts, Expires: of.Expires, Overflow: of.Overflow, InForce: s.Active,
			Windows: spentStatus(s.Sums, v.Mode),
		})
	}
	return list
}
