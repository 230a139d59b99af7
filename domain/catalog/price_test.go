package catalog

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/pricing"
)

// decoded is a price read from the form of resource files and brought into a catalogue.
func decoded(t *testing.T, text string) *Price {
	t.Helper()
	r, _, err := DecodeResource(KindPrice, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	c := checker{ref: Ref{KindPrice, r.Ident()}}
	p := c.price(*r.(*Price)).(*Price)
	if err := errors.Join(c.faults...); err != nil {
		t.Fatal(err)
	}
	return p
}

const fullPrice = `{"model":"gpt-x","input":"2.50","output":15,"cached_input":"0.25","cache_write_5m":"3","reasoning":"16","audio_input":"32","image_output":"40",
	"per_request":"0.001","per_image":"0.04","per_web_search":"0.01","per_file_search":"0.0025","max_input_tokens":400000,"max_output_tokens":128000,"origin":"the price page, 2026-11-29",
	"tiers":[{"above_input_tokens":272000,"input":"5","output":"22.5"},{"above_input_tokens":128000,"inclusive":true,"input":"4"}],
	"service_tiers":{"flex":{"input":"1.25","output":"7.5"},"priority":{"input":"5","output":"30","tiers":[{"above_input_tokens":272000,"input":"11","output":"33"}]}}}`

func TestAPriceIsReadWholeAndComesOutAsItWasPut(t *testing.T) {
	p := decoded(t, fullPrice)
	if p.ID != "gpt-x" || p.Input != "2.5" || p.Output != "15" || p.Tiers[0].AboveInputTokens != 128000 || p.ServiceTiers["priority"].Tiers[0].Input != "11" {
		t.Fatalf("got %+v", p)
	}
	text, err := json.Marshal(Public(p))
	if err != nil {
		t.Fatal(err)
	}
	if again := decoded(t, string(text)); !reflect.DeepEqual(again, p) {
		t.Errorf("read again\n got %+v\nwant %+v", again, p)
	}
}

func TestTiersAndServicesInheritWhatTheyDoNotSay(t *testing.T) {
	sheet, err := decoded(t, fullPrice).Compile("v")
	if err != nil {
		t.Fatal(err)
	}
	type rates struct{ in, cached, w5, w1, out, thought, audio, image pricing.Price }
	of := func(p *pricing.Rates) rates {
		return rates{p.Input, p.CachedInput, p.CacheWrite5m, p.CacheWrite1h, p.Output, p.Reasoning, p.AudioInput, p.ImageOutput}
	}
	const m = 1_000_000
	for _, c := range []struct {
		tier  string
		input int64
		want  rates
	}{
		{"", 1, rates{2.5 * m, 0.25 * m, 3 * m, 3 * m, 15 * m, 16 * m, 32 * m, 40 * m}},
		{"", 128_000, rates{4 * m, 0.25 * m, 3 * m, 3 * m, 15 * m, 16 * m, 32 * m, 40 * m}},
		{"", 272_001, rates{5 * m, 0.25 * m, 3 * m, 3 * m, 22.5 * m, 16 * m, 32 * m, 40 * m}},
		{"flex", 1, rates{1.25 * m, 0.25 * m, 3 * m, 3 * m, 7.5 * m, 16 * m, 32 * m, 40 * m}},
		{"flex", 272_001, rates{5 * m, 0.25 * m, 3 * m, 3 * m, 22.5 * m, 16 * m, 32 * m, 40 * m}},
		{"priority", 272_001, rates{11 * m, 0.25 * m, 3 * m, 3 * m, 33 * m, 16 * m, 32 * m, 40 * m}},
	} {
		q, ok := (pricing.Sheets{Manual: sheet}).Quote(c.tier, c.input)
		if got := of(q.Rates); !ok || got != c.want {
			t.Errorf("%q at %d\n got %+v\nwant %+v", c.tier, c.input, got, c.want)
		}
	}
	if f := sheet.Flat; f.PerRequest.String() != "0.001" || f.PerImage.String() != "0.04" || f.PerWebSearch.String() != "0.01" || f.PerFileSearch.String() != "0.0025" {
		t.Errorf("things: %+v", f)
	}
	if sheet.MaxInput != 400_000 || sheet.MaxOutput != 128_000 || sheet.Origin != pricing.Manual || sheet.Version != "v" {
		t.Errorf("got %+v", sheet)
	}
}

func TestWhatIsWrongWithAPriceIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		`{"model":"m"}`: `price m: input: is required ("0" is free) | price m: output: is required ("0" is free)`,
		`{"model":"m","input":"-1","output":"1000001"}`:                  "price m: input: must be 0..1000000 | price m: output: must be 0..1000000",
		`{"model":"m","input":"0","output":"0","reasoning":"1.1234567"}`: `price m: reasoning: must be a decimal such as "2.5" with at most 6 decimals: more than 6 decimals`,
		`{"model":"m","input":"0","output":"0","source":"guessed"}`:      "price m: source: must be manual or synced",
		`{"model":"m","input":"0","output":"0","max_output_tokens":-1}`:  "price m: max_output_tokens: must be 0..1,000,000,000",
		`{"model":"m","input":"0","output":"0","tiers":[{"above_input_tokens":-1,"input":"1"},{"above_input_tokens":5},{"above_input_tokens":5,"per_image":"x"}]}`: "price m: tiers[0].above_input_tokens: must be 0..1,000,000,000 | price m: tiers[1]: sets no price | " +
			`price m: tiers[2].above_input_tokens: 5 is named twice | price m: tiers[2].per_image: must be a decimal such as "2.5" with at most 6 decimals: not a decimal number`,
		`{"model":"m","input":"0","output":"0","service_tiers":{"default":{"input":"1"},"batches":{"input":"1"},"Flex":{"input":"1"},"flex":{},"a b":{"tiers":[{"above_input_tokens":1}]}}}`: "price m: service_tiers.Flex: must be spelled flex | " +
			"price m: service_tiers.a b: must be the name of a service tier such as flex | price m: service_tiers.a b.tiers[0]: sets no price | price m: service_tiers.batches: must be spelled batch | " +
			"price m: service_tiers.default: is the ordinary tier, which the price itself is for | price m: service_tiers.flex: sets no price",
	} {
		r, _, err := DecodeResource(KindPrice, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		c := checker{ref: Ref{KindPrice, r.Ident()}}
		c.price(*r.(*Price))
		if got := strings.ReplaceAll(errors.Join(c.faults...).Error(), "\n", " | "); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}

// Sub2api#3315, #6566: what an operator sets comes before what was synced, whichever is more special or newer.
func TestSyncedPricesNeverOverrideManualOnes(t *testing.T) {
	s := NewState()
	at := noon.Add(-time.Hour)
	apply(t, s, upstream("up"))
	for _, p := range []*Price{
		{Model: "gpt-x", Source: "synced", Input: "1", Output: "1", Tiers: []PriceTier{{AboveInputTokens: 1000, PriceRates: PriceRates{Input: "9"}}}},
		{ID: "synced/gpt-x@later", Model: "gpt-x", Source: "synced", EffectiveFrom: &at, Input: "2", Output: "1"},
		{Model: "gpt-*", Input: "3", Output: "1"},
		{Model: "gpt-y", Source: "synced", Input: "4", Output: "1"},
		{Model: "gpt-y", Upstream: "up", Source: "synced", Input: "5", Output: "1"},
		{Model: "claude-z", Source: "synced", Input: "6", Output: "1"},
		{Model: "house", Source: "manual", Input: "7", Output: "1"},
	} {
		apply(t, s, p)
	}
	if _, _, ok := s.Get(KindPrice, "synced/up/gpt-y"); !ok {
		t.Fatal("a synced price took the id of a manual one")
	}
	b := Build(s, nil)
	var book pricing.Book = b
	for _, c := range []struct {
		model, sent, upstream string
		at                    time.Time
		manual, synced        string
	}{
		{"gpt-x", "", "up", noon, "gpt-*@1", "synced/gpt-x@later@1"},
		{"gpt-x", "", "up", at.Add(-1), "gpt-*@1", "synced/gpt-x@1"},
		{"gpt-y", "", "up", noon, "gpt-*@1", "synced/up/gpt-y@1"},
		{"gpt-y", "", "other", noon, "gpt-*@1", "synced/gpt-y@1"},
		{"claude-z", "", "up", noon, "", "synced/claude-z@1"},
		{"house", "claude-z", "up", noon, "house@1", "synced/claude-z@1"},
		{"nothing", "", "up", noon, "", ""},
	} {
		got := book.Sheets(c.model, c.sent, c.upstream, c.at)
		if version(got.Manual) != c.manual || version(got.Synced) != c.synced {
			t.Errorf("%s: %s and %s, want %s and %s", c.model, version(got.Manual), version(got.Synced), c.manual, c.synced)
		}
	}
	if q, _ := b.Sheets("gpt-x", "", "up", at.Add(-1)).Quote("", 1001); q.Version != "synced/gpt-x@1" || q.Rates.Input != 9_000_000 {
		t.Errorf("a synced tier comes before a manual flat price: %+v", q)
	}
	if got := flat(b, "gpt-x", "", "up", noon); got != "gpt-*@1" {
		t.Errorf("flat: %q", got)
	}
}

// A list of prices says nothing of what an upstream serves.
func TestSyncedPricesNameNoModelsUnlessTheyAreOfTheUpstream(t *testing.T) {
	s := NewState()
	apply(t, s, upstream("up"))
	for _, p := range []*Price{
		{Model: "mine", Input: "1", Output: "1"}, {Model: "listed", Source: "synced", Input: "1", Output: "1"},
		{Model: "bound", Upstream: "up", Source: "synced", Input: "1", Output: "1"},
	} {
		apply(t, s, p)
	}
	k := &Key{ID: "k", Hash: shaHash(1), Access: Unrestricted}
	apply(t, s, k)
	b := Build(s, nil)
	if got := strings.Join(b.Models(k), " "); got != "bound mine" {
		t.Errorf("got %s", got)
	}
	for name, want := range map[string]bool{"mine": true, "bound": true, "listed": false} {
		if got := b.Names(b.Upstream("up"), name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func version(s *pricing.Sheet) string {
	if s == nil {
		return ""
	}
	return s.Version
}

// What a strict budget reserves is the dearest of the candidates, or a refusal that says which of them has no bound.
func TestTheWorstCaseIsTheDearestOffer(t *testing.T) {
	s := NewState()
	k := &Key{ID: "k", Hash: shaHash(1), Access: Unrestricted, Group: "g", Multiplier: "1.5"}
	dear := upstream("dear")
	dear.Multipliers.Input = "3"
	for _, r := range []Resource{
		upstream("cheap"), dear, &Group{ID: "g", Multiplier: "2"}, k,
		&Price{Model: "m", Input: "1", Output: "1"}, &Price{Model: "o", Input: "1", Output: "1", Upstream: "cheap"},
	} {
		apply(t, s, r)
	}
	b := Build(s, nil)
	ask := pricing.Ask{Input: 1_000_000, MaxOutput: 1_000_000}
	offer := func(id, model string) Offer { return Offer{Upstream: b.Upstream(id), Model: model} }
	for _, c := range []struct {
		offers           []Offer
		upstream, caller string
	}{
		{[]Offer{offer("cheap", "m")}, "2.0000000016", "6.0000000016"},
		{[]Offer{offer("cheap", "m"), offer("dear", "m")}, "4.0000000016", "12.0000000016"},
		{nil, "0", "0"},
	} {
		got, err := b.Worst(Payer{"g", k.ID}, ask, noon, c.offers...)
		if err != nil || got.Upstream.String() != c.upstream || got.Caller.String() != c.caller {
			t.Errorf("%d offers: %s and %s, %v", len(c.offers), got.Upstream, got.Caller, err)
		}
	}
	if _, err := b.Worst(Payer{"g", k.ID}, ask, noon, offer("cheap", "o"), offer("dear", "o")); !errors.Is(err, pricing.ErrUnboundable) || !strings.Contains(err.Error(), "model o at upstream dear") {
		t.Errorf("got %v", err)
	}
}
