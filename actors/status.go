package actors

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// UpstreamStatus is everything about one upstream at one moment, as `upstream status` and the admin API show it.
type UpstreamStatus struct {
	ID       string          `json:"id"`
	Slots    *int            `json:"slots"`   // null: unlimited
	Held     []HeldSlot      `json:"held"`    // oldest first
	Waiting  []WaitingPlace  `json:"waiting"` // in the order of being served
	Waits    WaitsStatus     `json:"waits"`
	Shares   []KeyShare      `json:"shares"`     // of the keys that have most
	Others   OtherShares     `json:"other_keys"` // the sum of all other keys
	Health   HealthStatus    `json:"health"`
	Breaker  BreakerStatus   `json:"breaker"`
	Breakers []BreakerStatus `json:"breakers,omitempty"`          // of single accounts and models, where breaker.per asks for them
	Accounts []AccountStatus `json:"accounts"`                    // by id
	Bindings *int            `json:"affinity_bindings"`           // sessions that are bound here; null: not known. Whoever asks fills it in
	Sessions []BoundSession  `json:"affinity_sessions,omitempty"` // the last used of them
	Totals   TotalsStatus    `json:"totals"`
}

// HealthStatus is how an upstream has served lately. It moves the order of plans and takes nobody out: that is the breaker's.
type HealthStatus struct {
	TTFT    *int64  `json:"ttft_ms"` // to the first content, a moving average; null: not known
	Failing float64 `json:"failing"` // moving share of failures, 0..1
}

// HeldSlot is who holds one slot.
type HeldSlot struct {
	RequestID string    `json:"request_id"`
	Attempt   int       `json:"attempt"`
	Key       string    `json:"key"`
	Account   string    `json:"account"` // "" while granting
	Phase     string    `json:"phase"`   // granting, granted, streaming
	Since     time.Time `json:"since"`
	Recalled  string    `json:"recalled,omitempty"` // why an operator wants it back
}

// WaitingPlace is one place in the queue.
type WaitingPlace struct {
	RequestID string    `json:"request_id"`
	Key       string    `json:"key"`
	Position  int       `json:"position"` // from 1
	Since     time.Time `json:"since"`
	Deadline  time.Time `json:"deadline"`
	Attempt   int       `json:"attempt"`
	Class     string    `json:"class"` // high, normal, low
	Ticket    uint64    `json:"ticket"`
	Expected  *int64    `json:"expected_wait_ms"` // from now on, by the pace of the last leases; null: not known
}

// WaitsStatus sums up the queue.
type WaitsStatus struct {
	Waiting    int    `json:"waiting"`
	Oldest     int64  `json:"oldest_ms"`                    // how long the first of them has waited, 0 without one
	HeldFor    *int64 `json:"held_ms"`                      // how long a slot is held, on the average of the last leases; null: not known
	Newcomer   *int64 `json:"expected_wait_ms"`             // of one who came now; null: not known
	Discipline string `json:"discipline" enum:",fifo,fair"` // "": there is no queue
}

// KeyShare is what one key has of an upstream.
type KeyShare struct {
	Key     string `json:"key"`
	Held    int    `json:"held"`
	Waiting int    `json:"waiting"`
	Served  uint64 `json:"served"` // leases granted, with or without a wait
}

// OtherShares is what the keys have together that are not named one by one.
type OtherShares struct {
	Keys    int    `json:"keys"`
	Held    int    `json:"held"`
	Waiting int    `json:"waiting"`
	Served  uint64 `json:"served"`
}

// TotalsStatus counts since the actor was started.
type TotalsStatus struct {
	Queued   uint64 `json:"queued"`
	Granted  uint64 `json:"granted"` // with or without a wait
	TimedOut uint64 `json:"timed_out"`
	Aborted  uint64 `json:"aborted"`
	Moved    uint64 `json:"moved"` // left the queue to be served elsewhere, or were sent away
	Freed    uint64 `json:"freed"` // slots taken back by hand
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
	if st := answered(m.reply, r.gone, nil); st != nil {
		return *st, true
	}
	return UpstreamStatus{}, false
}

func (u *upstreamDesk) status() *UpstreamStatus {
	t := u.gate.Totals()
	st := &UpstreamStatus{
		ID: u.id, Slots: u.spec.Slots, Held: []HeldSlot{}, Waiting: []WaitingPlace{}, Accounts: []AccountStatus{},
		Breaker: breakerStatus(u.breaker.View()), Breakers: u.ownStatus(),
		Totals: TotalsStatus{
			Queued: t.Queued, Granted: t.Granted, TimedOut: t.TimedOut, Aborted: t.Aborted, Moved: t.Moved, Freed: t.Evicted,
		},
	}
	for h := range u.gate.Holders {
		st.Held = append(st.Held, HeldSlot{
			RequestID: h.ID.Request, Attempt: h.ID.Attempt, Key: h.Key, Account: h.Account, Phase: string(h.Phase), Since: h.Since,
			Recalled: h.Evicted,
		})
	}
	slices.SortFunc(st.Held, func(a, b HeldSlot) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.RequestID, b.RequestID), cmp.Compare(a.Attempt, b.Attempt))
	})
	now := u.sys.now()
	ttft := time.Duration(u.figures.ttft.Load())
	st.Health = HealthStatus{milliseconds(ttft, ttft > 0), fine(u.figures.failing(u.sys.now))}
	u.queueStatus(st, now)
	for id, c := range u.children {
		st.Accounts = append(st.Accounts, c.status(id, now))
	}
	slices.SortFunc(st.Accounts, func(a, b AccountStatus) int { return cmp.Compare(a.ID, b.ID) })
	return st
}

// fine is a share with four places, as it is shown.
func fine(share float64) float64 { return math.Round(share*1e4) / 1e4 }

// sharesMax is how many keys are named.
const sharesMax = 20

// queueStatus fills in who waits, for how long, and which key has how much.
func (u *upstreamDesk) queueStatus(st *UpstreamStatus, now time.Time) {
	for _, p := range u.gate.Places(now) {
		st.Waiting = append(st.Waiting, WaitingPlace{
			RequestID: p.ID.Request, Attempt: p.ID.Attempt, Key: p.Key, Class: p.Class.String(), Ticket: p.Ticket, Position: p.Position,
			Since: p.Since, Deadline: p.Deadline, Expected: milliseconds(p.Expected, p.Estimated),
		})
		st.Waits.Oldest = max(st.Waits.Oldest, now.Sub(p.Since).Milliseconds())
	}
	st.Waits.Waiting = len(st.Waiting)
	st.Waits.HeldFor = milliseconds(u.gate.HeldFor())
	st.Waits.Newcomer = milliseconds(u.gate.ExpectedWait(len(st.Waiting) + 1))
	if q := u.gate.Queue(); q != nil {
		st.Waits.Discipline = q.Discipline.String()
	}
	shares := u.gate.Shares(sharesMax)
	st.Shares = make([]KeyShare, 0, len(shares.Top))
	for _, s := range shares.Top {
		st.Shares = append(st.Shares, KeyShare(s))
	}
	st.Others = OtherShares{Keys: shares.RestKeys, Held: shares.Rest.Held, Waiting: shares.Rest.Waiting, Served: shares.Rest.Served}
}

// milliseconds is nil for what is not known.
func milliseconds(d time.Duration, known bool) *int64 {
	if !known {
		return nil
	}
	ms := d.Milliseconds()
	return &ms
}
