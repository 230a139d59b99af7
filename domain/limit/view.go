package limit

import (
	"cmp"
	"slices"
	"time"

	"github.com/penstock/penstock/domain/money"
)

// View is a caller at a time, for the status API. Nothing in it is shared with the machine.
type View struct {
	Rate          RateView
	Mode          Mode
	Sums          []Sum
	Balance       *BalanceView // nil: the user does not live on one
	Subscriptions []SubscriptionView
	Keys          []KeyView // by id
	Open          int       // requests between Admit and their end
}

// RateView is both windows of one owner. Limit 0 is none, and then nothing is counted.
type RateView struct{ RPM, TPM WindowView }

// WindowView is one window.
type WindowView struct {
	Limit, Used int64
	Reopens     time.Time // when one more fits; zero: it does now
}

// BalanceView is what was credited and what has become of it.
type BalanceView struct {
	Credited  money.Amount
	Spent     money.Amount
	Reserved  money.Amount
	Overdraft money.Amount
}

// Left is what the user may still use.
func (b BalanceView) Left() money.Amount { return b.Credited + b.Overdraft - b.Spent - b.Reserved }

// SubscriptionView is one subscription with its windows.
type SubscriptionView struct {
	Subscription Subscription
	Active       bool
	Sums         []Sum
}

// KeyView is one key.
type KeyView struct {
	ID   string
	Rate RateView
	Mode Mode
	Sums []Sum
}

// View is the state at a time.
func (c *Caller) View(now time.Time) View {
	at := now.UnixMicro()
	v := View{Rate: c.rate.view(now), Mode: c.money.mode, Sums: c.money.views(at), Open: c.open.Len()}
	if w := &c.wallet; w.needed {
		s := &w.balance.m.sums[0]
		v.Balance = &BalanceView{s.Limit - w.overdraft, s.spent, w.balance.m.reserved, w.overdraft}
	}
	for _, f := range c.wallet.subs {
		active := at >= f.sub.Starts.UnixMicro() && !f.expired(at)
		v.Subscriptions = append(v.Subscriptions, SubscriptionView{f.sub, active, f.m.views(at)})
	}
	for _, k := range c.keys {
		v.Keys = append(v.Keys, KeyView{k.id, k.rate.view(now), k.money.mode, k.money.views(at)})
	}
	slices.SortFunc(v.Keys, func(a, b KeyView) int { return cmp.Compare(a.ID, b.ID) })
	return v
}

func (r *rate) view(now time.Time) RateView { return RateView{r.rpm.view(now), r.tpm.view(now)} }

func (w *Window) view(now time.Time) WindowView {
	v := WindowView{Limit: w.limit, Used: w.Used(now)}
	if at := w.Reopens(1, now); at.After(now) {
		v.Reopens = at
	}
	return v
}
