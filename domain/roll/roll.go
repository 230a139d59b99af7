// Package roll keeps what is open at the moment, by the request that it belongs to: the holders of a gate, the requests of
// a caller. Every request enters and leaves several of them, each time under the same id, which a map would hash and
// compare from end to end four times.
package roll

import "math/bits"

// Roll is a set of values of type V, each under an id: a name and a number. The zero value is empty and ready. Names are
// expected to differ in their last eight bytes, as ids of requests do that end in chance; where they do not, finding one
// takes a step for each that ends in the same. The memory of removed values is used again. One goroutine at a time may use
// it.
type Roll[V any] struct {
	chains []*seat[V] // by hash; as many as a power of two, none before the first Add
	n      int
	spare  *seat[V] // removed ones, through next
	spares int
}

type seat[V any] struct {
	value  V
	name   string
	number int
	hash   uint64
	next   *seat[V] // of the same chain
}

const (
	chainsFirst = 8   // a power of two
	sparesMax   = 256 // removed seats that are kept
)

// hash tells most ids apart: equal ones have the same.
func hash(name string, number int) uint64 {
	var tail uint64
	if n := len(name); n >= 8 {
		s := name[n-8:]
		tail = uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
	} else {
		for i := range n {
			tail = tail<<8 | uint64(name[i])
		}
	}
	const golden = 0x9e3779b97f4a7c15
	high, low := bits.Mul64(tail^uint64(number), golden)
	return high ^ low // so that every bit knows of all
}

// chain is where a hash belongs. There is one.
func (r *Roll[V]) chain(hash uint64) **seat[V] { return &r.chains[hash&uint64(len(r.chains)-1)] }

func (s *seat[V]) is(hash uint64, name string, number int) bool {
	return s.hash == hash && s.number == number && s.name == name
}

// Len is how many values there are.
func (r *Roll[V]) Len() int { return r.n }

// Find is the value under an id, nil when there is none. The pointer is valid until it is removed.
func (r *Roll[V]) Find(name string, number int) *V {
	if r.n == 0 {
		return nil
	}
	h := hash(name, number)
	for s := *r.chain(h); s != nil; s = s.next {
		if s.is(h, name, number) {
			return &s.value
		}
	}
	return nil
}

// Add gives room for a value under an id, the zero value; nil when there is one already.
func (r *Roll[V]) Add(name string, number int) *V {
	if r.n == len(r.chains) {
		r.grow()
	}
	h := hash(name, number)
	first := r.chain(h)
	for s := *first; s != nil; s = s.next {
		if s.is(h, name, number) {
			return nil
		}
	}
	s := r.spare
	if s != nil {
		r.spare = s.next
		r.spares--
	} else {
		s = new(seat[V])
	}
	*s = seat[V]{name: name, number: number, hash: h, next: *first}
	*first = s
	r.n++
	return &s.value
}

// Remove takes a value out and returns what it was, nil when there was none. It may be looked at until the next Add.
func (r *Roll[V]) Remove(name string, number int) *V {
	if r.n == 0 {
		return nil
	}
	h := hash(name, number)
	for at := r.chain(h); *at != nil; at = &(*at).next {
		s := *at
		if !s.is(h, name, number) {
			continue
		}
		*at = s.next
		r.n--
		if s.next = nil; r.spares < sparesMax {
			s.next, r.spare = r.spare, s
			r.spares++
		}
		return &s.value
	}
	return nil
}

// grow doubles the chains, so that most have one value or none.
func (r *Roll[V]) grow() {
	was := r.chains
	r.chains = make([]*seat[V], max(2*len(was), chainsFirst))
	for _, s := range was {
		for s != nil {
			next, first := s.next, r.chain(s.hash)
			s.next, *first = *first, s
			s = next
		}
	}
}

// All yields every value, in no order. None may be added or removed meanwhile.
func (r *Roll[V]) All(yield func(*V) bool) {
	for _, s := range r.chains {
		for ; s != nil; s = s.next {
			if !yield(&s.value) {
				return
			}
		}
	}
}
