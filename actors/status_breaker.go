package actors

import (
	"time"

	"github.com/penstock/penstock/domain/account"
	"github.com/penstock/penstock/domain/breaker"
)

// BreakerStatus is a breaker with its evidence. Account and model are "" for that of the whole upstream.
type BreakerStatus struct {
	Account  string               `json:"account,omitempty"`
	Model    string               `json:"model,omitempty"`
	State    breaker.State        `json:"state"`
	Since    time.Time            `json:"since"`
	Until    *time.Time           `json:"until"` // open: when the first probe may go
	Failures int                  `json:"failures"`
	Last     []breaker.Evidence   `json:"last"`     // failures, at most ten, oldest first
	Probing  bool                 `json:"probing"`  // half-open: a probe is in flight
	Reopened int                  `json:"reopened"` // failed probes since it was last closed
	History  []breaker.Transition `json:"history"`  // changes of state, at most twenty, oldest first
}

// AccountStatus is one account.
type AccountStatus struct {
	ID     string     `json:"id"`
	Slots  *int       `json:"slots"` // null: unlimited
	Held   int        `json:"held"`
	State  string     `json:"state"` // ready, blocked, probing (a block is over, single calls try it), inactive
	Reason string     `json:"reason"`
	Until  *time.Time `json:"until"` // blocked only
	Source string     `json:"source,omitempty"`
	// Resets is when the upstream said that it will serve again, where that is later.
	Resets *time.Time    `json:"resets,omitempty"`
	Models []BlockStatus `json:"models,omitempty"` // blocked on their own, by name
	Quota  *QuotaStatus  `json:"quota,omitempty"`  // null: its upstream has told nothing, or what it told is over
}

// QuotaStatus is what the upstream's last answer said of an account's limits.
type QuotaStatus struct {
	Left   float64    `json:"left"`             // share of the limit of which least is left, 0..1
	Until  *time.Time `json:"until"`            // when that one is renewed
	Lapses *time.Time `json:"lapses,omitempty"` // when its quota of hours or days is renewed, if it has one
	Told   time.Time  `json:"told"`             // when the upstream said so
}

// BlockStatus is the block of one model at an account.
type BlockStatus struct {
	Model  string     `json:"model"`
	State  string     `json:"state"` // blocked, probing
	Reason string     `json:"reason"`
	Source string     `json:"source"`
	Until  *time.Time `json:"until"`
	Resets *time.Time `json:"resets,omitempty"`
}

// breakerStatus shows moments as exact as the store keeps them, so that a restart changes none.
func breakerStatus(v breaker.View) BreakerStatus {
	s := BreakerStatus{
		Account: v.Account, Model: v.Model, State: v.State, Since: moment(v.Since), Until: v.Until, Failures: v.Failures,
		Last: append([]breaker.Evidence{}, v.Last...), Probing: v.Probing, Reopened: v.Reopened,
		History: append([]breaker.Transition{}, v.History...),
	}
	for i := range s.Last {
		s.Last[i].At = moment(s.Last[i].At)
	}
	for i := range s.History {
		s.History[i].At = moment(s.History[i].At)
		s.History[i].Until = exactly(s.History[i].Until)
	}
	s.Until = exactly(s.Until)
	return s
}

func (u *upstreamDesk) ownStatus() []BreakerStatus {
	if u.own == nil {
		return nil
	}
	var all []BreakerStatus
	for _, v := range u.own.Views() {
		all = append(all, breakerStatus(v))
	}
	return all
}

func (c *child) status(id string, now time.Time) AccountStatus {
	f := c.figures.read()
	a := AccountStatus{ID: id, Slots: c.spec.Slots, Held: f.Held, State: "ready"}
	if b := c.figures.block.Load(); b != nil {
		for _, v := range b.all.Views(now) {
			s := blockStatus(v)
			if v.Model != "" {
				a.Models = append(a.Models, s)
				continue
			}
			a.State, a.Reason, a.Source, a.Until, a.Resets = s.State, s.Reason, s.Source, s.Until, s.Resets
		}
	}
	if !c.spec.Active {
		a.State = "inactive"
	}
	if q, told := c.figures.quota.read(); q.Until.After(now) || q.Lapses.After(now) {
		a.Quota = &QuotaStatus{Left: fine(1 - q.Used), Until: exactly(&q.Until), Told: moment(told)}
		if !q.Lapses.IsZero() {
			a.Quota.Lapses = exactly(&q.Lapses)
		}
	}
	return a
}

func blockStatus(v account.View) BlockStatus {
	s := BlockStatus{Model: v.Model, State: "blocked", Reason: v.Reason, Source: v.Source, Resets: exactly(v.Resets)}
	if v.Probing {
		s.State = "probing"
	} else {
		s.Until = exactly(&v.Until)
	}
	return s
}

// moment is a time as exact as the store keeps it.
func moment(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

func exactly(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	at := moment(*t)
	return &at
}
