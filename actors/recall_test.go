package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/gate"
)

// ofKey is a want of a key with a weight.
func ofKey(name, key string, weight int) Want {
	return Want{ID: LeaseID{Request: name, Attempt: 1}, Key: key, Weight: weight}
}

// line is who waits at u, and the order in which they are granted.
func (h *house) line(wants ...Want) (served func() []Lease) {
	h.t.Helper()
	var mu sync.Mutex
	var order []Lease
	h.hooks.granted = func(l Lease) { mu.Lock(); order = append(order, l); mu.Unlock() }
	var wg sync.WaitGroup
	for _, w := range wants {
		joined := make(chan struct{})
		wg.Add(1)
		go func() {
			defer wg.Done()
			l, no := h.Wait(w, []Candidate{onU}, nil, func(Place) { close(joined) })
			if no != nil {
				h.t.Errorf("%s: %+v", w.ID.Request, *no)
				return
			}
			h.Release(l, nil)
		}()
		<-joined
	}
	return func() []Lease { wg.Wait(); mu.Lock(); defer mu.Unlock(); return slices.Clone(order) }
}

// Under fifo the tickets of an upstream are served in their order, without a single exception, whoever asks (A57).
func TestTicketsAreServedInOrder(t *testing.T) {
	h := openHouse(t, one(2, -1))
	x, y := h.take("x", onU), h.take("y", onU)
	var wants []Want
	for i := range 400 {
		wants = append(wants, ofKey(fmt.Sprint("r", i), fmt.Sprint("k", i%7), 1+i%5))
	}
	served := h.line(wants...)
	go h.Release(x, nil)
	h.Release(y, nil)
	for i, l := range served() {
		if l.Ticket != uint64(i+1) {
			t.Fatalf("grant %d has ticket %d", i, l.Ticket)
		}
	}
}

// Under fair each key has its turns by its weight, first come first served among its own (pain 45).
func TestKeysTakeTurnsByTheirWeights(t *testing.T) {
	l := one(1, -1)
	l.Upstreams[0].Queue.Discipline = "fair"
	h := openHouse(t, l)
	x := h.take("x", onU)
	weights := []struct {
		key    string
		weight int
	}{{"one", 1}, {"uno", 1}, {"two", 2}, {"four", 4}}
	var wants []Want
	of := map[string]string{}
	for _, w := range weights { // one key after the other: the order of arrival says nothing
		for i := range 40 * w.weight {
			name := fmt.Sprint(w.key, i)
			of[name] = w.key
			wants = append(wants, ofKey(name, w.key, w.weight))
		}
	}
	served := h.line(wants...)
	h.Release(x, nil)
	got, last := map[string]int{}, map[string]uint64{}
	for i, l := range served() {
		key := of[l.ID.Request]
		if l.Ticket < last[key] {
			t.Fatalf("%s was served out of turn", l.ID.Request)
		}
		last[key] = l.Ticket
		got[key]++
		for _, w := range weights {
			if share := float64((i+1)*w.weight) / 8; float64(got[w.key]) < share-2 || float64(got[w.key]) > share+2 {
				t.Fatalf("after %d grants key %s has had %d of them", i+1, w.key, got[w.key])
			}
		}
	}
	if fmt.Sprint(got) != "map[four:160 one:40 two:80 uno:40]" {
		t.Fatalf("%v", got)
	}
}

// The urgent are first, and nobody waits for ever behind them.
func TestClassesWaitBehindOneAnotherUntilTheyHaveAged(t *testing.T) {
	l := one(1, -1)
	l.Upstreams[0].Queue.AgeEvery = catalog.Duration(10 * time.Second)
	h := openHouse(t, l)
	x := h.take("x", onU)
	want := func(name string, c gate.Class) Want {
		w := ofKey(name, "k", 1)
		w.Class = c
		return w
	}
	old := h.wait("old", onU) // normal
	old.queued()
	h.passTime(11 * time.Second)
	served := h.line(want("low", gate.Low), want("normal", gate.Normal), want("high", gate.High))
	h.Release(x, nil)
	h.Release(old.served(), nil)
	var order []string
	for _, l := range served() {
		order = append(order, l.ID.Request)
	}
	if got := fmt.Sprint(order); got != "[old high normal low]" {
		t.Fatal(got)
	}
}

// The board says who waits, how long that will take, and who has how much.
func TestTheBoardTellsOfTheQueue(t *testing.T) {
	h := openHouse(t, one(1, -1))
	for range 3 {
		l := h.take("before", onU)
		h.passTime(2 * time.Second)
		h.Release(l, nil)
	}
	x := h.take("x", onU)
	h.passTime(time.Second)
	first := h.wait("r1", onU)
	if p := first.queued(); p.Position == 0 || !p.Estimated || p.Expected < 2*time.Second {
		t.Fatalf("%+v", p)
	}
	second := h.wait("r2", onU)
	second.queued()
	h.passTime(time.Second)
	st := h.status("u")
	if w := st.Waits; w.Waiting != 2 || w.Oldest != 1000 || *w.HeldFor != 2000 || *w.Newcomer != 6000 || w.Discipline != "fifo" {
		t.Fatalf("%+v", w)
	}
	if w := st.Waiting[1]; w.Position != 2 || w.Ticket != 2 || *w.Expected != 4000 || w.Class != "normal" || w.Attempt != 1 {
		t.Fatalf("%+v", w)
	}
	if fmt.Sprint(st.Shares) != "[{key-x 1 0 1} {key-r1 0 1 0} {key-r2 0 1 0} {key-before 0 0 3}]" || st.Others != (OtherShares{}) {
		t.Fatalf("%+v %+v", st.Shares, st.Others)
	}
	h.Release(x, nil)
	h.Release(first.served(), nil)
	h.Release(second.served(), nil)
}

