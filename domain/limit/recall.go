package limit

import (
	"slices"
	"time"

	"github.com/penstock/penstock/domain/money"
)

// Spent is a settlement as a fact tells it, or the difference that a reprice makes to one.
type Spent struct {
	Key    string // also of a key that is gone: the user has still spent it
	PaidBy string
	At     time.Time // of the settlement
	Cost   money.Amount
	Moved  bool // the key was another user's then: only its own rules count it
}

// Spend counts a settlement that was not opened here: one that is folded after a restart, one that recovery made, or
// the difference of a reprice. Facts may come in any order within a period.
func (c *Caller) Spend(s Spent) {
	if k := c.keys[s.Key]; !s.Moved {
		c.spend(k, c.wallet.fund(s.PaidBy), s.At.UnixMicro(), s.Cost)
	} else if k != nil {
		k.money.spend(s.At.UnixMicro(), s.Cost)
	}
}

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

// Fill counts a settlement from before Reconfigure for the rules that are new since then, and for no other.
func (c *Caller) Fill(s Spent) {
	at := s.At.UnixMicro()
	if k := c.keys[s.Key]; k != nil {
		k.money.fill(at, s.Cost)
	}
	if s.Moved {
		return
	}
	c.money.fill(at, s.Cost)
	if by := c.wallet.fund(s.PaidBy); by != nil && !slices.Contains(c.wallet.gone, by) { // when that comes back, all is told
		by.m.fill(at, s.Cost)
	}
}

// Unread says that what is missing could not be told to its end: until it is, from the beginning, a strict rule that misses some
// refuses.
func (c *Caller) Unread(now time.Time) {
	at := now.UnixMicro()
	c.money.unread(at)
	c.wallet.balance.m.unread(at)
	for _, f := range c.wallet.subs {
		f.m.unread(at)
	}
	for _, k := range c.keys {
		k.money.unread(at)
	}
}

// Wonder says that what was spent from the balance before a time is going to be told by Fill, needed or not; false when it is
// known.
func (c *Caller) Wonder(now time.Time) bool { return c.wallet.wonder(now.UnixMicro()) }

// Filled ends Fill: nothing is missing any more, except what was spent from a balance when the past was not told whole.
func (c *Caller) Filled(whole bool) {
	c.money.filled()
	if whole {
		c.FilledBalance()
	}
	for _, k := range c.keys {
		k.money.filled()
	}
	for _, f := range c.wallet.subs {
		f.m.filled()
	}
}

// FilledBalance ends Fill of what was spent from the balance.
func (c *Caller) FilledBalance() { c.wallet.balance.m.filled() }

// Past is how much of what was settled before a time counts. The zero value is all of it, with its moments.
type Past struct {
	Since time.Time // what was settled from here on counts by its moment
	Whole bool      // what was settled before counts as well; when that was does not matter
}

// With is what either needs.
func (p Past) With(q Past) Past {
	if q.Since.Before(p.Since) {
		p.Since = q.Since
	}
	p.Whole = p.Whole || q.Whole
	return p
}

// Missing is how much of what was spent before is not known yet: it is told by Fill.
func (c *Caller) Missing(now time.Time) Past {
	of := c.money.missing(now)
	if c.wallet.needed {
		of = of.With(c.wallet.balance.m.missing(now))
	}
	for _, f := range c.wallet.subs {
		of = of.With(f.m.missing(now))
	}
	for _, k := range c.keys {
		of = of.With(k.money.missing(now))
	}
	return of
}
