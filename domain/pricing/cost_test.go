package pricing

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/penstock/penstock/domain/money"
)

// cost is a breakdown of an attempt, empty after an error.
func cost(p *Rates, u Usage, m Multipliers) (Breakdown, error) {
	var b Breakdown
	if err := b.price(p, &u, &m); err != nil {
		return Breakdown{}, err
	}
	return b, nil
}

// oracle prices one class with rationals: (tokens × price × 1e-12 × m × 1e-4 × g × 1e-4 × k × 1e-4) USD in units of
// 1e-10, rounded half to even by comparing the remainder, sharing no code with Cost.
func oracle(tokens, price, m, g, k int64) *big.Int {
	n := big.NewInt(tokens)
	for _, f := range []int64{price, m, g, k} {
		n.Mul(n, big.NewInt(f))
	}
	d := new(big.Int).Exp(big.NewInt(10), big.NewInt(14), nil)
	q, r := new(big.Int).QuoRem(n, d, new(big.Int))
	switch twice := r.Lsh(r, 1).Cmp(d); {
	case twice > 0, twice == 0 && q.Bit(0) == 1:
		q.Add(q, big.NewInt(1))
	}
	return q
}

func oracleCosts(p *Rates, u Usage, in, out, g, k int64) (list [14]*big.Int, total *big.Int) {
	thoughts := u.Reasoning
	if p.Reasoning == p.Output {
		thoughts = 0
	}
	unit := func(n int64, price money.Amount) *big.Int { return oracle(n, int64(price), 1e6, g, k) } // 1e-10 USD × 1e6 = 1e-16
	list = [14]*big.Int{
		oracle(u.Input, int64(p.Input), in, g, k), oracle(u.CachedInput, int64(p.CachedInput), in, g, k),
		oracle(u.CacheWrite5m, int64(p.CacheWrite5m), in, g, k), oracle(u.CacheWrite1h, int64(p.CacheWrite1h), in, g, k),
		oracle(u.Output-thoughts, int64(p.Output), out, g, k), oracle(thoughts, int64(p.Reasoning), out, g, k),
		oracle(u.AudioInput, int64(p.AudioInput), in, g, k), oracle(u.AudioOutput, int64(p.AudioOutput), out, g, k),
		oracle(u.ImageInput, int64(p.ImageInput), in, g, k), oracle(u.ImageOutput, int64(p.ImageOutput), out, g, k),
		unit(1, p.PerRequest), unit(u.Images, p.PerImage), unit(u.WebSearches, p.PerWebSearch), unit(u.FileSearches, p.PerFileSearch),
	}
	total = new(big.Int)
	for _, c := range list {
		total.Add(total, c)
	}
	return list, total
}

func list(c Costs) [14]money.Amount {
	return [14]money.Amount{
		c.Input, c.CachedInput, c.CacheWrite5m, c.CacheWrite1h, c.Output, c.Reasoning, c.AudioInput, c.AudioOutput,
		c.ImageInput, c.ImageOutput, c.PerRequest, c.Images, c.WebSearches, c.FileSearches,
	}
}

// dice makes random usages, rates and multipliers; magnitudes vary from zero to beyond the range, so that small
// roundings and overflows are both met.
type dice struct{ *rand.Rand }

func (r dice) number(maxBits int) int64 { return int64(r.Uint64() >> (64 - r.IntN(maxBits) - 1) >> 1) }

func (r dice) multiplier() Multiplier {
	if r.IntN(3) == 0 {
		return One
	}
	return Multiplier(r.Int64N(int64(MultiplierMax) + 1))
}

func (r dice) multipliers() Multipliers {
	m := Multipliers{Input: r.multiplier(), Output: r.multiplier(), Group: r.multiplier()}
	if r.IntN(2) == 0 {
		k := r.multiplier()
		m.Key = &k
	}
	return m
}

func (r dice) usage(bits int) Usage {
	var u Usage
	for v, i := reflect.ValueOf(&u).Elem(), 0; i < v.NumField(); i++ {
		v.Field(i).SetInt(r.number(bits))
	}
	u.Reasoning = min(u.Reasoning, u.Output)
	return u
}

