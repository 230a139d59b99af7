package pricing

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/money"
)

// long is a sheet with a flat price of in and out, and a tier above 200,000 tokens of twice that.
func long(version string, origin Origin, in, out Price) *Sheet {
	return &Sheet{
		Ladder:  Ladder{Flat: rated(in, out), Tiers: []Tier{{Above: 200_000, Rates: rated(2*in, 2*out)}}},
		Version: version, Origin: origin,
	}
}

func flat(version string, origin Origin, in, out Price) *Sheet {
	return &Sheet{Ladder: Ladder{Flat: rated(in, out)}, Version: version, Origin: origin}
}

// rated has every fallback applied.
func rated(in, out Price) Rates {
	return Rates{Input: in, CachedInput: in, CacheWrite5m: in, CacheWrite1h: in, AudioInput: in, ImageInput: in,
		Output: out, Reasoning: out, AudioOutput: out, ImageOutput: out}
}

// The order of DESIGN §8: manual tier, synced tier, manual flat, synced flat.
func TestPricesResolveInTheirOrder(t *testing.T) {
	for _, c := range []struct {
		name   string
		sheets Sheets
		input  int64
		want   string
		price  Price
	}{
		{"manual flat before synced flat", Sheets{flat("m", Manual, 3, 9), flat("s", Synced, 5, 9)}, 10, "m", 3},
		{"manual tier before synced tier", Sheets{long("m", Manual, 3, 9), long("s", Synced, 5, 9)}, 200_001, "m", 6},
		{"synced tier before manual flat", Sheets{flat("m", Manual, 3, 9), long("s", Synced, 5, 9)}, 200_001, "s", 10},
		{"manual flat below the synced tier", Sheets{flat("m", Manual, 3, 9), long("s", Synced, 5, 9)}, 200_000, "m", 3},
		{"synced alone", Sheets{nil, long("s", Synced, 5, 9)}, 1, "s", 5},
		{"a manual tier from nothing on keeps synced tiers out", Sheets{
			&Sheet{Ladder: Ladder{Flat: rated(3, 9), Tiers: []Tier{{Above: 0, Rates: rated(4, 9)}}}, Version: "m", Origin: Manual}, long("s", Synced, 5, 9)}, 300_000, "m", 4},
	} {
		q, ok := c.sheets.Quote("", c.input)
		if !ok || q.Version != c.want || q.Rates.Input != c.price || (q.Origin == Manual) != (c.want == "m") {
			t.Errorf("%s: got %+v, %v", c.name, q, ok)
		}
	}
	if q, ok := (Sheets{}).Quote("", 1); ok {
		t.Errorf("no price: %+v", q)
	}
}

func TestTheThresholdIsExclusiveUnlessItSaysOtherwise(t *testing.T) {
	s := long("s", Synced, 1, 1)
	for input, want := range map[int64]Price{199_999: 1, 200_000: 1, 200_001: 2} {
		if q, _ := (Sheets{Synced: s}).Quote("", input); q.Rates.Input != want {
			t.Errorf("%d tokens: %+v", input, q)
		}
	}
	s.Tiers[0].Inclusive = true
	if q, _ := (Sheets{Synced: s}).Quote("", 200_000); q.Rates.Input != 2 {
		t.Errorf("inclusive: %+v", q)
	}
}

// Pain 67: priority and long inputs do not multiply ($20/$90 instead of $10/$45); the tier is the upstream's word.
func TestServiceTiersArePricedByWhatWasReported_Pain67(t *testing.T) {
	s := long("s", Synced, 5, 30)
	s.Services = map[string]*Ladder{
		"flex":     {Flat: rated(2, 15)},
		"priority": {Flat: rated(10, 60), Tiers: []Tier{{Above: 200_000, Rates: rated(10, 45)}}},
	}
	for _, c := range []struct {
		reported  string
		input     int64
		want      Price
		inherited bool
	}{
		{"", 1, 5, false}, {"default", 1, 5, false}, {"standard", 1, 5, false}, {"auto", 300_000, 10, false}, {"PROVISIONED_THROUGHPUT", 1, 5, false},
		{"flex", 1, 2, false}, {"ON_DEMAND_FLEX", 1, 2, false}, {"priority", 1, 10, false}, {"priority", 200_001, 10, false},
		{"fast", 1, 10, false}, {"batch", 1, 5, true}, {"scale", 300_000, 10, true},
	} {
		q, _ := (Sheets{Synced: s}).Quote(c.reported, c.input)
		if q.Rates.Input != c.want || q.Inherited != c.inherited {
			t.Errorf("%q at %d: %+v", c.reported, c.input, q)
		}
	}
}

// fixed is a book of one model.
type fixed Sheets

func (f fixed) Sheets(_, _, _ string, _ time.Time) Sheets { return Sheets(f) }

