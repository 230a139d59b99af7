package limit

import (
	"time"

	"github.com/penstock/penstock/domain/money"
)

// Spent is a settlement as a fact tells it, or the difference that a reprice makes to one.
type Spent struct {
	Key    string // also of a key that is gone: the user has still spent it
	PaidBy string
	At     time.Time // of the settlement
	Cost   money.Amount
}

// Spend counts a settlement that was not opened here: one that is folded after a restart, one that recovery made, or
// the difference of a reprice. Facts may come in any order within a period.
func (c *Caller) Spend(s Spent) {
	c.spend(c.keys[s.Key], c.wallet.fund(s.PaidBy), s.At.UnixMicro(), s.Cost)
}

// Credit adds to the balance, or takes away what is negative. A user that was ever credited lives on its balance.
func (c *Caller) Credit(a money.Amount) { c.wallet.credit(a) }

// Charge counts what was dispatched in the last minute: a request with its estimate, or, without a request, tokens by
// which a settlement was more than its estimate. A settlement that was less is a request with what it has really used.
func (c *Caller) Charge(key string, requests, tokens int64, at time.Time) {
	if k := c.keys[key]; k != nil {
		k.rate.rpm.Charge(requests, at)
		k.rate.tpm.Charge(tokens, at)
	}
	c.rate.rpm.Charge(requests, at)
	c.rate.tpm.Charge(tokens, at)
}

// Reopen restores a request that is open: charged, with what was set aside for it. Nothing is asked.
func (c *Caller) Reopen(r Request, held money.Amount, paidBy string) bool {
	k := c.keys[r.Key]
	if k == nil || c.open[r.ID] != nil {
		return false
	}
	o := c.begin(r.ID, k, r.At, r.Tokens)
	c.charge(o, 1, o.tokens)
	o.payer, o.reserved = c.wallet.fund(paidBy), true
	for _, m := range [...]struct {
		meter *meter
		own   *money.Amount
	}{{o.payerMeter(), &o.ofPayer}, {&k.money, &o.ofKey}, {&c.money, &o.ofUser}} {
		if m.meter != nil && m.meter.limited() {
			m.meter.reserved += held
			*m.own = held
		}
	}
	return true
}

func (o *open) payerMeter() *meter {
	if o.payer == nil {
		return nil
	}
	return &o.payer.m
}

// Fill counts a settlement from before Reconfigure for the rules that are new since then, and for no other.
func (c *Caller) Fill(s Spent) {
	at := s.At.UnixMicro()
	if k := c.keys[s.Key]; k != nil {
		k.money.fill(at, s.Cost)
	}
	c.money.fill(at, s.Cost)
	if by := c.wallet.fund(s.PaidBy); by != nil {
		by.m.fill(at, s.Cost)
	}
}

// Filled ends Fill: nothing is missing any more.
func (c *Caller) Filled() {
	c.money.filled()
	for _, k := range c.keys {
		k.money.filled()
	}
	for _, f := range c.wallet.subs {
		f.m.filled()
	}
}

// Since is the settlement time from which on spends still count at a time: so far back must be folded. The zero time is
// the beginning: a rule never begins anew, or a balance counts everything (as that of a user that was ever credited does).
// False: nothing counts.
func (p Policy) Since(now time.Time) (first time.Time, counts bool) {
	if p.Balance {
		return time.Time{}, true
	}
	from := now.UnixMicro()
	rules := p.Money.Rules
	for i := range p.Subscriptions {
		rules = append(rules[:len(rules):len(rules)], p.Subscriptions[i].rules()...)
	}
	for i := range p.Keys {
		rules = append(rules[:len(rules):len(rules)], p.Keys[i].Money.Rules...)
	}
	return since(rules, from)
}

// Since is the same for one budget.
func (m Money) Since(now time.Time) (first time.Time, counts bool) {
	return since(m.Rules, now.UnixMicro())
}

func since(rules []Rule, now int64) (first time.Time, counts bool) {
	from := now
	for _, r := range rules {
		start := now
		switch s := newSum(r.whole(), 0); r.Kind {
		case Total:
			return time.Time{}, true
		case Rolling:
			start = now - s.length() - s.width
		default:
			start, _ = r.bounds(now)
		}
		from = min(from, start)
	}
	return micro(from), len(rules) > 0
}
