package gate

import (
	"math/bits"
	"time"
)

const (
	paceWindow  = 32             // the newest lease counts for 1/32, about the last hundred make up the mean
	paceTrusted = 8              // so many leases say enough to refuse somebody
	paceMax     = 24 * time.Hour // no lease and no wait counts for more
)

// pace is how long slots are held, as a moving mean in whole nanoseconds. The zero value knows nothing.
type pace struct {
	mean time.Duration
	seen int // up to paceWindow
}

// learn takes the length of one lease: the first ones are averaged, then each pulls the mean by 1/paceWindow.
func (p *pace) learn(held time.Duration) {
	p.seen = min(p.seen+1, paceWindow)
	p.mean += (min(max(held, 0), paceMax) - p.mean) / time.Duration(p.seen)
}

func (p *pace) trusted() bool { return p.seen >= paceTrusted }

// HeldFor is the mean time for which a slot is held, over about the last hundred that were released; false: none was.
func (g *Gate) HeldFor() (mean time.Duration, known bool) { return g.pace.mean, g.pace.seen > 0 }

// ExpectedWait is how long the waiter at a position, counted from 1, will wait: so many slots must be given back before
// its turn, and they come back at the measured pace. It is a mean, not a promise: it does not know how old the present
// leases are, nor that an account is blocked. At most 24 h; false: nothing was measured, or no slot is held that could
// come back.
func (g *Gate) ExpectedWait(position int) (wait time.Duration, known bool) {
	held := g.holders.Len()
	if g.pace.seen == 0 || position < 1 {
		return 0, false
	}
	backs := position // how many slots must come back first
	if g.policy.Slots != nil {
		backs = position + held - *g.policy.Slots
	}
	switch {
	case backs <= 0:
		return 0, true
	case held == 0:
		return 0, false
	}
	high, low := bits.Mul64(uint64(backs), uint64(g.pace.mean))
	if high >= uint64(held) {
		return paceMax, true
	}
	ns, _ := bits.Div64(high, low, uint64(held))
	return time.Duration(min(ns, uint64(paceMax))), true
}

// Position is where a waiter stands in the order of being served, from 1: as things stand, and if everybody may be
// served. 0: it does not wait. It costs as much as there are waiters that came later, under Fair as there are keys.
func (g *Gate) Position(id LeaseID) int {
	w := g.Waiter(id)
	if w == nil {
		return 0
	}
	return g.line.ahead(w) + 1
}
