package catalog

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/domain/pricing"
)

// Offer is one upstream that may serve a request, under the names that it is priced by.
type Offer struct {
	Upstream      *CompiledUpstream
	Model         string // resolved there
	UpstreamModel string // what its body will say; "" if that is not rewritten
}

// Worst is the most that one attempt of a request can cost at any of the offers, by the prices of a time and the
// multipliers of the payer. It is what a strict budget reserves; each further attempt may cost as much again. The error wraps
// one of pricing and names the upstream; without offers there is nothing to reserve.
func (s *Snapshot) Worst(by Payer, a pricing.Ask, at time.Time, offers ...Offer) (pricing.Bound, error) {
	var worst pricing.Bound
	for _, o := range offers {
		b, err := s.Sheets(o.Model, o.UpstreamModel, o.Upstream.ID, at).Worst(a, s.Multipliers(o.Upstream, by))
		if err != nil {
			return pricing.Bound{}, fmt.Errorf("model %s at upstream %s: %w", o.Model, o.Upstream.ID, err)
		}
		worst = worst.Max(b)
	}
	return worst, nil
}
