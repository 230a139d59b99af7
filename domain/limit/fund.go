package limit

import (
	"math"
	"time"

	"github.com/penstock/penstock/domain/money"
)

// Subscription is money that a user may spend in each window of days, weeks and months (of 30 days) from its start on,
// until it expires. A limit of 0 is none for that window.
type Subscription struct {
	ID      string
	Group   string    // only for keys of that group; "": for all
	Starts  time.Time // the windows begin here: [Starts, Starts + 24h) and so on
	Expires time.Time // from here on it pays nothing, also when it would be in the middle of a window; zero: never
	Daily   money.Amount
	Weekly  money.Amount
	Monthly money.Amount
	// Overflow lets the balance pay what the subscription has no room for; else it is refused.
	Overflow bool
}

// rules are the windows as spending rules.
func (s *Subscription) rules() []Rule {
	var list []Rule
	for _, w := range [...]struct {
		every time.Duration
		limit money.Amount
	}{{day, s.Daily}, {week, s.Weekly}, {month, s.Monthly}} {
		if w.limit > 0 {
			list = append(list, Rule{Period{Kind: Fixed, From: s.Starts, Every: w.every}, w.limit})
		}
	}
	return list
}

// Names of who pays, in Settlement facts: a subscription is "subscription/<id>".
const (
	PaidByNobody  = "" // the user is not limited by money of its own
	PaidByBalance = "balance"
)

// fund is what pays for requests of a user: one subscription, or the balance.
type fund struct {
	name string
	sub  Subscription
	m    meter
}

func (f *fund) active(group string, now int64) bool {
	return f.of(group) && now >= f.sub.Starts.UnixMicro() && !f.expired(now)
}

func (f *fund) of(group string) bool { return f.sub.Group == "" || f.sub.Group == group }

func (f *fund) expired(now int64) bool {
	return !f.sub.Expires.IsZero() && now >= f.sub.Expires.UnixMicro()
}

// bounded keeps a refusal true to the end of the subscription: what would reopen after it does not.
func (f *fund) bounded(no Refusal) Refusal {
	if !no.Reopens.IsZero() && f.expired(no.Reopens.UnixMicro()) {
		no.Reopens = time.Time{}
	}
	return no
}

// begins notes when a subscription comes into force that is not yet.
func (f *fund) begins(no Refusal, now int64) Refusal {
	at := Refusal{Reopens: f.sub.Starts}
	if now < f.sub.Starts.UnixMicro() && sooner(at, no) {
		no.Reopens = at.Reopens
	}
	return no
}

// wallet is everything that can pay for a user, in the order in which it does: subscriptions as they are listed, then
// the balance.
type wallet struct {
	subs      []*fund
	balance   fund
	overdraft money.Amount
	asked     bool // the operator wants the user to live on its balance
	credited  bool // something was credited ever
}

// needed says that without credit nothing is served.
func (w *wallet) needed() bool { return w.asked || w.credited }

func newWallet() wallet {
	return wallet{balance: fund{name: PaidByBalance, m: meter{sums: []sum{newSum(Rule{}, math.MinInt64)}}}}
}

func (w *wallet) configure(p *Policy, since int64) (missing bool) {
	w.asked = p.Balance
	w.balance.m.mode = p.Money.Mode
	w.balance.m.sums[0].Limit += p.Overdraft - w.overdraft // the limit is what was credited
	w.overdraft = p.Overdraft
	subs := make([]*fund, 0, len(p.Subscriptions))
	for i := range p.Subscriptions {
		s := &p.Subscriptions[i]
		f := w.fund("subscription/" + s.ID)
		if f == nil {
			f = &fund{name: "subscription/" + s.ID}
		}
		f.sub = *s
		missing = f.m.configure(Money{p.Money.Mode, s.rules()}, since) || missing
		subs = append(subs, f)
	}
	w.subs = subs
	return missing
}

func (w *wallet) fund(name string) *fund {
	if name == PaidByBalance {
		return &w.balance
	}
	for _, f := range w.subs {
		if f.name == name {
			return f
		}
	}
	return nil
}

// credit adds to the balance; a negative amount takes away. From then on the user lives on it.
func (w *wallet) credit(a money.Amount) {
	w.balance.m.sums[0].Limit += a
	w.credited = true
}

// ask is what is wanted of a fund or of another meter.
type ask struct {
	worst, own money.Amount
	now        int64
	look       bool // only whether anything is left
}

func (a ask) of(m *meter, code Code, owner string) (held money.Amount, no Refusal) {
	if a.look {
		return 0, m.check(code, owner, a.now)
	}
	return m.grant(code, owner, a.worst, a.own, a.now)
}

// payer is who pays for a request of a key of a group: the first subscription in force that has room, else the balance
// (B32). With neither, the user is not limited by money of its own: nil.
func (w *wallet) payer(group string, a ask) (by *fund, held money.Amount, no Refusal) {
	tried, overflow, ended := false, false, false
	for _, f := range w.subs {
		if !f.active(group, a.now) {
			if ended = ended || f.of(group); f.of(group) {
				no = f.begins(no, a.now)
			}
			continue
		}
		held, r := a.of(&f.m, SubscriptionExhausted, f.name)
		if r.OK() {
			return f, held, r
		}
		if r = f.bounded(r); no.OK() || sooner(r, no) {
			no = r
		}
		tried, overflow = true, overflow || f.sub.Overflow
	}
	switch {
	case tried && !(overflow && w.needed()):
		return nil, 0, no
	case w.needed():
		held, no = a.of(&w.balance.m, BalanceExhausted, PaidByBalance)
		return &w.balance, held, no
	case ended:
		no.Code, no.Reason, no.Owner = SubscriptionExhausted, ReasonExpired, "user"
		return nil, 0, no
	}
	return nil, 0, Refusal{}
}

// sooner says that a reopens before b; what has no time comes last.
func sooner(a, b Refusal) bool {
	return !a.Reopens.IsZero() && (b.Reopens.IsZero() || a.Reopens.Before(b.Reopens))
}
