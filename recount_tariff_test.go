package penstock_test

import (
	"math/big"
	"path"
	"strings"
)

// The second opinion on bills: prices and arithmetic of their own, in exact fractions, and nothing of the gateway's. A tariff is
// the JSON that the gateway gets, read in the plainest way.
type tariff map[string]any

func (t tariff) text(name string) string { s, _ := t[name].(string); return s }

// rates are the members of a tariff, a tier or a service that say what something costs.
func rates(m map[string]any) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		if s, ok := v.(string); ok && k != "model" && k != "upstream" && k != "source" && k != "kind" {
			out[k] = s
		}
	}
	return out
}

func laid(base map[string]string, over ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range append([]map[string]string{base}, over...) {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

// longest is the tier of a list for an input.
func longest(list any, input int64) map[string]any {
	var found map[string]any
	tiers, _ := list.([]map[string]any)
	for _, t := range tiers {
		above := int64(t["above_input_tokens"].(int))
		if (input > above || t["inclusive"] == true && input == above) && (found == nil || above > int64(found["above_input_tokens"].(int))) {
			found = t
		}
	}
	return found
}

// of is what a tariff asks: the rates, and whether they are those of a long input.
func (t tariff) of(service string, input int64) (map[string]string, bool) {
	base := rates(t)
	services, _ := t["service_tiers"].(map[string]any)
	s, _ := services[service].(map[string]any)
	base = laid(base, rates(s))
	long, own := longest(t["tiers"], input), longest(s["tiers"], input)
	step := func(m map[string]any) int { n, _ := m["above_input_tokens"].(int); return n }
	switch { // the highest step that the input has reached; where both have it, the service's comes before
	case own == nil && long == nil:
		return base, false
	case step(own) > step(long):
		return laid(base, rates(own)), true
	case step(own) < step(long):
		return laid(base, rates(long)), true
	}
	return laid(base, rates(long), rates(own)), true
}

// tariffs are all that the gateway was given.
type tariffs []tariff

// named finds the tariff of a source: this upstream's before the general one, an exact name before a pattern.
func (all tariffs) named(source, model, upstream string) tariff {
	for _, step := range []struct {
		upstream string
		glob     bool
	}{{upstream, false}, {"", false}, {upstream, true}, {"", true}} {
		for _, t := range all {
			hit := t.text("model") == model
			if step.glob {
				hit, _ = path.Match(t.text("model"), model)
			}
			if hit && t.text("source") == source && t.text("upstream") == step.upstream {
				return t
			}
		}
	}
	return nil
}

// rates for an attempt: the tier of what people set, of what was read from a list, then the flat prices in that order. nil: none.
func (all tariffs) rates(model, upstream, tier string, input int64) map[string]string {
	service := strings.ToLower(tier)
	if service == "default" || service == "standard" {
		service = ""
	}
	var flat map[string]string
	for _, source := range []string{"", "synced"} {
		t := all.named(source, model, upstream)
		if t == nil {
			continue
		}
		r, long := t.of(service, input)
		if long {
			return r
		}
		if flat == nil {
			flat = r
		}
	}
	return flat
}

// spending is a usage by class, under the names of the prices of each.
type spending map[string]int64

func (s spending) input() (n int64) {
	for _, class := range []string{"input", "cached_input", "cache_write_5m", "cache_write_1h", "audio_input", "image_input"} {
		n += s[class]
	}
	return n
}

// fallbacks say which price counts where a class has none.
var fallbacks = map[string]string{
	"cached_input": "input", "cache_write_5m": "input", "cache_write_1h": "cache_write_5m", "audio_input": "input", "image_input": "input",
	"reasoning": "output", "audio_output": "output", "image_output": "output",
}

func rate(r map[string]string, class string) *big.Rat {
	for r[class] == "" && fallbacks[class] != "" {
		class = fallbacks[class]
	}
	return fraction(r[class])
}

func fraction(s string) *big.Rat {
	if s == "" {
		return new(big.Rat)
	}
	f, ok := new(big.Rat).SetString(s)
	if !ok {
		panic("no number: " + s)
	}
	return f
}

var unit = big.NewInt(1e10) // of an amount, in a dollar

// units is a fraction of a dollar in units of 1e-10, rounded half to even.
func units(usd *big.Rat) *big.Int {
	n := new(big.Rat).Mul(usd, new(big.Rat).SetInt(unit))
	twice := new(big.Int).Lsh(n.Num(), 1)
	q, rest := new(big.Int).QuoRem(new(big.Int).Add(twice, n.Denom()), new(big.Int).Lsh(n.Denom(), 1), new(big.Int))
	if rest.Sign() == 0 && q.Bit(0) == 1 {
		q.Sub(q, big.NewInt(1))
	}
	return q
}

// cost is the sum over the classes, each rounded by itself. in and out scale the tokens, the factors everything; "" is 1.
func (s spending) cost(r map[string]string, in, out string, factors ...string) *big.Int {
	sum, f := new(big.Int), big.NewRat(1, 1)
	for _, x := range factors {
		if x != "" {
			f.Mul(f, fraction(x))
		}
	}
	million := big.NewRat(1, 1e6)
	add := func(n int64, class string, by ...*big.Rat) {
		v := new(big.Rat).Mul(new(big.Rat).SetInt64(n), rate(r, class))
		for _, m := range append(by, f) {
			v.Mul(v, m)
		}
		sum.Add(sum, units(v))
	}
	for _, class := range []string{"input", "cached_input", "cache_write_5m", "cache_write_1h", "audio_input", "image_input"} {
		add(s[class], class, fraction(in), million)
	}
	text := s["output"]
	if rate(r, "reasoning").Cmp(rate(r, "output")) != 0 {
		add(s["reasoning"], "reasoning", fraction(out), million)
		text -= s["reasoning"]
	}
	add(text, "output", fraction(out), million)
	add(s["audio_output"], "audio_output", fraction(out), million)
	add(s["image_output"], "image_output", fraction(out), million)
	add(1, "per_request")
	add(s["images"], "per_image")
	add(s["web_searches"], "per_web_search")
	add(s["file_searches"], "per_file_search")
	return sum
}

// dollars writes units as the bill does.
func dollars(n *big.Int) string {
	s := new(big.Rat).SetFrac(n, unit).FloatString(10)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}
