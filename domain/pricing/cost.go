package pricing

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/penstock/penstock/domain/money"
)

// Price is what one token costs in units of 1e-12 USD, which is USD per 1M tokens with six decimals. Never negative.
type Price int64

// PricePlaces is the number of decimals of a price per 1M tokens.
const PricePlaces = 6

// Rates are the prices of one model, with every fallback already applied. The zero value is free of charge.
type Rates struct {
	Input        Price
	CachedInput  Price
	CacheWrite5m Price
	CacheWrite1h Price
	Output       Price
	PerRequest   money.Amount // added once per attempt
}

// Multiplier scales a price in units of 1e-4, from 0 (free) to MultiplierMax.
type Multiplier int64

// One leaves a price as it is; MultiplierMax is a hundred times the price; both have MultiplierPlaces decimals.
const (
	One              Multiplier = 1e4
	MultiplierMax               = 100 * One
	MultiplierPlaces            = 4
)

// ParseMultiplier reads a decimal from 0 to 100 with at most 4 places; "" is One.
func ParseMultiplier(s string) (Multiplier, error) {
	if s == "" {
		return One, nil
	}
	n, err := money.ParseDecimal(s, MultiplierPlaces)
	if err != nil {
		return 0, err
	}
	if m := Multiplier(n); m >= 0 && m <= MultiplierMax {
		return m, nil
	}
	return 0, errors.New("must be 0..100")
}

// Multipliers of one attempt. The zero value makes everything free: start from Plain.
type Multipliers struct {
	Input  Multiplier // the upstream's, on fresh input, cache reads and cache writes
	Output Multiplier // the upstream's, on output
	Group  Multiplier // the group's, on all that the caller pays and on nothing that the upstream is owed
}

// Plain multiplies by one.
func Plain() Multipliers { return Multipliers{Input: One, Output: One, Group: One} }

// Costs are amounts by usage class; Total is the sum of the others.
type Costs struct {
	Input        money.Amount
	CachedInput  money.Amount
	CacheWrite5m money.Amount
	CacheWrite1h money.Amount
	Output       money.Amount
	PerRequest   money.Amount
	Total        money.Amount
}

// Breakdown is what one attempt costs. Unpriced says that no price is known: then everything is zero and the request
// can be repriced later.
type Breakdown struct {
	Upstream Costs // what the provider is owed: price × upstream multiplier
	Caller   Costs // what the caller pays: price × upstream multiplier × group multiplier
	Unpriced bool
}

// Errors of Cost.
var (
	ErrOverflow   = errors.New("cost is out of range")
	ErrUsage      = errors.New("usage is not valid")
	ErrMultiplier = errors.New("multiplier is not within 0..100")
	ErrRate       = errors.New("price is negative")
)

// Check returns ErrUsage when a class is negative or the reasoning part exceeds the output.
func (u Usage) Check() error {
	for _, c := range [...]struct {
		name string
		n    int64
	}{
		{"input", u.Input}, {"cached_input", u.CachedInput}, {"cache_write_5m", u.CacheWrite5m},
		{"cache_write_1h", u.CacheWrite1h}, {"output", u.Output}, {"reasoning", u.Reasoning},
	} {
		if c.n < 0 {
			return fmt.Errorf("%w: %s is negative (%d)", ErrUsage, c.name, c.n)
		}
	}
	if u.Reasoning > u.Output {
		return fmt.Errorf("%w: reasoning (%d) exceeds output (%d)", ErrUsage, u.Reasoning, u.Output)
	}
	return nil
}

// Cost prices one attempt exactly: per usage class, tokens × price × multipliers is one exact product, rounded once,
// half to even, to 1e-10 USD; totals are sums of the rounded classes. The price per request is added whatever the
// usage is, so call it only for an attempt that is to be paid. No rates (nil) is an unpriced attempt, not an error.
func Cost(p *Rates, u Usage, m Multipliers) (Breakdown, error) {
	if err := u.Check(); err != nil {
		return Breakdown{}, err
	}
	for _, v := range [...]Multiplier{m.Input, m.Output, m.Group} {
		if v < 0 || v > MultiplierMax {
			return Breakdown{}, fmt.Errorf("%w: %d e-4", ErrMultiplier, v)
		}
	}
	if p == nil {
		return Breakdown{Unpriced: true}, nil
	}
	if min(p.Input, p.CachedInput, p.CacheWrite5m, p.CacheWrite1h, p.Output, Price(p.PerRequest)) < 0 {
		return Breakdown{}, ErrRate
	}
	up, err := costs(p, u, m.Input, m.Output, One)
	if err != nil {
		return Breakdown{}, err
	}
	if m.Group == One {
		return Breakdown{Upstream: up, Caller: up}, nil
	}
	caller, err := costs(p, u, m.Input, m.Output, m.Group)
	if err != nil {
		return Breakdown{}, err
	}
	return Breakdown{Upstream: up, Caller: caller}, nil
}

func costs(p *Rates, u Usage, in, out, group Multiplier) (Costs, error) {
	var c Costs
	for _, class := range [...]struct {
		into   *money.Amount
		tokens int64
		price  Price
		m      Multiplier
	}{
		{&c.Input, u.Input, p.Input, in},
		{&c.CachedInput, u.CachedInput, p.CachedInput, in},
		{&c.CacheWrite5m, u.CacheWrite5m, p.CacheWrite5m, in},
		{&c.CacheWrite1h, u.CacheWrite1h, p.CacheWrite1h, in},
		{&c.Output, u.Output, p.Output, out},
	} {
		// Units: 1e-12 (price) × 1e-4 × 1e-4 (multipliers) = 1e-20 USD, ten places below an Amount.
		v, ok := product(uint64(class.tokens), uint64(class.price), uint64(class.m)*uint64(group), 1e10)
		if !ok {
			return Costs{}, ErrOverflow
		}
		*class.into = v
		if c.Total, ok = add(c.Total, v); !ok {
			return Costs{}, ErrOverflow
		}
	}
	var ok bool
	if c.PerRequest, ok = product(1, uint64(p.PerRequest), uint64(group), 1e4); !ok {
		return Costs{}, ErrOverflow
	}
	if c.Total, ok = add(c.Total, c.PerRequest); !ok {
		return Costs{}, ErrOverflow
	}
	return c, nil
}

// product is a × b × c / d, rounded half to even; ok is false when it exceeds an Amount. It needs no arithmetic beyond
// 128 bits: a product that does not fit them is, divided by at most 1e10 < 2^34, still above 2^94.
func product(a, b, c, d uint64) (_ money.Amount, ok bool) {
	hi, lo := bits.Mul64(a, b)
	over, hi := bits.Mul64(hi, c)
	carry, lo := bits.Mul64(lo, c)
	hi, c1 := bits.Add64(hi, carry, 0)
	if over != 0 || c1 != 0 || hi >= d {
		return 0, false // a quotient beyond 64 bits
	}
	q, r := bits.Div64(hi, lo, d)
	if q > math.MaxInt64 {
		return 0, false
	}
	if half := d / 2; r > half || r == half && q&1 == 1 {
		q++
	}
	return money.Amount(q), q <= math.MaxInt64
}

func add(a, b money.Amount) (money.Amount, bool) {
	if a > math.MaxInt64-b {
		return 0, false
	}
	return a + b, true
}
