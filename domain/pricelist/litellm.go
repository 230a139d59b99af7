// Package pricelist reads lists of prices that others publish and says what they would change in a catalogue. What it
// makes are ordinary price resources with the source "synced", which never override a price that people set.
package pricelist

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/pricing"
)

// Options of a reading.
type Options struct {
	// Upstreams binds the prices of a provider to the upstream that serves it: "groq": "groq-main". Providers that resell
	// models of others are read only if they are named here, since the same model costs differently elsewhere.
	Upstreams map[string]string
}

// List is what was read.
type List struct {
	Prices []*catalog.Price // by id; without effective dates
	Report Report
}

// Report says what a reading left out, so that nothing is missing silently.
type Report struct {
	Entries   int
	Skipped   []Skip         // entries that give no price, by key
	Providers map[string]int // entries of providers that were not read, by provider
	Unmetered map[string]int // costs that nothing here measures, such as seconds, by field
	Unknown   map[string]int // fields that nobody here knows, by field
	Rounded   []string       // costs with more than six decimals per 1M tokens
	Dropped   []string       // costs that cannot be right
}

// Skip is an entry that gives no price.
type Skip struct{ Key, Reason string }

// owners are the providers whose models have their names from them: a price of theirs holds wherever the model is
// served under that name, unless an upstream has a price of its own.
var owners = []string{
	"openai", "anthropic", "gemini", "mistral", "deepseek", "xai", "moonshot", "cohere", "dashscope", "zai", "perplexity",
	"minimax", "voyage", "jina_ai",
}

// family is the provider of an entry without the branch that it names: vertex_ai-anthropic_models is vertex_ai.
func family(provider string) string {
	switch provider {
	case "text-completion-openai":
		return "openai"
	case "cohere_chat":
		return "cohere"
	case "bedrock_converse", "bedrock_mantle":
		return "bedrock"
	case "azure_text":
		return "azure"
	}
	name, _, _ := strings.Cut(provider, "-")
	return name
}

// ErrFormat says that a text is no such list.
var ErrFormat = errors.New("is not LiteLLM's price list: an object with an object per model was expected")

