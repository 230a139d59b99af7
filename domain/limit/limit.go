// Package limit is what callers may use: requests and tokens per minute, spending per period, budgets, balances and
// subscriptions, as pure machines: no clock, no goroutines, no locks. Facts go in, decisions come out. They mutate in
// place because every request passes through several of them; each is called from one goroutine.
//
// Laws:
//
//   - A Window is exact to the millisecond: of any 60 seconds, no more than the limit was admitted, and a refusal names
//     the very millisecond at which it would be admitted.
//   - A strict account never spends more than its limit as long as no request costs more than was reserved for it:
//     spent + reserved ≤ limit at any time. A postpaid one overshoots by no more than what was in flight.
//   - What is folded from facts (Spend, Charge) equals what was counted live.
package limit

import (
	"time"

	"github.com/penstock/penstock/domain/money"
)

// Code is why something is refused; the values are codes of the table of refusals. "" refuses nothing.
type Code string

// The codes.
const (
	RateLimited           Code = "API_KEY_RATE_LIMITED"
	QuotaExceeded         Code = "API_KEY_QUOTA_EXCEEDED" // the key's own spending rules and budget
	BalanceExhausted      Code = "BALANCE_EXHAUSTED"
	SubscriptionExhausted Code = "SUBSCRIPTION_EXHAUSTED"
	BudgetExceeded        Code = "BUDGET_EXCEEDED" // of user, group, platform, upstream
	BudgetUnboundable     Code = "BUDGET_UNBOUNDABLE"
	unknown               Code = "LOCAL_FAULT"
)

// Reasons finer than the code, beside those of Period.String.
const (
	ReasonRPM      = "RPM"
	ReasonTPM      = "TPM"
	ReasonReserved = "RESERVED" // what is left is set aside for requests that are running; it may come back at any time
	ReasonExpired  = "EXPIRED"  // no subscription is in force any more
	ReasonUnknown  = "UNKNOWN"  // the key or the request is not known to this machine
	ReasonUnread   = "UNREAD"   // what was spent before is not known yet; it may be at any time
)

// Refusal is a decision against a request. The zero value is none.
type Refusal struct {
	Code   Code
	Reason string
	Owner  string // whose limit it is: "key/<id>", "user", "subscription/<id>", "balance", or the name of a Budget
	// Reopens is when the same request would be admitted if nothing else happened; zero when nothing is known to open it:
	// it is too large, money must be added, or a running request must end.
	Reopens time.Time
}

// OK says that nothing is refused.
func (r Refusal) OK() bool { return r.Code == "" }

// Mode says how a limit of money is kept.
type Mode uint8

// The modes.
const (
	Postpaid Mode = iota // estimates; may overshoot by what is in flight
	Strict               // the worst case is set aside before anything is sent
)

var modes = [...]string{"postpaid", "strict"}

// String is the word of resource files.
func (m Mode) String() string { return modes[m&1] }

// ParseMode reads the word; "" is postpaid. False for another one.
func ParseMode(s string) (Mode, bool) {
	switch s {
	case "", modes[Postpaid]:
		return Postpaid, true
	case modes[Strict]:
		return Strict, true
	}
	return Postpaid, false
}

// Unbounded is the worst case of a request that has none: the cost of its answer cannot be bounded, or its model has no
// price. A strict account refuses it.
const Unbounded money.Amount = -1
