package limit

const (
	ringFirst = 8  // entries of the first memory
	ringKeep  = 64 // so much is kept when little of it is used
)

// ring is a queue in one piece of memory whose length is a power of two. The zero value is empty.
type ring[E any] struct {
	buf     []E
	head, n int
}

func (r *ring[E]) at(i int) *E { return &r.buf[(r.head+i)&(len(r.buf)-1)] }

// insert puts e before the entry i; what comes after it moves by one. i = n appends.
func (r *ring[E]) insert(i int, e E) {
	if r.n == len(r.buf) {
		r.resize(max(ringFirst, 2*len(r.buf)))
	}
	r.n++
	for k := r.n - 1; k > i; k-- {
		*r.at(k) = *r.at(k - 1)
	}
	*r.at(i) = e
}

func (r *ring[E]) remove(i int) {
	for k := i; k < r.n-1; k++ {
		*r.at(k) = *r.at(k + 1)
	}
	r.n--
}

// drop removes the first entry, and memory that is not needed any more.
func (r *ring[E]) drop() {
	r.head = (r.head + 1) & (len(r.buf) - 1)
	r.n--
	if len(r.buf) > ringKeep && r.n < len(r.buf)/8 {
		r.resize(len(r.buf) / 2)
	}
}

func (r *ring[E]) resize(size int) {
	buf := make([]E, size)
	for i := range r.n {
		buf[i] = *r.at(i)
	}
	r.buf, r.head = buf, 0
}