// ReadLiteLLM reads LiteLLM's model_prices_and_context_window.json. Costs are decimals of USD and are taken exactly. The
// error is ErrFormat; what is wrong with an entry is in the report.
func ReadLiteLLM(text []byte, o Options) (List, error) {
	var entries map[string]map[string]json.RawMessage
	if err := json.Unmarshal(text, &entries); err != nil {
		return List{}, fmt.Errorf("%w (%v)", ErrFormat, err)
	}
	delete(entries, "sample_spec")
	if len(entries) == 0 {
		return List{}, ErrFormat
	}
	l := List{Report: Report{Entries: len(entries), Providers: map[string]int{}, Unmetered: map[string]int{}, Unknown: map[string]int{}}}
	byID := map[string]*catalog.Price{}
	keys := slices.SortedFunc(maps.Keys(entries), func(a, b string) int { // the bare name of a model before one with a prefix
		return cmp.Or(cmp.Compare(strings.Count(a, "/"), strings.Count(b, "/")), cmp.Compare(a, b))
	})
	for _, key := range keys {
		e := entry{key: key, fields: entries[key], report: &l.Report}
		p, reason := e.price(o)
		if reason != "" {
			l.Report.Skipped = append(l.Report.Skipped, Skip{key, reason})
		}
		if p == nil {
			continue
		}
		if other := byID[p.ID]; other != nil {
			if len(Differences(other, p)) > 0 {
				l.Report.Skipped = append(l.Report.Skipped, Skip{key, "differs from the entry that gave " + p.ID + " its price"})
			}
			continue
		}
		byID[p.ID] = p
		l.Prices = append(l.Prices, p)
	}
	slices.SortFunc(l.Prices, func(a, b *catalog.Price) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(l.Report.Skipped, func(a, b Skip) int { return cmp.Compare(a.Key, b.Key) })
	return l, nil
}

// entry is one model of the list.
type entry struct {
	key    string
	fields map[string]json.RawMessage
	report *Report

	flat     catalog.PriceRates
	tiers    map[int64]*catalog.PriceRates
	services map[string]*service
	costs    int // that are metered
	foreign  string
	fast     number // factor of the fast speed; nil digits if there is none
	fault    string
}

type service struct {
	flat  catalog.PriceRates
	tiers map[int64]*catalog.PriceRates
}

func (e *entry) text(field string) string {
	var s string
	_ = json.Unmarshal(e.fields[field], &s) // of another type: not there
	return s
}

func (e *entry) whole(fields ...string) int64 {
	for _, f := range fields {
		if n, err := strconv.ParseInt(strings.Trim(string(e.fields[f]), `"`), 10, 64); err == nil && n > 0 && n <= 1e9 {
			return n
		}
	}
	return 0
}

// name is what the model is called where it is served, and the upstream that its price is bound to. ok is false when
// the provider is not read.
func (e *entry) name(o Options) (model, upstream string, ok bool) {
	provider := e.text("litellm_provider")
	from := family(provider)
	upstream, bound := o.Upstreams[provider]
	if !bound {
		upstream, bound = o.Upstreams[from]
	}
	if !bound && !slices.Contains(owners, from) {
		e.report.Providers[cmp.Or(from, "(none)")]++
		return "", "", false
	}
	model = e.key
	for _, prefix := range []string{provider, from} {
		if rest, has := strings.CutPrefix(model, prefix+"/"); has {
			model = rest
			break
		}
	}
	return model, upstream, true
}

// price makes the resource. A reason says why there is none.
func (e *entry) price(o Options) (_ *catalog.Price, reason string) {
	model, upstream, ok := e.name(o)
	switch {
	case !ok:
		return nil, "" // counted by provider
	case bySize(model):
		return nil, "is the price of one size of picture"
	}
	e.read()
	if e.fault != "" {
		return nil, e.fault
	}
	mode := e.text("mode")
	if reason := e.settle(mode); reason != "" {
		return nil, reason
	}
	p := &catalog.Price{
		Model: model, Upstream: upstream, Source: string(pricing.Synced), Origin: "LiteLLM: " + e.key,
		MaxInputTokens: e.whole("max_input_tokens", "max_tokens"), MaxOutputTokens: e.whole("max_output_tokens", "max_tokens"),
	}
	p.ID = catalog.SyncedID(upstream, model)
	if !fits(p.ID) {
		return nil, "has a name that no price can have"
	}
	p.SetRates(e.flat)
	p.Tiers = tierList(e.tiers)
	for name, s := range e.services {
		if p.ServiceTiers == nil {
			p.ServiceTiers = map[string]catalog.ServicePrice{}
		}
		p.ServiceTiers[name] = catalog.ServicePrice{PriceRates: s.flat, Tiers: tierList(s.tiers)}
	}
	return p, ""
}

// fits says that a model's name can be that of a price.
func fits(id string) bool {
	return len(id) <= 100 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:@+/") == ""
}

// bySize says that a name starts with the size of a picture, as those of image models by size do.
func bySize(model string) bool {
	for _, part := range strings.Split(model, "/") {
		if w, h, ok := strings.Cut(part, "-x-"); ok && strings.Trim(w+h, "0123456789") == "" {
			return true
		}
	}
	return false
}

func tierList(tiers map[int64]*catalog.PriceRates) []catalog.PriceTier {
	var list []catalog.PriceTier
	for _, above := range slices.Sorted(maps.Keys(tiers)) {
		list = append(list, catalog.PriceTier{AboveInputTokens: above, PriceRates: *tiers[above]})
	}
	return list
}

// settle fills what the list takes for granted and refuses what would be a price in name only.
func (e *entry) settle(mode string) (reason string) {
	r := &e.flat
	if e.costs == 0 {
		if e.foreign != "" {
			return "is priced by " + e.foreign + ", which is not metered"
		}
		return "has no costs"
	}
	if r.Output == "" && r.ImageOutput != "" && mode == "image_generation" {
		r.Output = r.ImageOutput
	}
	if r.PerImage != "" && (r.ImageOutput != "" || r.Output != "" && r.Output != "0") {
		r.PerImage = "" // the list gives the same picture by the token and by the piece
	}
	if r.Output == "" && (mode == "chat" || mode == "completion" || mode == "responses") {
		return "has no output price"
	}
	r.Input, r.Output = cmp.Or(r.Input, "0"), cmp.Or(r.Output, "0")
	if e.free() && mode != "moderation" {
		return "is free in the list, which mostly means that nobody knows its price"
	}
	e.drop()
	e.quick()
	return ""
}

// free says that nothing costs anything.
func (e *entry) free() bool {
	r := e.flat
	for _, v := range []string{r.Input, r.Output, r.AudioInput, r.AudioOutput, r.ImageInput, r.ImageOutput, r.PerRequest, r.PerImage, r.PerWebSearch} {
		if v != "" && v != "0" {
			return false
		}
	}
	return true
}

// drop leaves out what cannot be right or says nothing.
func (e *entry) drop() {
	r := &e.flat
	if r.CacheWrite1h != "" && r.CacheWrite5m != "" && less(r.CacheWrite1h, r.CacheWrite5m) {
		e.report.Dropped = append(e.report.Dropped, fmt.Sprintf("%s: cache_write_1h %s is below the 5m price %s", e.key, r.CacheWrite1h, r.CacheWrite5m))
		r.CacheWrite1h = ""
	}
	if r.Reasoning == r.Output {
		r.Reasoning = "" // else a service tier would inherit it
	}
}

// quick prices the fast speed, for which the list has a factor.
func (e *entry) quick() {
	if e.fast.digits == nil || e.services["fast"] != nil {
		return
	}
	var s catalog.PriceRates
	for _, f := range []struct {
		from string
		to   *string
	}{
		{e.flat.Input, &s.Input}, {e.flat.Output, &s.Output}, {e.flat.CachedInput, &s.CachedInput},
		{e.flat.CacheWrite5m, &s.CacheWrite5m}, {e.flat.CacheWrite1h, &s.CacheWrite1h},
	} {
		if n, err := parseNumber(f.from); f.from != "" && err == nil {
			*f.to, _, _ = n.times(e.fast).price(perOne)
		}
	}
	e.service("fast").flat = s
}

// less compares two decimals.
func less(a, b string) bool {
	x, err := parseNumber(a)
	y, err2 := parseNumber(b)
	if err != nil || err2 != nil {
		return false
	}
	low := min(x.exponent, y.exponent)
	return scaled(x, low).Cmp(scaled(y, low)) < 0
}
