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

// rated is a price that can be applied.
type rated struct {
	*Price
	sheet *pricing.Sheet
}

// over is r where it is set and otherwise base.
func (r PriceRates) over(base PriceRates) PriceRates {
	under := base.all()
	for i, value := range r.all() {
		if *value != "" {
			*under[i] = *value
		}
	}
	return base
}

// reader reads decimals and remembers the first fault.
type reader struct {
	ref   Ref
	fault *InvalidError
}

func (d *reader) price(field, s string, fallback pricing.Price) pricing.Price {
	if s == "" {
		return fallback
	}
	n, err := money.ParseDecimal(s, pricing.PricePlaces)
	if err == nil && (n < 0 || n > priceMax*1e6) {
		err = errors.New("must be 0.." + grouped(priceMax))
	}
	if err != nil && d.fault == nil {
		d.fault = &InvalidError{d.ref, field, err.Error()}
	}
	return pricing.Price(n)
}

// rates applies the fallbacks.
func (d *reader) rates(at string, r PriceRates) pricing.Rates {
	var p pricing.Rates
	p.Input = d.price(at+"input", r.Input, 0)
	p.Output = d.price(at+"output", r.Output, 0)
	p.CachedInput = d.price(at+"cached_input", r.CachedInput, p.Input)
	p.CacheWrite5m = d.price(at+"cache_write_5m", r.CacheWrite5m, p.Input)
	p.CacheWrite1h = d.price(at+"cache_write_1h", r.CacheWrite1h, p.CacheWrite5m)
	p.Reasoning = d.price(at+"reasoning", r.Reasoning, p.Output)
	p.AudioInput = d.price(at+"audio_input", r.AudioInput, p.Input)
	p.AudioOutput = d.price(at+"audio_output", r.AudioOutput, p.Output)
	p.ImageInput = d.price(at+"image_input", r.ImageInput, p.Input)
	p.ImageOutput = d.price(at+"image_output", r.ImageOutput, p.Output)
	usd := func(field, s string) money.Amount { return money.Amount(d.price(at+field, s, 0)) * 1e4 } // from 1e-6 to 1e-10 USD
	p.PerRequest, p.PerImage = usd("per_request", r.PerRequest), usd("per_image", r.PerImage)
	p.PerWebSearch, p.PerFileSearch = usd("per_web_search", r.PerWebSearch), usd("per_file_search", r.PerFileSearch)
	return p
}

// ladder compiles flat rates with the tiers on top of them; of several lists the later one is over the earlier.
func (d *reader) ladder(at string, flat PriceRates, lists ...[]PriceTier) pricing.Ladder {
	l := pricing.Ladder{Flat: d.rates(at, flat)}
	rates := map[int64]PriceRates{}
	inclusive := map[int64]bool{}
	for _, list := range lists {
		for _, t := range list {
			base, known := rates[t.AboveInputTokens]
			if !known {
				base = flat
			}
			rates[t.AboveInputTokens] = t.over(base)
			inclusive[t.AboveInputTokens] = t.Inclusive
		}
	}
	for above, r := range rates {
		l.Tiers = append(l.Tiers, pricing.Tier{Above: above, Inclusive: inclusive[above], Rates: d.rates(at+"tiers.", r)})
	}
	slices.SortFunc(l.Tiers, func(a, b pricing.Tier) int { return cmp.Compare(b.Above, a.Above) })
	return l
}

// Compile reads the decimals of a price and applies its fallbacks: a tier or a service tier inherits what it does not
// say. Where an input is long and the service special, the tiers of the price count over the flat price of the service,
// and tiers of the service over both; nothing is multiplied. The error is an InvalidError.
func (r *Price) Compile(version string) (*pricing.Sheet, error) {
	d := reader{ref: Ref{KindPrice, r.ID}}
	s := &pricing.Sheet{
		Ladder: d.ladder("", r.FlatRates(), r.Tiers), MaxInput: r.MaxInputTokens, MaxOutput: r.MaxOutputTokens,
		Version: version, Origin: pricing.Manual,
	}
	if r.Source == sourceSynced {
		s.Origin = pricing.Synced
	}
	for name, svc := range r.ServiceTiers {
		if s.Services == nil {
			s.Services = make(map[string]*pricing.Ladder, len(r.ServiceTiers))
		}
		l := d.ladder("service_tiers."+name+".", svc.over(r.FlatRates()), r.Tiers, svc.Tiers)
		s.Services[name] = &l
	}
	if d.fault != nil {
		return nil, d.fault
	}
	return s, nil
}

