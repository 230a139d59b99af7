package pricing

import (
	"errors"
	"fmt"

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
	Reasoning    Price // of the part of the output that was thinking
	AudioInput   Price
	AudioOutput  Price
	ImageInput   Price
	ImageOutput  Price

	PerRequest    money.Amount // added once per attempt
	PerImage      money.Amount // for each picture that was made
	PerWebSearch  money.Amount
	PerFileSearch money.Amount
}

// valid says that nothing is negative.
func (p *Rates) valid() bool {
	return min(p.Input, p.CachedInput, p.CacheWrite5m, p.CacheWrite1h, p.Output, p.Reasoning,
		p.AudioInput, p.AudioOutput, p.ImageInput, p.ImageOutput) >= 0 &&
		min(p.PerRequest, p.PerImage, p.PerWebSearch, p.PerFileSearch) >= 0
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
	Input  Multiplier  // the upstream's, on every class of input tokens
	Output Multiplier  // the upstream's, on every class of output tokens
	Group  Multiplier  // the group's, on all that the caller pays and on nothing that the upstream is owed
	Key    *Multiplier // the key's, on top of the group's; nil is One
}

// Plain multiplies by one.
func Plain() Multipliers { return Multipliers{Input: One, Output: One, Group: One} }

// key is the multiplier of the key.
func (m *Multipliers) key() Multiplier {
	if m.Key == nil {
		return One
	}
	return *m.Key
}

// check returns ErrMultiplier when one of them is out of range.
func (m *Multipliers) check() error {
	for _, v := range [...]Multiplier{m.Input, m.Output, m.Group, m.key()} {
		if v < 0 || v > MultiplierMax {
			return fmt.Errorf("%w: %d e-4", ErrMultiplier, v)
		}
	}
	return nil
}
