package limit

import (
	"math"
	"time"

	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/roll"
)

// Rate is requests and tokens per minute; 0 is no limit.
type Rate struct{ RPM, TPM int64 }

// Key is what one key may use.
type Key struct {
	ID    string
	Group string
	Rate  Rate
	Money Money // its spending rules, and its budget as a rule of the kind Total
	New   bool  // there was none of that id before: nothing was spent by it
}

// Policy is what an operator allows a user and its keys; or one key of nobody, then only Keys is set. The zero value
// knows no key.
type Policy struct {
	Rate          Rate
	Money         Money          // over all keys; its mode also holds for balance and subscriptions
	Balance       bool           // the user lives on a balance: nothing is served without credit
	Credited      money.Amount   // to the balance, ever, less what was taken away
	Overdraft     money.Amount   // by which the balance may be below zero
	Subscriptions []Subscription // in the order in which they pay
	Keys          []Key
	New           bool // there was no user of that id before: it has spent nothing
}

// Request is one that wants to be admitted.
type Request struct {
	ID     string
	Key    string
	At     time.Time // of its arrival; its charges count from here on, to the millisecond
	Tokens int64     // estimate of all that it will use
}

// Caller is one user with all its keys, or one key of nobody. A request goes through Admit, Check (again after each
// wait), Reserve (and again as a top-up on failover), Settle; or Refund ends it, which is for a request that sends nothing. An
// end that is repeated has no effect, and an id that is open is not admitted again. Make it with NewCaller.
type Caller struct {
	rate   rate
	money  meter
	wallet wallet
	keys   map[string]*keyState
	open   roll.Roll[open] // by the id of its request
}

type keyState struct {
	id, owner string
	group     string
	rate      rate
	money     meter
}

// rate is both windows of one owner.
type rate struct{ rpm, tpm Window }

// none says that neither window counts anything.
func (r *rate) none() bool { return r.rpm.limit == 0 && r.tpm.limit == 0 }

func (r *rate) configure(to Rate) {
	r.rpm.SetLimit(to.RPM)
	r.tpm.SetLimit(to.TPM)
}

// open is a request between Admit and its end.
type open struct {
	key      *keyState
	at       time.Time
	tokens   int64
	payer    *fund
	ofPayer  money.Amount // set aside, each with its own meter
	ofKey    money.Amount
	ofUser   money.Amount
	reserved bool
	free     bool // nobody's own money pays for it: see Funded
}

// NewCaller makes one that has used nothing.
func NewCaller(p Policy) *Caller {
	c := &Caller{wallet: newWallet(math.MinInt64), keys: make(map[string]*keyState, len(p.Keys))}
	c.configure(&p, math.MinInt64)
	return c
}

// ReturningCaller makes one that may not use anything yet, and of which nobody knows what it has spent before.
func ReturningCaller(now time.Time) *Caller {
	return &Caller{wallet: newWallet(now.UnixMicro()), keys: map[string]*keyState{}}
}

// Reconfigure sets another policy from the next request on. Windows, and sums of periods that stay, are kept; requests
// that are running end as they began, also those of a key that is gone. When it says true a spending rule is new: read
// the settlements before now, Fill them in, and say Filled; or Unread, when that fails. Until then the new rule counts from now
// on, and a strict subscription that is new does not pay.
func (c *Caller) Reconfigure(p Policy, now time.Time) (missing bool) {
	return c.configure(&p, now.UnixMicro())
}

func (c *Caller) configure(p *Policy, since int64) (missing bool) {
	c.rate.configure(p.Rate)
	missing = c.money.configure(p.Money, unless(p.New, since))
	missing = c.wallet.configure(p, unless(p.New, since)) || missing
	keys := make(map[string]*keyState, len(p.Keys))
	for i := range p.Keys {
		k := &p.Keys[i]
		s := c.keys[k.ID]
		if s == nil {
			s = &keyState{id: k.ID, owner: "key/" + k.ID}
		}
		s.group = k.Group
		s.rate.configure(k.Rate)
		missing = s.money.configure(k.Money, unless(k.New, since)) || missing
		keys[k.ID] = s
	}
	c.keys = keys
	return missing
}

// unless is from when on an owner knows what it spends: ever, when it is new.
func unless(isNew bool, since int64) int64 {
	if isNew {
		return math.MinInt64
	}
	return since
}

// Admit charges a request to the windows of its key and its user, or refuses it and charges nothing: first by rates,
// then when no money is left (so that nobody waits for what would be refused).
func (c *Caller) Admit(r Request) Refusal {
	k := c.keys[r.Key]
	if k == nil || c.opened(r.ID) != nil {
		return Refusal{Code: unknown, Reason: ReasonUnknown, Owner: "key/" + r.Key}
	}
	if no := c.rates(k, &r); !no.OK() {
		return no
	}
	if no := c.left(k, r.At.UnixMicro()); !no.OK() {
		return no
	}
	c.begin(&r, k)
	return Refusal{}
}

