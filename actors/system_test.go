package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/events"
)

var testStart = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// house is a running system with a clock that stands still until it is moved, and its facts.
type house struct {
	*System
	t      testing.TB
	clock  atomic.Int64 // nanoseconds after testStart
	mu     sync.Mutex
	facts  []string
	onFact func(events.Fact) // set before there is one; nil: nothing
	layout Layout
}

func openHouse(t testing.TB, l Layout) *house {
	before := runtime.NumGoroutine()
	h := &house{t: t, layout: l}
	h.System = NewSystem(Options{Now: h.now, Recorder: h})
	h.Reconfigure(l)
	t.Cleanup(func() {
		if err := h.Stop(context.Background()); err != nil {
			t.Errorf("stop: %v", err)
		}
		for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; runtime.Gosched() {
			if time.Now().After(end) {
				buf := make([]byte, 1<<16)
				t.Errorf("%d goroutines before, %d after Stop\n%s", before, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
				return
			}
		}
	})
	return h
}

func (h *house) now() time.Time            { return testStart.Add(time.Duration(h.clock.Load())) }
func (h *house) passTime(by time.Duration) { h.clock.Add(int64(by)) }

func (h *house) Record(stream, _ string, f events.Fact) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts = append(h.facts, stream+" "+reflect.TypeOf(f).Elem().Name())
	if h.onFact != nil {
		h.onFact(f)
	}
}

func (h *house) recorded() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.facts, ", ")
}

func count(n int) *int { return &n }

// up makes an upstream; slots below 0 are unlimited, a queue of 0 is none and below 0 unlimited.
func up(id string, slots, queue int) catalog.Upstream {
	u := catalog.Upstream{ID: id, Active: true}
	if slots >= 0 {
		u.Slots = &slots
	}
	if queue != 0 {
		u.Queue = &catalog.Queue{Enabled: true, Timeout: catalog.Duration(time.Minute)}
		if queue > 0 {
			u.Queue.MaxLength = &queue
		}
	}
	u.Breaker = catalog.Breaker{
		Failures: 3, Successes: 2, OpenFor: catalog.Duration(100 * time.Second), ProbeEvery: catalog.Duration(10 * time.Second),
	}
	return u
}

// acc makes an account of an upstream; slots below 0 are unlimited.
func acc(id, upstream string, slots int) catalog.Account {
	a := catalog.Account{ID: id, Upstream: upstream, Active: true}
	if slots >= 0 {
		a.Slots = &slots
	}
	return a
}

// one is an upstream "u" with the account "a".
func one(slots, queue int) Layout {
	return Layout{Upstreams: []catalog.Upstream{up("u", slots, queue)}, Accounts: []catalog.Account{acc("a", "u", -1)}}
}

var onU = Candidate{Upstream: "u", Accounts: []string{"a"}}

func req(name string) Want { return Want{ID: LeaseID{Request: name, Attempt: 1}, Key: "key-" + name} }

// take gets a lease that must be there.
func (h *house) take(name string, c Candidate) Lease {
	h.t.Helper()
	l, no := h.Try(req(name), c)
	if no != nil {
		h.t.Fatalf("%s got no lease: %+v", name, *no)
	}
	return l
}

func (h *house) refused(name string, c Candidate, want Reason) Refusal {
	h.t.Helper()
	l, no := h.Try(req(name), c)
	if no == nil {
		h.t.Fatalf("%s got %+v, want %s", name, l, want)
	}
	if no.Reason != want {
		h.t.Fatalf("%s was refused with %s, want %s", name, no.Reason, want)
	}
	return *no
}

// waiter is a Wait that runs in a goroutine.
type waiter struct {
	h     *house
	gone  chan struct{}
	place chan Place
	done  chan struct{}
	lease Lease
	no    *Refusal
}

// wait starts a Wait; queued waits until it has its places, ends until it has ended.
func (h *house) wait(name string, cs ...Candidate) *waiter {
	w := &waiter{h: h, gone: make(chan struct{}), place: make(chan Place, 2), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.lease, w.no = h.Wait(req(name), cs, w.gone, func(p Place) { w.place <- p })
	}()
	return w
}

