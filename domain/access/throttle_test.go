package access

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// D39, D52: at the limit a new address does not come in; known ones do, and do not count twice.
func TestAKeyIsBoundToSoManyAddresses(t *testing.T) {
	b := NewBindings(2, 0)
	for i, c := range []struct {
		address  string
		tell, ok bool
	}{
		{"203.0.113.1", true, true}, {"203.0.113.1", false, true}, {"::ffff:203.0.113.1", false, true},
		{"2001:db8::1", true, true}, {"2001:db8::ffff:1", false, true}, // the same /64
		{"203.0.113.2", false, false}, {"2001:db8:0:1::1", false, false}, {"203.0.113.1", false, true},
	} {
		if tell, ok := b.Use(ip(c.address), t0.Add(time.Duration(i)*100*24*time.Hour)); tell != c.tell || ok != c.ok {
			t.Errorf("%d: %s: tell %v, ok %v", i, c.address, tell, ok)
		}
	}
	if !b.Opens().IsZero() {
		t.Error("without a window no address is ever forgotten")
	}
	if _, ok := b.Use(netip.Addr{}, t0); ok {
		t.Error("an address that is not known does not come in")
	}
	if tell, ok := NewBindings(0, 0).Use(netip.Addr{}, t0); tell || !ok {
		t.Error("without a limit everybody comes in, and nothing is kept")
	}
}

func TestAnAddressIsForgottenAWindowAfterItsLastUse(t *testing.T) {
	b := NewBindings(1, time.Hour)
	b.Use(ip("203.0.113.1"), t0)
	if tell, ok := b.Use(ip("203.0.113.1"), t0.Add(10*time.Minute)); tell || !ok {
		t.Error("within a quarter of the window there is nothing to tell")
	}
	if tell, ok := b.Use(ip("203.0.113.1"), t0.Add(16*time.Minute)); !tell || !ok {
		t.Error("beyond it the use is told again")
	}
	if got := b.Opens(); !got.Equal(t0.Add(76 * time.Minute)) {
		t.Errorf("opens %s", got)
	}
	if _, ok := b.Use(ip("203.0.113.2"), t0.Add(76*time.Minute-1)); ok {
		t.Error("too early")
	}
	if _, ok := b.Use(ip("203.0.113.2"), t0.Add(76*time.Minute)); !ok {
		t.Error("it must open when it says")
	}
}

// After a restart no address that is in use is unknown, and none counts that did not before.
func TestBindingsAreRestoredFromTheirFacts(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		window := []time.Duration{0, time.Hour}[seed%2]
		live, again := NewBindings(3, window), NewBindings(3, window)
		now := t0
		last := map[netip.Addr]time.Time{}
		for range 300 {
			now = now.Add(time.Duration(r.Int64N(int64(10 * time.Minute))))
			a := ip(fmt.Sprintf("203.0.113.%d", r.IntN(6)))
			tell, ok := live.Use(a, now)
			if ok {
				last[a] = now
			}
			if tell {
				again.Bind(a, now)
			}
			count := 0
			for range live.Each {
				count++
			}
			if count > 3 {
				t.Fatalf("seed %d: %d addresses", seed, count)
			}
		}
		for a, at := range last {
			if window > 0 && now.Sub(at) >= window*3/4 {
				continue
			}
			if tell, ok := again.Use(a, now); !ok {
				t.Fatalf("seed %d: %s, used %s ago, is unknown (%v)", seed, a, now.Sub(at), tell)
			}
		}
	}
}

// D37: so many failures within the window, and no fewer, block for so long; each address by itself.
func TestAnAddressThatFailsTooOftenIsBlocked(t *testing.T) {
	th := NewThrottle(ThrottlePolicy{Failures: 5, Window: time.Minute, Block: 2 * time.Minute})
	a, other := ip("203.0.113.1"), ip("203.0.113.2")
	for _, s := range []int{0, 10, 20, 30} {
		if !th.Failed(a, t0.Add(time.Duration(s)*time.Second)).IsZero() {
			t.Fatal("too early")
		}
	}
	if !th.Failed(a, t0.Add(60*time.Second)).IsZero() { // the first has slid out
		t.Fatal("5 failures in a whole minute are within the limit")
	}
	at := t0.Add(65 * time.Second)
	if got := th.Failed(a, at); !got.Equal(at.Add(2 * time.Minute)) {
		t.Fatalf("until %s", got)
	}
	for _, c := range []struct {
		address netip.Addr
		now     time.Time
		want    bool
	}{
		{a, at, true}, {ip("::ffff:203.0.113.1"), at, true}, {a, at.Add(2*time.Minute - time.Microsecond), true},
		{a, at.Add(2 * time.Minute), false}, {other, at, false},
	} {
		if got := th.Blocked(c.address, c.now); !got.IsZero() != c.want {
			t.Errorf("%s at %s: %s", c.address, c.now, got)
		}
	}
	th.Reconfigure(ThrottlePolicy{})
	if !th.Blocked(a, at).IsZero() || !th.Failed(a, at).IsZero() {
		t.Error("without a limit nobody is blocked")
	}
}

// Memory is bounded: beyond the most, the address that failed longest ago is forgotten, its failures with it.
func TestTheThrottleForgetsWhoFailedLongestAgo(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 2))
		p := ThrottlePolicy{Failures: 3, Window: time.Minute, Block: time.Minute}
		th := NewThrottle(p)
		th.most = 5
		type row struct {
			a     netip.Addr
			times []time.Time
			until time.Time
		}
		var model []row // oldest first
		now := t0
		for step := range 2000 {
			now = now.Add(time.Duration(r.Int64N(int64(8 * time.Second)))).Truncate(time.Microsecond)
			a := ip(fmt.Sprintf("203.0.113.%d", r.IntN(8)))
			i := slices.IndexFunc(model, func(x row) bool { return x.a == a })
			if r.IntN(2) == 0 {
				want := i >= 0 && model[i].until.After(now)
				if got := th.Blocked(a, now); !got.IsZero() != want || want && !got.Equal(model[i].until) {
					t.Fatalf("seed %d, step %d: %s blocked %s, model %v", seed, step, a, got, want)
				}
				continue
			}
			x := row{a: a}
			if i >= 0 {
				x = model[i]
				model = slices.Delete(model, i, i+1)
			} else if len(model) == 5 {
				model = model[1:]
			}
			x.times = append(x.times, now)
			n := 0
			for _, at := range x.times {
				if now.Sub(at) < time.Minute {
					n++
				}
			}
			want := n >= 3
			if want {
				x.until = now.Add(time.Minute)
			}
			model = append(model, x)
			if got := th.Failed(a, now); !got.IsZero() != want || want && !got.Equal(x.until) {
				t.Fatalf("seed %d, step %d: %s failed: %s, model %v", seed, step, a, got, want)
			}
			if th.Len() != len(model) || th.of.Rows() > 5 {
				t.Fatalf("seed %d, step %d: %d rows", seed, step, th.Len())
			}
		}
	}
}
