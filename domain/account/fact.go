// Package account holds the facts and the blocks of one credential.
package account

import "time"

// Blocked: the credential is not used until the given time.
type Blocked struct {
	Account string    `json:"account"`
	Model   string    `json:"model,omitempty"` // only calls of this model; "": all
	Reason  string    `json:"reason"`          // http_429, auth, quota, operator …
	Until   time.Time `json:"until"`
	Source  string    `json:"source"` // where the deadline comes from: retry-after, default, operator …
	// Resets is when the upstream said that it would serve again, where that is later than Until.
	Resets *time.Time `json:"resets,omitempty"`
	// Probed: at Until single calls try it, until one succeeds or Resets is over.
	Probed bool `json:"probed,omitempty"`
}

// Unblocked: the credential is used again.
type Unblocked struct {
	Account string `json:"account"`
	Model   string `json:"model,omitempty"`
	By      string `json:"by"` // "operator", "probe"; a block that simply ends writes no fact
}
