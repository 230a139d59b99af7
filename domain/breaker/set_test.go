package breaker

import (
	"fmt"
	"math/rand"
	"reflect"
	"testing"
	"time"
)

var one = Key{"acc", "gpt"}

func fail(s *Set, k Key, n int, at time.Time) (fact any) {
	for range n {
		p, _, _ := s.Acquire(k, at)
		fact = s.Record(k, p, Failure, Evidence{At: at, Class: "http_5xx", Account: k.Account, Model: k.Model})
	}
	return fact
}

func TestOneModelOfAnAccountIsTakenOutAndTheOthersGoOn(t *testing.T) {
	s := NewSet("u", policy)
	o, _ := fail(s, one, 3, t0).(*Opened)
	if o == nil || o.Upstream != "u" || o.Account != "acc" || o.Model != "gpt" || o.Last[0].Model != "gpt" {
		t.Fatalf("%+v", o)
	}
	if ok, until := s.Check(one, t0); ok || !until.Equal(o.Until) {
		t.Fatalf("open: %v %v", ok, until)
	}
	for _, k := range []Key{{"acc", "other"}, {"other", "gpt"}} {
		if _, ok, _ := s.Acquire(k, t0); !ok {
			t.Errorf("%v is out of service as well", k)
		}
	}
	at := o.Until
	for i := range 2 {
		p, ok, half := s.Acquire(one, at)
		if !ok || !p.Probe || (half != nil) != (i == 0) {
			t.Fatalf("probe %d: %+v %v %+v", i, p, ok, half)
		}
		if _, second, _ := s.Acquire(one, at); second {
			t.Fatal("a second probe")
		}
		if f := s.Record(one, p, Success, Evidence{At: at}); i == 1 {
			if c, _ := f.(*Closed); c == nil || c.Account != "acc" || c.Model != "gpt" {
				t.Fatalf("%+v", f)
			}
		}
	}
}

func TestAPermitFromBeforeTheFirstFailureCounts(t *testing.T) {
	s := NewSet("u", policy)
	var early [3]Permit
	for i := range early {
		early[i], _, _ = s.Acquire(one, t0)
	}
	if len(s.machines) != 0 {
		t.Fatal("a key without a failure costs memory")
	}
	for i, p := range early {
		if !s.Valid(one, p) {
			t.Fatalf("permit %d is void", i)
		}
		s.Record(one, p, Failure, Evidence{At: t0})
	}
	if ok, _ := s.Check(one, t0); ok {
		t.Fatal("three failures did not open it")
	}
	if s.Valid(one, early[0]) || s.Record(one, early[0], Failure, Evidence{At: t0}) != nil {
		t.Fatal("a permit from before the opening counts")
	}
}

func TestTheSetForgetsWhatIsIdleAndNeverWhatIsOpen(t *testing.T) {
	s := NewSet("u", policy)
	fail(s, one, 3, t0)
	probe := func() Permit { p, _, _ := s.Acquire(one, t0.Add(100*time.Second)); return p }
	p := probe()
	for i := range SetMax + 50 { // models that a caller made up
		fail(s, Key{"acc", fmt.Sprint(i)}, 1, t0.Add(time.Duration(i)*time.Millisecond))
	}
	if len(s.machines) != SetMax {
		t.Fatalf("%d machines", len(s.machines))
	}
	if _, kept := s.machines[Key{"acc", fmt.Sprint(SetMax + 49)}]; !kept {
		t.Fatal("the newest went instead of the oldest")
	}
	if !s.Valid(one, p) {
		t.Fatal("a breaker at work was forgotten")
	}
	s.Record(one, p, Success, Evidence{At: t0})
	s.Record(one, probe(), Success, Evidence{At: t0})
	fail(s, Key{"acc", "later"}, 1, t0.Add(2*time.Hour))
	if _, kept := s.machines[one]; kept {
		t.Fatal("a closed breaker without failures was kept for an hour")
	}
	if len(s.machines) != 1 {
		t.Fatalf("%d machines that nobody used for an hour", len(s.machines))
	}
	fail(s, one, 3, t0.Add(2*time.Hour))
	again, _, _ := s.Acquire(one, t0.Add(3*time.Hour))
	s.Cancel(one, p) // the probe of its earlier life
	if !again.Probe || !s.Valid(one, again) {
		t.Fatal("a permit of an earlier life ended the probe of this one")
	}
}

func TestASetFullOfOpenBreakersCountsNoFurtherOnes(t *testing.T) {
	s := NewSet("u", Policy{Failures: 1})
	for i := range SetMax + 5 {
		if f := fail(s, Key{"acc", fmt.Sprint(i)}, 1, t0); (f != nil) != (i < SetMax) {
			t.Fatalf("%d: %+v", i, f)
		}
	}
	if s.ForceOpen(one, t0, time.Time{}) != nil {
		t.Fatal("one more")
	}
	s.RemoveAccount("acc")
	if len(s.machines) != 0 || s.ForceOpen(one, t0, time.Time{}) == nil || s.ForceClose(one, t0) == nil || s.ForceClose(Key{"x", "y"}, t0) != nil {
		t.Fatal("removed accounts leave their places")
	}
}

// TestFactsRebuildTheSet plays random outcomes on a few keys and rebuilds the set from its facts.
func TestFactsRebuildTheSet(t *testing.T) {
	for seed := int64(1); seed <= 50; seed++ {
		r := rand.New(rand.NewSource(seed))
		live, again := NewSet("u", policy), NewSet("u", policy)
		flying := map[Key][]Permit{}
		now := t0
		for step := range 300 {
			k := Key{fmt.Sprint(r.Intn(3)), fmt.Sprint(r.Intn(3))}
			var fact any
			switch r.Intn(6) {
			case 0, 1:
				p, ok, half := live.Acquire(k, now)
				if ok {
					flying[k] = append(flying[k], p)
				}
				if half != nil {
					fact = half
				}
			case 2, 3, 4:
				if ps := flying[k]; len(ps) > 0 {
					flying[k] = ps[1:]
					fact = live.Record(k, ps[0], Result(r.Intn(3)), Evidence{At: now})
				}
			case 5:
				now = now.Add(time.Duration(r.Intn(60)) * time.Second)
			}
			if fact == nil {
				continue
			}
			again.Evolve(fact, now)
			for _, e := range live.All() {
				if e.State() == StateClosed {
					continue
				}
				m := again.machines[e.Key]
				if m == nil || m.State() != e.State() || !m.Until().Equal(e.Until()) || !reflect.DeepEqual(m.History(), e.History()) {
					t.Fatalf("seed %d, step %d: %v is %v until %v, facts give %+v", seed, step, e.Key, e.State(), e.Until(), m)
				}
			}
		}
	}
}
