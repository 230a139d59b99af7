package actors

import (
	"fmt"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/catalog"
)

// family is the user "u" with 2 slots and the keys k1 (1 slot) and k2, and the key "alone" of nobody with 1 slot.
func family() Layout {
	return Layout{
		Users: []catalog.User{{ID: "u", Slots: count(2)}},
		Keys:  []catalog.Key{{ID: "k1", User: "u", Slots: count(1)}, {ID: "k2", User: "u"}, {ID: "alone", Slots: count(1)}, {ID: "free"}},
	}
}

// entry is an Admit that runs in a goroutine.
type entry struct {
	t      *testing.T
	gone   chan struct{}
	queued chan struct{}
	done   chan struct{}
	pass   Pass
	no     *Refusal
}

func (h *house) enter(t *testing.T, name, key string) *entry {
	e := &entry{t: t, gone: make(chan struct{}), queued: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(e.done)
		e.pass, e.no = h.Admit("caller", key, req(name), func() <-chan struct{} { close(e.queued); return e.gone })
	}()
	return e
}

func (e *entry) waits() *entry {
	e.t.Helper()
	select {
	case <-e.queued:
	case <-e.done:
		e.t.Fatalf("it did not wait: %+v", e.no)
	case <-time.After(time.Minute):
		e.t.Fatal("no answer")
	}
	return e
}

func (e *entry) ends(want Reason) Pass {
	e.t.Helper()
	select {
	case <-e.done:
	case <-time.After(time.Minute):
		e.t.Fatal("no answer")
	}
	got := Reason("")
	if e.no != nil {
		got = e.no.Reason
	}
	if got != want {
		e.t.Fatalf("ended with %q, want %q", got, want)
	}
	return e.pass
}

func TestSlotsOfUserAndKeyAreGrantedAsOne(t *testing.T) { // B10, B31, pains 38, 45
	h := openHouse(t, family())
	p1 := h.enter(t, "r1", "k1").ends("")
	second := h.enter(t, "r2", "k1").waits() // the key is full, the user is not
	p3 := h.enter(t, "r3", "k2").ends("")    // another key of the user is not held up
	third := h.enter(t, "r4", "k2").waits()  // now the user is full
	h.Leave(p3)
	p4 := third.ends("") // r2 is first in the queue but its key is full
	h.Leave(p1)
	h.Leave(p1)
	p2 := second.ends("")
	full := h.enter(t, "r5", "k2").waits()
	h.Leave(p1) // once more: must not free another one's slot
	h.Leave(p2)
	full.ends("")
	h.Leave(p4)
	h.Leave(Pass{})
}

func TestACallerWithoutSlotsIsAlwaysAdmitted(t *testing.T) {
	h := openHouse(t, family())
	for i := range 100 {
		if p := h.enter(t, fmt.Sprint("r", i), "free").ends(""); p.Key != "free" || p.Caller != "caller" {
			t.Fatalf("%+v", p)
		}
	}
}

func TestCallersWaitInTheOrderOfArrivalAndAtMostTwenty(t *testing.T) {
	h := openHouse(t, family())
	p := h.enter(t, "r0", "alone").ends("")
	var es []*entry
	for i := range 20 {
		es = append(es, h.enter(t, fmt.Sprint("r", i+1), "alone").waits())
	}
	h.enter(t, "r21", "alone").ends(QueueFull)
	for i, e := range es {
		h.Leave(p)
		p = e.ends("")
		if i+1 < len(es) {
			select {
			case <-es[i+1].done:
				t.Fatal("served out of turn")
			default:
			}
		}
	}
	h.Leave(p)
	h.enter(t, "r22", "alone").ends("")
}

func TestACallerThatGoesAwayLeavesTheQueue(t *testing.T) {
	h := openHouse(t, family())
	p := h.enter(t, "r0", "alone").ends("")
	for round := range 500 { // the grant races with the going
		e := h.enter(t, fmt.Sprint("r", round+1), "alone").waits()
		go close(e.gone)
		if round%2 == 0 {
			h.Leave(p)
		}
		<-e.done
		switch {
		case e.no == nil:
			p = e.pass
		case e.no.Reason != Aborted:
			t.Fatalf("%+v", *e.no)
		case round%2 == 0:
			p = h.enter(t, fmt.Sprint("s", round), "alone").ends("")
		}
	}
	h.Leave(p)
	h.enter(t, "last", "alone").ends("")
}

func TestACallerWaitsForAWhileOnly(t *testing.T) {
	h := openHouse(t, Layout{})
	h.callerTimeout = 2 * time.Millisecond
	h.Reconfigure(family())
	p := h.enter(t, "r0", "alone").ends("")
	for i := range 30 { // more than the queue holds: who timed out has left it
		e := h.enter(t, fmt.Sprint("r", i+1), "alone").waits()
		h.passTime(h.callerTimeout)
		e.ends(TimedOut)
	}
	h.Leave(p)
	h.enter(t, "last", "alone").ends("")
	if NewSystem(Options{}).callerTimeout != 30*time.Second {
		t.Fatal("the usual wait is 30 s")
	}
}

func TestCallersFollowTheLayout(t *testing.T) {
	h := openHouse(t, family())
	h.enter(t, "x", "nobody").ends(UnknownCaller)
	alone, p := h.enter(t, "r0", "alone").ends(""), h.enter(t, "r1", "k1").ends("")
	waitsAlone, waitsKey := h.enter(t, "r2", "alone").waits(), h.enter(t, "r3", "k1").waits()
	l := family()
	l.Keys = l.Keys[1:2] // only k2 is left
	h.Reconfigure(l)
	waitsAlone.ends(Evicted)
	waitsKey.ends(Evicted)
	h.enter(t, "r4", "k1").ends(UnknownCaller)
	h.Leave(p)
	h.Leave(alone)
	l.Users = nil // the key's user is gone: the key stands alone
	h.Reconfigure(l)
	h.enter(t, "r5", "k2").ends("")
	more := family()
	more.Keys[2].Slots = count(2)
	h.Reconfigure(more)
	h.enter(t, "r6", "alone").ends("")
	h.enter(t, "r7", "alone").ends("")
	more.Keys[2].Slots = count(3)
	w := h.enter(t, "r8", "alone").waits()
	h.Reconfigure(more)
	w.ends("")
}
