package access

import (
	"net/netip"
	"time"
)

// ThrottlePolicy says when an address is blocked. Failures 0 blocks nobody.
type ThrottlePolicy struct {
	Failures int           // so many within the window block
	Window   time.Duration // sliding
	Block    time.Duration // from the last of them on
}

// throttleMost bounds the addresses that are remembered: with 20 failures each, 16 MB.
const throttleMost = 65_536

// Throttle counts failed authentications per address, exactly: the times of the last Failures of each are kept. It
// remembers throttleMost addresses; beyond that the one that failed longest ago is forgotten. IPv6 addresses of one /64 are
// one. Make it with NewThrottle.
type Throttle struct {
	policy ThrottlePolicy
	most   int
	of     map[netip.Addr]int32
	rows   []offender
	newest int32 // of the list by the time of the last failure
	oldest int32
}

type offender struct {
	address      netip.Addr
	times        []int64 // of the last failures, microseconds, a ring
	next, n      int
	until        int64 // blocked
	newer, older int32
}

const nobody int32 = -1

// NewThrottle makes one that remembers nobody.
func NewThrottle(p ThrottlePolicy) *Throttle {
	return &Throttle{policy: p, most: throttleMost, of: map[netip.Addr]int32{}, newest: nobody, oldest: nobody}
}

// Reconfigure sets another policy; who is blocked stays so, what was counted counts on as far as it was kept.
func (t *Throttle) Reconfigure(p ThrottlePolicy) {
	if p.Failures != t.policy.Failures { // the rings have another length
		for i := range t.rows {
			t.rows[i].times, t.rows[i].next, t.rows[i].n = nil, 0, 0
		}
	}
	t.policy = p
}

// Blocked is until when an address may not try; zero when it may. It does not allocate.
func (t *Throttle) Blocked(address netip.Addr, now time.Time) time.Time {
	if t.policy.Failures == 0 {
		return time.Time{}
	}
	i, known := t.of[Site(address)]
	if !known || t.rows[i].until <= now.UnixMicro() {
		return time.Time{}
	}
	return time.UnixMicro(t.rows[i].until).UTC()
}

// Failed counts a failed authentication; until is when the address may try again, zero when it may still.
func (t *Throttle) Failed(address netip.Addr, now time.Time) (until time.Time) {
	if t.policy.Failures == 0 {
		return time.Time{}
	}
	o := t.touch(Site(address))
	at := now.UnixMicro()
	if o.times == nil {
		o.times = make([]int64, t.policy.Failures)
	}
	o.times[o.next] = at
	o.next = (o.next + 1) % len(o.times)
	o.n = min(o.n+1, len(o.times))
	if first := o.times[o.next]; o.n == len(o.times) && at-first < t.policy.Window.Microseconds() {
		o.until = max(o.until, at+t.policy.Block.Microseconds())
		return time.UnixMicro(o.until).UTC()
	}
	return time.Time{}
}

// Len is how many addresses are remembered.
func (t *Throttle) Len() int { return len(t.of) }

// touch is the row of an address, made the newest.
func (t *Throttle) touch(a netip.Addr) *offender {
	i, known := t.of[a]
	switch {
	case known:
		t.unlink(i)
	case len(t.of) >= t.most:
		i = t.oldest
		t.unlink(i)
		delete(t.of, t.rows[i].address)
		times := t.rows[i].times
		clear(times)
		t.rows[i] = offender{address: a, times: times}
	default:
		i = int32(len(t.rows))
		t.rows = append(t.rows, offender{address: a})
	}
	t.of[a] = i
	o := &t.rows[i]
	o.newer, o.older = nobody, t.newest
	if t.newest != nobody {
		t.rows[t.newest].newer = i
	}
	if t.newest = i; t.oldest == nobody {
		t.oldest = i
	}
	return o
}

func (t *Throttle) unlink(i int32) {
	o := &t.rows[i]
	if o.newer != nobody {
		t.rows[o.newer].older = o.older
	} else {
		t.newest = o.older
	}
	if o.older != nobody {
		t.rows[o.older].newer = o.newer
	} else {
		t.oldest = o.newer
	}
}
