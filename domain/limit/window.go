package limit

import "time"

const (
	span      = 60_000  // the width of a window in milliseconds
	chargeMax = 1 << 30 // of one charge; more than any request has
)

// Window is a sliding window of 60 seconds over requests or tokens, exact to the millisecond: a charge at s counts for
// every t with t - 60s < s, so that it is gone at s + 60s. The zero value has no limit and counts nothing.
//
// Memory: 8 bytes for each millisecond in which something was charged, at most 60,000 of them (480 KB) whatever the
// limit is, in pieces of powers of two that are given back when they are idle.
type Window struct {
	limit   int64 // 0: none
	sum     int64
	newest  int64 // milliseconds of the newest charge
	charges ring[charge]
}

// charge is what was charged in one millisecond: the low bits of the time (they tell 49 days apart), and how much. Two
// of the same time follow on each other when their sum has no room in one.
type charge struct{ ms, n uint32 }

// SetLimit sets how much may be charged in 60 seconds; 0 is no limit, and forgets what was counted.
func (w *Window) SetLimit(n int64) {
	if w.limit = n; n <= 0 {
		*w = Window{}
	}
}

// Used is how much counts at a time.
func (w *Window) Used(now time.Time) int64 {
	w.advance(now.UnixMilli())
	return w.sum
}

// Fits says that n more may be charged: the sum stays within the limit. What is larger than the limit by itself fits
// into an empty window, so that it waits and is not refused for ever.
func (w *Window) Fits(n int64, now time.Time) bool {
	if w.limit == 0 {
		return true
	}
	w.advance(now.UnixMilli())
	return w.fits(w.sum, n)
}

func (w *Window) fits(sum, n int64) bool { return sum+n <= w.limit || sum == 0 }

// Reopens is the first millisecond at which n more fits if nothing else is charged; now when it does already.
func (w *Window) Reopens(n int64, now time.Time) time.Time {
	if w.Fits(n, now) {
		return now
	}
	left := w.sum
	for i := range w.charges.n {
		c := *w.charges.at(i)
		if left -= int64(c.n); w.fits(left, n) {
			return time.UnixMilli(w.time(c.ms) + span).UTC()
		}
	}
	return now // not reached: an empty window takes everything
}

// Charge counts n at a time, whether it fits or not. What has slid out already does not count.
func (w *Window) Charge(n int64, at time.Time) {
	if w.limit == 0 || n <= 0 {
		return
	}
	ms := at.UnixMilli()
	if w.charges.n > 0 && ms <= w.newest-span {
		return
	}
	if w.charges.n == 0 || ms > w.newest {
		w.newest = ms
	}
	n = min(n, chargeMax)
	w.sum += n
	i := w.charges.n
	for i > 0 && w.time(w.charges.at(i-1).ms) > ms {
		i--
	}
	if i > 0 {
		if c := w.charges.at(i - 1); c.ms == uint32(ms) && uint64(c.n)+uint64(n) < 1<<32 {
			c.n += uint32(n)
			return
		}
	}
	w.charges.insert(i, charge{uint32(ms), uint32(n)})
}

// Refund takes n of what was charged at a time back; what has slid out already is gone.
func (w *Window) Refund(n int64, at time.Time) {
	if w.charges.n == 0 {
		return
	}
	ms := at.UnixMilli()
	n = min(n, chargeMax)
	for i := w.charges.n - 1; i >= 0 && n > 0; i-- {
		c := w.charges.at(i)
		if t := w.time(c.ms); t < ms {
			return
		} else if t > ms {
			continue
		}
		back := min(n, int64(c.n))
		c.n -= uint32(back)
		w.sum -= back
		if n -= back; c.n == 0 {
			w.charges.remove(i)
		}
	}
}

// time is the whole time of a charge. All of them lie within a few minutes before the newest.
func (w *Window) time(ms uint32) int64 { return w.newest - int64(uint32(w.newest)-ms) }

// advance lets slide out what is older than a minute. A clock that was set back by more than a minute takes the charges
// along: what is a second old stays a second old.
func (w *Window) advance(now int64) {
	if w.charges.n == 0 {
		return
	}
	if back := w.newest - now; back > span {
		for i := range w.charges.n {
			w.charges.at(i).ms -= uint32(back)
		}
		w.newest = now
	}
	for w.charges.n > 0 {
		c := *w.charges.at(0)
		if now-w.time(c.ms) < span {
			return
		}
		w.sum -= int64(c.n)
		w.charges.drop()
	}
}
