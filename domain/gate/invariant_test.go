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

// TestRandomStepsKeepTheLaws: slots are never exceeded by a grant, the discipline, the classes, ageing and deadlines are
// kept, nobody who may not be served is served or loses its place, free + held is conserved, every operation is
// idempotent, and the gate agrees with the model after each step (A56-A61; pains 34, 35, 41, 43).
func TestRandomStepsKeepTheLaws(t *testing.T) {
	for s := int64(1); s <= 500; s++ {
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
	m := newModel()
	policy := func() Policy { return randomPolicy(r) }
	m.policy = policy()
	g := New(m.policy)
	now := t0
	for step := range 300 {
		now = now.Add(time.Duration(r.Intn(700)) * time.Millisecond)
		n := id(r.Intn(14))
		if err := one(r, g, m, n, now); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		if r.Intn(40) == 0 {
			m.reconfigure(policy())
			g.Reconfigure(m.policy)
		}
		err := agree(g, m)
		if err == nil && step%10 == 0 {
			err = sumsUp(g)
		}
		if err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
	}
	return nil
}

func randomPolicy(r *rand.Rand) Policy {
	p := Policy{Slots: bound(r, 5), PerKey: true}
	if r.Intn(5) > 0 {
		p.Queue = &Queue{Timeout: time.Duration(1+r.Intn(20)) * time.Second, MaxLength: bound(r, 9), AgeEvery: time.Duration(r.Intn(3)) * time.Second}
		if r.Intn(3) > 0 {
			p.Queue.Discipline = Fair
		}
	}
	return p
}

// one makes one random step on both.
func one(r *rand.Rand, g *Gate, m *model, n LeaseID, now time.Time) error {
	switch r.Intn(9) {
	case 0:
		want := m.room() && m.holder(n) == nil
		if _, err := g.Hold(n, keyOf(n), now); (err == nil) != want {
			return fmt.Errorf("Hold says %v, want %v", err, want)
		}
		if want {
			m.held = append(m.held, &held{id: n})
		}
	case 1:
		h := m.holder(n)
		free := g.Free
		if r.Intn(2) == 0 {
			free = func(id LeaseID) bool { return g.Release(id, now) }
		}
		if got := free(n); got != (h != nil) {
			return fmt.Errorf("Free says %v, want %v", got, h != nil)
		}
		m.free(n)
	case 2, 3, 4:
		a := Ask{ID: n, Key: keyOf(n), Weight: r.Intn(4), Class: Class(r.Intn(3) - 1)}
		if r.Intn(3) == 0 {
			a.Deadline = now.Add(time.Duration(r.Intn(9)-1) * time.Second)
		}
		want := m.join(a, now)
		if _, err := g.Enqueue(a, now); err != want {
			return fmt.Errorf("Enqueue says %v, want %v", err, want)
		}
	case 5:
		why := Why(r.Intn(4))
		if got, want := g.Leave(n, why), m.leave(n, why == Served); got != want {
			return fmt.Errorf("Leave says %v, want %v", got, want)
		}
	case 6, 7:
		bad, not := keyOf(id(r.Intn(14))), id(r.Intn(14))
		may := func(w *Waiter) bool { return w.Key != bad && w.ID != not }
		if r.Intn(2) == 0 {
			may = nil
		}
		return serve(g, m, now, may)
	case 8:
		h := m.holder(n)
		_, news := g.Evict(n, "by hand")
		if want := h != nil && !h.evicted; news != want {
			return fmt.Errorf("Evict says %v, want %v", news, want)
		}
		if h != nil {
			h.evicted = true
		}
		want := h != nil && !h.confirmed && !h.evicted
		if got := g.Confirm(n, "a"); got != want {
			return fmt.Errorf("Confirm says %v, want %v", got, want)
		}
	}
	return nil
}

// serve times out who is overdue, and serves the next one.
func serve(g *Gate, m *model, now time.Time, may func(*Waiter) bool) error {
	last := time.Time{}
	for w := g.Overdue(now); w != nil; w = g.Overdue(now) {
		if now.Before(w.Deadline) || w.Deadline.Before(last) {
			return fmt.Errorf("%v is not overdue, or out of order", w.ID)
		}
		last = w.Deadline
		if !g.Leave(w.ID, TimedOut) || !m.leave(w.ID, false) {
			return fmt.Errorf("%v was overdue and did not wait", w.ID)
		}
	}
	want := m.next(now, may)
	w := g.Next(now, may)
	switch {
	case (w == nil) != (want == nil):
		return fmt.Errorf("Next says %v, want %v", w, want)
	case w == nil:
		return nil
	case w.ID != want.ID:
		return fmt.Errorf("%v overtook %v", w.ID, want.ID)
	case !now.Before(w.Deadline):
		return fmt.Errorf("%v is served after its deadline", w.ID)
	}
	g.Leave(w.ID, Served)
	m.leave(w.ID, true)
	if m.holder(w.ID) != nil {
		return nil // a slot was set aside for it before
	}
	if _, err := g.Hold(w.ID, w.Key, now); err != nil {
		return fmt.Errorf("the slot for %v: %w", w.ID, err)
	}
	m.held = append(m.held, &held{id: w.ID, confirmed: true})
	if !g.Confirm(w.ID, "a") {
		return fmt.Errorf("%v was not confirmed", w.ID)
	}
	return nil
}

// keyOf spreads the leases over four keys.
func keyOf(n LeaseID) string { return fmt.Sprint("k", n.Request[len(n.Request)-1]%4) }

func agree(g *Gate, m *model) error {
	if g.Room() != m.room() {
		return fmt.Errorf("room: %v with %d of %d held", g.Room(), g.Held(), g.Slots())
	}
	n := 0
	for h := range g.Holders {
		n++
		is := m.holder(h.ID)
		if is == nil || is.evicted != (h.Evicted != "") || is.confirmed != (h.Phase == Granted) {
			return fmt.Errorf("holder %+v, want %+v", h, is)
		}
	}
	if n != len(m.held) || g.Held() != n {
		return fmt.Errorf("%d held, want %d", n, len(m.held))
	}
	want := m.order()
	i := 0
	for at, w := range g.Waiters {
		if at != i+1 || i >= len(want) || w.ID != want[i].ID {
			return fmt.Errorf("position %d is %v, want %v", at, w.ID, want)
		}
		if p := g.Position(w.ID); p != at {
			return fmt.Errorf("%v has position %d, but would be served as number %d", w.ID, p, at)
		}
		i++
	}
	if i != len(want) || g.Waiting() != i {
		return fmt.Errorf("%d wait, want %d", i, len(want))
	}
	var next time.Time
	for _, w := range m.waiting {
		if next.IsZero() || w.Deadline.Before(next) {
			next = w.Deadline
		}
	}
	if !g.NextDeadline().Equal(next) {
		return fmt.Errorf("the next deadline is %v, want %v", g.NextDeadline(), next)
	}
	if q := g.Totals(); q.Queued != q.TimedOut+q.Aborted+q.Moved+m.served+uint64(i) {
		return fmt.Errorf("totals do not add up: %+v with %d waiting and %d served", q, i, m.served)
	}
	return nil
}

// sumsUp: the shares of the keys are everything that is held and waits, whoever is named.
func sumsUp(g *Gate) error {
	for _, top := range []int{0, 2, 100} {
		s := g.Shares(top)
		sum := s.Rest
		for _, one := range s.Top {
			sum.Held += one.Held
			sum.Waiting += one.Waiting
			sum.Served += one.Served
		}
		if sum.Held != g.Held() || sum.Waiting != g.Waiting() || sum.Served != g.Totals().Granted || len(s.Top) > top {
			return fmt.Errorf("top %d of %+v is not all of it", top, s)
		}
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

func without[T any](s []T, is func(T) bool) []T { return slices.DeleteFunc(slices.Clone(s), is) }
