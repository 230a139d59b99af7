package actors

import (
	"flag"
	"fmt"
	"math/rand"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/account"
	"github.com/penstock/penstock/domain/catalog"
)

var leaseSeed = flag.Int64("lease-seed", 0, "run only this seed of the lease races")

// TestManyAskersNeverExceedTheSlotsAndKeepTheirOrder: pains 34-39, 42.
func TestManyAskersNeverExceedTheSlotsAndKeepTheirOrder(t *testing.T) {
	h := openHouse(t, Layout{
		Upstreams: []catalog.Upstream{up("u", 8, -1)},
		Accounts:  []catalog.Account{acc("a", "u", 5), acc("b", "u", 5)},
	})
	var tickets []uint64
	h.hooks.granted = func(l Lease) {
		if l.Ticket > 0 {
			tickets = append(tickets, l.Ticket) // in the actor: nobody else writes
		}
	}
	var held, most atomic.Int64
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for n := range 200 {
				w := req(fmt.Sprint(i, "-", n))
				l, no := h.Wait(w, []Candidate{{Upstream: "u", Accounts: []string{"a", "b"}}}, nil, nil)
				if no != nil {
					t.Errorf("%+v", *no)
					return
				}
				now := held.Add(1)
				for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
				}
				runtime.Gosched()
				held.Add(-1)
				h.Release(l, nil)
				if n%3 == 0 {
					h.Release(l, nil)
				}
			}
		})
	}
	wg.Wait()
	h.holds("u", 0, 0)
	if most.Load() > 8 {
		t.Fatalf("%d held at once, 8 slots", most.Load())
	}
	if len(tickets) < 1000 || !slices.IsSorted(tickets) {
		t.Fatalf("%d grants after a wait, in order: %v", len(tickets), slices.IsSorted(tickets))
	}
	st := h.status("u")
	if st.Totals.Granted != 64*200 || st.Totals.Queued != uint64(len(tickets)) {
		t.Fatalf("%+v, %d served from the queue", st.Totals, len(tickets))
	}
}

// leaseRaces plays one seed many rounds; what must hold after each round is checked by the round itself.
func leaseRaces(t *testing.T, rounds int64, round func(t *testing.T, r *rand.Rand, n int64)) {
	for n := int64(1); n <= rounds && !t.Failed(); n++ {
		if *leaseSeed != 0 {
			n, rounds = *leaseSeed, 0
		}
		round(t, rand.New(rand.NewSource(n)), n)
		if t.Failed() {
			t.Fatalf("seed %d; repeat: go test ./actors -run '%s' -lease-seed %d", n, t.Name(), n)
		}
	}
}

// pause gives way some times, chosen by the seed: the order of goroutines differs from round to round.
func pause(n int) {
	for range n {
		runtime.Gosched()
	}
}

func TestCancelRacingWithAGrantLeavesNothingHeld(t *testing.T) { // A60, A61, A64; pains 34, 35
	h := openHouse(t, Layout{
		Upstreams: []catalog.Upstream{up("u", 1, -1), up("v", 1, -1)},
		Accounts:  []catalog.Account{acc("a", "u", 1), acc("b", "v", 1)},
	})
	granted, aborted := 0, 0
	leaseRaces(t, 3000, func(t *testing.T, r *rand.Rand, n int64) {
		x, y := h.take(fmt.Sprint("x", n), onU), h.take(fmt.Sprint("y", n), onV)
		w := h.wait(fmt.Sprint("w", n), onU, onV)
		waits := r.Intn(3) > 0
		if waits {
			w.queued()
		}
		steps := []func(){func() { close(w.gone) }, func() { h.Release(x, nil) }, func() { h.Release(y, nil) }}
		if r.Intn(2) == 0 {
			steps = append(steps, func() { h.Cancel(req(fmt.Sprint("w", n)).ID, "u") })
		}
		var wg sync.WaitGroup
		for _, step := range steps {
			p := r.Intn(4)
			wg.Go(func() { pause(p); step() })
		}
		wg.Wait()
		<-w.done
		if w.no == nil {
			granted++
			h.Release(w.lease, nil)
		} else if aborted++; w.no.Reason != Aborted {
			t.Errorf("ended with %+v", *w.no)
		}
		h.holds("u", 0, 0)
		h.holds("v", 0, 0)
	})
	if *leaseSeed == 0 && (granted == 0 || aborted == 0) {
		t.Fatalf("no race: %d granted, %d aborted", granted, aborted)
	}
}

