package gate

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func id(n int) LeaseID { return LeaseID{Request: fmt.Sprintf("r%d", n), Attempt: 1} }

func some(n int) *int { return &n }

func TestHoldTakesASlotOrSaysWhyNot(t *testing.T) {
	for _, c := range []struct {
		says  string
		slots *int
		held  []int
		ask   int
		err   error
	}{
		{"no limit means as many as come (C24)", nil, []int{1, 2, 3}, 4, nil},
		{"a free slot is taken", some(2), []int{1}, 2, nil},
		{"all slots taken is full (A51)", some(2), []int{1, 2}, 3, ErrFull},
		{"zero slots take nobody", some(0), nil, 1, ErrFull},
		{"the same lease cannot hold two slots", some(3), []int{1}, 1, ErrDuplicate},
	} {
		t.Run(c.says, func(t *testing.T) {
			g := New(Policy{Slots: c.slots})
			for _, n := range c.held {
				if _, err := g.Hold(id(n), "k", t0); err != nil {
					t.Fatal(err)
				}
			}
			h, err := g.Hold(id(c.ask), "key", t0.Add(time.Second))
			if !errors.Is(err, c.err) {
				t.Fatalf("got %v, want %v", err, c.err)
			}
			if err == nil && (h.Phase != Granting || h.Key != "key" || h.ID != id(c.ask) || !h.Since.Equal(t0.Add(time.Second))) {
				t.Fatalf("holder %+v", *h)
			}
			want := len(c.held)
			if c.err == nil {
				want++
			}
			if g.Held() != want {
				t.Fatalf("%d held, want %d", g.Held(), want)
			}
		})
	}
}

func TestASlotIsFreedOnce(t *testing.T) { // A61, pain 35
	g := New(Policy{Slots: some(1)})
	must(g.Hold(id(1), "k", t0))
	if !g.Free(id(1)) {
		t.Fatal("the holder was not found")
	}
	if g.Free(id(1)) || g.Free(id(2)) {
		t.Fatal("freed a slot that nobody held")
	}
	must(g.Hold(id(3), "k", t0))
	if g.Free(id(1)) || g.Held() != 1 || g.Holder(id(3)) == nil {
		t.Fatal("a late second release took another one's slot")
	}
}

func TestTakingASlotGrantsItAtOnce(t *testing.T) {
	slots := 1
	g := New(Policy{Slots: &slots, PerKey: true})
	if err := g.Take(id(1), "k", "a", t0); err != nil {
		t.Fatal(err)
	}
	if h := g.Holder(id(1)); h == nil || h.Phase != Granted || h.Account != "a" || h.Key != "k" || !h.Since.Equal(t0) {
		t.Fatalf("%+v", h)
	}
	if again, full := g.Take(id(1), "k", "a", t0), g.Take(id(2), "k", "a", t0); again != ErrDuplicate || full != ErrFull {
		t.Fatalf("%v, %v", again, full)
	}
	if g.Confirm(id(1), "b") || g.Totals().Granted != 1 || g.Shares(1).Top[0].Served != 1 || g.Held() != 1 {
		t.Fatalf("granted more than once: %+v", g.Totals())
	}
}

func TestConfirmCountsAGrantOnce(t *testing.T) {
	g := New(Policy{Slots: some(1)})
	if g.Confirm(id(1), "a") {
		t.Fatal("confirmed what was not set aside")
	}
	must(g.Hold(id(1), "k", t0))
	if !g.Confirm(id(1), "a") || g.Confirm(id(1), "b") {
		t.Fatal("a slot is confirmed exactly once")
	}
	if h := g.Holder(id(1)); h.Account != "a" || h.Phase != Granted {
		t.Fatalf("holder %+v", *h)
	}
	if g.Totals().Granted != 1 {
		t.Fatalf("%+v", g.Totals())
	}
}

