package gate

import "time"

// Class is how urgent a waiter is. The zero value is Normal.
type Class int8

// The classes, the most urgent first.
const (
	High   Class = -1
	Normal Class = 0
	Low    Class = 1
)

var classNames = [levels]string{"high", "normal", "low"}

// String is the class's name in resource files.
func (c Class) String() string { return classNames[c.level()] }

// ParseClass is the class of that name; "" is Normal. False: there is no such class.
func ParseClass(name string) (Class, bool) {
	for i, n := range classNames {
		if n == name {
			return Class(i) + High, true
		}
	}
	return Normal, name == ""
}

// levels is how many ranks there are to stand in: one for each class.
const levels = 3

// level is the rank in which a class begins to wait, 0 the first to be served. What is out of range is cut.
func (c Class) level() int { return int(min(max(c, High), Low) - High) }

// Discipline says who is next within a rank. The zero value is FIFO.
type Discipline uint8

// The disciplines.
const (
	FIFO Discipline = iota // the order of tickets
	Fair                   // the keys take turns by their weights; the order of tickets within a key
)

var disciplineNames = [...]string{"fifo", "fair"}

// String is the discipline's name in resource files; an unknown one is "".
func (d Discipline) String() string {
	if int(d) >= len(disciplineNames) {
		return ""
	}
	return disciplineNames[d]
}

// ParseDiscipline is the discipline of that name; "" is FIFO. False: there is no such discipline.
func ParseDiscipline(name string) (Discipline, bool) {
	for i, n := range disciplineNames {
		if n == name {
			return Discipline(i), true
		}
	}
	return FIFO, name == ""
}

// Ask is who wants a place in a queue.
type Ask struct {
	ID       LeaseID
	Key      string
	Class    Class
	Weight   int       // of the key, for Fair; below 1 counts as 1
	Deadline time.Time // the request's own; zero: only the queue's timeout bounds the wait
	Tag      any       // carried for the owner
}

// Waiter is one place in the queue. The pointer stays valid; once the waiter has left, it stands nowhere.
type Waiter struct {
	ID       LeaseID
	Key      string
	Class    Class
	Weight   int    // 1 or more
	Ticket   uint64 // rises with arrival, from 1
	Since    time.Time
	Deadline time.Time // Since + the queue's timeout, or the request's own deadline if that is earlier
	Tag      any       // carried for the owner

	level int // the rank in which it stands: its class's, until waiting lifts it
	left  bool
	lane  *lane // Fair only
	links [2]link
}

// link is a place in a chain.
type link struct{ prev, next *Waiter }

// Each waiter stands in two chains.
const (
	inRank = iota // of all with its class and level
	inLane        // of its key, at its level; Fair only
)

// chain is a list of waiters by ticket. It is kept inside the waiters, so that leaving takes constant time.
type chain struct {
	head, tail *Waiter
	n          int
	of         int // which link of a waiter belongs to it
}

// add puts a waiter where its ticket belongs: at the end, but for the few who come from elsewhere.
func (c *chain) add(w *Waiter) {
	at := c.tail
	for at != nil && at.Ticket > w.Ticket {
		at = at.links[c.of].prev
	}
	l := &w.links[c.of]
	l.prev = at
	if at == nil {
		l.next, c.head = c.head, w
	} else {
		l.next, at.links[c.of].next = at.links[c.of].next, w
	}
	if l.next == nil {
		c.tail = w
	} else {
		l.next.links[c.of].prev = w
	}
	c.n++
}

func (c *chain) remove(w *Waiter) {
	l := &w.links[c.of]
	if l.prev == nil {
		c.head = l.next
	} else {
		l.prev.links[c.of].next = l.next
	}
	if l.next == nil {
		c.tail = l.prev
	} else {
		l.next.links[c.of].prev = l.prev
	}
	*l = link{}
	c.n--
}

// before counts those with a smaller ticket. It walks from the end: short for a newcomer.
func (c *chain) before(ticket uint64) int {
	n := c.n
	for w := c.tail; w != nil && w.Ticket >= ticket; w = w.links[c.of].prev {
		n--
	}
	return n
}

// first is the first that may; nil: nobody.
func (c *chain) first(may func(*Waiter) bool) *Waiter {
	for w := c.head; w != nil; w = w.links[c.of].next {
		if may(w) {
			return w
		}
	}
	return nil
}