func TestCancelRacingWithTryLeavesNothingHeld(t *testing.T) { // "make sure that it is not held"
	h := openHouse(t, Layout{Upstreams: []catalog.Upstream{up("u", 1, 0)}, Accounts: []catalog.Account{acc("a", "u", 1)}})
	leaseRaces(t, 3000, func(t *testing.T, r *rand.Rand, n int64) {
		w := req(fmt.Sprint("r", n))
		var wg sync.WaitGroup
		p, q := r.Intn(4), r.Intn(4)
		wg.Go(func() {
			pause(p)
			if _, no := h.Try(w, onU); no != nil && no.Reason != Aborted {
				t.Errorf("%+v", *no)
			}
		})
		wg.Go(func() { pause(q); h.Cancel(w.ID, "u") })
		wg.Wait()
		h.Cancel(w.ID, "u") // the first one may have come before the asking
		h.holds("u", 0, 0)
	})
}

func TestTimeoutRacingWithAGrantLeavesNothingHeld(t *testing.T) { // A52, A59
	l := pair()
	for i := range l.Upstreams {
		l.Upstreams[i].Queue.Timeout = catalog.Duration(500 * time.Microsecond)
	}
	h := openHouse(t, l)
	ends := map[Reason]int{}
	leaseRaces(t, 400, func(t *testing.T, r *rand.Rand, n int64) {
		x, y := h.take(fmt.Sprint("x", n), onU), h.take(fmt.Sprint("y", n), onV)
		after := time.Duration(200+r.Intn(600)) * time.Microsecond
		w := h.wait(fmt.Sprint("w", n), onU, onV)
		timer := time.NewTimer(after)
		<-timer.C
		h.Release(x, nil)
		h.Release(y, nil)
		<-w.done
		if w.no == nil {
			ends[""]++
			h.Release(w.lease, nil)
		} else if ends[w.no.Reason]++; w.no.Reason != TimedOut {
			t.Errorf("ended with %+v", *w.no)
		}
		h.holds("u", 0, 0)
		h.holds("v", 0, 0)
	})
	t.Logf("served %d, timed out %d", ends[""], ends[TimedOut])
}

// TestRandomTrafficLeavesNothingBehind lets everything happen at once: waits at several upstreams, accounts that fill
// and are blocked, breakers that open, cancels, other layouts.
func TestRandomTrafficLeavesNothingBehind(t *testing.T) {
	leaseRaces(t, 30, func(t *testing.T, r *rand.Rand, n int64) {
		layout := Layout{
			Upstreams: []catalog.Upstream{up("u", 3, 10), up("v", 2, -1), up("w", -1, 0)},
			Accounts:  []catalog.Account{acc("a", "u", 2), acc("b", "u", 2), acc("c", "v", 1), acc("d", "v", -1), acc("e", "w", 1)},
		}
		all := []Candidate{{Upstream: "u", Accounts: []string{"a", "b"}}, {Upstream: "v", Accounts: []string{"c", "d"}}, {Upstream: "w", Accounts: []string{"e"}}, {Upstream: "u", Accounts: []string{"b"}}}
		h := openHouse(t, layout)
		var askers, others sync.WaitGroup
		for i := range 12 {
			r := rand.New(rand.NewSource(n*100 + int64(i)))
			askers.Go(func() {
				for k := range 60 {
					w := req(fmt.Sprint(i, "-", k))
					gone := make(chan struct{})
					if r.Intn(3) == 0 {
						p := r.Intn(20)
						others.Go(func() { pause(p); close(gone) })
					}
					first := r.Intn(len(all))
					var l Lease
					var no *Refusal
					if r.Intn(2) == 0 {
						l, no = h.Try(w, all[first])
					} else {
						l, no = h.Wait(w, []Candidate{all[first], all[(first+1)%len(all)]}, gone, nil)
					}
					if no != nil {
						continue
					}
					pause(r.Intn(5))
					switch r.Intn(5) {
					case 0:
						h.fail(l, 3)
						h.Release(l, nil)
					case 1:
						h.Release(l, &Outcome{Block: &Block{Ask: account.Ask{Until: h.now().Add(time.Second), Reason: "http_429"}}})
					case 2:
						h.Cancel(l.ID, l.Upstream)
					default:
						h.Release(l, nil)
					}
				}
			})
		}
		stop := make(chan struct{})
		others.Go(func() {
			for k := 0; ; k++ {
				select {
				case <-stop:
					return
				default:
				}
				switch k % 5 {
				case 0:
					for _, id := range []string{"a", "b", "c", "d", "e"} {
						_ = h.BlockAccount(id, nil)
					}
				case 1:
					for _, id := range []string{"u", "v", "w"} {
						_ = h.Breaker(id, "close")
					}
				case 2:
					l := layout
					if k%2 == 0 {
						l.Upstreams, l.Accounts = l.Upstreams[1:], l.Accounts[1:]
					}
					h.Reconfigure(l)
				case 3:
					h.passTime(time.Second)
				}
				pause(10)
			}
		})
		askers.Wait()
		close(stop)
		others.Wait()
		for _, id := range []string{"u", "v", "w"} {
			if _, known := h.Status(id); known {
				h.holds(id, 0, 0)
			}
		}
		must(h.Stop(t.Context()))
	})
}
