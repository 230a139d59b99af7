package pricelist

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/domain/catalog"
)

// costField is a cost that is metered: where it goes and what its unit is.
type costField struct {
	to    func(*catalog.PriceRates) *string
	scale int
}

// costFields are the costs of the list without their suffixes.
var costFields = map[string]costField{
	"input_cost_per_token":            {func(r *catalog.PriceRates) *string { return &r.Input }, perMillion},
	"output_cost_per_token":           {func(r *catalog.PriceRates) *string { return &r.Output }, perMillion},
	"cache_read_input_token_cost":     {func(r *catalog.PriceRates) *string { return &r.CachedInput }, perMillion},
	"cache_creation_input_token_cost": {func(r *catalog.PriceRates) *string { return &r.CacheWrite5m }, perMillion},
	"output_cost_per_reasoning_token": {func(r *catalog.PriceRates) *string { return &r.Reasoning }, perMillion},
	"input_cost_per_audio_token":      {func(r *catalog.PriceRates) *string { return &r.AudioInput }, perMillion},
	"output_cost_per_audio_token":     {func(r *catalog.PriceRates) *string { return &r.AudioOutput }, perMillion},
	"input_cost_per_image_token":      {func(r *catalog.PriceRates) *string { return &r.ImageInput }, perMillion},
	"output_cost_per_image_token":     {func(r *catalog.PriceRates) *string { return &r.ImageOutput }, perMillion},
	"output_cost_per_image":           {func(r *catalog.PriceRates) *string { return &r.PerImage }, perOne},
	"input_cost_per_request":          {func(r *catalog.PriceRates) *string { return &r.PerRequest }, perOne},
	"input_cost_per_query":            {func(r *catalog.PriceRates) *string { return &r.PerRequest }, perOne}, // of rerankers: a query is a request
	"file_search_cost_per_1k_calls":   {func(r *catalog.PriceRates) *string { return &r.PerFileSearch }, perK},
}

// longCacheWrite is where a cache write of an hour goes.
var longCacheWrite = costField{func(r *catalog.PriceRates) *string { return &r.CacheWrite1h }, perMillion}

// plain are fields that say nothing of costs.
var plain = []string{
	"litellm_provider", "mode", "max_tokens", "max_input_tokens", "max_output_tokens", "deprecation_date", "source", "metadata", "comment",
	"output_vector_size", "max_images_per_prompt", "max_videos_per_prompt", "max_video_length", "max_audio_length_hours", "max_audio_per_prompt",
	"max_pdf_size_mb", "max_query_tokens", "max_document_chunks_per_query", "max_tokens_per_document_chunk", "tool_use_system_prompt_tokens",
	"rpm", "tpm", "rpd", "tpd", "prompt_cache_min_tokens", "web_search_billing_unit", "display_name", "model_vendor", "model_version", "bedrock_output_config_effort_ceiling",
}

// scaled is the number in units of 10^low.
func scaled(n number, low int) *big.Int {
	return new(big.Int).Mul(n.digits, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n.exponent-low)), nil))
}

// read takes every field in, in the order of their names.
func (e *entry) read() {
	for _, field := range slices.Sorted(maps.Keys(e.fields)) {
		value := e.fields[field]
		switch {
		case slices.Contains(plain, field), strings.HasPrefix(field, "supports_"), strings.HasPrefix(field, "supported_"), string(value) == "null":
		case field == "search_context_cost_per_query":
			e.searches(value)
		case field == "tiered_pricing":
			e.steps(value)
		case field == "provider_specific_entry":
			e.factors(value)
		default:
			e.cost(field, value)
		}
	}
}

// suffixes of a cost.
type suffixes struct {
	hour    bool
	above   int64
	service string
}

// split takes the suffixes off: cache_read_input_token_cost_above_200k_tokens_priority.
func split(field string) (base string, s suffixes) {
	for {
		if rest, ok := strings.CutSuffix(field, "_above_1hr"); ok {
			field, s.hour = rest, true
			continue
		}
		tier := false
		for _, name := range []string{"flex", "priority", "batches", "batch", "fast"} {
			if rest, ok := strings.CutSuffix(field, "_"+name); ok && s.service == "" {
				field, tier = rest, true
				if s.service = name; name == "batches" {
					s.service = "batch"
				}
				break
			}
		}
		if tier {
			continue
		}
		if rest, ok := strings.CutSuffix(field, "k_tokens"); ok && s.above == 0 {
			if at := strings.LastIndex(rest, "_above_"); at >= 0 {
				if n, err := strconv.ParseInt(rest[at+len("_above_"):], 10, 32); err == nil && n > 0 && n <= 100_000 {
					field, s.above = rest[:at], n*1000
					continue
				}
			}
		}
		return field, s
	}
}

