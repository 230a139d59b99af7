package routing

import (
	"math"

	"github.com/penstock/penstock/domain/catalog"
)

// The factors of a score (B50). Figures of load, failures and quota are shares; the others are compared by their range.
const (
	byPriority = iota
	byQueue
	byReset
	byCost
	byIdle
	ranged // the factors before this one
	byLoad = iota - 1
	byFailures
	byQuota
	byTTFT
	factors
)

// traits are the figures of one upstream or account, by factor; less is better.
type traits [factors]float64

// scorer compares some upstreams or accounts with one another.
type scorer struct {
	weight    [factors]float64
	low, high [ranged]float64
	fastest   float64
}

// newScorer has the weights of the settings.
func newScorer(w *catalog.Score) scorer {
	s := scorer{weight: [factors]float64{byPriority: w.Priority, byQueue: w.Queue, byReset: w.Reset, byCost: w.Cost, byIdle: w.Idle,
		byLoad: w.Load, byFailures: w.ErrorRate, byQuota: w.Quota, byTTFT: w.TTFT}}
	for i := range s.low {
		s.low[i], s.high[i] = math.Inf(1), math.Inf(-1)
	}
	return s
}

// take widens the ranges.
func (s *scorer) take(t *traits) {
	for i := range ranged {
		if s.weight[i] == 0 {
			continue
		}
		if t[i] < s.low[i] {
			s.low[i] = t[i]
		}
		if t[i] > s.high[i] {
			s.high[i] = t[i]
		}
	}
	if own := t[byTTFT]; own > 0 && (s.fastest == 0 || own < s.fastest) {
		s.fastest = own
	}
}

// value is the weighted sum of the factors: of each, 1 is the best and 0 the worst. Where all are the same, or nothing
// is known of the time to the first content, it is 1.
func (s *scorer) value(t *traits) float64 {
	v := s.weight[byLoad]*(1-share(t[byLoad])) + s.weight[byFailures]*(1-share(t[byFailures])) + s.weight[byQuota]*(1-share(t[byQuota]))
	fast := s.weight[byTTFT]
	if t[byTTFT] > 0 && fast > 0 {
		fast *= s.fastest / t[byTTFT]
	}
	v += fast
	for i := range ranged {
		switch width := s.high[i] - s.low[i]; {
		case s.weight[i] == 0:
		case width > 0:
			v += s.weight[i] * (s.high[i] - t[i]) / width
		default:
			v += s.weight[i]
		}
	}
	return v
}

// share cuts a figure to 0..1.
func share(v float64) float64 {
	switch {
	case v > 0 && v < 1:
		return v
	case v >= 1:
		return 1
	}
	return 0
}

// never stands for a reset of which nothing is known, in seconds: behind every known one.
const never = 365 * 24 * 3600

// untilReset is in seconds, of two times in Unix nanoseconds.
func untilReset(reset, now int64) float64 {
	if reset <= now {
		return never
	}
	return min(float64(reset-now)/1e9, never)
}

// unused is how long something has served nobody, from the present back, in seconds: less is longer unused.
func unused(last, now int64) float64 {
	if last == 0 {
		return -never
	}
	return -min(max(float64(now-last)/1e9, 0), never)
}

func (m *maker) upstreamTraits(i int) traits {
	f := m.of(i)
	return traits{
		byPriority: -m.weight(i), byLoad: load(f.Held, f.Slots), byQueue: float64(f.Waiting), byFailures: f.Failures, byTTFT: float64(f.TTFT),
		byReset: untilReset(f.reset, m.now), byQuota: f.quota, byCost: f.cost, byIdle: unused(f.LastUsed, m.now),
	}
}

// scoreUpstreams sets the keys of a tier: the best score is the smallest key.
func (m *maker) scoreUpstreams(draws []draw) {
	s := newScorer(&m.set.Score)
	for i := range draws {
		t := m.upstreamTraits(i)
		s.take(&t)
	}
	for i := range draws {
		t := m.upstreamTraits(i)
		draws[i].key = -s.value(&t)
	}
}

// amongBest draws among the best of a tier, a better score giving a better chance: not all of many requests that are
// planned at once go to the very best.
func (m *maker) amongBest(draws []draw) {
	best := m.spots[:min(m.set.ScoreTop, len(draws))]
	for len(best) > 0 && draws[best[len(best)-1].at].full != draws[best[0].at].full {
		best = best[:len(best)-1]
	}
	if len(best) < 2 {
		return
	}
	worst := draws[best[len(best)-1].at].key
	for i := range best {
		d := &draws[best[i].at]
		d.key = -math.Log(d.tie) / (worst - d.key + 1)
		best[i].place = d.place()
	}
	sortSpots(best)
}

func (m *maker) accountTraits(u *catalog.CompiledUpstream, at int) traits {
	f := &m.facts[at]
	return traits{
		byPriority: float64(u.Accounts[at].Priority), byLoad: load(f.Held, f.Slots), byFailures: f.Failures, byTTFT: float64(f.TTFT),
		byReset: untilReset(f.QuotaReset, m.now), byQuota: f.QuotaUsed, byIdle: unused(f.LastUsed, m.now),
	}
}

// scoreAccounts places the accounts of an upstream; their priority is one factor among others.
func (m *maker) scoreAccounts(u *catalog.CompiledUpstream, list []rank) {
	s := newScorer(&m.set.Score)
	for i := range list {
		t := m.accountTraits(u, list[i].at)
		s.take(&t)
	}
	for i := range list {
		r := &list[i]
		t := m.accountTraits(u, r.at)
		r.place = placed(0, m.facts[r.at].full(), -s.value(&t), 0)
	}
}
