package catalog

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/pricing"
)

// Rated is a price that can be applied.
type Rated struct {
	*Price
	Rates   pricing.Rates
	Version string // "<price id>@<stream version>": which value of the price it was
}

// Rates reads the decimals of a price and applies its fallbacks. The error is an InvalidError.
func (r *Price) Rates() (pricing.Rates, error) {
	var fault *InvalidError
	read := func(field, s string, fallback pricing.Price) pricing.Price {
		if s == "" {
			return fallback
		}
		n, err := money.ParseDecimal(s, pricing.PricePlaces)
		if err == nil && (n < 0 || n > priceMax*1e6) {
			err = errors.New("must be 0.." + grouped(priceMax))
		}
		if err != nil && fault == nil {
			fault = &InvalidError{Ref{KindPrice, r.ID}, field, err.Error()}
		}
		return pricing.Price(n)
	}
	var p pricing.Rates
	p.Input = read("input", r.Input, 0)
	p.Output = read("output", r.Output, 0)
	p.CachedInput = read("cached_input", r.CachedInput, p.Input)
	p.CacheWrite5m = read("cache_write_5m", r.CacheWrite5m, p.Input)
	p.CacheWrite1h = read("cache_write_1h", r.CacheWrite1h, p.CacheWrite5m)
	p.PerRequest = money.Amount(read("per_request", r.PerRequest, 0)) * 1e4 // from 1e-6 to 1e-10 USD
	if fault != nil {
		return pricing.Rates{}, fault
	}
	return p, nil
}

// priceIndex finds the price of a model. Within a list newer effective dates come first.
type priceIndex struct {
	exact map[priceKey][]*Rated
	globs []globPrices // those with an upstream first, then the longer pattern, then by text
}

type priceKey struct{ model, upstream string }

type globPrices struct {
	priceKey
	list []*Rated
}

func (s *Snapshot) buildPrices(state *State, rows []Resource) {
	globs := map[priceKey][]*Rated{}
	s.prices.exact = make(map[priceKey][]*Rated, len(rows))
	for _, r := range rows {
		p := r.(*Price)
		rates, err := p.Rates()
		if err != nil {
			s.Skipped = append(s.Skipped, *err.(*InvalidError))
			continue
		}
		_, version, _ := state.Get(KindPrice, p.ID)
		rated := &Rated{p, rates, p.ID + "@" + strconv.FormatInt(version, 10)}
		into, key := s.prices.exact, priceKey{p.Model, p.Upstream}
		if isGlob(p.Model) {
			into = globs
		}
		into[key] = append(into[key], rated)
	}
	for _, list := range s.prices.exact {
		newestFirst(list)
	}
	for key, list := range globs {
		newestFirst(list)
		s.prices.globs = append(s.prices.globs, globPrices{key, list})
	}
	slices.SortFunc(s.prices.globs, func(a, b globPrices) int {
		return cmp.Or(cmp.Compare(b2i(a.upstream == ""), b2i(b.upstream == "")),
			cmp.Compare(len(b.model), len(a.model)), cmp.Compare(a.model, b.model), cmp.Compare(a.upstream, b.upstream))
	})
}

func newestFirst(list []*Rated) {
	slices.SortStableFunc(list, func(a, b *Rated) int {
		switch {
		case a.EffectiveFrom == nil && b.EffectiveFrom == nil:
			return 0
		case a.EffectiveFrom == nil:
			return 1
		case b.EffectiveFrom == nil:
			return -1
		}
		return b.EffectiveFrom.Compare(*a.EffectiveFrom)
	})
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Price finds what a model costs at an upstream at a time: by the (resolved) model first, then by the name in the
// rewritten body; an exact name before a glob, a price of this upstream before a general one, a longer glob before a
// shorter, and of several dates the newest that has begun. ok is false for an unpriced model.
func (s *Snapshot) Price(model, upstreamModel, upstream string, at time.Time) (_ *Rated, ok bool) {
	if r := s.prices.find(model, upstream, at); r != nil {
		return r, true
	}
	if upstreamModel == model {
		return nil, false
	}
	r := s.prices.find(upstreamModel, upstream, at)
	return r, r != nil
}

func (x *priceIndex) find(model, upstream string, at time.Time) *Rated {
	if model == "" {
		return nil
	}
	if upstream != "" {
		if r := begun(x.exact[priceKey{model, upstream}], at); r != nil {
			return r
		}
	}
	if r := begun(x.exact[priceKey{model, ""}], at); r != nil {
		return r
	}
	for i := range x.globs {
		g := &x.globs[i]
		if (g.upstream == "" || g.upstream == upstream) && globMatch(g.model, model) {
			if r := begun(g.list, at); r != nil {
				return r
			}
		}
	}
	return nil
}

func begun(list []*Rated, at time.Time) *Rated {
	for _, r := range list {
		if r.EffectiveFrom == nil || !r.EffectiveFrom.After(at) {
			return r
		}
	}
	return nil
}
