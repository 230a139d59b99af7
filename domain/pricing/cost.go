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

// Errors of pricing an attempt, beside ErrUsage and ErrOverflow.
var (
	ErrMultiplier = errors.New("multiplier is not within 0..100")
	ErrRate       = errors.New("price is negative")
)

// price prices one attempt exactly, into an empty breakdown: per usage class, tokens × price × multipliers is one exact product,
// rounded once, half to even, to 1e-10 USD; totals are sums of the rounded classes. The price per request is added whatever the
// usage is, so call it only for an attempt that is to be paid. No rates (nil) is an unpriced attempt, not an error.
// Multipliers of the upstream scale prices of tokens only (C34), those of group and key all that the caller pays. What is in it
// after an error means nothing.
func (b *Breakdown) price(p *Rates, u *Usage, m *Multipliers) error {
	if err := u.Check(); err != nil {
		return err
	}
	if err := m.check(); err != nil {
		return err
	}
	if p == nil {
		b.Unpriced = true
		return nil
	}
	if !p.valid() {
		return ErrRate
	}
	ok := b.Upstream.price(p, u, m, One, One)
	if key := m.key(); m.Group == One && key == One {
		b.Caller = b.Upstream
	} else {
		ok = ok && b.Caller.price(p, u, m, m.Group, key)
	}
	if !ok {
		return ErrOverflow
	}
	return nil
}

// price prices every class. group and key scale everything. False: it is beyond an Amount.
func (c *Costs) price(p *Rates, u *Usage, m *Multipliers, group, key Multiplier) bool {
	output, reasoning := u.Output, int64(0)
	if p.Reasoning != p.Output {
		output, reasoning = u.Output-u.Reasoning, u.Reasoning
	}
	s := scale{by: uint64(group) * uint64(key)}
	c.Input = s.tokens(u.Input, p.Input, m.Input)
	c.CachedInput = s.tokens(u.CachedInput, p.CachedInput, m.Input)
	c.CacheWrite5m = s.tokens(u.CacheWrite5m, p.CacheWrite5m, m.Input)
	c.CacheWrite1h = s.tokens(u.CacheWrite1h, p.CacheWrite1h, m.Input)
	c.AudioInput = s.tokens(u.AudioInput, p.AudioInput, m.Input)
	c.ImageInput = s.tokens(u.ImageInput, p.ImageInput, m.Input)
	c.Output = s.tokens(output, p.Output, m.Output)
	c.Reasoning = s.tokens(reasoning, p.Reasoning, m.Output)
	c.AudioOutput = s.tokens(u.AudioOutput, p.AudioOutput, m.Output)
	c.ImageOutput = s.tokens(u.ImageOutput, p.ImageOutput, m.Output)
	c.PerRequest = s.things(1, p.PerRequest)
	c.Images = s.things(u.Images, p.PerImage)
	c.WebSearches = s.things(u.WebSearches, p.PerWebSearch)
	c.FileSearches = s.things(u.FileSearches, p.PerFileSearch)
	c.Total = s.total
	return !s.over
}

// scale is what all classes of an attempt are multiplied by, and their sum so far.
type scale struct {
	by    uint64 // group × key
	total money.Amount
	over  bool // a product, or the sum, is beyond an Amount
}

// tokens is what those of one class cost. Most attempts have two or three classes.
func (s *scale) tokens(n int64, price Price, m Multiplier) money.Amount {
	if n == 0 || price == 0 {
		return 0
	}
	// Units: 1e-12 (price) × 1e-4 × 1e-4 × 1e-4 (multipliers) = 1e-24 USD, fourteen places below an Amount.
	return s.add(product(uint64(n), uint64(price), uint64(m)*s.by, 1e14))
}

// things is what is priced by the piece.
func (s *scale) things(n int64, price money.Amount) money.Amount {
	if n == 0 || price == 0 {
		return 0
	}
	return s.add(product(uint64(n), uint64(price), s.by, 1e8))
}

func (s *scale) add(v money.Amount, ok bool) money.Amount {
	total, fits := sum(s.total, v)
	s.total, s.over = total, s.over || !ok || !fits
	return v
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

// sum is the sum of two amounts of any sign; ok is false when it exceeds an Amount.
func sum(a, b money.Amount) (_ money.Amount, ok bool) {
	c := a + b
	return c, (c > a) == (b > 0)
}
