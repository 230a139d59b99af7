// Package node holds the facts of a gateway process.
package node

// Started: a process has recovered what its predecessors left open and begins to serve.
type Started struct {
	Node       string `json:"node"`
	Version    string `json:"version"`
	Recovered  int    `json:"recovered,omitempty"` // requests settled as abandoned
	Durability string `json:"durability"`
}

// Stopped: a process has drained and settled everything.
type Stopped struct {
	Node string `json:"node"`
}

// AuthRefused counts refusals without a verified key from one address in one minute beyond the first ten.
type AuthRefused struct {
	Address string `json:"address"`
	Count   int    `json:"count"`
	Minute  string `json:"minute"` // RFC 3339, UTC
}
