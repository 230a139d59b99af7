package request

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/pricing"
)

// Booked is a story with the places where it is told what its attempts cost: all that is needed to price it anew. The zero value
// is that of the zero Story.
type Booked struct {
	Story
	failed []booking // by attempt, from 1; the zero value for one that did not fail on its own
	end    booking
}

// booking is where a fact that books something stands.
type booking struct {
	position int64
	at       time.Time
	free     bool // the caller pays nothing for it, whatever it costs
}

// Take folds one fact at its position in the store; see Story.Evolve.
func (b *Booked) Take(fact any, position int64, at time.Time) {
	switch f := fact.(type) {
	case *Failed:
		for len(b.failed) < f.N && f.N <= len(b.Attempts) {
			b.failed = append(b.failed, booking{})
		}
		if f.N >= 1 && f.N <= len(b.failed) {
			// A caller pays for a failed attempt only where it was charged for it when it failed.
			b.failed[f.N-1] = booking{position, at, f.Cost == 0}
		}
	case *Settled:
		b.end = booking{position, at, f.Free}
	}
	b.Evolve(fact, at)
}

// endN is the number by which a Repricing means the settlement: that of the final attempt, 0 where that has a fact of its own.
func (b *Booked) endN() int {
	if n := len(b.Attempts); b.Failed(n) == nil {
		return n
	}
	return 0
}

// Posted are the attempts as they stand in the books, those whose usage is not known left out. A request that has not ended has
// none. The error says which multiplier can not be read.
func (b *Booked) Posted() ([]pricing.Posted, error) {
	if b.Settled == nil || !b.Settled.Sent {
		return nil, nil
	}
	var list []pricing.Posted
	add := func(n int, sent *Attempt, tier string, u pricing.Usage, source pricing.Source, by Multipliers, at booking, c Charge) error {
		if source == "" || source == pricing.None {
			return nil
		}
		m, err := by.parse()
		list = append(list, pricing.Posted{
			N: n, Usage: u, Source: source, Multipliers: m, Free: at.free,
			Call: pricing.Call{
				Model: sent.Dispatched.PricedModel(b.Ask().Model), UpstreamModel: sent.Dispatched.UpstreamModel,
				Upstream: sent.Dispatched.Upstream, ServiceTier: tier, At: b.AdmittedAt,
			},
			Charge: pricing.Charge{Version: c.PriceVersion, Upstream: c.UpstreamCost, Caller: c.Cost, Unpriced: c.Unpriced},
		})
		return err
	}
	for i := range b.Attempts {
		a := &b.Attempts[i]
		if f := a.Failed; f != nil && i < len(b.failed) {
			if err := add(i+1, a, f.ServiceTier, f.Usage, f.UsageSource, f.Multipliers, b.failed[i], chargeOfFailed(f)); err != nil {
				return nil, fmt.Errorf("attempt %d: %w", i+1, err)
			}
		}
	}
	if s, final := b.Settled, b.Final(); final != nil {
		if err := add(b.endN(), final, s.ServiceTier, s.Usage, s.UsageSource, s.Multipliers, b.end, chargeOfSettled(s)); err != nil {
			return nil, fmt.Errorf("final attempt: %w", err)
		}
	}
	return list, nil
}

// Reprice is the fact that books the changes which a run of repricing has found; nil when there are none. Where they leave
// nothing unpriced the settlement is told too, as that is where the request was counted as unpriced.
func (b *Booked) Reprice(run string, found *pricing.Repriced) *Repriced {
	if len(found.Changes) == 0 {
		return nil
	}
	f := &Repriced{Reprice: run, UpstreamCost: found.Upstream, Cost: found.Caller}
	end, told := b.endN(), false
	priced := map[int]bool{}
	for i := range found.Changes {
		c := &found.Changes[i]
		was, at := b.booked(c.N)
		is := Charge{PriceVersion: c.Is.Version, PriceOrigin: c.Origin, Inherited: c.Inherited, UpstreamCost: c.Is.Upstream, Cost: c.Is.Caller}
		f.Changes = append(f.Changes, Repricing{N: c.N, Position: at.position, At: at.at, Was: was, Is: is})
		told = told || c.N == end
		priced[c.N] = true
	}
	if !told && b.Unpriced() && !b.unpricedBut(priced) {
		was, at := b.booked(end)
		f.Changes = append(f.Changes, Repricing{N: end, Position: at.position, At: at.at, Was: was, Is: was})
	}
	return f
}

// unpricedBut says that an attempt is unpriced beside those that have got a price.
func (b *Booked) unpricedBut(priced map[int]bool) bool {
	for i := range b.Attempts {
		if f := b.Attempts[i].Failed; f != nil && f.Unpriced && !priced[i+1] {
			return true
		}
	}
	return b.Settled.Unpriced && !priced[b.endN()]
}

// booked is what an attempt is booked at, and where.
func (b *Booked) booked(n int) (Charge, booking) {
	if f := b.Failed(n); f != nil {
		return chargeOfFailed(f), b.failed[n-1]
	}
	return chargeOfSettled(b.Settled), b.end
}

func chargeOfFailed(f *Failed) Charge {
	return Charge{f.PriceVersion, f.PriceOrigin, f.Inherited, f.UpstreamCost, f.Cost, f.Unpriced}
}

func chargeOfSettled(f *Settled) Charge {
	return Charge{f.PriceVersion, f.PriceOrigin, f.Inherited, f.UpstreamCost, f.Cost, f.Unpriced}
}

// parse reads what MultipliersOf has written.
func (m *Multipliers) parse() (pricing.Multipliers, error) {
	of := pricing.Plain()
	var key pricing.Multiplier
	for _, f := range [...]struct {
		name, text string
		into       *pricing.Multiplier
	}{{"input", m.Input, &of.Input}, {"output", m.Output, &of.Output}, {"group", m.Group, &of.Group}, {"key", m.Key, &key}} {
		if f.text == "" {
			continue
		}
		n, err := money.ParseDecimal(f.text, pricing.MultiplierPlaces)
		if err != nil {
			return of, fmt.Errorf("multiplier %s: %w", f.name, err)
		}
		*f.into = pricing.Multiplier(n)
	}
	if m.Key != "" {
		of.Key = &key
	}
	return of, nil
}