func (w *waiter) queued() Place {
	w.h.t.Helper()
	select {
	case p := <-w.place:
		return p
	case <-w.done:
		w.h.t.Fatalf("it did not wait: %+v %+v", w.lease, w.no)
	case <-time.After(time.Minute):
		w.h.t.Fatal("neither queued nor answered")
	}
	return Place{}
}

func (w *waiter) ends(want Reason) Refusal {
	w.h.t.Helper()
	select {
	case <-w.done:
	case <-time.After(time.Minute):
		w.h.t.Fatal("the wait does not end")
	}
	got := Refusal{}
	if w.no != nil {
		got = *w.no
	}
	if got.Reason != want {
		w.h.t.Fatalf("ended with %+v and %+v, want reason %q", w.lease, got, want)
	}
	return got
}

// served expects a lease.
func (w *waiter) served() Lease {
	w.h.t.Helper()
	w.ends("")
	return w.lease
}

func (h *house) status(id string) UpstreamStatus {
	h.t.Helper()
	st, ok := h.Status(id)
	if !ok {
		h.t.Fatalf("no status of %s", id)
	}
	return st
}

// holds checks how many slots an upstream and all its accounts have taken, and how many wait. Accounts are told after
// their upstream, and a grant that nobody wants any more is given back when its account has answered: it looks again
// until all agree.
func (h *house) holds(id string, held, waiting int) {
	h.t.Helper()
	for end := time.Now().Add(time.Minute); ; runtime.Gosched() {
		st, n := h.status(id), 0
		for _, a := range st.Accounts {
			n += a.Held
		}
		if len(st.Held) == held && len(st.Waiting) == waiting && n == held {
			return
		}
		if time.Now().After(end) {
			h.t.Fatalf("%s: %d held, accounts %d, %d waiting, want %d and %d: %+v", id, len(st.Held), n, len(st.Waiting), held, waiting, st)
		}
	}
}

func (h *house) fail(l Lease, times int) {
	for range times {
		h.Report(l, Outcome{Result: breaker.Failure, Class: "http_5xx", Status: 500})
	}
}

func TestStatusHasTheShapeOfTheContract(t *testing.T) { // pain 40
	h := openHouse(t, Layout{
		Upstreams: []catalog.Upstream{up("u", 1, 5)},
		Accounts:  []catalog.Account{acc("b", "u", -1), acc("a", "u", 2)},
	})
	l := h.take("r1", onU)
	h.Report(l, Outcome{Result: breaker.Failure, Class: "http_5xx", Status: 502})
	h.holds("u", 1, 0)
	h.passTime(time.Second)
	until := h.now().Add(time.Hour)
	w := h.wait("r2", onU)
	w.queued()
	if err := h.BlockAccount("b", &until); err != nil {
		t.Fatal(err)
	}
	h.holds("u", 1, 1)
	got, _ := json.MarshalIndent(h.status("u"), "", " ")
	want := `{
 "id": "u",
 "slots": 1,
 "held": [
  {
   "request_id": "r1",
   "attempt": 1,
   "key": "key-r1",
   "account": "a",
   "phase": "granted",
   "since": "2026-01-02T03:04:05Z"
  }
 ],
 "waiting": [
  {
   "request_id": "r2",
   "key": "key-r2",
   "position": 1,
   "since": "2026-01-02T03:04:06Z",
   "deadline": "2026-01-02T03:05:06Z",
   "attempt": 1,
   "class": "normal",
   "ticket": 1,
   "expected_wait_ms": null
  }
 ],
 "waits": {
  "waiting": 1,
  "oldest_ms": 0,
  "held_ms": null,
  "expected_wait_ms": null,
  "discipline": "fifo"
 },
 "shares": [
  {
   "key": "key-r1",
   "held": 1,
   "waiting": 0,
   "served": 1
  },
  {
   "key": "key-r2",
   "held": 0,
   "waiting": 1,
   "served": 0
  }
 ],
 "other_keys": {
  "keys": 0,
  "held": 0,
  "waiting": 0,
  "served": 0
 },
 "health": {
  "ttft_ms": null,
  "failing": 0.0989
 },
 "breaker": {
  "state": "closed",
  "since": "2026-01-02T03:04:05Z",
  "until": null,
  "failures": 1,
  "last": [
   {
    "at": "2026-01-02T03:04:05Z",
    "class": "http_5xx",
    "status": 502,
    "account": "a",
    "request": "r1"
   }
  ],
  "probing": false,
  "reopened": 0,
  "history": []
 },
 "accounts": [
  {
   "id": "a",
   "slots": 2,
   "held": 1,
   "state": "ready",
   "reason": "",
   "until": null
  },
  {
   "id": "b",
   "slots": null,
   "held": 0,
   "state": "blocked",
   "reason": "operator",
   "until": "2026-01-02T04:04:06Z",
   "source": "operator"
  }
 ],
 "affinity_bindings": null,
 "totals": {
  "queued": 1,
  "granted": 1,
  "timed_out": 0,
  "aborted": 0,
  "moved": 0,
  "freed": 0
 }
}`
	if string(got) != want {
		t.Fatalf("%s", got)
	}
	h.Release(l, nil)
	h.Release(w.served(), nil)
	if _, ok := h.Status("nobody"); ok {
		t.Fatal("status of an unknown upstream")
	}
}