// A81, A82, B24, C51, E37, E40: one funnel prices every attempt and says by which price; no price is a state of its own.
func TestEveryAttemptIsPricedOrSaysWhyNot_A82_B24_C51_E37_E40_Pain5(t *testing.T) {
	book := fixed{Synced: long("p@3", Synced, 2_000_000, 8_000_000)}
	got := Settle(book, Call{Model: "m", ServiceTier: "flex"}, Usage{Input: 100, CachedInput: 200_000, Output: 50}, Plain())
	if got.Version != "p@3" || got.Origin != Synced || got.Rates != &book.Synced.Tiers[0].Rates || !got.Inherited || got.Unpriced || got.Caller.Total.String() != "0.8012" {
		t.Errorf("got %+v, %s", got.Quote, got.Caller.Total)
	}
	if got := Settle(fixed{}, Call{Model: "m"}, Usage{Input: 1}, Plain()); !got.Unpriced || got.Reason != PriceNotFound || got.Caller.Total != 0 {
		t.Errorf("unpriced: %+v", got)
	}
	if got := Settle(fixed{}, Call{Model: "m"}, Usage{}, Plain()); got != (Bill{}) {
		t.Errorf("nothing used: %+v", got)
	}
	over := fixed{Manual: flat("m", Manual, 1<<62, 0)}
	if got := Settle(over, Call{}, Usage{Input: 1 << 60}, Plain()); !got.Unpriced || got.Reason != CalculationError {
		t.Errorf("overflow: %+v", got)
	}
}