func TestJoinGivesAPlaceOrSaysWhyNot(t *testing.T) {
	for _, c := range []struct {
		says    string
		queue   *Queue
		held    []int
		waiting []int
		ask     int
		err     error
	}{
		{"no queue (A51)", nil, []int{9}, nil, 1, ErrNoQueue},
		{"an empty queue gives the first place (A57)", &Queue{Timeout: time.Second, MaxLength: some(2)}, []int{9}, nil, 1, nil},
		{"the last place", &Queue{Timeout: time.Second, MaxLength: some(2)}, []int{9}, []int{1}, 2, nil},
		{"a full queue (A53)", &Queue{Timeout: time.Second, MaxLength: some(2)}, []int{9}, []int{1, 2}, 3, ErrQueueFull},
		{"no bound", &Queue{Timeout: time.Second}, []int{9}, []int{1, 2, 3}, 4, nil},
		{"a queue of length zero", &Queue{MaxLength: some(0)}, []int{9}, nil, 1, ErrQueueFull},
		{"who waits already", &Queue{Timeout: time.Second}, []int{9}, []int{1}, 1, ErrDuplicate},
		{"who holds already", &Queue{Timeout: time.Second}, []int{9}, nil, 9, ErrDuplicate},
	} {
		t.Run(c.says, func(t *testing.T) {
			g := New(Policy{Slots: some(1), Queue: c.queue})
			for _, n := range c.held {
				must(g.Hold(id(n), "k", t0))
			}
			for _, n := range c.waiting {
				if _, err := g.Join(id(n), "k", t0, nil); err != nil {
					t.Fatal(err)
				}
			}
			w, err := g.Join(id(c.ask), "key", t0, "tag")
			if !errors.Is(err, c.err) {
				t.Fatalf("got %v, want %v", err, c.err)
			}
			if err != nil {
				return
			}
			at := len(c.waiting) + 1
			if g.Waiting() != at || w.Ticket != uint64(at) || w.Tag != "tag" || !w.Deadline.Equal(t0.Add(c.queue.Timeout)) {
				t.Fatalf("waiter %+v, %d waiting", *w, g.Waiting())
			}
		})
	}
}

func TestLeavingIsCountedByReasonAndOnce(t *testing.T) { // A59, A62
	for _, c := range []struct {
		why  Why
		want Totals
	}{
		{Served, Totals{Queued: 1}},
		{TimedOut, Totals{Queued: 1, TimedOut: 1}},
		{Aborted, Totals{Queued: 1, Aborted: 1}},
		{Moved, Totals{Queued: 1, Moved: 1}},
	} {
		g := New(Policy{Queue: &Queue{}})
		mustJoin(g.Join(id(1), "k", t0, nil))
		if !g.Leave(id(1), c.why) || g.Leave(id(1), c.why) || g.Leave(id(2), c.why) {
			t.Fatalf("%v: a waiter leaves exactly once", c.why)
		}
		if g.Totals() != c.want || g.Waiting() != 0 {
			t.Fatalf("%v: %+v", c.why, g.Totals())
		}
	}
}

func TestNextIsTheFirstThatMayBeServed(t *testing.T) { // pain 41
	g := New(Policy{Slots: some(1), Queue: &Queue{Timeout: time.Minute}})
	for n := 1; n <= 4; n++ {
		mustJoin(g.Join(id(n), "k", t0, nil))
	}
	may := func(not ...int) func(*Waiter) bool {
		return func(w *Waiter) bool {
			for _, n := range not {
				if w.ID == id(n) {
					return false
				}
			}
			return true
		}
	}
	for _, c := range []struct {
		says  string
		leave int
		may   func(*Waiter) bool
		want  int
	}{
		{"the oldest", 0, nil, 1},
		{"the oldest that may", 0, may(1), 2},
		{"nobody may", 0, may(1, 2, 3, 4), 0},
		{"one in the middle has left", 2, may(1), 3},
		{"the head has left", 1, nil, 3},
		{"the tail has left", 4, may(3), 0},
	} {
		g.Leave(id(c.leave), Moved)
		w := g.Next(t0, c.may)
		if (w == nil) != (c.want == 0) || w != nil && w.ID != id(c.want) {
			t.Fatalf("%s: got %+v, want r%d", c.says, w, c.want)
		}
	}
	must(g.Hold(id(9), "k", t0))
	if g.Next(t0, nil) != nil {
		t.Fatal("served without a free slot")
	}
}

