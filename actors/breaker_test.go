package actors

import (
	"testing"
	"time"

	"github.com/penstock/penstock/domain/account"
	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/catalog"
)

func TestAnOpenBreakerEvictsItsWaiters(t *testing.T) { // A43
	for says, open := range map[string]func(*house, Lease){
		"failures":     func(h *house, l Lease) { h.fail(l, 3) },
		"the operator": func(h *house, _ Lease) { must(h.Breaker("u", "open")) },
		"a release":    func(h *house, l Lease) { h.fail(l, 2); h.Release(l, &Outcome{Result: breaker.Failure}) },
	} {
		t.Run(says, func(t *testing.T) {
			h := openHouse(t, one(1, -1))
			l := h.take("x", onU)
			w1 := h.wait("r1", onU)
			w1.queued()
			w2 := h.wait("r2", onU)
			w2.queued()
			open(h, l)
			for _, w := range []*waiter{w1, w2} {
				if no := w.ends(Evicted); no.Upstream != "u" || !no.Until.Equal(h.now().Add(100*time.Second)) {
					t.Fatalf("%+v", no)
				}
			}
			h.Release(l, nil)
			h.holds("u", 0, 0)
			h.refused("r3", onU, CircuitOpen)
			if got := h.recorded(); got != "upstream/u Opened" {
				t.Fatal(got)
			}
		})
	}
}

func TestWhoIsEvictedFromOneQueueWaitsOnInTheOther(t *testing.T) {
	h := openHouse(t, pair())
	h.take("x", onU)
	y := h.take("y", onV)
	w := h.wait("r", onU, onV)
	w.queued()
	must(h.Breaker("u", "open"))
	h.holds("u", 1, 0)
	h.holds("v", 1, 1)
	h.Release(y, nil)
	if l := w.served(); l.Upstream != "v" {
		t.Fatalf("%+v", l)
	}
}

func TestHalfOpenLetsOneProbeThroughAtATime(t *testing.T) { // A41, A72; seed 2.1
	h := openHouse(t, one(-1, 0))
	l := h.take("x", onU)
	h.fail(l, 3)
	h.refused("r1", onU, CircuitOpen)
	h.passTime(100 * time.Second)
	if f, _ := h.Board().Figures("u"); f.Breaker != breaker.StateOpen || !f.Until.Equal(h.now()) || f.Failures != 3 {
		t.Fatalf("%+v", f)
	}
	probe := h.take("r2", onU)
	if !probe.Probe {
		t.Fatalf("%+v", probe)
	}
	if no := h.refused("r3", onU, CircuitOpen); !no.Until.IsZero() {
		t.Fatalf("nobody knows when the probe ends: %+v", no)
	}
	if f, _ := h.Board().Figures("u"); f.Breaker != breaker.StateHalfOpen || f.ProbeFree {
		t.Fatalf("%+v", f)
	}
	h.Release(probe, nil) // cancelled: uncounted
	probe = h.take("r4", onU)
	h.Report(probe, Outcome{Result: breaker.Success}) // its stream goes on, the next probe is free at once
	next := h.take("r5", onU)
	if !next.Probe || next.Generation == probe.Generation {
		t.Fatalf("%+v after %+v", next, probe)
	}
	h.Release(next, &Outcome{Result: breaker.Failure})
	if no := h.refused("r6", onU, CircuitOpen); !no.Until.Equal(h.now().Add(10 * time.Second)) {
		t.Fatalf("a failed probe waits for probe_every: %+v", no)
	}
	h.passTime(10 * time.Second)
	for _, name := range []string{"r7", "r8"} {
		h.Release(h.take(name, onU), &Outcome{Result: breaker.Success})
	}
	if l := h.take("r9", onU); l.Probe {
		t.Fatalf("still probing: %+v", l)
	}
	want := "upstream/u Opened, upstream/u HalfOpened, upstream/u Opened, upstream/u HalfOpened, upstream/u Closed"
	if got := h.recorded(); got != want {
		t.Fatal(got)
	}
}

func TestAProbeThatFindsNoAccountFreesItsPlace(t *testing.T) {
	h := openHouse(t, one(-1, 0))
	must(h.Breaker("u", "open"))
	h.passTime(100 * time.Second)
	until := h.now().Add(time.Second)
	must(h.BlockAccount("a", &until))
	h.refused("r1", onU, NoAccount)
	must(h.BlockAccount("a", nil))
	if l := h.take("r2", onU); !l.Probe {
		t.Fatalf("%+v", l)
	}
}

func TestWaitersOfAHalfOpenUpstreamFollowOneProbeAfterTheOther(t *testing.T) {
	h := openHouse(t, one(1, -1))
	old := h.take("old", onU)
	must(h.Breaker("u", "open"))
	h.passTime(100 * time.Second)
	w1 := h.wait("r1", onU)
	w1.queued()
	w2 := h.wait("r2", onU)
	w2.queued()
	two := one(2, -1)
	h.Reconfigure(two)
	if l := w1.served(); !l.Probe {
		t.Fatalf("%+v", l)
	}
	h.Release(old, nil)
	h.holds("u", 1, 1) // a slot is free, but the probe is in flight
	h.Report(w1.lease, Outcome{Result: breaker.Success})
	if l := w2.served(); !l.Probe {
		t.Fatalf("%+v", l)
	}
}

func TestTheOperatorClosesAtOnce(t *testing.T) { // pain 49
	h := openHouse(t, one(1, 0))
	must(h.Breaker("u", "open"))
	h.refused("r1", onU, CircuitOpen)
	must(h.Breaker("u", "close"))
	if f, _ := h.Board().Figures("u"); f.Breaker != breaker.StateClosed {
		t.Fatalf("%+v", f)
	}
	h.take("r2", onU)
	if got := h.recorded(); got != "upstream/u Opened, upstream/u Closed" {
		t.Fatal(got)
	}
}

func TestFactsRestoreBreakersAndBlocks(t *testing.T) {
	h := openHouse(t, pair())
	until := h.now().Add(time.Minute)
	for _, f := range []any{
		&breaker.Opened{Upstream: "u", Failures: 3, Until: until, By: "failures"},
		&account.Blocked{Account: "b", Until: until.Add(time.Hour), Reason: "operator", Source: "operator"},
		&breaker.Opened{Upstream: "gone"}, &account.Blocked{Account: "gone"}, &catalog.KeyRemoved{},
	} {
		must(h.Restore(f, h.now()))
	}
	if no := h.refused("r1", onU, CircuitOpen); !no.Until.Equal(until) {
		t.Fatalf("%+v", no)
	}
	if no := h.refused("r2", onV, NoAccount); !no.Until.Equal(until.Add(time.Hour)) {
		t.Fatalf("%+v", no)
	}
	must(h.Restore(&breaker.Closed{Upstream: "u"}, h.now()))
	must(h.Restore(&account.Unblocked{Account: "b"}, h.now()))
	h.take("r3", onU)
	h.take("r4", onV)
	if got := h.recorded(); got != "" {
		t.Fatalf("restoring is no news: %s", got)
	}
}