func TestReasoningMayHaveItsOwnPriceAndThingsTheirs(t *testing.T) {
	p := rated(1_000_000, 8_000_000)
	p.Reasoning, p.AudioOutput, p.PerImage, p.PerWebSearch, p.PerFileSearch = 3_000_000, 20_000_000, money.USD/25, money.USD/100, money.USD/400
	got, err := cost(&p, Usage{Output: 1000, Reasoning: 400, AudioOutput: 10, Images: 2, WebSearches: 3, FileSearches: 4}, Plain())
	c := got.Caller
	if err != nil || c.Output.String() != "0.0048" || c.Reasoning.String() != "0.0012" || c.AudioOutput.String() != "0.0002" ||
		c.Images.String() != "0.08" || c.WebSearches.String() != "0.03" || c.FileSearches.String() != "0.01" || c.Total.String() != "0.1262" {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestTheKeyMultipliesOnTopOfItsGroup(t *testing.T) {
	p := rated(1_000_000, 0)
	half, twice := One/2, 2*One
	for _, c := range []struct {
		key  *Multiplier
		want string
	}{{nil, "3"}, {&half, "1.5"}, {&twice, "6"}, {new(Multiplier), "0"}} {
		got, err := cost(&p, Usage{Input: 1_000_000}, Multipliers{One, One, 3 * One, c.key})
		if err != nil || got.Caller.Total.String() != c.want || got.Upstream.Total.String() != "1" {
			t.Errorf("got %s, want %s, %v", got.Caller.Total, c.want, err)
		}
	}
}

// randomSheets has prices of both origins, tiers and services, any of which may be missing.
func randomSheets(r dice) Sheets {
	ladder := func() Ladder {
		l := Ladder{Flat: *r.rates(24)}
		for above := int64(1 << 16); above > 0 && r.IntN(3) > 0; above /= 16 {
			l.Tiers = append(l.Tiers, Tier{above, r.IntN(2) == 0, *r.rates(24)})
		}
		return l
	}
	sheet := func(origin Origin) *Sheet {
		if r.IntN(4) == 0 {
			return nil
		}
		s := &Sheet{Ladder: ladder(), Services: map[string]*Ladder{}, Version: string(origin), Origin: origin}
		for _, name := range []string{"flex", "priority"} {
			if r.IntN(2) == 0 {
				l := ladder()
				s.Services[name] = &l
			}
		}
		return s
	}
	return Sheets{sheet(Manual), sheet(Synced)}
}

// split spreads at most n tokens over classes.
func split(r dice, n int64, classes ...*int64) {
	for _, c := range classes {
		*c = r.Int64N(n + 1)
		n -= *c
	}
}

// Pains 23, 24, 73: what is reserved is never less than what is settled, whatever the upstream reports.
func TestNoAttemptCostsMoreThanItsWorstCase_Pain23_24_73(t *testing.T) {
	r := dice{rand.New(rand.NewPCG(3, 14))}
	priced := 0
	for i := range 15_000 {
		sheets := randomSheets(r)
		ask := Ask{Input: r.number(20), MaxOutput: 1 + r.number(16), Choices: 1 + r.Int64N(3), Images: r.Int64N(3), WebSearches: r.Int64N(3), FileSearches: r.Int64N(3)}
		m := r.multipliers()
		bound, err := sheets.Worst(ask, m)
		if sheets == (Sheets{}) {
			if !errors.Is(err, ErrUnboundable) {
				t.Fatalf("no price: %+v, %v", bound, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var u Usage
		split(r, ask.Input, &u.CacheWrite1h, &u.Input, &u.CachedInput, &u.AudioInput, &u.CacheWrite5m, &u.ImageInput)
		split(r, ask.MaxOutput*ask.Choices, &u.AudioOutput, &u.Output, &u.ImageOutput)
		if i%3 == 0 {
			u.Input += ask.Input - u.InputTotal()
			u.Output += ask.MaxOutput*ask.Choices - u.OutputTotal()
		}
		u.Reasoning = r.Int64N(u.Output + 1)
		u.Images, u.WebSearches, u.FileSearches = ask.Images, ask.WebSearches, ask.FileSearches
		tier := []string{"", "flex", "priority", "fast", "batch", "default"}[r.IntN(6)]
		bill := Settle(fixed(sheets), Call{ServiceTier: tier}, u, m)
		if bill.Unpriced || bill.Upstream.Total > bound.Upstream || bill.Caller.Total > bound.Caller {
			t.Fatalf("case %d: %+v at %q costs %s and %s, bound %+v", i, u, tier, bill.Upstream.Total, bill.Caller.Total, bound)
		}
		priced++
	}
	if priced < 10_000 {
		t.Fatalf("only %d cases had a price", priced)
	}
}

// BUDGET_UNBOUNDABLE: nobody knows the most.
func TestWhatHasNoMostIsUnboundable(t *testing.T) {
	free := rated(0, 0)
	search := flat("m", Manual, 1, 1)
	search.Flat.PerWebSearch = 1
	limited := flat("m", Manual, 1_000_000, 2_000_000)
	limited.MaxInput, limited.MaxOutput = 1000, 100
	for _, c := range []struct {
		name   string
		sheets Sheets
		ask    Ask
		want   string // of the caller; "" is unboundable
	}{
		{"no price", Sheets{}, Ask{MaxOutput: 1}, ""},
		{"no max_tokens and no limit of the model", Sheets{Manual: flat("m", Manual, 1, 1)}, Ask{Input: 1}, ""},
		{"no bound on the input", Sheets{Manual: flat("m", Manual, 1, 1)}, Ask{Input: Unknown, MaxOutput: 1}, ""},
		{"the limits of the model", Sheets{Manual: limited}, Ask{Input: Unknown}, "0.0012000016"},
		{"the limits of a synced price beside a manual one", Sheets{flat("m", Manual, 1_000_000, 0), limited}, Ask{Input: Unknown}, "0.0010000016"},
		{"max_tokens below the limit", Sheets{Manual: limited}, Ask{Input: 10, MaxOutput: 5}, "0.0000200016"},
		{"max_tokens above the limit", Sheets{Manual: limited}, Ask{Input: 10, MaxOutput: 5000}, "0.0002100016"},
		{"searches without a limit", Sheets{Manual: search}, Ask{Input: 1, MaxOutput: 1, WebSearches: Unknown}, ""},
		{"searches without a limit that cost nothing", Sheets{Manual: limited}, Ask{Input: 1, MaxOutput: 1, WebSearches: Unknown}, "0.0000030016"},
		{"free of charge", Sheets{Manual: &Sheet{Ladder: Ladder{Flat: free}}}, Ask{Input: 1, MaxOutput: 1}, "0"},
	} {
		got, err := c.sheets.Worst(c.ask, Plain())
		if c.want == "" {
			if !errors.Is(err, ErrUnboundable) {
				t.Errorf("%s: %+v, %v", c.name, got, err)
			}
		} else if err != nil || got.Caller.String() != c.want {
			t.Errorf("%s: %s, %v; want %s", c.name, got.Caller, err, c.want)
		}
	}
	if got := (Bound{1, 9}).Max(Bound{5, 2}); got != (Bound{5, 9}) {
		t.Errorf("the worst of two candidates is %+v", got)
	}
	if _, err := (Sheets{Manual: flat("m", Manual, 1<<62, 1)}).Worst(Ask{Input: 1 << 40, MaxOutput: 1}, Plain()); !errors.Is(err, ErrOverflow) {
		t.Errorf("a bound out of range: %v", err)
	}
}

// Roundings add up: many classes that are each rounded up cost more than their sum rounded once.
func TestTheWorstCaseHasRoomForRoundings(t *testing.T) {
	sheets := Sheets{Manual: &Sheet{Ladder: Ladder{Flat: rated(50, 50)}}} // 1.5 units for 3 tokens, rounded to 2
	u := Usage{Input: 3, CachedInput: 3, CacheWrite5m: 3, CacheWrite1h: 3, AudioInput: 3, ImageInput: 3, Output: 3, AudioOutput: 3, ImageOutput: 3}
	bill := Settle(fixed(sheets), Call{}, u, Plain())
	bound, err := sheets.Worst(Ask{Input: 18, MaxOutput: 9}, Plain())
	if err != nil || bill.Caller.Total != 18 || bound.Caller < 18 {
		t.Errorf("costs %d, bound %+v, %v", bill.Caller.Total, bound, err)
	}
}
