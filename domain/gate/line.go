package gate

import (
	"container/heap"
	"time"
)

// line is everybody who waits at a gate. The law of its order:
//
// A waiter begins in the rank of its class (high, normal, low). Each ageEvery of waiting lifts it by one rank, up to the
// first. A rank is looked at only when nobody in a better one may be served. Within a rank FIFO goes by tickets, Fair
// by turns of the keys (see turns). So who has waited two ageEvery is behind nobody who came later (FIFO), or takes
// its key's turns with the most urgent (Fair): nobody starves.
//
// Joining, leaving, being served and ageing cost O(1), and under Fair O(log keys) when a key's turn comes, or when its
// last waiter leaves. Who may not be served is passed over in place and costs one call of may.
type line struct {
	byID     map[LeaseID]*Waiter
	ranks    [levels][levels]chain // [level][level of the class]: who comes from one class ages in the order of tickets
	turns    *[levels]turns        // Fair only
	ageEvery time.Duration         // 0: never
	ticket   uint64
	due      dueHeap
}

func newLine(q *Queue) *line {
	l := &line{byID: map[LeaseID]*Waiter{}}
	l.configure(q)
	return l
}

// configure takes a policy over. When the discipline changes, everybody is put in order anew.
func (l *line) configure(q *Queue) {
	l.ageEvery = q.ageEvery()
	if (q.Discipline == Fair) == (l.turns != nil) {
		return
	}
	l.turns = nil
	if q.Discipline == Fair {
		l.turns = &[levels]turns{}
		for level := range levels {
			for w := range l.rank(level) {
				l.turns[level].add(w)
			}
		}
		return
	}
	for _, w := range l.byID {
		w.lane, w.links[inLane] = nil, link{}
	}
}

// add puts a waiter into the rank of its class. The owner of the line numbers the tickets.
func (l *line) add(w *Waiter) {
	l.byID[w.ID] = w
	l.stand(w, w.Class.level())
	heap.Push(&l.due, w)
}

func (l *line) stand(w *Waiter, level int) {
	w.level = level
	l.ranks[level][w.Class.level()].add(w)
	if l.turns != nil {
		l.turns[level].add(w)
	}
}

// remove takes a waiter out; served says that its key has had a turn.
func (l *line) remove(w *Waiter, served bool) {
	delete(l.byID, w.ID)
	l.lift(w, served)
	w.left = true
	l.due.forget(len(l.byID))
}

// lift takes a waiter out of its rank.
func (l *line) lift(w *Waiter, served bool) {
	l.ranks[w.level][w.Class.level()].remove(w)
	if l.turns != nil {
		l.turns[w.level].remove(w, served)
	}
}

// age lifts everybody whose time has come, from the last rank on, so that who waited long rises more than once.
func (l *line) age(now time.Time) {
	if l.ageEvery <= 0 {
		return
	}
	for level := levels - 1; level > 0; level-- {
		for class := level; class < levels; class++ {
			c := &l.ranks[level][class]
			for w := c.head; w != nil && now.Sub(w.Since) >= time.Duration(class-level+1)*l.ageEvery; w = c.head {
				l.lift(w, false)
				l.stand(w, level-1)
			}
		}
	}
}

// rank yields everybody who stands in a rank, by ticket.
func (l *line) rank(level int) func(yield func(*Waiter) bool) {
	return func(yield func(*Waiter) bool) {
		var at [levels]*Waiter
		for class := level; class < levels; class++ {
			at[class] = l.ranks[level][class].head
		}
		for {
			next := -1
			for class := level; class < levels; class++ {
				if at[class] != nil && (next < 0 || at[class].Ticket < at[next].Ticket) {
					next = class
				}
			}
			if next < 0 {
				return
			}
			w := at[next]
			at[next] = w.links[inRank].next
			if !yield(w) {
				return
			}
		}
	}
}

// first is who comes next among those who may; nil: nobody.
func (l *line) first(may func(*Waiter) bool) *Waiter {
	for level := range levels {
		if l.turns != nil {
			if w := l.turns[level].first(may); w != nil {
				return w
			}
			continue
		}
		for w := range l.rank(level) {
			if may(w) {
				return w
			}
		}
	}
	return nil
}

// ahead counts who would be served before w, as things stand and if everybody may be served.
func (l *line) ahead(w *Waiter) int {
	n := 0
	for level := range w.level {
		for class := range l.ranks[level] {
			n += l.ranks[level][class].n
		}
	}
	if l.turns != nil {
		return n + l.turns[w.level].ahead(w)
	}
	for class := range l.ranks[w.level] {
		n += l.ranks[w.level][class].before(w.Ticket)
	}
	return n
}

// order lists everybody in the order of being served, as ahead counts it.
func (l *line) order() []*Waiter {
	all := make([]*Waiter, 0, len(l.byID))
	for level := range levels {
		if l.turns != nil {
			all = l.turns[level].order(all)
			continue
		}
		for w := range l.rank(level) {
			all = append(all, w)
		}
	}
	return all
}

// dueHeap has the waiters by deadline, the next on top. Who leaves stays in it until it comes up or until half of the
// heap has left: leaving stays cheap, and the heap is never more than about twice the queue.
type dueHeap []*Waiter

// dueSlack is how many may have left before it is worth looking.
const dueSlack = 32

// next is who times out next; nil: nobody waits.
func (h *dueHeap) next() *Waiter {
	for len(*h) > 0 && (*h)[0].left {
		heap.Pop(h)
	}
	if len(*h) == 0 {
		return nil
	}
	return (*h)[0]
}

// forget drops those who have left when they are the most. waiting is how many have not.
func (h *dueHeap) forget(waiting int) {
	if len(*h) <= 2*waiting+dueSlack {
		return
	}
	kept := (*h)[:0]
	for _, w := range *h {
		if !w.left {
			kept = append(kept, w)
		}
	}
	clear((*h)[len(kept):])
	*h = kept
	heap.Init(h)
}

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].Deadline.Before(h[j].Deadline) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push and Pop make it a heap of container/heap.
func (h *dueHeap) Push(x any) { *h = append(*h, x.(*Waiter)) }

// Pop takes the last one out.
func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	w := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return w
}
