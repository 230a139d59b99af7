package limit

import (
	"time"

	"github.com/penstock/penstock/domain/money"
)

// Reserve sets the worst case of a request aside at everything that pays for it: all or nothing. What is postpaid takes
// it as an estimate; Unbounded is for what has none. Again for the same request, it is the new worst case of all its
// attempts together (top-up on failover), of the same payer; when that is refused, what was set aside stays.
func (c *Caller) Reserve(id string, worst money.Amount, now time.Time) (paidBy string, no Refusal) {
	o := c.opened(id)
	if o == nil {
		return "", Refusal{Code: unknown, Reason: ReasonUnknown}
	}
	was := *o
	a := ask{worst: worst, now: now.UnixMicro()}
	if no = c.payer(o, a); no.OK() {
		a.own = o.ofKey
		o.ofKey, no = a.of(&o.key.money, QuotaExceeded, o.key.owner)
	}
	if no.OK() {
		a.own = o.ofUser
		o.ofUser, no = a.of(&c.money, BudgetExceeded, "user")
	}
	if !no.OK() {
		c.undo(o, was)
		return o.paidBy(), no
	}
	o.reserved = true
	return o.paidBy(), no
}

// payer chooses who pays, once, and sets the money aside there.
func (c *Caller) payer(o *open, a ask) (no Refusal) {
	switch {
	case o.free:
		return Refusal{}
	case !o.reserved:
		o.payer, o.ofPayer, no = c.wallet.payer(o.key.group, a)
		return no
	}
	if f := o.payer; f != nil {
		code := SubscriptionExhausted
		if f == &c.wallet.balance {
			code = BalanceExhausted
		}
		a.own = o.ofPayer
		o.ofPayer, no = a.of(&f.m, code, f.name)
		no = f.bounded(no)
	}
	return no
}

// undo gives back what a reservation took before it was refused.
func (c *Caller) undo(o *open, was open) {
	o.key.money.reserved += was.ofKey - o.ofKey
	c.money.reserved += was.ofUser - o.ofUser
	if o.payer != nil {
		o.payer.m.reserved += was.ofPayer - o.ofPayer
	}
	*o = was
}

func (o *open) paidBy() string {
	if o.payer == nil {
		return PaidByNobody
	}
	return o.payer.name
}

// Funded says whether money of the user's own pays for a request: then Reserve says which. What it has said stays, whatever is
// given to the user meanwhile: who pays is told once, when the request is admitted.
func (c *Caller) Funded(id string) bool {
	o := c.opened(id)
	if o == nil {
		return false
	}
	o.free = !c.wallet.pays(o.key.group)
	return !o.free
}

// held is the most that is set aside for a request at one of its strict limits. False when no strict limit holds any.
func (c *Caller) held(o *open) (most money.Amount, strict bool) {
	if o.payer != nil && o.payer.m.mode == Strict && o.payer.m.limited() {
		most, strict = o.ofPayer, true
	}
	if o.key.money.mode == Strict && o.key.money.limited() {
		most, strict = max(most, o.ofKey), true
	}
	if c.money.mode == Strict && c.money.limited() {
		most, strict = max(most, o.ofUser), true
	}
	return most, strict
}
