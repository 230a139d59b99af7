package pricing

import (
	"errors"
	"math"
	"math/bits"

	"github.com/penstock/penstock/domain/money"
)

// Costs are amounts by usage class; Total is the sum of the others.
type Costs struct {
	Input        money.Amount
	CachedInput  money.Amount
	CacheWrite5m money.Amount
	CacheWrite1h money.Amount
	Output       money.Amount // with the reasoning in it, unless that has a price of its own
	Reasoning    money.Amount // zero unless reasoning has a price of its own
	AudioInput   money.Amount
	AudioOutput  money.Amount
	ImageInput   money.Amount
	ImageOutput  money.Amount
	PerRequest   money.Amount
	Images       money.Amount
	WebSearches  money.Amount
	FileSearches money.Amount
	Total        money.Amount
}

// Breakdown is what one attempt costs. Unpriced says that no price is known: then everything is zero and the request
// can be repriced later.
type Breakdown struct {
	Upstream Costs // what the provider is owed: price × upstream multiplier
	Caller   Costs // what the caller pays: price × upstream multiplier × group multiplier × key multiplier
	Unpriced bool
}

// Errors of Cost, beside ErrUsage and ErrOverflow.
var (
	ErrMultiplier = errors.New("multiplier is not within 0..100")
	ErrRate       = errors.New("price is negative")
)

// Cost prices one attempt exactly: per usage class, tokens × price × multipliers is one exact product, rounded once,
// half to even, to 1e-10 USD; totals are sums of the rounded classes. The price per request is added whatever the
// usage is, so call it only for an attempt that is to be paid. No rates (nil) is an unpriced attempt, not an error.
// Multipliers of the upstream scale prices of tokens only (C34), those of group and key all that the caller pays.
func Cost(p *Rates, u Usage, m Multipliers) (Breakdown, error) {
	if err := u.Check(); err != nil {
		return Breakdown{}, err
	}
	if err := m.check(); err != nil {
		return Breakdown{}, err
	}
	if p == nil {
		return Breakdown{Unpriced: true}, nil
	}
	if !p.valid() {
		return Breakdown{}, ErrRate
	}
	up, err := costs(p, &u, &m, One, One)
	if err != nil {
		return Breakdown{}, err
	}
	key := m.key()
	if m.Group == One && key == One {
		return Breakdown{Upstream: up, Caller: up}, nil
	}
	caller, err := costs(p, &u, &m, m.Group, key)
	if err != nil {
		return Breakdown{}, err
	}
	return Breakdown{Upstream: up, Caller: caller}, nil
}

// costs prices every class. group and key scale everything.
func costs(p *Rates, u *Usage, m *Multipliers, group, key Multiplier) (Costs, error) {
	var c Costs
	output, reasoning := u.Output, int64(0)
	if p.Reasoning != p.Output {
		output, reasoning = u.Output-u.Reasoning, u.Reasoning
	}
	for _, class := range [...]struct {
		into   *money.Amount
		tokens int64
		price  Price
		m      Multiplier
	}{
		{&c.Input, u.Input, p.Input, m.Input},
		{&c.CachedInput, u.CachedInput, p.CachedInput, m.Input},
		{&c.CacheWrite5m, u.CacheWrite5m, p.CacheWrite5m, m.Input},
		{&c.CacheWrite1h, u.CacheWrite1h, p.CacheWrite1h, m.Input},
		{&c.AudioInput, u.AudioInput, p.AudioInput, m.Input},
		{&c.ImageInput, u.ImageInput, p.ImageInput, m.Input},
		{&c.Output, output, p.Output, m.Output},
		{&c.Reasoning, reasoning, p.Reasoning, m.Output},
		{&c.AudioOutput, u.AudioOutput, p.AudioOutput, m.Output},
		{&c.ImageOutput, u.ImageOutput, p.ImageOutput, m.Output},
	} {
		if class.tokens == 0 || class.price == 0 {
			continue
		}
		// Units: 1e-12 (price) × 1e-4 × 1e-4 × 1e-4 (multipliers) = 1e-24 USD, fourteen places below an Amount.
		v, ok := product(uint64(class.tokens), uint64(class.price), uint64(class.m)*uint64(group)*uint64(key), 1e14)
		if !ok {
			return Costs{}, ErrOverflow
		}
		*class.into = v
	}
	for _, class := range [...]struct {
		into  *money.Amount
		n     int64
		price money.Amount
	}{
		{&c.PerRequest, 1, p.PerRequest},
		{&c.Images, u.Images, p.PerImage},
		{&c.WebSearches, u.WebSearches, p.PerWebSearch},
		{&c.FileSearches, u.FileSearches, p.PerFileSearch},
	} {
		if class.n == 0 || class.price == 0 {
			continue
		}
		v, ok := product(uint64(class.n), uint64(class.price), uint64(group)*uint64(key), 1e8)
		if !ok {
			return Costs{}, ErrOverflow
		}
		*class.into = v
	}
	return c.summed()
}

// summed is c with its total.
func (c Costs) summed() (Costs, error) {
	total, ok := money.Amount(0), true
	for _, v := range [...]money.Amount{
		c.Input, c.CachedInput, c.CacheWrite5m, c.CacheWrite1h, c.Output, c.Reasoning, c.AudioInput, c.AudioOutput,
		c.ImageInput, c.ImageOutput, c.PerRequest, c.Images, c.WebSearches, c.FileSearches,
	} {
		if total, ok = add(total, v); !ok {
			return Costs{}, ErrOverflow
		}
	}
	c.Total = total
	return c, nil
}

// product is a × b × c / d, rounded half to even; ok is false when it exceeds an Amount. It needs no arithmetic beyond
// 128 bits: a product that does not fit them is, divided by at most 1e14 < 2^47, still above 2^81.
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

// add is the sum of two amounts that are not negative.
func add(a, b money.Amount) (money.Amount, bool) {
	if a > math.MaxInt64-b {
		return 0, false
	}
	return a + b, true
}