// rates looks at all four windows. The request is admitted when the last of those that are full has opened.
func (c *Caller) rates(k *keyState, r *Request) (no Refusal) {
	if k.rate.none() && c.rate.none() {
		return no
	}
	for _, w := range [...]struct {
		window *Window
		n      int64
		reason string
		owner  string
	}{
		{&k.rate.rpm, 1, ReasonRPM, k.owner}, {&k.rate.tpm, r.Tokens, ReasonTPM, k.owner},
		{&c.rate.rpm, 1, ReasonRPM, "user"}, {&c.rate.tpm, r.Tokens, ReasonTPM, "user"},
	} {
		if w.window.Fits(w.n, r.At) {
			continue
		}
		if at := w.window.Reopens(w.n, r.At); no.OK() || at.After(no.Reopens) {
			no = Refusal{RateLimited, w.reason, w.owner, at}
		}
	}
	return no
}

// begin opens a request that is not open, and charges it.
func (c *Caller) begin(r *Request, k *keyState) {
	o := c.open.Add(r.ID, 0)
	o.key, o.at, o.tokens = k, r.At, max(r.Tokens, 0)
	for _, w := range [...]*rate{&k.rate, &c.rate} {
		w.rpm.Charge(1, o.at)
		w.tpm.Charge(o.tokens, o.at)
	}
}

// opened is an open request, nil when it is not.
func (c *Caller) opened(id string) *open { return c.open.Find(id, 0) }

// end forgets a request and gives back what is set aside for it.
func (c *Caller) end(id string) (was open, ok bool) {
	o := c.open.Remove(id, 0)
	if o == nil {
		return open{}, false
	}
	o.key.money.reserved -= o.ofKey
	c.money.reserved -= o.ofUser
	if o.payer != nil {
		o.payer.m.reserved -= o.ofPayer
	}
	was, *o = *o, open{}
	return was, true
}

// Check says whether there is still money for an open request: after any wait, since others may have spent meanwhile
// (B11, B47). A key that is gone is refused.
func (c *Caller) Check(id string, now time.Time) Refusal {
	o := c.opened(id)
	if o == nil || c.keys[o.key.id] != o.key {
		return Refusal{Code: unknown, Reason: ReasonUnknown}
	}
	if o.reserved {
		return Refusal{} // it has its own
	}
	return c.left(o.key, now.UnixMicro())
}

// left looks for money in the order subscription, balance, key, user (B32). The budgets that are shared come after it.
func (c *Caller) left(k *keyState, now int64) Refusal {
	a := ask{now: now, look: true}
	if _, _, no := c.wallet.payer(k.group, a); !no.OK() {
		return no
	}
	if _, no := a.of(&k.money, QuotaExceeded, k.owner); !no.OK() {
		return no
	}
	_, no := a.of(&c.money, BudgetExceeded, "user")
	return no
}

// Refund ends a request that was refused after Admit and sends nothing: it has charged nothing and spent nothing. False
// when it is not open.
func (c *Caller) Refund(id string) bool {
	o, ok := c.end(id)
	if !ok {
		return false
	}
	for _, r := range [...]*rate{&o.key.rate, &c.rate} {
		r.rpm.Refund(1, o.at)
		r.tpm.Refund(o.tokens, o.at)
	}
	return true
}

// Settlement is what a request has cost its caller, over all its attempts.
type Settlement struct {
	At     time.Time // of the fact
	Cost   money.Amount
	Tokens int64 // really used; negative: not known, the estimate stands
}

// Settle ends a request. The real cost replaces what was set aside, and the real tokens the estimate: what is less is
// given back at the time of arrival, what is more is charged at the time of the settlement, so that a long answer counts
// in the minute in which it is known. Only the first settlement of a request counts (pains 16, 20, 22); over is by how much it is
// more than was set aside.
func (c *Caller) Settle(id string, s Settlement) (paidBy string, over money.Amount, ok bool) {
	o, ok := c.end(id)
	if !ok {
		return "", 0, false
	}
	if held, strict := c.held(&o); strict {
		over = max(s.Cost-held, 0)
	}
	if s.Tokens >= 0 {
		c.correct(o.key, o.at, o.tokens, s.At, s.Tokens)
	}
	c.spend(o.key, o.payer, s.At.UnixMicro(), s.Cost)
	if k := c.keys[o.key.id]; k != nil && k != o.key { // it was removed meanwhile, and is back
		k.money.spend(s.At.UnixMicro(), s.Cost)
	}
	return o.paidBy(), over, true
}

func (c *Caller) correct(k *keyState, arrived time.Time, estimate int64, settled time.Time, tokens int64) {
	for _, r := range [...]*rate{&k.rate, &c.rate} {
		if tokens < estimate {
			r.tpm.Refund(estimate-tokens, arrived)
		} else {
			r.tpm.Charge(tokens-estimate, settled)
		}
	}
}

func (c *Caller) spend(k *keyState, by *fund, at int64, cost money.Amount) {
	if k != nil {
		k.money.spend(at, cost)
	}
	c.money.spend(at, cost)
	if by != nil {
		by.m.spend(at, cost)
	}
}
