package failure

import (
	"math"
	"time"

	"github.com/penstock/penstock/domain/account"
)

// Headroom reads from the headers of an answer, good or bad, how much of its account's limits is used: B50. The zero value has
// heard nothing; one is used again after Forget.
type Headroom struct {
	heard  bool
	limits [limitsMax]headroom
}

// limitsMax is how many limits an answer can tell of.
const limitsMax = 12

// headroom is what was said of one limit.
type headroom struct {
	most, left, used float64
	reset            time.Time
	said             part // of the parts of a limit
}

// part is what a header says of a limit.
type part uint8

const (
	sayMost part = 1 << iota
	sayLeft
	sayUsed
	sayReset
)

// place is which limit a header is about, and what it says of it.
type place struct {
	limit int
	part  part
	whole float64 // of sayUsed: what is all of it
	long  bool    // hours or days, which lapse if nobody uses them
}

// headroomNames are the headers of the limits, as http.CanonicalHeaderKey writes them.
var headroomNames = func() map[string]place {
	names := map[string]place{}
	for i, w := range windows {
		names[w.most], names[w.left], names[w.reset] = place{limit: i, part: sayMost}, place{limit: i, part: sayLeft}, place{limit: i, part: sayReset}
	}
	for i, q := range quotas {
		if at := len(windows) + i; q.used != "" {
			names[q.used], names[q.reset] = place{at, sayUsed, q.whole, true}, place{at, sayReset, 0, true}
		}
	}
	return names
}()

// Forget makes it ready for another answer.
func (h *Headroom) Forget() {
	if h.heard {
		*h = Headroom{}
	}
}

// Take reads one header, whose name is written as http.CanonicalHeaderKey does; false: it is none of a limit. What can not be
// read says nothing. It costs no allocation.
func (h *Headroom) Take(name, value []byte, now func() time.Time) bool {
	p, is := headroomNames[string(name)]
	if !is {
		return false
	}
	l := &h.limits[p.limit]
	if p.part == sayReset {
		at := now()
		if wait := ParseWait(string(value), at); wait > 0 {
			l.reset = at.Add(wait)
			l.said |= sayReset
		}
		h.heard = true
		return true
	}
	n, ok := number(string(value))
	if !ok || !(n >= 0 && n < math.MaxInt64) {
		return true
	}
	switch p.part {
	case sayMost:
		l.most = n
	case sayLeft:
		l.left = n
	case sayUsed:
		l.used = n / p.whole
	}
	l.said |= p.part
	h.heard = true
	return true
}

// Quota is what the headers together say; zero: nothing. A limit counts when its share is known and when it is renewed.
func (h *Headroom) Quota() (q account.Quota) {
	if !h.heard {
		return q
	}
	lapse := -1.0
	for i := range h.limits {
		l := &h.limits[i]
		if l.said&(sayMost|sayLeft) == sayMost|sayLeft && l.most > 0 {
			l.used, l.said = 1-l.left/l.most, l.said|sayUsed
		}
		if l.said&(sayUsed|sayReset) != sayUsed|sayReset {
			continue
		}
		used := min(max(l.used, 0), 1)
		if q.Until.IsZero() || used > q.Used {
			q.Used, q.Until = used, l.reset
		}
		if i >= len(windows) && used > lapse {
			lapse, q.Lapses = used, l.reset
		}
	}
	return q
}
