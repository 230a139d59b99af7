package pricing

import (
	"errors"
	"fmt"

	"github.com/penstock/penstock/domain/money"
)

// Unknown stands for an upper bound that nobody knows.
const Unknown = -1

// Ask is the most that a request can consume, as far as it is known before it is sent.
type Ask struct {
	Input        int64 // upper bound of all input tokens; Unknown leaves it to the model
	MaxOutput    int64 // output tokens that the client allows, per choice; 0 leaves it to the model
	Choices      int64 // answers asked for; 0 is one; or Unknown
	Images       int64 // pictures asked for, or Unknown
	WebSearches  int64 // searches that the provider may run, or Unknown
	FileSearches int64 // as WebSearches
}

// Bound is the most that an attempt can cost.
type Bound struct {
	Upstream money.Amount
	Caller   money.Amount
}

// Max is the larger bound, each side by itself: what one attempt at either of two candidates can cost.
func (b Bound) Max(o Bound) Bound {
	return Bound{max(b.Upstream, o.Upstream), max(b.Caller, o.Caller)}
}

// ErrUnboundable says that no price, or no most, is known. It wraps the reason.
var ErrUnboundable = errors.New("the cost has no bound")

func unboundable(why string) error { return fmt.Errorf("%w: %s", ErrUnboundable, why) }

// slack covers the roundings of an attempt: fourteen classes may each be rounded up by half a unit, and the products
// of a bound down by as much.
const slack = 16

// Worst is the most that one attempt can cost whatever the upstream reports: over all tiers that such an input can
// reach, all tiers of service and every way to split the tokens into classes. A request that may be tried again costs
// at most so much again. The error is ErrUnboundable, ErrMultiplier, ErrRate or ErrOverflow.
func (s Sheets) Worst(a Ask, m Multipliers) (Bound, error) {
	if s == (Sheets{}) {
		return Bound{}, unboundable("there is no price")
	}
	if err := m.check(); err != nil {
		return Bound{}, err
	}
	tokens, err := s.tokens(a)
	if err != nil {
		return Bound{}, err
	}
	dear, err := s.dearest(tokens.Input)
	if err != nil {
		return Bound{}, err
	}
	for _, c := range [...]struct {
		n     *int64
		price money.Amount
		what  string
	}{
		{&tokens.Images, dear.PerImage, "pictures"}, {&tokens.WebSearches, dear.PerWebSearch, "web searches"},
		{&tokens.FileSearches, dear.PerFileSearch, "file searches"},
	} {
		if *c.n < 0 && c.price > 0 {
			return Bound{}, unboundable("the number of " + c.what + " is not limited")
		}
		*c.n = max(0, *c.n)
	}
	var b Bound
	if b.Upstream, err = most(&dear, &tokens, &m, One, One); err == nil {
		b.Caller, err = most(&dear, &tokens, &m, m.Group, m.key())
	}
	return b, err
}

// most is the cost of the whole usage at the dearest rates, with room for the roundings of its parts.
func most(p *Rates, u *Usage, m *Multipliers, group, key Multiplier) (money.Amount, error) {
	var c Costs
	if !c.price(p, u, m, group, key) {
		return 0, ErrOverflow
	}
	if !costly(p, u, m) || group == 0 || key == 0 {
		return c.Total, nil
	}
	total, ok := sum(c.Total, slack)
	if !ok {
		return 0, ErrOverflow
	}
	return total, nil
}

// costly says that the exact cost is above nothing, however little.
func costly(p *Rates, u *Usage, m *Multipliers) bool {
	return u.Input > 0 && p.Input > 0 && m.Input > 0 || u.Output > 0 && p.Output > 0 && m.Output > 0 || p.PerRequest > 0 ||
		u.Images > 0 && p.PerImage > 0 || u.WebSearches > 0 && p.PerWebSearch > 0 || u.FileSearches > 0 && p.PerFileSearch > 0
}

// tokens are the bounds of an Ask by the limits of the model where it names none.
func (s Sheets) tokens(a Ask) (Usage, error) {
	u := Usage{Input: a.Input, Images: a.Images, WebSearches: a.WebSearches, FileSearches: a.FileSearches}
	if u.Input < 0 {
		if u.Input = s.limit(func(p *Sheet) int64 { return p.MaxInput }); u.Input == 0 {
			return Usage{}, unboundable("neither the request nor the price (max_input_tokens) limits the input")
		}
	}
	u.Output = s.limit(func(p *Sheet) int64 { return p.MaxOutput })
	if a.MaxOutput > 0 && (u.Output == 0 || a.MaxOutput < u.Output) {
		u.Output = a.MaxOutput
	}
	if u.Output <= 0 {
		return Usage{}, unboundable("neither the request (max_tokens) nor the price (max_output_tokens) limits the output")
	}
	if a.Choices < 0 {
		return Usage{}, unboundable("the number of answers is not limited")
	}
	choices := max(1, a.Choices)
	if u.Output*choices/choices != u.Output {
		return Usage{}, ErrOverflow
	}
	u.Output *= choices
	return u, nil
}

// limit is a limit of the model, by what people set before what was synced.
func (s Sheets) limit(of func(*Sheet) int64) int64 {
	for _, sheet := range [...]*Sheet{s.Manual, s.Synced} {
		if sheet != nil && of(sheet) > 0 {
			return of(sheet)
		}
	}
	return 0
}

// dearest has the highest price in reach of an input in every place; the class of a token makes no difference in it.
func (s Sheets) dearest(input int64) (Rates, error) {
	var top Rates
	take := func(p *Rates) bool {
		in := max(p.Input, p.CachedInput, p.CacheWrite5m, p.CacheWrite1h, p.AudioInput, p.ImageInput)
		out := max(p.Output, p.Reasoning, p.AudioOutput, p.ImageOutput)
		top.Input, top.Output = max(top.Input, in), max(top.Output, out)
		top.PerRequest, top.PerImage = max(top.PerRequest, p.PerRequest), max(top.PerImage, p.PerImage)
		top.PerWebSearch, top.PerFileSearch = max(top.PerWebSearch, p.PerWebSearch), max(top.PerFileSearch, p.PerFileSearch)
		return p.valid()
	}
	valid := true
	for i, sheet := range [...]*Sheet{s.Manual, s.Synced} {
		if sheet == nil {
			continue
		}
		flat := i == 0 || s.Manual == nil // the synced flat price is out of reach beside a manual one
		for l := range sheet.ladders {
			if flat {
				valid = take(&l.Flat) && valid
			}
			for k := range l.Tiers {
				if t := &l.Tiers[k]; t.covers(input) {
					valid = take(&t.Rates) && valid
				}
			}
		}
	}
	if top.Reasoning = top.Output; !valid {
		return Rates{}, ErrRate
	}
	return top, nil
}