func TestFewerSlotsThrowNobodyOut(t *testing.T) {
	g := New(Policy{Slots: some(3), Queue: &Queue{Timeout: time.Minute}})
	for n := 1; n <= 3; n++ {
		must(g.Hold(id(n), "k", t0))
	}
	mustJoin(g.Join(id(4), "k", t0, nil))
	g.Reconfigure(Policy{Slots: some(1)})
	if g.Held() != 3 || g.Waiting() != 1 || g.Slots() != 1 {
		t.Fatalf("held %d, waiting %d, slots %d", g.Held(), g.Waiting(), g.Slots())
	}
	for n := 1; n <= 2; n++ {
		g.Free(id(n))
		if g.Room() || g.Next(t0, nil) != nil {
			t.Fatalf("a grant above the new limit, %d held", g.Held())
		}
	}
	g.Free(id(3))
	if w := g.Next(t0, nil); w == nil || w.ID != id(4) {
		t.Fatal("the waiter was not served")
	}
	g.Reconfigure(Policy{})
	if g.Slots() != -1 || !g.Room() {
		t.Fatal("without slots there is no limit")
	}
}

func TestTheSlotViewTellsWhoHoldsAndWhoWaits(t *testing.T) { // pain 40
	g := New(Policy{Slots: some(1), Queue: &Queue{Timeout: time.Minute}})
	must(g.Hold(id(1), "alice", t0))
	g.Confirm(id(1), "acct")
	mustJoin(g.Join(id(2), "bob", t0.Add(time.Second), nil))
	mustJoin(g.Join(id(3), "eve", t0.Add(2*time.Second), nil))
	for h := range g.Holders {
		if h != (Holder{ID: id(1), Key: "alice", Account: "acct", Since: t0, Phase: Granted}) {
			t.Fatalf("%+v", h)
		}
	}
	var seen []string
	for at, w := range g.Waiters {
		seen = append(seen, fmt.Sprint(at, w.Key, w.Deadline.Sub(t0)))
		g.Leave(w.ID, Moved) // allowed while iterating
	}
	if fmt.Sprint(seen) != "[1bob1m1s 2eve1m2s]" {
		t.Fatal(seen)
	}
}

func TestLeavingTheMiddleOfALongQueueIsCheap(t *testing.T) {
	const n = 200_000 // a scan per removal would take minutes
	g := New(Policy{Queue: &Queue{}})
	for i := range n {
		mustJoin(g.Join(LeaseID{Attempt: i}, "k", t0, nil))
	}
	for i := range n {
		if !g.Leave(LeaseID{Attempt: (i*7919 + n/2) % n}, Aborted) {
			t.Fatal("not found")
		}
	}
	if g.Waiting() != 0 || g.Next(t0, nil) != nil {
		t.Fatal("not empty")
	}
}

func must(_ *Holder, err error) {
	if err != nil {
		panic(err)
	}
}

func mustJoin(_ *Waiter, err error) {
	if err != nil {
		panic(err)
	}
}

// A slot that was taken elsewhere counts here beyond the limit, once, and is freed once.
func TestAnAdoptedSlotCountsWhateverTheLimit(t *testing.T) {
	one := 1
	g := New(Policy{Slots: &one})
	now := time.Unix(0, 0)
	for _, name := range []string{"a", "b", "b"} {
		g.Adopt(LeaseID{Request: name}, "k", now)
	}
	if err := g.Take(LeaseID{Request: "c"}, "k", "", now); err != ErrFull || g.Held() != 2 || g.Totals().Granted != 0 {
		t.Fatalf("%v, %d held, %+v", err, g.Held(), g.Totals())
	}
	if !g.Free(LeaseID{Request: "b"}) || g.Free(LeaseID{Request: "b"}) || g.Room() {
		t.Fatalf("%d held", g.Held())
	}
	if g.Free(LeaseID{Request: "a"}); !g.Room() {
		t.Fatalf("%d held", g.Held())
	}
}
