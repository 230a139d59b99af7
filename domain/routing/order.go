package routing

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/penstock/penstock/domain/catalog"
)

// healthMin is the least that slowness and failures leave of a weight (C54).
const healthMin = 0.1

// draw is a candidate of one tier while it is put into order; they stand as the candidates do.
type draw struct {
	full bool    // behind the others of its tier: who has a free slot now is asked first
	key  float64 // smaller comes first
	tie  float64 // above zero
}

// spot is a draw while it is sorted. Its place is one number, from the top: full, 32 bits of the key as a sortable
// float, 31 bits of the tie.
type spot struct {
	place uint64
	at    int // in draws
}

// figures are what is known of one candidate while its tier is put into order.
type figures struct {
	Figures
	cost  float64 // multiplier of the input
	quota float64 // the least that one of its accounts has used
	reset int64
}

// whys is what each strategy says of who it puts first.
var whys = map[string]string{
	catalog.StrategyWeighted: WhyWeighted, catalog.StrategyRoundRobin: WhyRoundRobin, catalog.StrategyLeastLoaded: WhyLeastLoaded,
	catalog.StrategyLRU: WhyLRU, catalog.StrategyScore: WhyScore,
}

// order puts the candidates from the given place on, which are one tier, into the order of the strategy. Full
// candidates come behind those with a free slot; among either, those of weight 0 behind the others, except where load
// or age decide.
func (m *maker) order(from int) {
	draws := m.draws
	m.draws, m.tier = m.draws[:0], from
	if len(draws) < 2 {
		if len(draws) == 1 && m.Candidates[from].Why == m.why {
			m.Candidates[from].Why = WhySingle
		}
		return
	}
	for i := range draws {
		draws[i].tie = m.chance()
	}
	switch m.strategy {
	case catalog.StrategyRoundRobin:
		n := uint64(len(draws))
		for i := range draws {
			draws[i].key = float64((uint64(i) + n - m.q.Turn%n) % n)
			if m.weight(i) == 0 {
				draws[i].key += float64(n)
			}
		}
	case catalog.StrategyLeastLoaded:
		for i := range draws {
			f := m.of(i)
			draws[i].key = load(f.Held+f.Waiting, f.Slots)
			draws[i].tie += float64(f.Held + f.Waiting)
		}
	case catalog.StrategyLRU:
		for i := range draws {
			draws[i].key = unused(m.of(i).LastUsed, m.now)
		}
	case catalog.StrategyScore:
		m.scoreUpstreams(draws)
	default:
		m.weigh(draws)
	}
	m.spots = m.spots[:0]
	for i := range draws {
		m.spots = append(m.spots, spot{draws[i].place(), i})
	}
	sortSpots(m.spots)
	if m.strategy == catalog.StrategyScore {
		m.amongBest(draws)
	}
	m.permute(m.Candidates[from:], m.spots)
}

func (d *draw) place() uint64 {
	p := uint64(sortable(d.key))<<31 | uint64(math.Float32bits(float32(d.tie)))
	if d.full {
		p |= 1 << 63
	}
	return p
}

func sortSpots(spots []spot) {
	slices.SortFunc(spots, func(a, b spot) int { return cmp.Compare(a.place, b.place) })
}

// sortable are bits that sort as the number does.
func sortable(v float64) uint32 {
	bits := math.Float32bits(float32(v))
	if bits>>31 == 1 {
		return ^bits // of two negative numbers the larger bits are the smaller number
	}
	return bits | 1<<31
}

// of is what is known of the i-th draw.
func (m *maker) of(i int) *figures { return &m.figures[m.tier+i] }

func (m *maker) weight(i int) float64 {
	return float64(max(m.Candidates[m.tier+i].Upstream.Weight, 0))
}

// weigh is weighted random order (C23, C54). Each candidate gets a key of an exponential distribution whose rate is its
// weight × health; ascending keys are then the order of drawing by weight without putting back, in one pass. Candidates
// of weight 0 come after all others; when all weights are 0, all count the same.
func (m *maker) weigh(draws []draw) {
	best, total := time.Duration(0), 0.0
	for i := range draws {
		c := &m.Candidates[m.tier+i]
		total += m.weight(i)
		if c.ttft > 0 && (best == 0 || c.ttft < best) {
			best = c.ttft
		}
	}
	for i := range draws {
		d := &draws[i]
		weight := m.weight(i)
		if total == 0 {
			weight = 1
		}
		if weight == 0 {
			d.key = math.MaxFloat32 * (1 - d.tie/2) // behind every other, in an order of their own
			continue
		}
		c := &m.Candidates[m.tier+i]
		d.key = -math.Log(d.tie) / (weight * health(best, c.ttft, c.failures))
	}
}

// health is what slowness, compared with the fastest of the tier, and failures leave of a weight, in [0.1, 1].
func health(best, own time.Duration, failures float64) float64 {
	return max(speed(best, own)*(1-min(max(failures, 0), 1)), healthMin)
}

// speed is how a time to first content compares with the best one, in (0, 1]. Unknown is 1.
func speed(best, own time.Duration) float64 {
	if own <= 0 || best <= 0 {
		return 1
	}
	return min(float64(best)/float64(own), 1)
}

// chance is the next number in (0, 1]: never zero, so that its logarithm is finite.
func (m *maker) chance() float64 {
	m.random += 0x9e3779b97f4a7c15
	return (float64(mix(m.random)>>11) + 1) / (1 << 53)
}

// mix is the output function of splitmix64.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// permute moves the candidates of a tier into the order of spots, along the cycles of the permutation.
func (m *maker) permute(tier []Candidate, spots []spot) {
	for i := range spots {
		if spots[i].at < 0 {
			continue
		}
		first := tier[i]
		to := i
		for {
			source := spots[to].at
			spots[to].at = -1
			if source == i {
				tier[to] = first
				break
			}
			tier[to] = tier[source]
			to = source
		}
	}
}
