package gate

import (
	"errors"
	"testing"
	"time"
)

func TestEnqueueRefusesWhoCannotMakeIt(t *testing.T) { // pain 43
	slots := 2
	queue := func(failFast bool) *Queue { return &Queue{Timeout: 30 * time.Second, FailFast: failFast} }
	for _, c := range []struct {
		says     string
		failFast bool
		measured int // leases of 10 s that were released before
		ahead    int
		deadline time.Duration // 0: none
		err      error
		until    time.Duration
	}{
		{"the queue's timeout", false, 0, 0, 0, nil, 30 * time.Second},
		{"a later deadline of its own is cut", false, 0, 0, time.Hour, nil, 30 * time.Second},
		{"an earlier one holds", false, 0, 0, 7 * time.Second, nil, 7 * time.Second},
		{"one that is over", false, 0, 0, -1, ErrTooLate, 0},
		{"nobody foresees anything unless asked to", false, 20, 50, time.Second, nil, time.Second},
		{"what was not measured is not foreseen", true, 0, 50, time.Second, nil, time.Second},
		{"nor what was hardly measured", true, 7, 50, time.Second, nil, time.Second},
		{"the wait for the 5th of two slots is 25 s", true, 20, 4, 25 * time.Second, nil, 25 * time.Second},
		{"and outlasts a little less", true, 20, 4, 25*time.Second - 1, ErrTooLate, 0},
		{"the queue's timeout counts too: the 7th would wait 35 s", true, 20, 6, 0, ErrTooLate, 0},
	} {
		g := New(Policy{Slots: &slots, Queue: queue(c.failFast)})
		for i := range c.measured {
			must(g.Hold(id(i), "k", t0.Add(-10*time.Second)))
			g.Confirm(id(i), "")
			g.Release(id(i), t0)
		}
		must(g.Hold(id(1), "k", t0))
		must(g.Hold(id(2), "k", t0))
		g.Reconfigure(Policy{Slots: &slots, Queue: queue(false)})
		enqueue(g, c.ahead, Ask{Key: "k"})
		g.Reconfigure(Policy{Slots: &slots, Queue: queue(c.failFast)})
		a := Ask{ID: LeaseID{Request: "asked"}, Key: "k"}
		if c.deadline != 0 {
			a.Deadline = t0.Add(c.deadline)
		}
		w, err := g.Enqueue(a, t0)
		if !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", c.says, err, c.err)
		}
		if err == nil && !w.Deadline.Equal(t0.Add(c.until)) {
			t.Errorf("%s: until %s, want %s", c.says, w.Deadline.Sub(t0), c.until)
		}
		left := 0
		if err == nil {
			left = 1
		}
		if g.Waiting() != c.ahead+left || g.Totals().Queued != uint64(c.ahead+left) || g.Position(a.ID) != (c.ahead+1)*left {
			t.Errorf("%s: %d wait, %+v, position %d", c.says, g.Waiting(), g.Totals(), g.Position(a.ID))
		}
	}
}

func TestWhoIsOverdueIsHandedOutAndNotServed(t *testing.T) { // A59
	g := New(Policy{Queue: &Queue{Timeout: 30 * time.Second}})
	for n, seconds := range []int{0, 5, 90, 3} { // of their own; 0: none
		a := Ask{ID: id(n), Key: "k"}
		if seconds > 0 {
			a.Deadline = t0.Add(time.Duration(seconds) * time.Second)
		}
		if _, err := g.Enqueue(a, t0); err != nil {
			t.Fatal(err)
		}
	}
	at := func(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }
	if w := g.Overdue(at(2)); w != nil || !g.NextDeadline().Equal(at(3)) {
		t.Fatalf("%+v", w)
	}
	g.Leave(id(0), Served)
	if w := g.Next(at(5), nil); w == nil || w.ID != id(2) {
		t.Fatalf("who is overdue is passed over, got %+v", w)
	}
	for _, n := range []int{3, 1} {
		w := g.Overdue(at(5))
		if w == nil || w.ID != id(n) || g.Overdue(at(5)) != w {
			t.Fatalf("got %+v, want r%d until it leaves", w, n)
		}
		g.Leave(w.ID, TimedOut)
	}
	if w := g.Overdue(at(29)); w != nil || !g.NextDeadline().Equal(at(30)) {
		t.Fatalf("%+v", w)
	}
	if g.Leave(id(2), Aborted); g.Overdue(at(99)) != nil || !g.NextDeadline().IsZero() {
		t.Fatal("nobody waits")
	}
}

func TestDeadlinesOfThoseWhoLeftAreForgotten(t *testing.T) {
	g := New(Policy{Queue: &Queue{Timeout: time.Hour}})
	mustJoin(g.Join(id(0), "k", t0, nil))
	for n := range 10_000 {
		mustJoin(g.Join(id(n+1), "k", t0, nil))
		g.Leave(id(n+1), Aborted)
		if len(g.line.due) > 2*g.Waiting()+dueSlack+1 {
			t.Fatalf("%d deadlines for %d waiters", len(g.line.due), g.Waiting())
		}
	}
	if w := g.Overdue(t0.Add(time.Hour)); w == nil || w.ID != id(0) {
		t.Fatalf("%+v", w)
	}
}
