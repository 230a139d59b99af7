package gate

import "time"

// Why a waiter leaves the queue.
type Why uint8

// The ways out of a queue.
const (
	Served   Why = iota // got a slot here; counted when the slot is confirmed
	TimedOut            // its time was over (A59)
	Aborted             // the client went away (A59)
	Moved               // served elsewhere, or the owner closed the queue
)

// Enqueue gives a place in the queue. It returns ErrNoQueue, ErrQueueFull, ErrDuplicate when the lease holds a slot or
// waits already, and ErrTooLate when its own deadline is over, or, with FailFast, when the measured pace of this gate
// says that the wait would outlast it.
func (g *Gate) Enqueue(a Ask, now time.Time) (*Waiter, error) {
	q := g.policy.Queue
	switch {
	case g.Holder(a.ID) != nil || g.Waiter(a.ID) != nil:
		return nil, ErrDuplicate
	case q == nil:
		return nil, ErrNoQueue
	case q.MaxLength != nil && g.Waiting() >= *q.MaxLength:
		return nil, ErrQueueFull
	case !a.Deadline.IsZero() && !now.Before(a.Deadline):
		return nil, ErrTooLate
	}
	if g.line == nil {
		g.line = newLine(q)
	}
	w := &Waiter{
		ID: a.ID, Key: a.Key, Class: a.Class, Weight: max(1, a.Weight), Tag: a.Tag,
		Ticket: g.line.ticket + 1, Since: now, Deadline: now.Add(q.Timeout),
	}
	if !a.Deadline.IsZero() && a.Deadline.Before(w.Deadline) {
		w.Deadline = a.Deadline
	}
	g.line.age(now)
	g.line.add(w)
	if q.FailFast && g.pace.trusted() {
		if wait, known := g.ExpectedWait(g.line.ahead(w) + 1); known && now.Add(wait).After(w.Deadline) {
			g.line.remove(w, false)
			return nil, ErrTooLate
		}
	}
	g.line.ticket++
	g.totals.Queued++
	return w, nil
}

// Leave takes a waiter out of the queue, wherever it stands. It says whether the lease waited; leaving again does
// nothing and counts nothing. Under Fair, Served is what a key's turn is: nothing else moves it back.
func (g *Gate) Leave(id LeaseID, why Why) bool {
	w := g.Waiter(id)
	if w == nil {
		return false
	}
	g.line.remove(w, why == Served)
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
func (g *Gate) Waiter(id LeaseID) *Waiter {
	if g.line == nil {
		return nil
	}
	return g.line.byID[id]
}

// Waiting counts the waiters.
func (g *Gate) Waiting() int {
	if g.line == nil {
		return 0
	}
	return len(g.line.byID)
}

// Next is the waiter whose turn it is among those that may be served now, after everybody has aged up to now: nil when no
// slot is free or nobody may. A nil may allows everybody. Who may not is passed over and keeps its place. One whose
// deadline is over is never given out, see Overdue. The waiter stays in the queue until it leaves.
func (g *Gate) Next(now time.Time, may func(*Waiter) bool) *Waiter {
	if g.line == nil {
		return nil
	}
	g.line.age(now)
	if !g.Room() {
		return nil
	}
	return g.line.first(func(w *Waiter) bool { return now.Before(w.Deadline) && (may == nil || may(w)) })
}

// Overdue is a waiter whose deadline is over, the longest one first; nil: there is none. It waits until it leaves, which
// the owner sees to (TimedOut) before it asks again.
func (g *Gate) Overdue(now time.Time) *Waiter {
	if g.line == nil {
		return nil
	}
	if w := g.line.due.next(); w != nil && !now.Before(w.Deadline) {
		return w
	}
	return nil
}

// NextDeadline is when the next waiter will be overdue; zero: nobody waits.
func (g *Gate) NextDeadline() time.Time {
	if g.line == nil {
		return time.Time{}
	}
	if w := g.line.due.next(); w != nil {
		return w.Deadline
	}
	return time.Time{}
}