// cost takes one cost in.
func (e *entry) cost(field string, value json.RawMessage) {
	base, s := split(field)
	f, known := costFields[base]
	if known && s.hour {
		if f, known = longCacheWrite, base == "cache_creation_input_token_cost"; !known {
			e.report.Unknown[field]++
			return
		}
	}
	switch {
	case !known && strings.Contains(field, "cost") || strings.HasPrefix(field, "regional_processing_uplift"):
		e.unmetered(field, value)
	case !known:
		e.report.Unknown[field]++
	default:
		e.set(f, e.rates(s), field, value)
	}
}

// unmetered counts a cost that nothing here measures, unless it is none.
func (e *entry) unmetered(field string, value json.RawMessage) {
	if n, err := parseNumber(strings.Trim(string(value), `"`)); err == nil && n.digits.Sign() == 0 {
		return
	}
	e.report.Unmetered[field]++
	if e.foreign == "" {
		e.foreign = field
	}
}

// rates are those that the suffixes mean.
func (e *entry) rates(s suffixes) *catalog.PriceRates {
	flat, tiers := &e.flat, &e.tiers
	if s.service != "" {
		svc := e.service(s.service)
		flat, tiers = &svc.flat, &svc.tiers
	}
	if s.above == 0 {
		return flat
	}
	if *tiers == nil {
		*tiers = map[int64]*catalog.PriceRates{}
	}
	if (*tiers)[s.above] == nil {
		(*tiers)[s.above] = &catalog.PriceRates{}
	}
	return (*tiers)[s.above]
}

func (e *entry) service(name string) *service {
	if e.services == nil {
		e.services = map[string]*service{}
	}
	if e.services[name] == nil {
		e.services[name] = &service{}
	}
	return e.services[name]
}

// set writes one price.
func (e *entry) set(f costField, r *catalog.PriceRates, field string, value json.RawMessage) {
	n, err := parseNumber(strings.Trim(string(value), `"`))
	if err == nil {
		var text string
		var exact bool
		if text, exact, err = n.price(f.scale); err == nil {
			if !exact {
				e.report.Rounded = append(e.report.Rounded, fmt.Sprintf("%s: %s: %s is taken as %s", e.key, field, value, text))
			}
			*f.to(r) = text
			e.costs++
			return
		}
	}
	e.fault = field + ": " + err.Error()
}

// searches takes the cost of a web search in: that of the middle size, which is what a request gets that names none.
func (e *entry) searches(value json.RawMessage) {
	var by map[string]json.RawMessage
	if json.Unmarshal(value, &by) != nil || by["search_context_size_medium"] == nil {
		e.report.Unknown["search_context_cost_per_query"]++
		return
	}
	medium := by["search_context_size_medium"]
	e.set(costField{func(r *catalog.PriceRates) *string { return &r.PerWebSearch }, perOne}, &e.flat, "search_context_cost_per_query", medium)
	for _, size := range []string{"search_context_size_low", "search_context_size_high"} {
		if by[size] != nil && string(by[size]) != string(medium) {
			e.report.Unmetered["search_context_cost_per_query."+size]++
		}
	}
	e.costs-- // a price of searches alone prices no model
}

// steps reads prices by ranges of input tokens: the first is the flat price, each other a tier above where it begins.
func (e *entry) steps(value json.RawMessage) {
	var list []map[string]json.RawMessage
	if json.Unmarshal(value, &list) != nil {
		e.fault = "tiered_pricing: must be a list of objects"
		return
	}
	for _, step := range list {
		var ends []json.Number
		if json.Unmarshal(step["range"], &ends) != nil || len(ends) == 0 {
			e.report.Unmetered["tiered_pricing"]++ // by something else than the input
			e.foreign = "tiered_pricing"
			return
		}
		from, err := parseNumber(ends[0].String())
		above := int64(-1)
		if err == nil && from.exponent > -20 && from.exponent < 12 {
			low := min(from.exponent, 0)
			above = new(big.Int).Quo(scaled(from, low), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-low)), nil)).Int64()
		}
		if above < 0 || above > 1e9 {
			e.fault = "tiered_pricing: range: is no number of tokens"
			return
		}
		for _, field := range slices.Sorted(maps.Keys(step)) {
			if f, known := costFields[field]; known {
				e.set(f, e.rates(suffixes{above: above}), "tiered_pricing."+field, step[field])
			} else if field != "range" {
				e.report.Unknown["tiered_pricing."+field]++
			}
		}
	}
}

// factors reads multipliers that hold under a condition. The speed is reported by the provider, the place is not.
func (e *entry) factors(value json.RawMessage) {
	var by map[string]json.RawMessage
	if json.Unmarshal(value, &by) != nil {
		e.report.Unknown["provider_specific_entry"]++
		return
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		n, err := parseNumber(string(by[name]))
		if name == "fast" && err == nil && n.digits.Sign() > 0 {
			e.fast = n
		} else {
			e.report.Unmetered["provider_specific_entry."+name]++
		}
	}
}
