package gate

import (
	"fmt"
	"math"
	"testing"
	"time"
)

func TestExpectedWaitFollowsSlotsPositionAndPace(t *testing.T) {
	for _, c := range []struct {
		says     string
		slots    int // −1: no limit
		held     int
		mean     time.Duration // 0: nothing was measured
		position int
		want     time.Duration
		known    bool
	}{
		{"unknown until measured", 2, 2, 0, 1, 0, false},
		{"one slot, first place: one lease", 1, 1, 10 * time.Second, 1, 10 * time.Second, true},
		{"two slots give back twice as fast", 2, 2, 10 * time.Second, 1, 5 * time.Second, true},
		{"each place is one slot more to come back", 2, 2, 10 * time.Second, 5, 25 * time.Second, true},
		{"a free slot needs nobody to come back", 3, 2, 10 * time.Second, 1, 0, true},
		{"the second does", 3, 2, 10 * time.Second, 2, 5 * time.Second, true},
		{"fewer slots than holders: the surplus comes back first", 2, 4, 8 * time.Second, 1, 6 * time.Second, true},
		{"no limit: it waits for an account, whose slots come back", -1, 4, 8 * time.Second, 2, 4 * time.Second, true},
		{"nothing is held that could come back", 0, 0, 8 * time.Second, 1, 0, false},
		{"no limit and nothing held", -1, 0, 8 * time.Second, 1, 0, false},
		{"no position", 1, 1, time.Second, 0, 0, false},
		{"a whole day at most", 1, 1, 23 * time.Hour, 1_000_000, 24 * time.Hour, true},
		{"without overflow", 1, 1, 24 * time.Hour, math.MaxInt64 - 1, 24 * time.Hour, true},
	} {
		g := New(Policy{})
		if c.slots >= 0 {
			g = New(Policy{Slots: some(c.slots)})
		}
		g.pace = pace{mean: c.mean}
		if c.mean > 0 {
			g.pace.seen = 1
		}
		g.policy.Slots = nil
		for n := range c.held {
			must(g.Hold(id(n), "k", t0))
		}
		if c.slots >= 0 {
			g.Reconfigure(Policy{Slots: some(c.slots)})
		}
		if got, known := g.ExpectedWait(c.position); got != c.want || known != c.known {
			t.Errorf("%s: %s, %v, want %s, %v", c.says, got, known, c.want, c.known)
		}
	}
}

func TestThePaceIsAMovingMeanOfWhatWasUsed(t *testing.T) {
	lease := func(g *Gate, held time.Duration) {
		must(g.Hold(id(1), "k", t0))
		g.Confirm(id(1), "")
		g.Release(id(1), t0.Add(held))
	}
	g := New(Policy{})
	if _, known := g.HeldFor(); known {
		t.Fatal("known before anything was held")
	}
	must(g.Hold(id(1), "k", t0))
	g.Release(id(1), t0.Add(time.Hour)) // was only set aside
	must(g.Hold(id(1), "k", t0))
	g.Confirm(id(1), "")
	g.Free(id(1)) // shall teach nothing
	if _, known := g.HeldFor(); known {
		t.Fatal("what was not used is not measured")
	}
	for _, s := range []int{2, 4, 6} {
		lease(g, time.Duration(s)*time.Second)
	}
	if mean, known := g.HeldFor(); mean != 4*time.Second || !known {
		t.Fatalf("the first ones are averaged, got %s", mean)
	}
	for range 400 {
		lease(g, time.Minute)
	}
	if mean, _ := g.HeldFor(); mean < time.Minute-time.Second || mean > time.Minute {
		t.Fatalf("the old ones fade, got %s", mean)
	}
	lease(g, -time.Hour) // a clock that was set back
	lease(g, math.MaxInt64)
	if mean, _ := g.HeldFor(); mean < 0 || mean > time.Hour {
		t.Fatalf("outliers are cut, got %s", mean)
	}
	for range 1000 {
		lease(g, 0)
	}
	if mean, _ := g.HeldFor(); mean < 0 || mean > time.Microsecond {
		t.Fatalf("got %s", mean)
	}
}

func TestTheBoardHasPositionAndExpectedWait(t *testing.T) { // pain 40, field-pains wish 3
	g := New(Policy{Slots: some(1), Queue: &Queue{Timeout: time.Minute, Discipline: Fair}})
	must(g.Hold(id(1), "a", t0.Add(-4*time.Second)))
	g.Confirm(id(1), "")
	g.Release(id(1), t0)
	must(g.Hold(id(1), "a", t0))
	enqueue(g, 2, Ask{Key: "a"})
	enqueue(g, 1, Ask{Key: "b", Class: Low})
	enqueue(g, 1, Ask{Key: "c"})
	got := ""
	for _, p := range g.Places(t0) {
		got += fmt.Sprintf("%d %s %v #%d %s %v; ", p.Position, p.Key, p.Class, p.Ticket, p.Expected, p.Estimated)
		if g.Position(p.ID) != p.Position {
			t.Errorf("%v: position %d and %d", p.ID, g.Position(p.ID), p.Position)
		}
	}
	if want := "1 a normal #1 4s true; 2 c normal #4 8s true; 3 a normal #2 12s true; 4 b low #3 16s true; "; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if g.Position(id(77)) != 0 || New(Policy{}).Position(id(1)) != 0 {
		t.Error("who does not wait has no position")
	}
}

