// Package account holds the facts and the block of one credential.
package account

import "time"

// Blocked: the credential is not used until the given time.
type Blocked struct {
	Account string    `json:"account"`
	Reason  string    `json:"reason"` // http_429, auth, quota, operator …
	Until   time.Time `json:"until"`
	Source  string    `json:"source"` // where the deadline comes from: retry-after, default, operator
}

// Unblocked: the credential is used again.
type Unblocked struct {
	Account string `json:"account"`
	By      string `json:"by"` // "operator"; a block that simply ends writes no fact
}
