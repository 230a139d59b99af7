package limit

import (
	"math"
	"slices"
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

// Names of who pays, in facts.
const (
	PaidByNobody       = "" // the user is not limited by money of its own
	PaidByBalance      = "balance"
	PaidBySubscription = "subscription/" // and its id
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
	gone      []*fund // subscriptions that were taken away: they may come back, and go on being spent from by what runs
	balance   fund    // its one sum is always there: a balance forgets nothing, whatever its user is meanwhile
	overdraft money.Amount
	needed    bool // without credit nothing is served
}

func newWallet(since int64) wallet {
	return wallet{balance: fund{name: PaidByBalance, m: meter{sums: []sum{newSum(Rule{}, since)}}}}
}

func (w *wallet) configure(p *Policy, since int64) (missing bool) {
	w.needed, w.overdraft = p.Balance, p.Overdraft
	if w.needed {
		missing = w.wonder(since)
	}
	b := &w.balance.m
	b.mode, b.sums[0].Limit = p.Money.Mode, p.Credited+p.Overdraft
	subs, gone := make([]*fund, 0, len(p.Subscriptions)), w.gone[:0:0]
	for i := range p.Subscriptions {
		s := &p.Subscriptions[i]
		name := PaidBySubscription + s.ID
		f := w.fund(name)
		if f == nil {
			f = &fund{name: name}
		}
		f.sub = *s
		missing = f.m.configure(Money{p.Money.Mode, s.rules()}, since) || missing
		subs = append(subs, f)
	}
	for _, f := range slices.Concat(w.subs, w.gone) {
		if !slices.Contains(subs, f) {
			gone = append(gone, f)
		}
	}
	w.subs, w.gone = subs, gone
	return missing
}

func (w *wallet) fund(name string) *fund {
	if name == PaidByBalance {
		return &w.balance
	}
	for _, list := range [...][]*fund{w.subs, w.gone} {
		for _, f := range list {
			if f.name == name {
				return f
			}
		}
	}
	return nil
}

// wonder lets the balance count from a time on, when what was spent from it before is not known: then it says true.
func (w *wallet) wonder(since int64) bool {
	s := &w.balance.m.sums[0]
	if s.since != math.MinInt64 {
		s.spent, s.since = 0, since
	}
	return s.since != math.MinInt64
}

// pays says whether requests of a key of a group are paid for by money of the user's own, when there is enough.
func (w *wallet) pays(group string) bool {
	return w.needed || slices.ContainsFunc(w.subs, func(f *fund) bool { return f.of(group) })
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
	tried, overflow, ended, unread := false, false, false, ""
	for _, f := range w.subs {
		if !f.active(group, a.now) {
			if ended = ended || f.of(group); f.of(group) {
				no = f.begins(no, a.now)
			}
			continue
		}
		if f.m.lacks() { // it pays from when all is known that it has paid
			unread = f.name
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
	case tried && !(overflow && w.needed):
		return nil, 0, no
	case w.needed:
		held, r := a.of(&w.balance.m, BalanceExhausted, PaidByBalance)
		if r.Code == BalanceExhausted && sooner(no, r) {
			r.Reopens = no.Reopens // a subscription pays again
		}
		return &w.balance, held, r
	case unread != "":
		return nil, 0, Refusal{Code: SubscriptionExhausted, Reason: ReasonUnread, Owner: unread}
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
