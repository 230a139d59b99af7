// Package gate is the slots and the wait queue of one owner (an upstream, an account, a user, a key) as a pure machine:
// no clock, no goroutines, no locks. It mutates in place because every request passes through several gates; its
// owner calls it from one goroutine. It keeps the set of holders, never a counter, so that a slot always says who has
// it and freeing twice frees once (pains 34, 35, 40).
package gate

import (
	"errors"
	"time"

	"github.com/penstock/penstock/domain/roll"
)

// LeaseID names one attempt of one request. It is the holder of a slot and the waiter in a queue.
type LeaseID struct {
	Request string
	Attempt int // from 1; 0 for what belongs to the request as a whole
}

// Phase says how far the holder of a slot has come.
type Phase string

// The phases of a holder.
const (
	Granting  Phase = "granting"  // set aside while another owner (the account) is asked; counts as held
	Granted   Phase = "granted"   // the lease is given
	Streaming Phase = "streaming" // content has arrived
)

// Holder is one taken slot. The pointer that the gate hands out is valid until the holder is freed.
type Holder struct {
	ID         LeaseID
	Key        string // API key on whose behalf the slot is held
	Account    string // "" while unknown
	Since      time.Time
	Phase      Phase
	Evicted    string // why an operator wants the slot back; "": nobody does
	Generation uint64 // of the breaker's permit; carried for the owner, the gate does not read it
	Probe      bool   // likewise
	Tag        any    // likewise, until the holder is freed
}

// Queue is the waiting room of a gate. The zero value is served in the order of arrival.
type Queue struct {
	Timeout    time.Duration // nobody waits longer
	MaxLength  *int          // nil: unlimited
	Discipline Discipline    // who is next: FIFO, Fair
	AgeEvery   time.Duration // so much waiting lifts by one class; 0: a third of the timeout, so that the lowest is lifted in time
	FailFast   bool          // refuse at once who is expected to wait beyond its deadline
}

func (q *Queue) ageEvery() time.Duration {
	if q.AgeEvery > 0 {
		return q.AgeEvery
	}
	return q.Timeout / 3
}

// Policy is what an operator sets. The zero value has unlimited slots and no queue.
type Policy struct {
	Slots  *int   // nil: unlimited
	Queue  *Queue // nil: nobody may wait
	PerKey bool   // count the grants of each key, see Shares
}

// Totals count since the gate was made. Queued = TimedOut + Aborted + Moved + served from the queue + still waiting.
type Totals struct {
	Queued   uint64 // joined the queue
	Granted  uint64 // slots granted, with or without a wait
	TimedOut uint64
	Aborted  uint64
	Moved    uint64 // served elsewhere or evicted
	Evicted  uint64 // holders that an operator threw out
}

// Errors of a gate.
var (
	ErrFull      = errors.New("all slots are taken")
	ErrNoQueue   = errors.New("the gate has no queue")
	ErrQueueFull = errors.New("the queue is full")
	ErrDuplicate = errors.New("this lease already holds a slot or a place in the queue")
	ErrTooLate   = errors.New("the wait would outlast the deadline")
)

// Gate is the machine. Make it with New.
type Gate struct {
	policy  Policy
	holders roll.Roll[Holder]
	line    *line // who waits; nil until the first one does
	totals  Totals
	pace    pace
	tally   tally
}

// New makes a gate with free slots and an empty queue.
func New(p Policy) *Gate { return &Gate{policy: p} }

// Reconfigure sets another policy. Nobody is thrown out: with fewer slots than holders there are no new grants until
// enough are freed, and who waits in a queue that was shortened or closed goes on waiting, with the deadline that it
// has. Another discipline holds for all who wait.
func (g *Gate) Reconfigure(p Policy) {
	g.policy = p
	if g.line != nil && p.Queue != nil {
		g.line.configure(p.Queue)
	}
}

