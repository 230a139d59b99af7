package routing

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// scoreMin is the least that slowness leaves of a weight.
const scoreMin = 0.1

// order puts the candidates from the given place on, which are one tier, into weighted random order, and returns the
// state of chance after that. Each candidate gets a key of an exponential distribution whose rate is its weight × score;
// ascending keys are then the order of drawing by weight without putting back, in one pass. Candidates of weight 0 come
// after all others; when all weights are 0, all count the same. Full candidates come behind those with a free slot.
func (p *Plan) order(from int, random uint64) uint64 {
	draws := p.draws
	p.draws = p.draws[:0]
	if len(draws) < 2 {
		if len(draws) == 1 && p.Candidates[from].Why == WhyWeighted {
			p.Candidates[from].Why = WhySingle
		}
		return random
	}
	best, total := time.Duration(0), 0
	for _, d := range draws {
		total += max(p.Candidates[d.at].Upstream.Weight, 0)
		if d.ttft > 0 && (best == 0 || d.ttft < best) {
			best = d.ttft
		}
	}
	for i := range draws {
		d := &draws[i]
		weight := float64(max(p.Candidates[d.at].Upstream.Weight, 0))
		if total == 0 {
			weight = 1
		}
		random += 0x9e3779b97f4a7c15
		// (0, 1]: never zero, so that the logarithm is finite
		u := (float64(mix(random)>>11) + 1) / (1 << 53)
		d.key = -math.Log(u) / (weight * score(best, d.ttft))
		if weight == 0 {
			d.key = math.MaxFloat64 * (1 - u/2) // behind every other, in an order of their own
		}
	}
	slices.SortFunc(draws, func(a, b draw) int {
		if a.full != b.full {
			if a.full {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.key, b.key)
	})
	p.permute(from, draws)
	return random
}

// permute moves the candidates of a tier into the order of draws, along the cycles of the permutation.
func (p *Plan) permute(from int, draws []draw) {
	for i := range draws {
		if draws[i].at < 0 {
			continue
		}
		first := p.Candidates[from+i]
		to := i
		for {
			source := draws[to].at - from
			draws[to].at = -1
			if source == i {
				p.Candidates[from+to] = first
				break
			}
			p.Candidates[from+to] = p.Candidates[from+source]
			to = source
		}
	}
}

// score is how an upstream's time to first content compares with the best of its tier, in [0.1, 1]. Unknown is 1.
func score(best, own time.Duration) float64 {
	if own <= 0 || best <= 0 {
		return 1
	}
	return min(max(float64(best)/float64(own), scoreMin), 1)
}

// mix is the output function of splitmix64.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
