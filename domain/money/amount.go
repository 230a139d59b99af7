// Package money holds amounts of US dollars as exact decimals. No float ever holds money.
package money

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Amount is a sum of money in units of 1e-10 USD (ten decimals; the range is ±922 million USD). The zero value is
// no money. In JSON it is a decimal string such as "0.0123".
type Amount int64

// Places is the number of decimals of an Amount.
const Places = 10

// USD is one dollar.
const USD Amount = 1e10

// ErrAmount is returned for a text that is no decimal number, or one with more than ten places or out of range.
var ErrAmount = errors.New("not a money amount")

// Parse reads a decimal such as "12", "-0.5" or "0.0000000001". No exponent, no sign "+", no spaces.
func Parse(s string) (Amount, error) {
	n, err := ParseDecimal(s, Places)
	if err != nil {
		return 0, fmt.Errorf("%w: %q: %s", ErrAmount, s, err)
	}
	return Amount(n), nil
}

// String is the shortest exact decimal: "0", "1.5", "-0.0000000001".
func (a Amount) String() string { return string(a.AppendText(nil)) }

// AppendText appends the decimal to b.
func (a Amount) AppendText(b []byte) []byte { return AppendDecimal(b, int64(a), Places) }

// MarshalText makes an Amount a JSON string.
func (a Amount) MarshalText() ([]byte, error) { return a.AppendText(nil), nil }

// UnmarshalText reads what MarshalText wrote.
func (a *Amount) UnmarshalText(b []byte) error {
	v, err := Parse(string(b))
	if err == nil {
		*a = v
	}
	return err
}

// ParseDecimal reads a decimal with at most places digits after the point as an integer of units of 10^-places.
func ParseDecimal(s string, places int) (int64, error) {
	rest, neg := strings.CutPrefix(s, "-")
	whole, frac, dot := strings.Cut(rest, ".")
	if whole == "" || dot && frac == "" {
		return 0, errors.New("digits are missing")
	}
	if len(frac) > places {
		return 0, fmt.Errorf("more than %d decimals", places)
	}
	limit := uint64(math.MaxInt64)
	if neg {
		limit++ // the smallest int64 has no positive twin
	}
	var n uint64
	for i := 0; i < len(whole)+places; i++ {
		d := byte(0)
		switch {
		case i < len(whole):
			d = whole[i] - '0'
		case i-len(whole) < len(frac):
			d = frac[i-len(whole)] - '0'
		}
		if d > 9 {
			return 0, errors.New("not a decimal number")
		}
		if n > (limit-uint64(d))/10 {
			return 0, errors.New("out of range")
		}
		n = n*10 + uint64(d)
	}
	if neg {
		n = -n
	}
	return int64(n), nil
}

// AppendDecimal appends n units of 10^-places to b in the shortest exact form.
func AppendDecimal(b []byte, n int64, places int) []byte {
	if n == 0 {
		return append(b, '0')
	}
	u := uint64(n)
	if n < 0 {
		b = append(b, '-')
		u = -u
	}
	for places > 0 && u%10 == 0 { // most amounts are round
		u /= 10
		places--
	}
	if places == 0 {
		return strconv.AppendUint(b, u, 10)
	}
	var d [40]byte
	i := len(d)
	for k := 0; k <= places || u > 0; k++ {
		if k == places {
			i--
			d[i] = '.'
		}
		i--
		d[i] = byte('0' + u%10)
		u /= 10
	}
	return append(b, d[i:]...)
}
