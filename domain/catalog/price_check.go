package catalog

import (
	"maps"
	"slices"
	"strings"

	"github.com/penstock/penstock/domain/pricing"
)

// Bounds of a price.
const (
	priceTiersMax  = 16
	tokensMax      = 1_000_000_000
	serviceNameMax = 32
)

// Origins of a price as its source field says them.
const (
	sourceManual = string(pricing.Manual)
	sourceSynced = string(pricing.Synced)
)

// rateNames are the fields that say what something costs, in the order in which rates and all list them.
var rateNames = [...]string{
	"input", "output", "cached_input", "cache_write_5m", "cache_write_1h", "reasoning", "audio_input", "audio_output",
	"image_input", "image_output", "per_request", "per_image", "per_web_search", "per_file_search",
}

// rateFields are the lines of the field table for the rates under a path.
func rateFields(prefix string) string {
	lines := make([]string, len(rateNames))
	for i, name := range rateNames {
		lines[i] = prefix + name + " n"
	}
	return strings.Join(lines, "|")
}

// all are the fields of the rates in the order of rateNames.
func (r *PriceRates) all() [len(rateNames)]*string {
	return [...]*string{
		&r.Input, &r.Output, &r.CachedInput, &r.CacheWrite5m, &r.CacheWrite1h, &r.Reasoning, &r.AudioInput, &r.AudioOutput,
		&r.ImageInput, &r.ImageOutput, &r.PerRequest, &r.PerImage, &r.PerWebSearch, &r.PerFileSearch,
	}
}

// NamedRate is one of several rates under the name of its field.
type NamedRate struct{ Name, Value string }

// Named are the rates that are set, in the order of the fields.
func (r PriceRates) Named() []NamedRate {
	var list []NamedRate
	for i, value := range r.all() {
		if *value != "" {
			list = append(list, NamedRate{rateNames[i], *value})
		}
	}
	return list
}

// FlatRates are the flat prices.
func (r *Price) FlatRates() PriceRates {
	return PriceRates{
		r.Input, r.Output, r.CachedInput, r.CacheWrite5m, r.CacheWrite1h, r.Reasoning, r.AudioInput, r.AudioOutput,
		r.ImageInput, r.ImageOutput, r.PerRequest, r.PerImage, r.PerWebSearch, r.PerFileSearch,
	}
}

// SetRates replaces the flat ones.
func (r *Price) SetRates(p PriceRates) {
	r.Input, r.Output, r.CachedInput, r.CacheWrite5m, r.CacheWrite1h = p.Input, p.Output, p.CachedInput, p.CacheWrite5m, p.CacheWrite1h
	r.Reasoning, r.AudioInput, r.AudioOutput, r.ImageInput, r.ImageOutput = p.Reasoning, p.AudioInput, p.AudioOutput, p.ImageInput, p.ImageOutput
	r.PerRequest, r.PerImage, r.PerWebSearch, r.PerFileSearch = p.PerRequest, p.PerImage, p.PerWebSearch, p.PerFileSearch
}

// clone shares nothing that can be changed.
func (r *Price) clone() Price {
	v := *r
	v.Tiers = slices.Clone(r.Tiers)
	if r.ServiceTiers != nil {
		v.ServiceTiers = make(map[string]ServicePrice, len(r.ServiceTiers))
		for name, s := range r.ServiceTiers {
			s.Tiers = slices.Clone(s.Tiers)
			v.ServiceTiers[name] = s
		}
	}
	return v
}

// defaultID is the id, or the model, or upstream/model; a synced price never takes the name of one that people set.
func (r *Price) defaultID() string {
	switch {
	case r.ID != "":
		return r.ID
	case r.Source == sourceSynced && r.Model != "":
		return SyncedID(r.Upstream, r.Model)
	case r.Upstream != "":
		return r.Upstream + "/" + r.Model
	}
	return r.Model
}

// SyncedID is the id of the first price that a list gives a model; later values of it have their date behind an "@".
func SyncedID(upstream, model string) string {
	if upstream != "" {
		return "synced/" + upstream + "/" + model
	}
	return "synced/" + model
}

func (c *checker) price(r Price) Resource {
	r = r.clone()
	r.ID = r.defaultID()
	c.ref.ID = r.ID
	c.text("model", r.Model, true)
	if r.ID != "" { // else the model is missing, which is said already
		c.id(r.ID, "/*?")
	}
	r.EffectiveFrom = c.moment("effective_from", r.EffectiveFrom)
	for _, f := range [...]struct{ name, value string }{{"input", r.Input}, {"output", r.Output}} {
		if f.value == "" {
			c.fail(f.name, "is required (\"0\" is free)")
		}
	}
	flat := r.FlatRates()
	c.rates("", &flat)
	r.SetRates(flat)
	r.Tiers = c.priceTiers("tiers", r.Tiers)
	c.atMost("service_tiers", len(r.ServiceTiers), priceTiersMax)
	for _, name := range slices.Sorted(maps.Keys(r.ServiceTiers)) {
		r.ServiceTiers[name] = c.servicePrice(name, r.ServiceTiers[name])
	}
	if len(r.ServiceTiers) == 0 {
		r.ServiceTiers = nil
	}
	for _, f := range [...]struct {
		name string
		n    int64
	}{{"max_input_tokens", r.MaxInputTokens}, {"max_output_tokens", r.MaxOutputTokens}} {
		c.between(f.name, int(f.n), 0, tokensMax, "")
	}
	switch r.Source {
	case sourceManual:
		r.Source = ""
	case "", sourceSynced:
	default:
		c.fail("source", "must be manual or synced")
	}
	c.text("origin", r.Origin, false)
	return &r
}

// rates makes the decimals canonical.
func (c *checker) rates(prefix string, r *PriceRates) {
	for i, value := range r.all() {
		*value = c.decimal(prefix+rateNames[i], *value, pricing.PricePlaces, priceMax)
	}
}

// priceTiers checks a list of tiers and puts it in order.
func (c *checker) priceTiers(field string, list []PriceTier) []PriceTier {
	c.atMost(field, len(list), priceTiersMax)
	seen := map[int64]bool{}
	for i := range list {
		t := &list[i]
		at := indexed(field, i)
		c.between(at+".above_input_tokens", int(t.AboveInputTokens), 0, tokensMax, "")
		if seen[t.AboveInputTokens] {
			c.fail(at+".above_input_tokens", "%d is named twice", t.AboveInputTokens)
		}
		seen[t.AboveInputTokens] = true
		if t.PriceRates == (PriceRates{}) {
			c.fail(at, "sets no price")
		}
		c.rates(at+".", &t.PriceRates)
	}
	slices.SortFunc(list, func(a, b PriceTier) int { return int(a.AboveInputTokens - b.AboveInputTokens) })
	return emptyIsNil(list)
}

func (c *checker) servicePrice(name string, s ServicePrice) ServicePrice {
	at := "service_tiers." + name
	known := pricing.Service(name)
	switch {
	case known == "":
		c.fail(at, "is the ordinary tier, which the price itself is for")
	case known != name:
		c.fail(at, "must be spelled %s", known)
	case len(name) > serviceNameMax || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "":
		c.fail(at, "must be the name of a service tier such as flex")
	}
	if s.PriceRates == (PriceRates{}) && len(s.Tiers) == 0 {
		c.fail(at, "sets no price")
	}
	c.rates(at+".", &s.PriceRates)
	s.Tiers = c.priceTiers(at+".tiers", s.Tiers)
	return s
}
