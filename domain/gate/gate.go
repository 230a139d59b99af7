// Package gate is the slots and the wait queue of one owner (an upstream, an account, a user, a key) as a pure machine:
// no clock, no goroutines, no locks. It mutates in place because every request passes through several gates; its
// owner calls it from one goroutine. It keeps the set of holders, never a counter, so that a slot always says who has
// it and freeing twice frees once (pains 34, 35, 40).
package gate

import (
	"errors"
	"time"
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
	Generation uint64 // of the breaker's permit; carried for the owner, the gate does not read it
	Probe      bool   // likewise
}

// Waiter is one place in the queue. The pointer is valid until the waiter leaves.
type Waiter struct {
	ID       LeaseID
	Key      string
	Ticket   uint64 // rises with arrival, from 1
	Since    time.Time
	Deadline time.Time // Since + the queue's timeout; who waits leaves by itself
	Tag      any       // carried for the owner

	prev, next *Waiter
}

// Queue is the waiting room of a gate.
type Queue struct {
	Timeout   time.Duration
	MaxLength *int // nil: unlimited
}

// Policy is what an operator sets. The zero value has unlimited slots and no queue.
type Policy struct {
	Slots *int   // nil: unlimited
	Queue *Queue // nil: nobody may wait
}

// Totals count since the gate was made. Queued = TimedOut + Aborted + Moved + served from the queue + still waiting.
type Totals struct {
	Queued   uint64 // joined the queue
	Granted  uint64 // slots granted, with or without a wait
	TimedOut uint64
	Aborted  uint64
	Moved    uint64 // served elsewhere or evicted
}

// Why a waiter leaves the queue.
type Why uint8

// The ways out of a queue.
const (
	Served   Why = iota // got a slot here; counted when the slot is confirmed
	TimedOut            // its time was over (A59)
	Aborted             // the client went away (A59)
	Moved               // served elsewhere, or the owner closed the queue
)

// Errors of a gate.
var (
	ErrFull      = errors.New("all slots are taken")
	ErrNoQueue   = errors.New("the gate has no queue")
	ErrQueueFull = errors.New("the queue is full")
	ErrDuplicate = errors.New("this lease already holds a slot or a place in the queue")
)

// Gate is the machine. Make it with New.
type Gate struct {
	policy     Policy
	holders    map[LeaseID]*Holder
	waiters    map[LeaseID]*Waiter
	head, tail *Waiter // by ticket
	ticket     uint64
	totals     Totals
	spare      []*Holder // freed ones, so that the hot path does not allocate
}

// spareMax bounds the freed holders that are kept.
const spareMax = 256

// New makes a gate with free slots and an empty queue.
func New(p Policy) *Gate {
	return &Gate{policy: p, holders: map[LeaseID]*Holder{}, waiters: map[LeaseID]*Waiter{}}
}

// Reconfigure sets another policy. Nobody is thrown out: with fewer slots than holders there are no new grants until
// enough are freed, and who waits in a queue that was shortened or closed goes on waiting.
func (g *Gate) Reconfigure(p Policy) { g.policy = p }

// Room says whether a slot is free.
func (g *Gate) Room() bool { return g.policy.Slots == nil || len(g.holders) < *g.policy.Slots }

// Hold sets a slot aside, in phase Granting. It returns ErrFull, or ErrDuplicate when the lease holds one already.
func (g *Gate) Hold(id LeaseID, key string, now time.Time) (*Holder, error) {
	if _, held := g.holders[id]; held {
		return nil, ErrDuplicate
	}
	if !g.Room() {
		return nil, ErrFull
	}
	var h *Holder
	if n := len(g.spare); n > 0 {
		h, g.spare = g.spare[n-1], g.spare[:n-1]
	} else {
		h = new(Holder)
	}
	*h = Holder{ID: id, Key: key, Since: now, Phase: Granting}
	g.holders[id] = h
	return h, nil
}

// Confirm makes a slot that was set aside a granted one. It says false when the lease holds none, or was confirmed.
func (g *Gate) Confirm(id LeaseID, account string) bool {
	h := g.holders[id]
	if h == nil || h.Phase != Granting {
		return false
	}
	h.Account, h.Phase = account, Granted
	g.totals.Granted++
	return true
}

// Free gives a slot back. It says whether the lease held one; freeing again does nothing (A61).
func (g *Gate) Free(id LeaseID) bool {
	h := g.holders[id]
	if h == nil {
		return false
	}
	delete(g.holders, id)
	if len(g.spare) < spareMax {
		g.spare = append(g.spare, h)
	}
	return true
}

// Holder is the holder with that id, nil when there is none.
func (g *Gate) Holder(id LeaseID) *Holder { return g.holders[id] }

// Join puts a waiter at the end of the queue; its position is Waiting() right after. It returns ErrNoQueue,
// ErrQueueFull, or ErrDuplicate when the lease holds a slot or waits already. tag is kept for the owner.
func (g *Gate) Join(id LeaseID, key string, now time.Time, tag any) (*Waiter, error) {
	q := g.policy.Queue
	switch {
	case g.holders[id] != nil || g.waiters[id] != nil:
		return nil, ErrDuplicate
	case q == nil:
		return nil, ErrNoQueue
	case q.MaxLength != nil && len(g.waiters) >= *q.MaxLength:
		return nil, ErrQueueFull
	}
	g.ticket++
	g.totals.Queued++
	w := &Waiter{ID: id, Key: key, Ticket: g.ticket, Since: now, Deadline: now.Add(q.Timeout), Tag: tag, prev: g.tail}
	if g.tail == nil {
		g.head = w
	} else {
		g.tail.next = w
	}
	g.tail = w
	g.waiters[id] = w
	return w, nil
}

// Leave takes a waiter out of the queue, wherever it stands, in constant time. It says whether the lease waited;
// leaving again does nothing and counts nothing.
func (g *Gate) Leave(id LeaseID, why Why) bool {
	w := g.waiters[id]
	if w == nil {
		return false
	}
	delete(g.waiters, id)
	if w.prev == nil {
		g.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		g.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
	switch why {
	case Served:
	case TimedOut:
		g.totals.TimedOut++
	case Aborted:
		g.totals.Aborted++
	case Moved:
		g.totals.Moved++
	}
	return true
}

// Waiter is the waiter with that id, nil when there is none.
func (g *Gate) Waiter(id LeaseID) *Waiter { return g.waiters[id] }

// Next is the first waiter, by ticket, that may be served now: nil when no slot is free or nobody may. A nil may
// allows everybody. The waiter stays in the queue until it leaves.
func (g *Gate) Next(may func(*Waiter) bool) *Waiter {
	if !g.Room() {
		return nil
	}
	for w := g.head; w != nil; w = w.next {
		if may == nil || may(w) {
			return w
		}
	}
	return nil
}

// Held counts the slots that are taken, Waiting the places in the queue.
func (g *Gate) Held() int { return len(g.holders) }

// Waiting counts the waiters.
func (g *Gate) Waiting() int { return len(g.waiters) }

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

// Holders yields copies of all holders, in no order.
func (g *Gate) Holders(yield func(Holder) bool) {
	for _, h := range g.holders {
		if !yield(*h) {
			return
		}
	}
}

// Waiters yields the queue with positions from 1. The waiter that was just yielded may leave meanwhile.
func (g *Gate) Waiters(yield func(int, *Waiter) bool) {
	i := 0
	for w := g.head; w != nil; {
		next := w.next
		i++
		if !yield(i, w) {
			return
		}
		w = next
	}
}