// Room says whether a slot is free.
func (g *Gate) Room() bool { return g.policy.Slots == nil || g.holders.Len() < *g.policy.Slots }

// Hold sets a slot aside, in phase Granting. It returns ErrFull, or ErrDuplicate when the lease holds one already.
func (g *Gate) Hold(id LeaseID, key string, now time.Time) (*Holder, error) {
	if !g.Room() {
		if g.Holder(id) != nil {
			return nil, ErrDuplicate
		}
		return nil, ErrFull
	}
	h := g.holders.Add(id.Request, id.Attempt)
	if h == nil {
		return nil, ErrDuplicate
	}
	h.ID, h.Key, h.Since, h.Phase = id, key, now, Granting
	return h, nil
}

// Take is Hold and Confirm in one, for an owner that asks nobody else.
func (g *Gate) Take(id LeaseID, key, account string, now time.Time) error {
	h, err := g.Hold(id, key, now)
	if err == nil {
		g.confirm(h, account)
	}
	return err
}

// Adopt counts a slot that its holder has taken already, before this gate was made or elsewhere; with or without room.
func (g *Gate) Adopt(id LeaseID, key string, since time.Time) {
	if h := g.holders.Add(id.Request, id.Attempt); h != nil {
		h.ID, h.Key, h.Since, h.Phase = id, key, since, Granted
	}
}

// Confirm makes a slot that was set aside a granted one. It says false when the lease holds none, was confirmed, or
// was evicted meanwhile; then the owner gives it back.
func (g *Gate) Confirm(id LeaseID, account string) bool {
	h := g.Holder(id)
	if h == nil || h.Phase != Granting || h.Evicted != "" {
		return false
	}
	g.confirm(h, account)
	return true
}

func (g *Gate) confirm(h *Holder, account string) {
	h.Account, h.Phase = account, Granted
	g.totals.Granted++
	if g.policy.PerKey {
		g.tally.add(h.Key)
	}
}

// Free gives a slot back that was never used, or whose use shall teach nothing. It says whether the lease held one;
// freeing again does nothing (A61).
func (g *Gate) Free(id LeaseID) bool { return g.free(id) != nil }

// Release gives a slot back at the end of its use, as Free does, and learns how long slots are held.
func (g *Gate) Release(id LeaseID, now time.Time) bool {
	h := g.free(id)
	if h != nil && h.Phase != Granting {
		g.pace.learn(now.Sub(h.Since))
	}
	return h != nil
}

// free returns what the holder was, valid until the next slot is taken.
func (g *Gate) free(id LeaseID) *Holder {
	h := g.holders.Remove(id.Request, id.Attempt)
	if h != nil {
		h.Tag = nil
	}
	return h
}

// Evict notes that a slot shall be given back by hand, and why. The slot stays taken: its attempt is cancelled first,
// and the end of the attempt frees it; otherwise the upstream would serve more calls than it has slots. One that is
// only set aside will not be confirmed. It returns the holder, nil when there is none, and whether this is news: the
// first reason stays.
func (g *Gate) Evict(id LeaseID, reason string) (h *Holder, news bool) {
	h = g.Holder(id)
	if h == nil || h.Evicted != "" {
		return h, false
	}
	if reason == "" {
		reason = "by hand"
	}
	h.Evicted = reason
	g.totals.Evicted++
	return h, true
}

// Holder is the holder with that id, nil when there is none.
func (g *Gate) Holder(id LeaseID) *Holder { return g.holders.Find(id.Request, id.Attempt) }

// Held counts the slots that are taken.
func (g *Gate) Held() int { return g.holders.Len() }

// Slots is the present limit, −1 when there is none.
func (g *Gate) Slots() int {
	if g.policy.Slots == nil {
		return -1
	}
	return *g.policy.Slots
}

// Queue is the present queue's policy, nil when there is none.
func (g *Gate) Queue() *Queue { return g.policy.Queue }

// Totals since the gate was made.
func (g *Gate) Totals() Totals { return g.totals }
