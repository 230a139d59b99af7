package gate

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Holders yields copies of all holders, in no order. Nobody may take or free a slot meanwhile.
func (g *Gate) Holders(yield func(Holder) bool) {
	for h := range g.holders.All {
		if !yield(*h) {
			return
		}
	}
}

// Waiters yields the queue in the order of being served, with positions from 1. Waiters may leave meanwhile; those are
// not yielded any more.
func (g *Gate) Waiters(yield func(int, *Waiter) bool) {
	if g.line == nil {
		return
	}
	for i, w := range g.line.order() {
		if !w.left && !yield(i+1, w) {
			return
		}
	}
}

// Place is one waiter as the live board shows it.
type Place struct {
	ID        LeaseID
	Key       string
	Class     Class
	Ticket    uint64
	Position  int // from 1, in the order of being served
	Since     time.Time
	Deadline  time.Time
	Expected  time.Duration // from now on
	Estimated bool          // Expected is known
}

// Places is the queue at a moment, in the order of being served.
func (g *Gate) Places(now time.Time) []Place {
	places := make([]Place, 0, g.Waiting())
	if g.line != nil {
		g.line.age(now)
	}
	for at, w := range g.Waiters {
		p := Place{ID: w.ID, Key: w.Key, Class: w.Class, Ticket: w.Ticket, Position: at, Since: w.Since, Deadline: w.Deadline}
		p.Expected, p.Estimated = g.ExpectedWait(at)
		places = append(places, p)
	}
	return places
}

// Share is what one key has of a gate.
type Share struct {
	Key     string
	Held    int
	Waiting int
	Served  uint64 // grants, with or without a wait; counted with Policy.PerKey only
}

// Shares is who has how much of a gate.
type Shares struct {
	Top      []Share // who holds most first, then who waits most, then who was served most, then by key
	Rest     Share   // the sum of all other keys, without a name
	RestKeys int     // how many hold or wait among them, and how many are still counted by name
}

// Shares sums holders, waiters and grants by key and names the first top of them.
func (g *Gate) Shares(top int) Shares {
	byKey := make(map[string]*Share, len(g.tally.served))
	of := func(key string) *Share {
		s := byKey[key]
		if s == nil {
			s = &Share{Key: key}
			byKey[key] = s
		}
		return s
	}
	for h := range g.holders.All {
		of(h.Key).Held++
	}
	if g.line != nil {
		for _, w := range g.line.byID {
			of(w.Key).Waiting++
		}
	}
	for key, n := range g.tally.served {
		of(key).Served = n
	}
	all := slices.SortedFunc(maps.Values(byKey), func(a, b *Share) int {
		return cmp.Or(cmp.Compare(b.Held, a.Held), cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(b.Served, a.Served),
			cmp.Compare(a.Key, b.Key))
	})
	top = min(max(top, 0), len(all))
	s := Shares{Top: make([]Share, 0, top), Rest: Share{Served: g.tally.rest}, RestKeys: len(all) - top}
	for i, one := range all {
		if i < top {
			s.Top = append(s.Top, *one)
			continue
		}
		s.Rest.Held += one.Held
		s.Rest.Waiting += one.Waiting
		s.Rest.Served += one.Served
	}
	return s
}

// tally counts grants by key, for a bounded number of keys.
type tally struct {
	served map[string]uint64
	rest   uint64 // of the keys that were dropped
}

// tallyMax bounds the keys that are counted by name.
const tallyMax = 1024

func (t *tally) add(key string) {
	if t.served == nil {
		t.served = map[string]uint64{}
	}
	t.served[key]++
	if len(t.served) > tallyMax {
		t.drop()
	}
}

// drop keeps the half that was served most; the grants of the others are counted together.
func (t *tally) drop() {
	byServed := slices.SortedFunc(maps.Keys(t.served), func(a, b string) int {
		return cmp.Or(cmp.Compare(t.served[b], t.served[a]), cmp.Compare(a, b))
	})
	for _, key := range byServed[tallyMax/2:] {
		t.rest += t.served[key]
		delete(t.served, key)
	}
}