func (r dice) rates(bits int) *Rates {
	price := func() Price { return Price(r.number(bits)) }
	amount := func() money.Amount { return money.Amount(r.number(40)) }
	p := &Rates{Input: price(), CachedInput: price(), CacheWrite5m: price(), CacheWrite1h: price(), Output: price(), Reasoning: price(),
		AudioInput: price(), AudioOutput: price(), ImageInput: price(), ImageOutput: price(),
		PerRequest: amount(), PerImage: amount(), PerWebSearch: amount(), PerFileSearch: amount()}
	if r.IntN(2) == 0 {
		p.Reasoning = p.Output
	}
	return p
}

func TestCostEqualsTheExactOracleOnRandomCases(t *testing.T) {
	const seed = 20260101
	r := dice{rand.New(rand.NewPCG(seed, 0))}
	overflows := 0
	for i := range 40_000 {
		tokenBits, priceBits := 24, 30
		if i%4 == 0 {
			tokenBits, priceBits = 59, 63
		}
		u, p, m := r.usage(tokenBits), r.rates(priceBits), r.multipliers()
		got, err := cost(p, u, m)
		up, upTotal := oracleCosts(p, u, int64(m.Input), int64(m.Output), int64(One), int64(One))
		caller, callerTotal := oracleCosts(p, u, int64(m.Input), int64(m.Output), int64(m.Group), int64(m.key()))
		if !upTotal.IsInt64() || !callerTotal.IsInt64() {
			overflows++
			if !errors.Is(err, ErrOverflow) {
				t.Fatalf("seed %d case %d: totals %s and %s do not fit, but Cost gave %+v, %v", seed, i, upTotal, callerTotal, got, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("seed %d case %d: %v, but the totals are %s and %s", seed, i, err, upTotal, callerTotal)
		}
		for k := range up {
			if int64(list(got.Upstream)[k]) != up[k].Int64() || int64(list(got.Caller)[k]) != caller[k].Int64() {
				t.Fatalf("seed %d case %d class %d: got %d and %d, want %s and %s", seed, i, k, list(got.Upstream)[k], list(got.Caller)[k], up[k], caller[k])
			}
		}
		if int64(got.Upstream.Total) != upTotal.Int64() || int64(got.Caller.Total) != callerTotal.Int64() {
			t.Fatalf("seed %d case %d: totals %d and %d, want %s and %s", seed, i, got.Upstream.Total, got.Caller.Total, upTotal, callerTotal)
		}
	}
	if overflows < 200 || overflows > 20_000 {
		t.Fatalf("%d of 40000 cases overflowed: the generator no longer covers both sides", overflows)
	}
}

func TestHalvesAreRoundedToEven(t *testing.T) {
	for _, c := range []struct {
		name string
		u    Usage
		p    Rates
		m    Multipliers
		want money.Amount
	}{
		// 1 token at 50e-12 USD is half of 1e-10 USD.
		{"half of one is nothing", Usage{Input: 1}, Rates{Input: 50}, Plain(), 0},
		{"one and a half is two", Usage{Input: 3}, Rates{Input: 50}, Plain(), 2},
		{"two and a half is two", Usage{Input: 5}, Rates{Input: 50}, Plain(), 2},
		{"three and a half is four", Usage{Input: 7}, Rates{Input: 50}, Plain(), 4},
		{"just above a half is one", Usage{Input: 1}, Rates{Input: 50}, Multipliers{One + 1, One, One, nil}, 1},
		{"just below a half is nothing", Usage{Input: 1}, Rates{Input: 50}, Multipliers{One - 1, One, One, nil}, 0},
		{"a half made by the multiplier", Usage{Input: 1}, Rates{Input: 100}, Multipliers{One / 2, One, One, nil}, 0},
		{"a half of an odd amount made by the multiplier", Usage{Input: 3}, Rates{Input: 100}, Multipliers{One / 2, One, One, nil}, 2},
		{"every place of both multipliers counts", Usage{Output: 1}, Rates{Output: 50}, Multipliers{One, One + 1, One - 1, nil}, 0},
	} {
		got, err := cost(&c.p, c.u, c.m)
		if err != nil || got.Caller.Total != c.want {
			t.Errorf("%s: got %d, %v; want %d", c.name, got.Caller.Total, err, c.want)
		}
	}
}

// Rounding twice would give 1: half a unit up after the first multiplier, and again after the second.
func TestRoundingHappensOnceOverBothMultipliers(t *testing.T) {
	// 1 token × 90e-12 × 0.9 × 0.6 = 48.6e-12 USD: nothing. Rounded in between: 1, then 0.6, rounded to 1.
	got, err := cost(&Rates{Input: 90}, Usage{Input: 1}, Multipliers{9000, One, 6000, nil})
	if err != nil || got.Upstream.Total != 1 || got.Caller.Total != 0 {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func TestClassesAreRoundedApartAndSummed(t *testing.T) {
	// Each class is a half and rounds to nothing; a sum rounded at the end would be 2.
	p := &Rates{Input: 50, CachedInput: 50, CacheWrite5m: 50, CacheWrite1h: 50, Output: 50}
	got, err := cost(p, Usage{Input: 1, CachedInput: 1, CacheWrite5m: 1, CacheWrite1h: 1, Output: 1}, Plain())
	if err != nil || got.Upstream.Total != 0 {
		t.Fatalf("got %+v, %v", got, err)
	}
}

// C34: the input multiplier scales every input class, the output multiplier the output. Pain 65: a class is priced once.
func TestMultipliersOfTheUpstreamScaleItsPrices_C34(t *testing.T) {
	p := &Rates{Input: 3_000_000, CachedInput: 300_000, CacheWrite5m: 3_750_000, CacheWrite1h: 6_000_000, Output: 15_000_000, Reasoning: 15_000_000, PerRequest: money.USD / 100}
	u := Usage{Input: 1_000_000, CachedInput: 1_000_000, CacheWrite5m: 1_000_000, CacheWrite1h: 1_000_000, Output: 1_000_000, Reasoning: 900_000}
	got, err := cost(p, u, Multipliers{Input: 2 * One, Output: One / 2, Group: One + 5000})
	if err != nil {
		t.Fatal(err)
	}
	usd := func(s string) money.Amount {
		a, err := money.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	up := Costs{Input: usd("6"), CachedInput: usd("0.6"), CacheWrite5m: usd("7.5"), CacheWrite1h: usd("12"), Output: usd("7.5"), PerRequest: usd("0.01"), Total: usd("33.61")}
	caller := Costs{Input: usd("9"), CachedInput: usd("0.9"), CacheWrite5m: usd("11.25"), CacheWrite1h: usd("18"), Output: usd("11.25"), PerRequest: usd("0.015"), Total: usd("50.415")}
	if got.Upstream != up || got.Caller != caller {
		t.Fatalf("got %+v", got)
	}
}

// Pain 64: cached tokens are paid at the cache price only. Pain 68: reasoning is part of the output, never added to it.
func TestNoTokenIsPaidTwice_Pain64_68(t *testing.T) {
	p := &Rates{Input: 2_500_000, CachedInput: 1_250_000, Output: 10_000_000, Reasoning: 10_000_000}
	got, err := cost(p, Usage{Input: 200, CachedInput: 800, Output: 50, Reasoning: 50}, Plain())
	if err != nil || got.Caller.Total.String() != "0.002" { // 0.0005 + 0.001 + 0.0005
		t.Fatalf("got %s, %v", got.Caller.Total, err)
	}
}

// E40, pain 5: no price is its own state, not an error and not a made-up price.
func TestNoPriceIsUnpricedAtZero_E40(t *testing.T) {
	got, err := cost(nil, Usage{Input: 5, Output: 7}, Plain())
	if err != nil || got != (Breakdown{Unpriced: true}) {
		t.Fatalf("got %+v, %v", got, err)
	}
	free, err := cost(&Rates{}, Usage{Input: 5, Output: 7}, Plain())
	if err != nil || free != (Breakdown{}) {
		t.Fatalf("a price of zero is priced: got %+v, %v", free, err)
	}
}

// Pain 66: nothing negative ever becomes money.
func TestImpossibleUsageIsRefused_Pain66(t *testing.T) {
	for _, u := range []Usage{
		{Input: -1}, {CachedInput: -1}, {CacheWrite5m: -1}, {CacheWrite1h: -1}, {Output: -1}, {Reasoning: -1}, {Output: 1, Reasoning: 2}, {Input: math.MinInt64},
	} {
		if got, err := cost(&Rates{Input: 1}, u, Plain()); !errors.Is(err, ErrUsage) {
			t.Errorf("%+v: got %+v, %v", u, got, err)
		}
	}
	tooMuch := MultiplierMax + 1
	for _, m := range []Multipliers{{-1, One, One, nil}, {One, MultiplierMax + 1, One, nil}, {One, One, -5, nil}, {One, One, One, &tooMuch}} {
		if got, err := cost(&Rates{Input: 1}, Usage{Input: 1}, m); !errors.Is(err, ErrMultiplier) {
			t.Errorf("%+v: got %+v, %v", m, got, err)
		}
	}
	if _, err := cost(&Rates{PerRequest: -1}, Usage{}, Plain()); !errors.Is(err, ErrRate) {
		t.Errorf("a negative price: %v", err)
	}
}

func TestTheLargestAmountFitsAndOneMoreDoesNot(t *testing.T) {
	p := &Rates{Input: 100} // 1e-10 USD per token
	if got, err := cost(p, Usage{Input: math.MaxInt64}, Plain()); err != nil || got.Caller.Total != math.MaxInt64 {
		t.Fatalf("got %+v, %v", got, err)
	}
	for name, c := range map[string]struct {
		p Rates
		u Usage
	}{
		"one class":   {Rates{Input: 101}, Usage{Input: math.MaxInt64}},
		"the sum":     {Rates{Input: 100, Output: 200}, Usage{Input: math.MaxInt64 - 1, Output: 1}},
		"a half up":   {Rates{Input: 50, PerRequest: math.MaxInt64}, Usage{Input: 2}},
		"all extreme": {Rates{Input: math.MaxInt64}, Usage{Input: math.MaxInt64}},
	} {
		if got, err := cost(&c.p, c.u, Plain()); !errors.Is(err, ErrOverflow) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

func TestMultipliersAreReadExactly(t *testing.T) {
	for s, want := range map[string]Multiplier{"": One, "1": One, "0": 0, "0.0001": 1, "1.2345": 12345, "100": MultiplierMax, "100.0000": MultiplierMax} {
		if m, err := ParseMultiplier(s); err != nil || m != want {
			t.Errorf("%q = %d, %v; want %d", s, m, err, want)
		}
	}
	for _, s := range []string{"-1", "100.0001", "1.00001", "x", "1e2"} {
		if m, err := ParseMultiplier(s); err == nil {
			t.Errorf("%q = %d; want an error", s, m)
		}
	}
}

func BenchmarkCost(b *testing.B) {
	p := &Rates{Input: 3_000_000, CachedInput: 300_000, CacheWrite5m: 3_750_000, CacheWrite1h: 6_000_000, Output: 15_000_000}
	u := Usage{Input: 12_345, CachedInput: 100_000, CacheWrite5m: 777, Output: 4321}
	m := Multipliers{Input: One, Output: One, Group: 12_000}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := cost(p, u, m); err != nil {
			b.Fatal(err)
		}
	}
}

// A new class must not be forgotten where members are written out one by one.
func TestEveryClassIsSummedAndChecked_Pain66(t *testing.T) {
	kinds := reflect.TypeFor[Usage]()
	if kinds.NumField() != len(classes) {
		t.Fatalf("%d members, %d names", kinds.NumField(), len(classes))
	}
	for i := range kinds.NumField() {
		var one, twice Usage
		reflect.ValueOf(&one).Elem().Field(i).SetInt(7)
		reflect.ValueOf(&twice).Elem().Field(i).SetInt(14)
		if one.Plus(one) != twice {
			t.Errorf("%s is not summed", kinds.Field(i).Name)
		}
		reflect.ValueOf(&one).Elem().Field(i).SetInt(-1)
		if err := one.Check(); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), classes[i]+" is negative") {
			t.Errorf("%s: %v", kinds.Field(i).Name, err)
		}
	}
	if err := (Usage{Input: math.MaxInt64, ImageOutput: 1}).Check(); !errors.Is(err, ErrUsage) {
		t.Errorf("a total out of range: %v", err)
	}
}
