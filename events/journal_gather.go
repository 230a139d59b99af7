package events

import "time"

// A commit that is waited for gathers what comes within gatherMax, when that will be gatherLeast appends or more.
const (
	gatherMax   = 2 * time.Millisecond
	gatherLeast = 8
)

// complete says that nobody is left to be gathered: all requests that are open wait for what they have queued. So a lone
// request never waits for others. The caller holds mu.
func (j *Journal) complete() bool { return int64(j.hasty) >= j.used.Load()-int64(j.ending) }

// crowded says that appends come so fast that a larger group is worth a wait: most of what a commit costs does not depend
// on its size.
func (j *Journal) crowded() bool { return j.pace.within(gatherMax) >= gatherLeast }

// pace is how fast appends have come of late. The zero value knows of none.
type pace struct {
	n, over float64 // so many in so many nanoseconds; what is longer ago weighs less
	at      time.Time
}

// paceMax bounds what a pause weighs.
const paceMax = 100 * time.Millisecond

func (p *pace) took(n int) {
	now := time.Now()
	p.n = p.n*3/4 + float64(n)
	p.over = p.over*3/4 + float64(min(now.Sub(p.at), paceMax))
	p.at = now
}

// within is how many are to be expected in a time.
func (p *pace) within(d time.Duration) float64 { return p.n * float64(d) / max(p.over, 1) }
