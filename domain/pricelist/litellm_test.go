package pricelist

import (
	"errors"
	"math/big"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/penstock/penstock/domain/catalog"
)

func read(t *testing.T, o Options) List {
	t.Helper()
	text, err := os.ReadFile("testdata/litellm.json")
	if err != nil {
		t.Fatal(err)
	}
	l, err := ReadLiteLLM(text, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Pains 65, 67; new-api and sub2api lose cache classes and tiers on import: each field of the list has its place.
func TestEveryCostOfTheListHasItsPlace_Pain65_67(t *testing.T) {
	l := read(t, Options{Upstreams: map[string]string{"groq": "groq-main"}})
	got := map[string]string{}
	for _, p := range l.Prices {
		if p.Source != "synced" || p.Origin == "" || p.EffectiveFrom != nil || p.ID != catalog.SyncedID(p.Upstream, p.Model) {
			t.Errorf("got %+v", p)
		}
		if _, err := p.Compile(""); err != nil {
			t.Error(err)
		}
		got[p.ID] = Line(p)
	}
	want := map[string]string{
		"synced/claude-sonnet-4-5": "cache_write_1h 6, cache_write_5m 3.75, cached_input 0.3, input 3, max_input_tokens 200000, max_output_tokens 64000, output 15, per_web_search 0.01, " +
			"tiers[200000].cache_write_1h 12, tiers[200000].cache_write_5m 7.5, tiers[200000].cached_input 0.6, tiers[200000].input 6, tiers[200000].output 22.5",
		"synced/claude-opus-4-6": "cached_input 0.5, input 5, max_input_tokens 1000000, max_output_tokens 128000, output 25, " +
			"service_tiers.fast.cached_input 3, service_tiers.fast.input 30, service_tiers.fast.output 150",
		"synced/claude-3-opus-20240229": "cache_write_5m 18.75, input 15, output 75",
		"synced/gpt-5.4": "cached_input 0.25, input 2.5, output 15, per_file_search 0.0025, service_tiers.batch.input 1.25, service_tiers.flex.cached_input 0.13, service_tiers.flex.input 1.25, " +
			"service_tiers.flex.output 7.5, service_tiers.priority.cached_input 0.5, service_tiers.priority.input 5, service_tiers.priority.output 30, " +
			"tiers[272000].cached_input 0.5, tiers[272000].input 5, tiers[272000].output 22.5",
		"synced/gpt-audio":                     "audio_input 32, audio_output 64, input 2.5, output 10",
		"synced/gpt-image-1":                   "image_input 10, image_output 40, input 5, output 40",
		"synced/omni-moderation-latest":        "input 0, output 0",
		"synced/text-embedding-3-small":        "input 0.02, max_input_tokens 8191, output 0",
		"synced/gemini-2.5-pro":                "cached_input 0.125, input 1.25, output 10, service_tiers.priority.tiers[200000].input 4.5, tiers[200000].input 2.5",
		"synced/qwen-plus":                     "input 0.4, max_input_tokens 997952, output 1.2, reasoning 4, tiers[256000].input 1.2, tiers[256000].output 3.6",
		"synced/groq-main/openai/gpt-oss-120b": "cached_input 0.075, input 0.15, output 0.6",
		"synced/deepseek-chat":                 "input 0.28, output 0.42",
	}
	if !reflect.DeepEqual(got, want) {
		for id := range want {
			if got[id] != want[id] {
				t.Errorf("%s\n got %s\nwant %s", id, got[id], want[id])
			}
			delete(got, id)
		}
		t.Errorf("beside them %v", got)
	}
}

func TestNothingIsLeftOutWithoutAWord(t *testing.T) {
	l := read(t, Options{})
	var skipped []string
	for _, s := range l.Report.Skipped {
		skipped = append(skipped, s.Key+" "+s.Reason)
	}
	want := []string{
		"deepseek/deepseek-chat differs from the entry that gave synced/deepseek-chat its price",
		"gemini/gemini-exp is free in the list, which mostly means that nobody knows its price",
		"grok-below input_cost_per_token: is negative",
		"grok-broken input_cost_per_token: is no number",
		"grok-half has no output price",
		"high/1024-x-1024/gpt-image-1 is the price of one size of picture",
		"whisper-1 is priced by input_cost_per_second, which is not metered",
	}
	if !slices.Equal(skipped, want) {
		t.Errorf("skipped\n got %s\nwant %s", strings.Join(skipped, "\n     "), strings.Join(want, "\n     "))
	}
	r := l.Report
	if !reflect.DeepEqual(r.Providers, map[string]int{"groq": 1, "vertex_ai": 1}) {
		t.Errorf("providers %v", r.Providers)
	}
	if !reflect.DeepEqual(r.Unmetered, map[string]int{"input_cost_per_second": 1, "provider_specific_entry.us": 1, "regional_processing_uplift_multiplier_eu": 1}) {
		t.Errorf("unmetered %v", r.Unmetered)
	}
	if !reflect.DeepEqual(r.Unknown, map[string]int{"brand_new_field": 1}) {
		t.Errorf("unknown %v", r.Unknown)
	}
	if len(r.Dropped) != 1 || !strings.Contains(r.Dropped[0], "claude-3-opus-20240229: cache_write_1h 6 is below the 5m price 18.75") {
		t.Errorf("dropped %v", r.Dropped)
	}
	bound := read(t, Options{Upstreams: map[string]string{"groq": "g", "vertex_ai": "v"}})
	if len(bound.Report.Rounded) != 1 || !strings.Contains(bound.Report.Rounded[0], "1.5000000000000002e-07 is taken as 0.15") || len(bound.Report.Providers) != 0 {
		t.Errorf("rounded %v, providers %v", bound.Report.Rounded, bound.Report.Providers)
	}
	if r.Entries != len(l.Prices)+len(r.Skipped)+2 {
		t.Errorf("%d entries, %d prices, %d skipped, 2 of other providers", r.Entries, len(l.Prices), len(r.Skipped))
	}
}

func TestNumbersAreReadExactly(t *testing.T) {
	for s, want := range map[string]string{
		"1.25e-06": "1.25", "1.25E-06": "1.25", "0.00000125": "1.25", "3e-7": "0.3", "0": "0", "0.0": "0", "2.5e-05": "25", "1e-12": "0.000001", "1": "1000000",
		"1.5000000000000002e-07": "0.15", "5e-13": "0", "1.5e-12": "0.000002", "2.5e-12": "0.000002", "2.50000000001e-12": "0.000003", "7.629e-8": "0.07629", "-0": "0",
	} {
		n, err := parseNumber(s)
		if err != nil {
			t.Errorf("%s: %v", s, err)
			continue
		}
		got, exact, err := n.price(perMillion)
		// The oracle: a rational of the same text.
		r, _ := new(big.Rat).SetString(s)
		r.Mul(r, big.NewRat(1_000_000_000_000, 1))
		if err != nil || got != want || exact != r.IsInt() {
			t.Errorf("%s: %s, exact %v, %v; want %s", s, got, exact, err, want)
		}
	}
	for _, s := range []string{"", "x", "1e", "e5", "1.", ".5", "1e99", "1e-99", "0x1", "1_0", "--1", "1.-5", "NaN", "Infinity", "1e5.5", "1 ", strings.Repeat("9", 80)} {
		if n, err := parseNumber(s); err == nil {
			t.Errorf("%q: %v", s, n)
		}
	}
	for s, want := range map[string]string{"-1e-6": "is negative", "1e9": "is out of range"} {
		n, err := parseNumber(s)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := n.price(perMillion); err == nil || err.Error() != want {
			t.Errorf("%s: %v", s, err)
		}
	}
}

func TestWhatIsNoListIsRefused(t *testing.T) {
	for _, text := range []string{"", "[]", "{}", `{"sample_spec":{}}`, `{"a":1}`, `{"a":{}`, `"x"`, "null"} {
		if l, err := ReadLiteLLM([]byte(text), Options{}); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %+v, %v", text, l, err)
		}
	}
}

func FuzzReadLiteLLM(f *testing.F) {
	text, err := os.ReadFile("testdata/litellm.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"m":{"litellm_provider":"openai","mode":"chat","tiered_pricing":[{"range":[1e30,2],"input_cost_per_token":1e-60}],"provider_specific_entry":{"fast":1e60}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := ReadLiteLLM(text, Options{Upstreams: map[string]string{"groq": "g"}})
		if err != nil {
			return
		}
		for _, p := range l.Prices {
			if _, err := p.Compile(""); err != nil && !strings.Contains(err.Error(), "must be 0..") {
				t.Error(err)
			}
		}
	})
}
