package pricelist

import (
	"errors"
	"math/big"
	"strconv"
	"strings"

	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/pricing"
)

// Scales of a cost in a list: what the price of a resource counts, per unit of the list, as a power of ten.
const (
	perMillion = 6  // per token in the list, per 1M tokens in a price
	perOne     = 0  // per thing in both
	perK       = -3 // per 1,000 things in the list
)

// exponentMax bounds what a number may write: no cost needs more, and a larger one would only cost memory.
const exponentMax = 60

// number is a decimal as it stands in a list, exactly: digits × 10^exponent.
type number struct {
	digits   *big.Int
	exponent int
}

var errNumber = errors.New("is no number")

// parseNumber reads a JSON number, with or without an exponent, exactly: 1.25e-06 is 125 × 10^-8.
func parseNumber(s string) (number, error) {
	mantissa, power, scientific := strings.Cut(strings.ToLower(s), "e")
	n := number{digits: new(big.Int)}
	if scientific {
		e, err := strconv.Atoi(power)
		if err != nil || e > exponentMax || e < -exponentMax {
			return n, errNumber
		}
		n.exponent = e
	}
	whole, fraction, dot := strings.Cut(mantissa, ".")
	if whole == "" || dot && fraction == "" || len(mantissa) > exponentMax || strings.ContainsAny(whole[1:]+fraction, "+-_") {
		return n, errNumber
	}
	if _, ok := n.digits.SetString(whole+fraction, 10); !ok {
		return n, errNumber
	}
	n.exponent -= len(fraction)
	return n, nil
}

// times is the exact product.
func (n number) times(m number) number {
	return number{new(big.Int).Mul(n.digits, m.digits), n.exponent + m.exponent}
}

// price is the number at a scale, as a price writes it, with at most six decimals. What has more is rounded half to
// even, and exact is false: lists hold leftovers of binary fractions such as 1.5000000000000002e-07.
func (n number) price(scale int) (text string, exact bool, err error) {
	shift := n.exponent + scale + pricing.PricePlaces
	v := new(big.Int).Set(n.digits)
	ten := func(e int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(e)), nil) }
	exact = true
	if shift >= 0 {
		v.Mul(v, ten(shift))
	} else {
		d := ten(-shift)
		r := new(big.Int)
		v.QuoRem(v, d, r)
		exact = r.Sign() == 0
		if c := r.Lsh(r.Abs(r), 1).Cmp(d); c > 0 || c == 0 && v.Bit(0) == 1 {
			v.Add(v, big.NewInt(int64(n.digits.Sign())))
		}
	}
	if v.Sign() < 0 {
		return "", false, errors.New("is negative")
	}
	if !v.IsInt64() {
		return "", false, errors.New("is out of range")
	}
	return string(money.AppendDecimal(nil, v.Int64(), pricing.PricePlaces)), exact, nil
}
