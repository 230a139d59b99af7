package actors

import (
	"net/netip"
	"time"

	"github.com/penstock/penstock/domain/limit"
	"github.com/penstock/penstock/domain/money"
)

// KeyStatus is what a key has used of its limits, for people. Limits of its user stand under User.
type KeyStatus struct {
	ID        string         `json:"id"`
	RPM       *WindowStatus  `json:"rpm,omitempty"`
	TPM       *WindowStatus  `json:"tpm,omitempty"`
	Spending  []SpentStatus  `json:"spending"`
	Running   int            `json:"running"` // requests between their admission and their end, of all keys of the caller
	Addresses []BoundAddress `json:"addresses,omitempty"`
	User      *CallerStatus  `json:"user,omitempty"`
}

// CallerStatus is the same of a user over all its keys, and what pays for them.
type CallerStatus struct {
	RPM           *WindowStatus        `json:"rpm,omitempty"`
	TPM           *WindowStatus        `json:"tpm,omitempty"`
	Spending      []SpentStatus        `json:"spending"`
	Balance       *BalanceStatus       `json:"balance,omitempty"`       // absent: it does not live on one
	Subscriptions []SubscriptionStatus `json:"subscriptions,omitempty"` // in the order in which they pay
}

// BalanceStatus is what was credited to a user and what has become of it.
type BalanceStatus struct {
	Credited  money.Amount `json:"credited"`
	Spent     money.Amount `json:"spent"`
	Reserved  money.Amount `json:"reserved"`
	Overdraft money.Amount `json:"overdraft"`
	Left      money.Amount `json:"left"`
}

// WindowStatus is one window of 60 seconds.
type WindowStatus struct {
	Limit   int64     `json:"limit"`
	Used    int64     `json:"used"`
	Reopens time.Time `json:"reopens_at,omitzero"` // when one more fits; absent: now
}

// SpentStatus is what was spent under one rule.
type SpentStatus struct {
	Period   string       `json:"period"` // DAILY, MONTHLY, ROLLING …
	Mode     string       `json:"mode"`
	Limit    money.Amount `json:"limit"`
	Spent    money.Amount `json:"spent"`
	Reserved money.Amount `json:"reserved"`
	Percent  int          `json:"percent"`
	ResetsAt time.Time    `json:"resets_at,omitzero"`
	Recovers time.Time    `json:"recovers_at,omitzero"`
}

// BoundAddress is an address from which the key is used.
type BoundAddress struct {
	Address netip.Addr `json:"address"`
	UsedAt  time.Time  `json:"used_at"`
}

// KeyStatus looks at the limits of a key; false when it has no actor.
func (s *System) KeyStatus(key string) (st KeyStatus, ok bool) {
	r := s.dir.Load().keys[key]
	if r == nil {
		return st, false
	}
	err := within(s, r.ref, func(d *callerDesk) {
		st = keyStatus(key, d.limits.View(s.now()))
		if b := d.bound[key]; b != nil {
			for a, at := range b.Each {
				st.Addresses = append(st.Addresses, BoundAddress{a, at})
			}
		}
	})
	return st, err == nil
}

func keyStatus(key string, v limit.View) KeyStatus {
	st := KeyStatus{ID: key, Running: v.Open}
	for _, k := range v.Keys {
		if k.ID == key {
			st.RPM, st.TPM, st.Spending = windowStatus(k.Rate.RPM), windowStatus(k.Rate.TPM), spentStatus(k.Sums, k.Mode)
		}
	}
	user := CallerStatus{
		RPM: windowStatus(v.Rate.RPM), TPM: windowStatus(v.Rate.TPM), Spending: spentStatus(v.Sums, v.Mode),
		Balance: balanceStatus(v.Balance), Subscriptions: subscriptionStatus(v),
	}
	if user.RPM != nil || user.TPM != nil || len(user.Spending) > 0 || user.Balance != nil || len(user.Subscriptions) > 0 {
		st.User = &user
	}
	return st
}

func balanceStatus(b *limit.BalanceView) *BalanceStatus {
	if b == nil {
		return nil
	}
	return &BalanceStatus{b.Credited, b.Spent, b.Reserved, b.Overdraft, b.Left()}
}

func windowStatus(w limit.WindowView) *WindowStatus {
	if w.Limit == 0 {
		return nil
	}
	return &WindowStatus{w.Limit, w.Used, w.Reopens}
}

func spentStatus(sums []limit.Sum, mode limit.Mode) []SpentStatus {
	list := make([]SpentStatus, 0, len(sums))
	for _, s := range sums {
		list = append(list, SpentStatus{
			Period: s.Rule.Period.String(), Mode: mode.String(), Limit: s.Rule.Limit, Spent: s.Spent, Reserved: s.Reserved, Percent: s.Percent,
			ResetsAt: s.ResetsAt, Recovers: s.Recovers,
		})
	}
	return list
}
