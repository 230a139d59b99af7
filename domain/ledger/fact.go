// Package ledger is the money that callers have: what operators credit, correct and grant are its facts; what callers spend
// follows from the settlements of requests and from their repricings.
package ledger

import (
	"time"

	"github.com/penstock/penstock/domain/money"
)

// Streams is the prefix of the streams of these facts: one per user.
const Streams = "ledger/"

// Stream is that of a user.
func Stream(user string) string { return Streams + user }

// Credited: an operator put money on a user's balance. A user that was ever credited lives on its balance.
type Credited struct {
	User   string       `json:"user"`
	ID     string       `json:"id"`     // unique for the user: the same credit is never booked twice
	Amount money.Amount `json:"amount"` // USD, above 0
	Note   string       `json:"note,omitempty"`
}

// Adjusted: an operator corrected a user's balance.
type Adjusted struct {
	User   string       `json:"user"`
	ID     string       `json:"id"`     // as in Credited, in one series with it
	Amount money.Amount `json:"amount"` // USD, not 0; below 0 it is taken away
	Note   string       `json:"note"`   // why
}

// Granted: a user has a subscription from now on, or this one instead of that of the same id. Windows that stay keep what was
// spent in them.
type Granted struct {
	User         string       `json:"user"`
	Subscription Subscription `json:"subscription"`
	Note         string       `json:"note,omitempty"`
}

// Revoked: a subscription pays nothing any more.
type Revoked struct {
	User string `json:"user"`
	ID   string `json:"id"`
	Note string `json:"note,omitempty"`
}

// Subscription is what a user may spend in windows of days, weeks and months of 30 days that begin at Starts. An amount of 0
// is no limit for that window; at least one is set.
type Subscription struct {
	ID       string       `json:"id"`
	Group    string       `json:"group,omitempty"` // only for keys of that group
	Starts   time.Time    `json:"starts"`
	Expires  time.Time    `json:"expires,omitzero"` // zero: never
	Daily    money.Amount `json:"daily,omitzero"`   // USD
	Weekly   money.Amount `json:"weekly,omitzero"`
	Monthly  money.Amount `json:"monthly,omitzero"`
	Overflow bool         `json:"overflow,omitempty"` // the balance pays what it has no room for
}