// priceBook holds the prices that people set apart from those of a list.
type priceBook struct{ manual, synced priceIndex }

// has says that the price of exactly that model names it for an upstream, see Models.
func (b *priceBook) has(upstream, model string) bool {
	_, synced := b.synced.exact[priceKey{model, upstream}]
	return synced && upstream != "" || b.manual.has(upstream, model)
}

// priceIndex finds the price of a model. Within a list newer effective dates come first.
type priceIndex struct {
	exact map[priceKey][]*rated
	local bool         // some exact ones are of a single upstream
	globs []globPrices // those with an upstream first, then the longer pattern, then by text
}

type priceKey struct{ model, upstream string }

type globPrices struct {
	priceKey
	list []*rated
}

func (s *Snapshot) buildPrices(state *State, rows []Resource) {
	lists := map[pricing.Origin][]*rated{}
	for _, r := range rows {
		p := r.(*Price)
		_, n, _ := state.Get(KindPrice, p.ID)
		sheet, err := p.Compile(p.ID + "@" + strconv.FormatInt(n, 10))
		if err != nil {
			s.Skipped = append(s.Skipped, *err.(*InvalidError))
			continue
		}
		lists[sheet.Origin] = append(lists[sheet.Origin], &rated{p, sheet})
	}
	s.prices = priceBook{indexPrices(lists[pricing.Manual]), indexPrices(lists[pricing.Synced])}
}

func indexPrices(list []*rated) priceIndex {
	globs := map[priceKey][]*rated{}
	x := priceIndex{exact: make(map[priceKey][]*rated, len(list))}
	for _, r := range list {
		into, key := x.exact, priceKey{r.Model, r.Upstream}
		if isGlob(r.Model) {
			into = globs
		} else if r.Upstream != "" {
			x.local = true
		}
		into[key] = append(into[key], r)
	}
	for _, list := range x.exact {
		newestFirst(list)
	}
	for key, list := range globs {
		newestFirst(list)
		x.globs = append(x.globs, globPrices{key, list})
	}
	slices.SortFunc(x.globs, func(a, b globPrices) int {
		return cmp.Or(cmp.Compare(b2i(a.upstream == ""), b2i(b.upstream == "")),
			cmp.Compare(len(b.model), len(a.model)), cmp.Compare(a.model, b.model), cmp.Compare(a.upstream, b.upstream))
	})
	return x
}

func newestFirst(list []*rated) {
	slices.SortStableFunc(list, func(a, b *rated) int {
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

// Sheets finds what a model costs at an upstream at a time, among the prices that people set and among the synced ones:
// by the (resolved) model first, then by the name in the rewritten body; an exact name before a glob, a price of this
// upstream before a general one, a longer glob before a shorter, and of several dates the newest that has begun. It
// makes a Snapshot a pricing.Book.
func (s *Snapshot) Sheets(model, upstreamModel, upstream string, at time.Time) pricing.Sheets {
	var found pricing.Sheets
	if r := s.prices.manual.named(model, upstreamModel, upstream, at); r != nil {
		found.Manual = r.sheet
	}
	if r := s.prices.synced.named(model, upstreamModel, upstream, at); r != nil {
		found.Synced = r.sheet
	}
	return found
}

// named finds by either name.
func (x *priceIndex) named(model, upstreamModel, upstream string, at time.Time) *rated {
	if r := x.find(model, upstream, at); r != nil || upstreamModel == model {
		return r
	}
	return x.find(upstreamModel, upstream, at)
}

func (x *priceIndex) find(model, upstream string, at time.Time) *rated {
	if model == "" {
		return nil
	}
	if x.local && upstream != "" {
		if r := begun(x.exact[priceKey{model, upstream}], at); r != nil {
			return r
		}
	}
	if r := begun(x.exact[priceKey{model, ""}], at); r != nil {
		return r
	}
	for i := range x.globs {
		g := &x.globs[i]
		if (g.upstream == "" || g.upstream == upstream) && Glob(g.model, model) {
			if r := begun(g.list, at); r != nil {
				return r
			}
		}
	}
	return nil
}

func begun(list []*rated, at time.Time) *rated {
	for _, r := range list {
		if r.EffectiveFrom == nil || !r.EffectiveFrom.After(at) {
			return r
		}
	}
	return nil
}
