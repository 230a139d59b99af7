package breaker

import "time"

// Facts of a breaker, on the stream "upstream/<id>".

// Evidence is one failure that a breaker counted.
type Evidence struct {
	At     time.Time `json:"at"`
	Class  string    `json:"class"` // domain/failure
	Status int       `json:"status,omitempty"`
}

// Opened: no more requests go to the upstream until the given time.
type Opened struct {
	Upstream string     `json:"upstream"`
	Failures int        `json:"failures"`
	Until    time.Time  `json:"until"`
	By       string     `json:"by"` // "failures", "probe", "operator"
	Last     []Evidence `json:"last,omitempty"`
}

// HalfOpened: the time is over; single probes go through.
type HalfOpened struct {
	Upstream string `json:"upstream"`
}

// Closed: the upstream is in service again.
type Closed struct {
	Upstream string `json:"upstream"`
	By       string `json:"by"` // "probes", "operator"
}
