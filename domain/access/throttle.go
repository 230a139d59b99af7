package access

import (
	"net/netip"
	"time"

	"github.com/penstock/penstock/domain/lru"
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
	of     lru.Map[netip.Addr, offender] // by the last failure
}

type offender struct {
	times   []int64 // of the last failures, microseconds, a ring
	next, n int
	until   int64 // blocked
}

// NewThrottle makes one that remembers nobody.
func NewThrottle(p ThrottlePolicy) *Throttle {
	return &Throttle{policy: p, most: throttleMost}
}

// Reconfigure sets another policy; who is blocked stays so, what was counted counts on as far as it was kept.
func (t *Throttle) Reconfigure(p ThrottlePolicy) {
	if p.Failures != t.policy.Failures { // the rings have another length
		for _, o := range t.of.All() {
			o.times, o.next, o.n = nil, 0, 0
		}
	}
	t.policy = p
}

// Blocked is until when an address may not try; zero when it may. It does not allocate.
func (t *Throttle) Blocked(address netip.Addr, now time.Time) time.Time {
	if t.policy.Failures == 0 {
		return time.Time{}
	}
	o := t.of.Get(Site(address))
	if o == nil || o.until <= now.UnixMicro() {
		return time.Time{}
	}
	return time.UnixMicro(o.until).UTC()
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
func (t *Throttle) Len() int { return t.of.Len() }

// touch is the row of an address, made the newest. A new one takes over the ring of the one that it pushes out.
func (t *Throttle) touch(a netip.Addr) *offender {
	var ring []int64
	if t.of.Get(a) == nil && t.of.Len() >= t.most {
		oldest, o := t.of.Oldest()
		ring = o.times
		t.of.Drop(oldest)
	}
	o := t.of.Touch(a)
	if ring != nil {
		clear(ring)
		o.times = ring
	}
	return o
}