func TestSharesNameTheFirstAndSumTheRest(t *testing.T) {
	g := New(Policy{PerKey: true, Queue: &Queue{Timeout: time.Minute}})
	for n, key := range []string{"a", "b", "b", "c", "c", "c", "d"} {
		must(g.Hold(id(n), key, t0))
		g.Confirm(id(n), "")
		if key == "d" {
			g.Release(id(n), t0)
		}
	}
	enqueue(g, 2, Ask{Key: "a"})
	enqueue(g, 1, Ask{Key: "e"})
	got := fmt.Sprintf("%+v", g.Shares(2))
	want := "{Top:[{Key:c Held:3 Waiting:0 Served:3} {Key:b Held:2 Waiting:0 Served:2}] Rest:{Key: Held:1 Waiting:3 Served:2} RestKeys:3}"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if s := g.Shares(-1); len(s.Top) != 0 || s.RestKeys != 5 {
		t.Errorf("%+v", s)
	}
	if s := New(Policy{}).Shares(5); len(s.Top) != 0 || s.Rest != (Share{}) || s.RestKeys != 0 {
		t.Errorf("%+v", s)
	}
}

func TestTheCountOfKeysIsBoundedAndNothingIsLost(t *testing.T) {
	g := New(Policy{PerKey: true})
	grant := func(key string) {
		must(g.Hold(id(1), key, t0))
		g.Confirm(id(1), "")
		g.Free(id(1))
	}
	for range 5 {
		grant("regular")
	}
	for n := range 10 * tallyMax {
		grant(fmt.Sprint("k", n))
		if len(g.tally.served) > tallyMax {
			t.Fatalf("%d keys", len(g.tally.served))
		}
	}
	s := g.Shares(1)
	if s.Top[0] != (Share{Key: "regular", Served: 5}) || s.Rest.Served != 10*tallyMax || s.RestKeys >= tallyMax {
		t.Fatalf("%+v", s)
	}
}

func TestAHolderIsEvictedBeforeItsSlotIsFree(t *testing.T) { // DESIGN 6: freeing a lease by hand cancels its attempt first
	g := New(Policy{Slots: some(1), Queue: &Queue{Timeout: time.Minute}})
	if h, news := g.Evict(id(1), "stuck"); h != nil || news {
		t.Fatalf("nobody holds: %+v", h)
	}
	must(g.Hold(id(1), "k", t0))
	g.Confirm(id(1), "a")
	mustJoin(g.Join(id(2), "k", t0, nil))
	h, news := g.Evict(id(1), "stuck")
	if h == nil || !news || h.Evicted != "stuck" || h.ID != id(1) || h.Phase != Granted || g.Held() != 1 || g.Room() || g.Next(t0, nil) != nil {
		t.Fatalf("the slot is taken until its attempt has ended: %+v", h)
	}
	if h, news := g.Evict(id(1), "again"); news || h.Evicted != "stuck" || g.Totals().Evicted != 1 {
		t.Fatalf("evicted once, for the first reason: %+v", h)
	}
	if !g.Release(id(1), t0.Add(time.Second)) || g.Release(id(1), t0) || g.Next(t0, nil).ID != id(2) {
		t.Fatal("the end of the attempt frees it, once")
	}
	must(g.Hold(id(3), "k", t0))
	if h, _ := g.Evict(id(3), ""); h.Evicted == "" || g.Confirm(id(3), "a") || !g.Free(id(3)) {
		t.Fatal("one that is only set aside is not granted any more")
	}
	if h, _ := g.Hold(id(4), "k", t0); h.Evicted != "" || !g.Confirm(id(4), "a") {
		t.Fatal("the next holder is not the one before")
	}
}

func TestTheHotPathDoesNotAllocate(t *testing.T) { // pain 42
	for _, p := range []Policy{{}, {Slots: some(10)}, {Slots: some(10), PerKey: true}} {
		g := New(p)
		now := t0
		turn := func() {
			must(g.Hold(id0, "team-a", now))
			now = now.Add(time.Millisecond)
			g.Confirm(id0, "acct")
			g.Release(id0, now)
		}
		turn()
		if n := testing.AllocsPerRun(1000, turn); n != 0 {
			t.Errorf("%+v: %v allocations", p, n)
		}
	}
}

var id0 = LeaseID{Request: "0190b8f6-5d1c-7000-8000-000000000000", Attempt: 1}
