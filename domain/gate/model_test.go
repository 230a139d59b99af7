package gate

import (
	"cmp"
	"slices"
	"time"
)

// model is the gate as one would write it without a care for speed: two slices, and the turns of the keys in maps.
type model struct {
	policy  Policy
	age     time.Duration
	fair    bool
	held    []*held
	waiting []*waiting // by ticket
	ticket  uint64
	served  uint64
	turns   [levels]modelTurns
}

type held struct {
	id                 LeaseID
	confirmed, evicted bool
}

type waiting struct {
	Waiter
	rank int
}

// modelTurns is the law of Fair: who has the smallest tag is next, the older tag among equal ones.
type modelTurns struct {
	clock, serial uint64
	tags          map[string]modelTag
}

type modelTag struct{ tag, serial, stride uint64 }

func newModel() *model { return &model{} }

func (m *model) room() bool { return m.policy.Slots == nil || len(m.held) < *m.policy.Slots }

func (m *model) holder(id LeaseID) *held {
	for _, h := range m.held {
		if h.id == id {
			return h
		}
	}
	return nil
}

func (m *model) free(id LeaseID) { m.held = without(m.held, func(h *held) bool { return h.id == id }) }

func (m *model) reconfigure(p Policy) {
	m.policy = p
	if m.ticket > 0 && p.Queue != nil {
		m.configure(p.Queue)
	}
}

func (m *model) configure(q *Queue) {
	m.age = cmp.Or(q.AgeEvery, q.Timeout/3)
	if m.fair == (q.Discipline == Fair) {
		return
	}
	m.fair = q.Discipline == Fair
	m.turns = [levels]modelTurns{}
	for level := range levels {
		for _, w := range m.waiting {
			if w.rank == level {
				m.enter(w)
			}
		}
	}
}

// enter gives the waiter's key a turn in its rank.
func (m *model) enter(w *waiting) {
	t := &m.turns[w.rank]
	if t.tags == nil {
		t.tags = map[string]modelTag{}
	}
	tag, there := t.tags[w.Key]
	tag.stride = strideOf(w.Weight)
	if !there {
		t.serial++
		tag.tag, tag.serial = t.clock+tag.stride, t.serial
	}
	t.tags[w.Key] = tag
}

// exit takes the turn away when nobody of the key is left in the rank; who was served has used it up.
func (m *model) exit(w *waiting, served bool) {
	t := &m.turns[w.rank]
	if served {
		t.use(w.Key)
	}
	for _, other := range m.waiting {
		if other != w && other.rank == w.rank && other.Key == w.Key {
			return
		}
	}
	delete(t.tags, w.Key)
}

func (t *modelTurns) use(key string) {
	tag := t.tags[key]
	t.clock = max(t.clock, tag.tag)
	t.serial++
	tag.tag, tag.serial = t.clock+tag.stride, t.serial
	t.tags[key] = tag
}

func (m *model) join(a Ask, now time.Time) error {
	q := m.policy.Queue
	switch {
	case m.holder(a.ID) != nil || slices.ContainsFunc(m.waiting, func(w *waiting) bool { return w.ID == a.ID }):
		return ErrDuplicate
	case q == nil:
		return ErrNoQueue
	case q.MaxLength != nil && len(m.waiting) >= *q.MaxLength:
		return ErrQueueFull
	case !a.Deadline.IsZero() && !now.Before(a.Deadline):
		return ErrTooLate
	}
	if m.ticket == 0 {
		m.configure(q)
	}
	m.lift(now)
	m.ticket++
	w := &waiting{Waiter{ID: a.ID, Key: a.Key, Class: a.Class, Weight: max(1, a.Weight), Ticket: m.ticket, Since: now, Deadline: now.Add(q.Timeout)}, int(a.Class) + 1}
	if !a.Deadline.IsZero() && a.Deadline.Before(w.Deadline) {
		w.Deadline = a.Deadline
	}
	m.waiting = append(m.waiting, w)
	m.enter(w)
	return nil
}

func (m *model) leave(id LeaseID, served bool) bool {
	for i, w := range m.waiting {
		if w.ID == id {
			m.exit(w, served)
			m.waiting = slices.Delete(m.waiting, i, i+1)
			if served {
				m.served++
			}
			return true
		}
	}
	return false
}

// lift: each age of waiting lifts by one rank.
func (m *model) lift(now time.Time) {
	if m.age <= 0 {
		return
	}
	for rank := levels - 1; rank > 0; rank-- {
		for class := rank; class < levels; class++ {
			for _, w := range m.waiting {
				if w.rank == rank && int(w.Class)+1 == class && now.Sub(w.Since) >= m.age*time.Duration(class-rank+1) {
					m.exit(w, false)
					w.rank--
					m.enter(w)
				}
			}
		}
	}
}

func (m *model) next(now time.Time, may func(*Waiter) bool) *waiting {
	if m.ticket > 0 {
		m.lift(now)
	}
	if !m.room() {
		return nil
	}
	return m.pick(m.waiting, m.turns, func(w *waiting) bool {
		return now.Before(w.Deadline) && (may == nil || may(&w.Waiter))
	})
}

// pick is the least by rank, then by the turn of its key (Fair), then by ticket.
func (m *model) pick(from []*waiting, turns [levels]modelTurns, ok func(*waiting) bool) *waiting {
	var best *waiting
	for _, w := range from {
		if !ok(w) {
			continue
		}
		if best == nil || m.compare(turns, w, best) < 0 {
			best = w
		}
	}
	return best
}

func (m *model) compare(turns [levels]modelTurns, a, b *waiting) int {
	c := cmp.Compare(a.rank, b.rank)
	if m.fair && c == 0 {
		x, y := turns[a.rank].tags[a.Key], turns[b.rank].tags[b.Key]
		c = cmp.Or(cmp.Compare(x.tag, y.tag), cmp.Compare(x.serial, y.serial))
	}
	return cmp.Or(c, cmp.Compare(a.Ticket, b.Ticket))
}

// order plays through who would be served, one after the other.
func (m *model) order() []*waiting {
	turns := m.turns
	for i := range turns {
		tags := map[string]modelTag{}
		for k, v := range turns[i].tags {
			tags[k] = v
		}
		turns[i].tags = tags
	}
	left := slices.Clone(m.waiting)
	var order []*waiting
	for len(left) > 0 {
		w := m.pick(left, turns, func(*waiting) bool { return true })
		order = append(order, w)
		left = without(left, func(x *waiting) bool { return x == w })
		turns[w.rank].use(w.Key)
	}
	return order
}
