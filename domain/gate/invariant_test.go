package gate

import (
	"flag"
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"
)

var seed = flag.Int64("seed", 0, "run only this seed")

// model is the gate as one would write it without a care for speed: two slices.
type model struct {
	slots   *int
	max     *int
	queue   bool
	held    []LeaseID
	waiting []LeaseID
}

func (m *model) room() bool { return m.slots == nil || len(m.held) < *m.slots }

func without(s []LeaseID, id LeaseID) []LeaseID {
	return slices.DeleteFunc(slices.Clone(s), func(x LeaseID) bool { return x == id })
}

// TestRandomStepsKeepTheLaws: slots are never exceeded by a grant, FIFO is kept, free + held is conserved, every
// operation is idempotent, and the gate agrees with the model after each step.
func TestRandomStepsKeepTheLaws(t *testing.T) {
	for s := int64(1); s <= 400; s++ {
		if *seed != 0 {
			s = *seed
		}
		if err := run(s); err != nil {
			t.Fatalf("seed %d: %v\nrepeat: go test ./domain/gate -run '%s' -seed %d", s, err, t.Name(), s)
		}
		if *seed != 0 {
			return
		}
	}
}

func run(seed int64) error {
	r := rand.New(rand.NewSource(seed))
	m := &model{slots: bound(r, 5), max: bound(r, 6), queue: r.Intn(4) > 0}
	policy := func() Policy {
		p := Policy{Slots: m.slots}
		if m.queue {
			p.Queue = &Queue{Timeout: time.Second, MaxLength: m.max}
		}
		return p
	}
	g := New(policy())
	var tickets []uint64 // in order of serving, while everybody may be served
	for step := range 300 {
		n := id(r.Intn(12))
		switch r.Intn(7) {
		case 0:
			want := m.room() && !slices.Contains(m.held, n)
			if _, err := g.Hold(n, "k", t0); (err == nil) != want {
				return fmt.Errorf("step %d: Hold says %v, want %v", step, err, want)
			}
			if want {
				m.held = append(m.held, n)
			}
		case 1:
			if got, want := g.Free(n), slices.Contains(m.held, n); got != want {
				return fmt.Errorf("step %d: Free says %v, want %v", step, got, want)
			}
			m.held = without(m.held, n)
		case 2, 3:
			want := m.queue && (m.max == nil || len(m.waiting) < *m.max) &&
				!slices.Contains(m.held, n) && !slices.Contains(m.waiting, n)
			if _, err := g.Join(n, "k", t0, nil); (err == nil) != want {
				return fmt.Errorf("step %d: Join says %v, want %v", step, err, want)
			}
			if want {
				m.waiting = append(m.waiting, n)
			}
		case 4:
			if got, want := g.Leave(n, Why(r.Intn(4))), slices.Contains(m.waiting, n); got != want {
				return fmt.Errorf("step %d: Leave says %v, want %v", step, got, want)
			}
			m.waiting = without(m.waiting, n)
		case 5:
			w := g.Next(nil)
			if want := m.room() && len(m.waiting) > 0; (w != nil) != want {
				return fmt.Errorf("step %d: Next says %v, want one: %v", step, w, want)
			}
			if w == nil {
				break
			}
			if w.ID != m.waiting[0] {
				return fmt.Errorf("step %d: %v overtook %v", step, w.ID, m.waiting[0])
			}
			tickets = append(tickets, w.Ticket)
			m.waiting = m.waiting[1:]
			g.Leave(w.ID, Served)
			if !slices.Contains(m.held, w.ID) {
				if _, err := g.Hold(w.ID, "k", t0); err != nil {
					return fmt.Errorf("step %d: the slot for %v: %v", step, w.ID, err)
				}
				m.held = append(m.held, w.ID)
			}
		case 6:
			if r.Intn(5) == 0 {
				m.slots, m.max, m.queue = bound(r, 5), bound(r, 6), r.Intn(4) > 0
				g.Reconfigure(policy())
			}
		}
		if err := agree(g, m); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
	}
	if !slices.IsSorted(tickets) {
		return fmt.Errorf("served out of order: %v", tickets)
	}
	return nil
}

func agree(g *Gate, m *model) error {
	if g.Room() != m.room() {
		return fmt.Errorf("room: %v with %d of %d held", g.Room(), g.Held(), g.Slots())
	}
	n := 0
	for h := range g.Holders {
		n++
		if !slices.Contains(m.held, h.ID) {
			return fmt.Errorf("%v holds a slot that it gave back", h.ID)
		}
	}
	if n != len(m.held) || g.Held() != n {
		return fmt.Errorf("%d held, want %d", n, len(m.held))
	}
	var order []LeaseID
	var last uint64
	for at, w := range g.Waiters {
		if at != len(order)+1 || w.Ticket <= last {
			return fmt.Errorf("position %d, ticket %d after %d", at, w.Ticket, last)
		}
		last = w.Ticket
		order = append(order, w.ID)
	}
	if !slices.Equal(order, m.waiting) || g.Waiting() != len(order) {
		return fmt.Errorf("queue %v, want %v", order, m.waiting)
	}
	if q := g.Totals(); q.Queued < q.TimedOut+q.Aborted+q.Moved+uint64(g.Waiting()) {
		return fmt.Errorf("totals do not add up: %+v with %d waiting", q, g.Waiting())
	}
	return nil
}

func bound(r *rand.Rand, n int) *int {
	if r.Intn(4) == 0 {
		return nil
	}
	v := r.Intn(n)
	return &v
}