// A wait that would be too long does not begin when the queue says so, and tells when there may be a turn.
func TestWhoWouldWaitTooLongIsToldSo(t *testing.T) {
	l := one(1, -1)
	l.Upstreams[0].Queue.FailFast = true
	h := openHouse(t, l)
	for range 10 {
		x := h.take("x", onU)
		h.passTime(50 * time.Second)
		h.Release(x, nil)
	}
	x := h.take("x", onU)
	first := h.wait("r1", onU)
	first.queued()
	if no := h.wait("r2", onU).ends(TooLate); no.Upstream != "u" || !no.Until.Equal(h.now().Add(100*time.Second)) {
		t.Fatalf("%+v", no)
	}
	w := ofKey("r3", "k", 1)
	w.Deadline = h.now()
	if _, no := h.Wait(w, []Candidate{onU}, nil, nil); no == nil || no.Reason != TooLate {
		t.Fatalf("%+v", no)
	}
	h.Release(x, nil)
	h.Release(first.served(), nil)
}

// A slot that is taken back is free when its attempt has ended, not before; asking again changes nothing (pains 34-36).
func TestASlotIsFreeWhenItsAttemptHasEnded(t *testing.T) {
	h := openHouse(t, one(1, -1))
	recall := &Gone{}
	w := req("r1")
	w.Recall = recall
	l, no := h.Try(w, onU)
	if no != nil {
		t.Fatal(*no)
	}
	next := h.wait("r2", onU)
	next.queued()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for range 2 { // nobody waits for its end here
		f, err := h.Free(ended, "u", "r1", 0, "stuck")
		if err != nil || f.Freed || f.RequestID != "r1" || f.Attempt != 1 || f.Account != "a" {
			t.Fatalf("%+v %v", f, err)
		}
	}
	if !recall.Fired() {
		t.Fatal("its attempt was not told")
	}
	if st := h.status("u"); len(st.Held) != 1 || st.Held[0].Recalled != "stuck" || st.Totals.Freed != 1 || len(st.Waiting) != 1 {
		t.Fatalf("%+v", st)
	}
	free := make(chan FreedLease)
	go func() { f, _ := h.Free(context.Background(), "u", "r1", 1, ""); free <- f }()
	h.Release(l, nil)
	h.Release(l, nil)
	if f := <-free; f != (FreedLease{}) && !f.Freed { // it may have come too late to find it
		t.Fatalf("%+v", f)
	}
	h.Release(next.served(), nil)
	h.holds("u", 0, 0)
	for _, c := range []struct {
		upstream, request string
		attempt           int
	}{{"u", "r1", 0}, {"u", "r2", 9}, {"nobody", "r1", 0}} {
		if _, err := h.Free(ended, c.upstream, c.request, c.attempt, ""); err == nil || c.upstream == "u" != errors.Is(err, ErrNoLease) {
			t.Fatalf("%+v: %v", c, err)
		}
	}
}

// A slot can be taken back while its account is still asked: it is then never given, and who asked for it hears why.
func TestASlotIsTakenBackWhileItIsGranted(t *testing.T) {
	for _, waits := range []bool{false, true} {
		t.Run(fmt.Sprint("from the queue: ", waits), func(t *testing.T) {
			h := openHouse(t, one(1, -1))
			m := &recallLease{request: "r1", reply: make(chan *recalled, 1)}
			var once sync.Once
			h.hooks.before = func(_ string, msg any) {
				if try, ok := msg.(*tryLease); ok && try.grant.id.Request == "r1" { // its answer comes behind the recall
					once.Do(func() { h.send(h.dir.Load().upstreams["u"].pid, m) })
				}
			}
			if waits {
				x := h.take("x", onU)
				w := h.wait("r1", onU)
				w.queued()
				h.Release(x, nil)
				w.ends(Recalled)
			} else {
				h.refused("r1", onU, Recalled)
			}
			is := <-m.reply
			if is.holder.Phase != gate.Granting || is.cut != nil {
				t.Fatalf("%+v", is)
			}
			<-is.free
			h.holds("u", 0, 0)
		})
	}
}

// Whoever takes slots back, whenever, no slot is lost and none is freed twice.
func TestSlotsTakenBackAtRandomAreNeverLost(t *testing.T) {
	h := openHouse(t, one(3, -1))
	stop := make(chan struct{})
	var operator sync.WaitGroup
	operator.Go(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
				_, _ = h.Free(ended, "u", fmt.Sprint("r", n%16), 0, "")
			}
		}
	})
	var clients sync.WaitGroup
	for c := range 16 {
		clients.Go(func() {
			for range 300 {
				w := req(fmt.Sprint("r", c))
				w.Recall = &Gone{}
				l, no := h.Wait(w, []Candidate{onU}, nil, nil)
				if no != nil {
					if no.Reason != Recalled {
						t.Errorf("%+v", *no)
					}
					continue
				}
				if n := len(h.status("u").Held); n > 3 {
					t.Errorf("%d slots of 3 are held", n)
				}
				h.Release(l, nil)
			}
		})
	}
	clients.Wait()
	close(stop)
	operator.Wait()
	h.holds("u", 0, 0)
	for i := range 3 {
		h.take(fmt.Sprint("last", i), onU)
	}
}
