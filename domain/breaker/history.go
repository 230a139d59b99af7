package breaker

import "time"

// What a breaker turned by: By of its facts and transitions.
const (
	byFailures = "failures" // consecutive ones reached the threshold
	byProbe    = "probe"    // a probe failed
	byProbes   = "probes"   // enough probes succeeded
	byOperator = "operator"
	byTime     = "time" // the open time was over and somebody asked; only of transitions
)

// historyMax is how many changes of state are kept.
const historyMax = 20

// Transition is one change of a breaker's state, for people who ask why.
type Transition struct {
	At       time.Time  `json:"at"`
	To       State      `json:"to"`
	By       string     `json:"by"`                 // "failures", "probe", "probes", "operator", "time"
	Until    *time.Time `json:"until,omitempty"`    // open only
	Failures int        `json:"failures,omitempty"` // consecutive ones, open only
	Class    string     `json:"class,omitempty"`    // of the last failure, open only
}

// note keeps the state that was just entered.
func (b *Breaker) note(by string) {
	t := Transition{At: b.since, To: b.state, By: by}
	if b.state == StateOpen {
		until := b.until
		t.Until, t.Failures = &until, b.failures
		if n := len(b.last); n > 0 && by != byOperator {
			t.Class = b.last[n-1].Class
		}
	}
	if len(b.history) == historyMax {
		copy(b.history, b.history[1:])
		b.history = b.history[:historyMax-1]
	}
	b.history = append(b.history, t)
}

// History is a copy of the last changes of state, at most twenty, oldest first. Facts rebuild it.
func (b *Breaker) History() []Transition { return append([]Transition(nil), b.history...) }

// View is a breaker for people: its status, and why it keeps a candidate out. Account and model are "" for that of the
// whole upstream.
type View struct {
	Account  string       `json:"account,omitempty"`
	Model    string       `json:"model,omitempty"`
	State    State        `json:"state"`
	Since    time.Time    `json:"since"`
	Until    *time.Time   `json:"until,omitempty"` // open only: when the first probe may go
	Probing  bool         `json:"probing,omitempty"`
	Failures int          `json:"failures"`           // consecutive
	Reopened int          `json:"reopened,omitempty"` // failed probes since it was last closed
	Last     []Evidence   `json:"last,omitempty"`     // failures, at most ten, oldest first
	History  []Transition `json:"history,omitempty"`  // changes of state, at most twenty, oldest first
}

// View is a copy; it stays as it is.
func (b *Breaker) View() View {
	v := View{
		Account: b.key.Account, Model: b.key.Model, State: b.state, Since: b.since, Probing: b.Probing(),
		Failures: b.failures, Reopened: b.reopened, Last: b.Last(), History: b.History(),
	}
	if b.state == StateOpen {
		until := b.until
		v.Until = &until
	}
	return v
}

// Views lists those of a set that have something to tell, by account and model.
func (s *Set) Views() []View {
	views := make([]View, 0, len(s.machines))
	for _, e := range s.All() {
		views = append(views, e.View())
	}
	return views
}