func TestAnIdleUpstreamShowsEmptyLists(t *testing.T) {
	h := openHouse(t, Layout{Upstreams: []catalog.Upstream{up("u", -1, 0)}})
	got, _ := json.Marshal(h.status("u"))
	if s := string(got); strings.Contains(s, `"held":null`) || strings.Contains(s, `"waiting":null`) || strings.Contains(s, `"last":null`) ||
		strings.Contains(s, `"accounts":null`) || !strings.Contains(s, `"slots":null`) {
		t.Fatal(s)
	}
}

func TestStopAnswersEverybody(t *testing.T) {
	h := openHouse(t, Layout{
		Upstreams: []catalog.Upstream{up("u", 1, -1), up("v", 0, -1)},
		Accounts:  []catalog.Account{acc("a", "u", -1), acc("b", "v", -1)},
		Keys:      []catalog.Key{{ID: "k", Slots: count(0)}},
	})
	h.take("r0", onU)
	var all []*waiter
	for i := range 50 {
		w := h.wait(fmt.Sprint("r", i+1), onU, Candidate{Upstream: "v", Accounts: []string{"b"}})
		w.queued()
		all = append(all, w)
	}
	admitted := make(chan *Refusal)
	joined := make(chan struct{})
	go func() {
		_, no := h.Admit("key/k", "k", req("x"), func() <-chan struct{} { close(joined); return nil })
		admitted <- no
	}()
	<-joined
	if err := h.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, w := range all {
		w.ends(Stopped)
	}
	if no := <-admitted; no == nil || no.Reason != Stopped {
		t.Fatalf("the caller got %+v", no)
	}
	h.refused("late", onU, Stopped)
	h.wait("late", onU).ends(Stopped)
	if _, no := h.Admit("key/k", "k", req("late"), nil); no == nil || no.Reason != Stopped {
		t.Fatalf("a late caller got %+v", no)
	}
	h.Release(Lease{Upstream: "u"}, nil)
	h.Reconfigure(h.layout)
	if err := h.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestStopUnderTrafficLeavesNobodyUnanswered(t *testing.T) {
	for range 20 {
		h := openHouse(t, one(2, -1))
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				for n := 0; ; n++ {
					l, no := h.Wait(req(fmt.Sprint(i, "-", n)), []Candidate{onU}, nil, nil)
					if no == nil {
						h.Release(l, nil)
						l, no = h.Try(req(fmt.Sprint(i, "+", n)), onU)
						if no == nil {
							h.Release(l, nil)
							continue
						}
					}
					if no.Reason != ConcurrencyFull {
						if no.Reason != Stopped {
							t.Errorf("ended with %s", no.Reason)
						}
						return
					}
				}
			})
		}
		h.traffic(100)
		if err := h.Stop(context.Background()); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
	}
}

// traffic waits until so many leases were granted at u.
func (h *house) traffic(n uint64) {
	for h.status("u").Totals.Granted < n {
		runtime.Gosched()
	}
}
