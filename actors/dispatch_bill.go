package actors

import (
	"time"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
)

// bill is what one attempt costs and all that its price was found by: enough to price it again from its fact alone. The
// zero value is an attempt of which nothing is known to have been used.
type bill struct {
	pricing.Bill
	by   request.Multipliers
	free bool // the caller got nothing for the attempt and pays nothing
}

// into writes the bill into a settlement.
func (b *bill) into(s *request.Settled) {
	s.PriceVersion, s.PriceOrigin, s.Inherited, s.Multipliers = b.Version, b.Origin, b.Inherited, b.by
	s.UpstreamCost, s.Cost, s.Free = b.Upstream.Total, b.Caller.Total, b.free
	s.Unpriced, s.UnpricedReason = b.Unpriced, b.Reason
	if b.free {
		s.Cost = 0
	}
}

// intoFailed writes the bill into the fact of a failed attempt, for which the caller pays nothing: it got nothing.
func (b *bill) intoFailed(f *request.Failed) {
	f.PriceVersion, f.PriceOrigin, f.Inherited, f.Multipliers = b.Version, b.Origin, b.Inherited, b.by
	f.UpstreamCost, f.Unpriced, f.UnpricedReason = b.Upstream.Total, b.Unpriced, b.Reason
}

// price computes what a usage costs by the prices in force at the call's time and by the present multipliers of the
// upstream and of whoever pays. The bill is empty before.
func (b *bill) price(snap *catalog.Snapshot, up *catalog.CompiledUpstream, call pricing.Call, by catalog.Payer, u *pricing.Usage) {
	m := snap.Multipliers(up, by)
	call.Upstream = up.ID
	b.Settle(snap, &call, u, &m)
	b.by = request.MultipliersOf(m)
}

// bill prices an attempt at the present candidate, into an empty bill. Of an attempt whose usage is not known nothing is billed. The time
// that counts is the one at which the request was admitted, as the store tells it: whoever prices the attempt again finds
// the same prices.
func (l *life) bill(t *tried, into *bill) {
	if t.source == pricing.None {
		return
	}
	into.price(l.snap, l.up, pricing.Call{
		Model: l.model(), UpstreamModel: l.cand.UpstreamModel, ServiceTier: t.tier, At: l.admittedAt.Truncate(time.Microsecond),
	}, payer(&l.c.Ask), &t.usage)
}

func payer(a *request.Ask) catalog.Payer { return catalog.Payer{Group: a.Group, Key: a.Key} }
