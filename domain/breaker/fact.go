package breaker

import "time"

// Facts of a breaker, on the stream "upstream/<id>". Account and model are set for the breaker of one account and model,
// "" for that of the whole upstream.

// Evidence is one failure that a breaker counted.
type Evidence struct {
	At      time.Time `json:"at"`
	Class   string    `json:"class"` // domain/failure
	Status  int       `json:"status,omitempty"`
	Account string    `json:"account,omitempty"`
	Model   string    `json:"model,omitempty"`
	Request string    `json:"request,omitempty"`
	Said    string    `json:"said,omitempty"` // what the upstream said, cut to 200 bytes
}

// Opened: no more requests go there until the given time.
type Opened struct {
	Upstream string     `json:"upstream"`
	Account  string     `json:"account,omitempty"`
	Model    string     `json:"model,omitempty"`
	Failures int        `json:"failures"`
	Reopened int        `json:"reopened,omitempty"` // failed probes since it was last closed
	Until    time.Time  `json:"until"`
	By       string     `json:"by"` // "failures", "probe", "operator"
	Last     []Evidence `json:"last,omitempty"`
}

// HalfOpened: the time is over; single probes go through.
type HalfOpened struct {
	Upstream string `json:"upstream"`
	Account  string `json:"account,omitempty"`
	Model    string `json:"model,omitempty"`
}

// Closed: in service again.
type Closed struct {
	Upstream string `json:"upstream"`
	Account  string `json:"account,omitempty"`
	Model    string `json:"model,omitempty"`
	By       string `json:"by"` // "probes", "operator"
}

// Key names what a breaker guards within its upstream. The zero value is the whole upstream.
type Key struct {
	Account string
	Model   string
}

// KeyOf says whose breaker a fact is about; false: it is no fact of a breaker.
func KeyOf(fact any) (upstream string, k Key, ok bool) {
	switch f := fact.(type) {
	case *Opened:
		return f.Upstream, Key{f.Account, f.Model}, true
	case *HalfOpened:
		return f.Upstream, Key{f.Account, f.Model}, true
	case *Closed:
		return f.Upstream, Key{f.Account, f.Model}, true
	}
	return "", Key{}, false
}
