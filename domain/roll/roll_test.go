package roll

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

type id struct {
	name   string
	number int
}

// A roll is a map, whatever is added and removed: also for ids that end in the same, and while it grows.
func TestARollIsAMap(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		var r Roll[int]
		was := map[id]*int{}
		draw := func() id {
			name := fmt.Sprintf("request-%08d", random.IntN(60))
			switch random.IntN(4) {
			case 0:
				name = name[:random.IntN(4)]
			case 1:
				name = fmt.Sprint(random.IntN(40), "-and-the-same-end")
			}
			return id{name, random.IntN(3)}
		}
		for step := range 400 {
			at := draw()
			switch random.IntN(5) {
			case 0, 1:
				v := r.Add(at.name, at.number)
				if (v == nil) != (was[at] != nil) {
					t.Fatalf("seed %d, step %d: Add(%v) = %v, it was there: %v", seed, step, at, v, was[at] != nil)
				}
				if v != nil {
					if *v != 0 {
						t.Fatalf("seed %d, step %d: new room has %d in it", seed, step, *v)
					}
					*v, was[at] = step+1, v
				}
			case 2, 3:
				v, before := r.Remove(at.name, at.number), r.Find(at.name, at.number)
				if v != was[at] || before != nil {
					t.Fatalf("seed %d, step %d: Remove(%v) = %p, not %p; then it finds %p", seed, step, at, v, was[at], before)
				}
				delete(was, at)
			}
			if v := r.Find(at.name, at.number); v != was[at] {
				t.Fatalf("seed %d, step %d: Find(%v) = %p, not %p", seed, step, at, v, was[at])
			}
			if r.Len() != len(was) {
				t.Fatalf("seed %d, step %d: %d values, not %d", seed, step, r.Len(), len(was))
			}
		}
		all := map[*int]bool{}
		for v := range r.All {
			all[v] = true
		}
		for at, v := range was {
			if !all[v] {
				t.Fatalf("seed %d: All leaves out %v", seed, at)
			}
		}
		if len(all) != len(was) {
			t.Fatalf("seed %d: All yields %d values, not %d", seed, len(all), len(was))
		}
	}
}

// What was removed is used again, and no more of it is kept than a burst needs.
func TestMemoryIsUsedAgain(t *testing.T) {
	var r Roll[[100]int]
	names := make([]string, 3*sparesMax)
	for i := range names {
		names[i] = fmt.Sprint(i)
		r.Add(names[i], 0)
	}
	for _, name := range names {
		r.Remove(name, 0)
	}
	if r.spares != sparesMax {
		t.Errorf("%d removed values are kept, not %d", r.spares, sparesMax)
	}
	if n := testing.AllocsPerRun(100, func() {
		r.Add("a", 1)
		r.Remove("a", 1)
	}); n != 0 {
		t.Errorf("%v allocations for one that comes and goes", n)
	}
}

// Ids are spread over the chains, whether they end in chance, as those of requests do, or are counted.
func TestIdsAreSpread(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	chance := func(int) uint64 { return random.Uint64() >> 16 }
	count := func(i int) uint64 { return uint64(i) }
	for _, c := range []struct {
		format string
		n      func(int) uint64
	}{{"019db5d5-0000-7000-8000-%012x", chance}, {"019db5d5-0000-7000-8000-%012d", count}, {"r%d", count}, {"%d-0000", count}} {
		var r Roll[int]
		for i := range 1000 {
			r.Add(fmt.Sprintf(c.format, c.n(i)), 1)
		}
		longest := 0
		for _, s := range r.chains {
			n := 0
			for ; s != nil; s = s.next {
				n++
			}
			longest = max(longest, n)
		}
		if longest > 8 {
			t.Errorf("%s: %d of 1000 in one chain", c.format, longest)
		}
	}
}
