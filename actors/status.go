package actors

import (
	"cmp"
	"slices"
	"time"

	"github.com/penstock/penstock/domain/breaker"
)

// UpstreamStatus is everything about one upstream at one moment, as `upstream status` and the admin API show it.
type UpstreamStatus struct {
	ID       string          `json:"id"`
	Slots    *int            `json:"slots"` // null: unlimited
	Held     []HeldSlot      `json:"held"`  // oldest first
	Waiting  []WaitingPlace  `json:"waiting"`
	Breaker  BreakerStatus   `json:"breaker"`
	Accounts []AccountStatus `json:"accounts"` // by id
	Totals   TotalsStatus    `json:"totals"`
}

// HeldSlot is who holds one slot.
type HeldSlot struct {
	RequestID string    `json:"request_id"`
	Attempt   int       `json:"attempt"`
	Key       string    `json:"key"`
	Account   string    `json:"account"` // "" while granting
	Phase     string    `json:"phase"`   // granting, granted, streaming
	Since     time.Time `json:"since"`
}

// WaitingPlace is one place in the queue.
type WaitingPlace struct {
	RequestID string    `json:"request_id"`
	Key       string    `json:"key"`
	Position  int       `json:"position"` // from 1
	Since     time.Time `json:"since"`
	Deadline  time.Time `json:"deadline"`
}

// BreakerStatus is a breaker with its evidence.
type BreakerStatus struct {
	State    breaker.State      `json:"state"`
	Since    time.Time          `json:"since"`
	Until    *time.Time         `json:"until"` // open: when the first probe may go
	Failures int                `json:"failures"`
	Last     []breaker.Evidence `json:"last"` // oldest first
}

// AccountStatus is one account.
type AccountStatus struct {
	ID     string     `json:"id"`
	Slots  *int       `json:"slots"` // null: unlimited
	Held   int        `json:"held"`
	State  string     `json:"state"` // ready, blocked, inactive
	Reason string     `json:"reason"`
	Until  *time.Time `json:"until"` // blocked only
}

// TotalsStatus counts since the actor was started.
type TotalsStatus struct {
	Queued   uint64 `json:"queued"`
	Granted  uint64 `json:"granted"` // with or without a wait
	TimedOut uint64 `json:"timed_out"`
	Aborted  uint64 `json:"aborted"`
}

type statusUpstream struct {
	quiet
	reply chan *UpstreamStatus // nil: the actor failed
}

// Status asks an upstream for its status; false when it is not known or does not answer.
func (s *System) Status(upstream string) (UpstreamStatus, bool) {
	r, no := s.upstream(upstream)
	if no != nil {
		return UpstreamStatus{}, false
	}
	m := &statusUpstream{reply: make(chan *UpstreamStatus, 1)}
	s.send(r.pid, m)
	select {
	case st := <-m.reply:
		if st != nil {
			return *st, true
		}
	case <-r.gone:
	}
	return UpstreamStatus{}, false
}

func (u *upstreamDesk) status() *UpstreamStatus {
	t := u.gate.Totals()
	st := &UpstreamStatus{
		ID: u.id, Slots: u.spec.Slots, Held: []HeldSlot{}, Waiting: []WaitingPlace{}, Accounts: []AccountStatus{},
		Breaker: BreakerStatus{
			State: u.breaker.State(), Since: u.breaker.Since(), Until: some(u.breaker.Until()),
			Failures: u.breaker.Failures(), Last: append([]breaker.Evidence{}, u.breaker.Last()...),
		},
		Totals: TotalsStatus{Queued: t.Queued, Granted: t.Granted, TimedOut: t.TimedOut, Aborted: t.Aborted},
	}
	for h := range u.gate.Holders {
		st.Held = append(st.Held, HeldSlot{
			RequestID: h.ID.Request, Attempt: h.ID.Attempt, Key: h.Key, Account: h.Account, Phase: string(h.Phase), Since: h.Since,
		})
	}
	slices.SortFunc(st.Held, func(a, b HeldSlot) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.RequestID, b.RequestID), cmp.Compare(a.Attempt, b.Attempt))
	})
	for at, w := range u.gate.Waiters {
		st.Waiting = append(st.Waiting, WaitingPlace{RequestID: w.ID.Request, Key: w.Key, Position: at, Since: w.Since, Deadline: w.Deadline})
	}
	now := u.sys.now()
	for id, c := range u.children {
		st.Accounts = append(st.Accounts, c.status(id, now))
	}
	slices.SortFunc(st.Accounts, func(a, b AccountStatus) int { return cmp.Compare(a.ID, b.ID) })
	return st
}

func (c *child) status(id string, now time.Time) AccountStatus {
	f := c.figures.read()
	a := AccountStatus{ID: id, Slots: c.spec.Slots, Held: f.Held, State: "ready"}
	switch {
	case !c.spec.Active:
		a.State = "inactive"
	case now.Before(f.BlockedUntil):
		a.State, a.Reason, a.Until = "blocked", f.Reason, some(f.BlockedUntil)
	}
	return a
}

// some is nil for the zero time.
func some(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
