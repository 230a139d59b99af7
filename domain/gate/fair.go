package gate

import "container/heap"

// turns is one rank under Fair: a lane for each key that waits in it. Self-clocked fair queueing: a lane has a tag, the
// smallest is next, and who was served moves back by one stride, the larger the smaller its weight. The clock is the
// largest tag that was served. A lane never goes on from before the clock, so that a key has no credit for turns in
// which it was not there or could not be served, and a key that comes back at once cannot evade its stride.
type turns struct {
	lanes  map[string]*lane
	heap   laneHeap
	clock  uint64
	serial uint64
	passed []*lane // scratch of first
}

// lane is one key in one rank.
type lane struct {
	key    string
	chain  chain
	stride uint64
	tag    uint64
	serial uint64 // of the tag: among equal tags the oldest is next
	at     int    // in the heap
}

// strideOne is the stride of weight 1. It leaves weights up to a thousand within a thousandth, and the clock room for
// 10^13 turns.
const strideOne = 1 << 20

func strideOf(weight int) uint64 { return max(1, strideOne/uint64(max(1, weight))) }

func (t *turns) add(w *Waiter) {
	if t.lanes == nil {
		t.lanes = map[string]*lane{}
	}
	ln := t.lanes[w.Key]
	if ln == nil {
		ln = &lane{key: w.Key, chain: chain{of: inLane}, stride: strideOf(w.Weight)}
		t.lanes[w.Key] = ln
		t.mark(ln)
		heap.Push(&t.heap, ln)
	}
	ln.stride = strideOf(w.Weight) // the key's newest weight holds, from its next turn on
	w.lane = ln
	ln.chain.add(w)
}

// mark gives a lane its next turn.
func (t *turns) mark(ln *lane) {
	t.serial++
	ln.tag, ln.serial = t.clock+ln.stride, t.serial
}

func (t *turns) remove(w *Waiter, served bool) {
	ln := w.lane
	ln.chain.remove(w)
	w.lane = nil
	if served {
		t.clock = max(t.clock, ln.tag)
		t.mark(ln)
	}
	switch {
	case ln.chain.n == 0:
		heap.Remove(&t.heap, ln.at)
		delete(t.lanes, ln.key)
	case served:
		heap.Fix(&t.heap, ln.at)
	}
}

// first is who comes next among those who may. Lanes in which nobody may are passed over and keep their turn.
func (t *turns) first(may func(*Waiter) bool) (w *Waiter) {
	for w == nil && len(t.heap) > 0 {
		if w = t.heap[0].chain.first(may); w == nil {
			t.passed = append(t.passed, heap.Pop(&t.heap).(*lane))
		}
	}
	for _, ln := range t.passed {
		heap.Push(&t.heap, ln)
	}
	clear(t.passed)
	t.passed = t.passed[:0]
	return w
}

// tagAt is the tag that a lane will have when i of it have been served.
func (t *turns) tagAt(ln *lane, i int) uint64 {
	if i == 0 {
		return ln.tag
	}
	return max(t.clock, ln.tag) + uint64(i)*ln.stride
}

// ahead counts who is before w within the rank, without playing it through: O(keys).
func (t *turns) ahead(w *Waiter) int {
	at := w.lane.chain.before(w.Ticket)
	n, tag := at, t.tagAt(w.lane, at)
	for _, ln := range t.lanes {
		if ln == w.lane {
			continue
		}
		// Those with a smaller tag, then the one with an equal tag, if it is first.
		i := 0
		if ln.tag < tag {
			i = 1
			if base := max(t.clock, ln.tag); tag > base {
				i = int(min(uint64(ln.chain.n), (tag-base-1)/ln.stride+1))
			}
		}
		if i < ln.chain.n && t.tagAt(ln, i) == tag && tieBefore(ln, i, w.lane, at) {
			i++
		}
		n += i
	}
	return n
}

// tieBefore says whether the i-th of lane a precedes the j-th of lane b, their tags being equal: the tag that was given
// first does, and it was given when the one before was served.
func tieBefore(a *lane, i int, b *lane, j int) bool {
	switch {
	case i > 0 && j > 0 && a.stride != b.stride:
		return a.stride > b.stride
	case i != j:
		return i < j
	case a.tag != b.tag:
		return a.tag < b.tag
	}
	return a.serial < b.serial
}

// order appends everybody in the order of being served, played through on copies.
func (t *turns) order(all []*Waiter) []*Waiter {
	copies := make([]lane, 0, len(t.heap))
	play := turns{clock: t.clock, serial: t.serial, heap: make(laneHeap, 0, len(t.heap))}
	for _, ln := range t.heap {
		copies = append(copies, *ln)
		play.heap = append(play.heap, &copies[len(copies)-1]) // a heap stays one when copied
	}
	for len(play.heap) > 0 {
		ln := play.heap[0]
		w := ln.chain.head
		all = append(all, w)
		if ln.chain.head = w.links[inLane].next; ln.chain.head == nil {
			play.clock = max(play.clock, ln.tag)
			heap.Pop(&play.heap)
			continue
		}
		play.clock = max(play.clock, ln.tag)
		play.mark(ln)
		heap.Fix(&play.heap, 0)
	}
	return all
}

// laneHeap has the lanes by tag.
type laneHeap []*lane

func (h laneHeap) Len() int { return len(h) }

func (h laneHeap) Less(i, j int) bool {
	if h[i].tag != h[j].tag {
		return h[i].tag < h[j].tag
	}
	return h[i].serial < h[j].serial
}

func (h laneHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

// Push and Pop make it a heap of container/heap.
func (h *laneHeap) Push(x any) {
	ln := x.(*lane)
	ln.at = len(*h)
	*h = append(*h, ln)
}

// Pop takes the last one out.
func (h *laneHeap) Pop() any {
	last := len(*h) - 1
	ln := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return ln
}
