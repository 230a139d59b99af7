package pricing

import "github.com/penstock/penstock/domain/money"

// Least is the least that an attempt can cost which has used so much already, whatever the upstream reports in the end: at
// the cheapest of all tiers and all tiers of service, in the cheapest classes of tokens. Things other than tokens are not
// counted. It is never above what the attempt will be charged, nor above Worst of an Ask that covers the usage; what cannot be
// priced costs nothing.
func (s Sheets) Least(u Usage, m Multipliers) Bound {
	cheap, ok := s.cheapest()
	if !ok || m.check() != nil || u.Check() != nil {
		return Bound{}
	}
	tokens := Usage{Input: u.InputTotal(), Output: u.OutputTotal()}
	return Bound{least(&cheap, &tokens, &m, One, One), least(&cheap, &tokens, &m, m.Group, m.key())}
}

// least is the cost of the whole usage at the cheapest rates, less what the roundings of its parts can take off.
func least(p *Rates, u *Usage, m *Multipliers, group, key Multiplier) money.Amount {
	var c Costs
	if !c.price(p, u, m, group, key) {
		return 0
	}
	return max(c.Total-slack, 0)
}

// cheapest has the lowest price in every place; ok is false when there is none.
func (s Sheets) cheapest() (low Rates, ok bool) {
	take := func(p *Rates) {
		if !p.valid() {
			return
		}
		in := min(p.Input, p.CachedInput, p.CacheWrite5m, p.CacheWrite1h, p.AudioInput, p.ImageInput)
		out := min(p.Output, p.Reasoning, p.AudioOutput, p.ImageOutput)
		if !ok {
			low, ok = Rates{Input: in, Output: out, PerRequest: p.PerRequest}, true
		}
		low.Input, low.Output, low.PerRequest = min(low.Input, in), min(low.Output, out), min(low.PerRequest, p.PerRequest)
	}
	for _, sheet := range [...]*Sheet{s.Manual, s.Synced} {
		if sheet == nil {
			continue
		}
		for l := range sheet.ladders {
			take(&l.Flat)
			for i := range l.Tiers {
				take(&l.Tiers[i].Rates)
			}
		}
	}
	low.Reasoning = low.Output
	return low, ok
}
