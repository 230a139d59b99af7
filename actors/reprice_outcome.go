package actors

import (
	"cmp"
	"slices"
	"time"

	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/events"
)

// Repricing is what a run has changed, or would change. Amounts are those of the attempts that change: what they were, what they
// are, and is minus was.
type Repricing struct {
	Run      string          `json:"run,omitempty"` // "" of a preview
	Applied  bool            `json:"applied"`
	Prices   string          `json:"prices"` // the same for the same prices
	Revision events.Position `json:"revision"`

	From events.Position `json:"from"` // of what was read
	To   events.Position `json:"to"`
	Read int64           `json:"requests_read"` // that were sent, and have ended
	Open int64           `json:"requests_open"` // that have not: they will settle by the prices of then

	RepriceSums
	Lines   []RepriceLine    `json:"lines"`                // by key and model
	More    int64            `json:"more_lines,omitempty"` // changes beyond the lines that are told one by one; the sums have them
	Missing []RepriceMissing `json:"missing"`              // attempts for which there is no price
	Refused []RepriceRefused `json:"refused"`              // days whose requests stay as they are
	// ClosedThrough is the last day that was not looked at because it is closed; "" when the scope names a time.
	ClosedThrough string  `json:"closed_through,omitempty"`
	Unreadable    int64   `json:"unreadable,omitempty"` // requests that could not be read or booked; the log says why
	Seconds       float64 `json:"seconds"`
	PerSecond     int64   `json:"requests_per_second"`

	lines   map[[2]string]*RepriceLine
	lacking map[[2]string]int64
	days    map[string]*RepriceRefused
}

// RepriceSums are sums over changes.
type RepriceSums struct {
	Requests           int64        `json:"requests"`
	Attempts           int64        `json:"attempts"`
	Was                money.Amount `json:"was"` // of the caller
	Is                 money.Amount `json:"is"`
	Difference         money.Amount `json:"difference"`
	UpstreamWas        money.Amount `json:"upstream_was"`
	UpstreamIs         money.Amount `json:"upstream_is"`
	UpstreamDifference money.Amount `json:"upstream_difference"`
	Resolved           int64        `json:"newly_priced"` // attempts without a price that have got one
}

// RepriceLine is what changes of one key and model.
type RepriceLine struct {
	Key   string `json:"key"`
	Model string `json:"model"` // resolved
	RepriceSums
}

// RepriceMissing counts attempts that no price is known for.
type RepriceMissing struct {
	Model    string `json:"model"`
	Upstream string `json:"upstream"`
	Attempts int64  `json:"attempts"`
}

// RepriceRefused is what would change of a closed day.
type RepriceRefused struct {
	Day    string `json:"day"`
	Reason string `json:"reason"`
	RepriceSums
}

// repriceLines bounds the lines, and what is missing, that are told one by one.
const repriceLines = 10_000

func (s *RepriceSums) add(c *pricing.Change) {
	s.Attempts++
	s.Was, s.Is, s.Difference = s.Was+c.Was.Caller, s.Is+c.Is.Caller, s.Difference+c.Caller
	s.UpstreamWas, s.UpstreamIs, s.UpstreamDifference = s.UpstreamWas+c.Was.Upstream, s.UpstreamIs+c.Is.Upstream, s.UpstreamDifference+c.Upstream
	if c.Was.Unpriced {
		s.Resolved++
	}
}

// count adds a request that changes.
func (o *Repricing) count(f *repriceFound) {
	o.Requests++
	ask := f.Ask()
	var seen []*RepriceLine
	for i := range f.Changes {
		c := &f.Changes[i]
		o.add(c)
		sent := f.Sent(c.N)
		l := o.line(ask.Key, sent.PricedModel(ask.Model))
		if l == nil {
			o.More++
			continue
		}
		l.add(c)
		if !slices.Contains(seen, l) {
			l.Requests++
			seen = append(seen, l)
		}
	}
}

// line is that of a key and model; nil: there are too many.
func (o *Repricing) line(key, model string) *RepriceLine {
	of := [2]string{key, model}
	l := o.lines[of]
	if l == nil && len(o.lines) < repriceLines {
		if o.lines == nil {
			o.lines = map[[2]string]*RepriceLine{}
		}
		l = &RepriceLine{Key: key, Model: model}
		o.lines[of] = l
	}
	return l
}

func (o *Repricing) missing(model, upstream string) {
	if o.lacking == nil {
		o.lacking = map[[2]string]int64{}
	}
	of := [2]string{model, upstream}
	if _, known := o.lacking[of]; !known && len(o.lacking) >= repriceLines {
		of = [2]string{}
	}
	o.lacking[of]++
}

// day is the line of a closed day.
func (o *Repricing) day(day, reason string) *RepriceRefused {
	if o.days == nil {
		o.days = map[string]*RepriceRefused{}
	}
	d := o.days[day]
	if d == nil {
		d = &RepriceRefused{Day: day, Reason: reason}
		o.days[day] = d
	}
	return d
}

func (o *Repricing) refused(day, reason string, f *repriceFound) {
	d := o.day(day, reason)
	d.Requests++
	for i := range f.Changes {
		d.add(&f.Changes[i])
	}
}

// finish puts everything in order.
func (o *Repricing) finish(took time.Duration) {
	o.Lines, o.Missing, o.Refused = []RepriceLine{}, []RepriceMissing{}, []RepriceRefused{}
	for _, l := range o.lines {
		o.Lines = append(o.Lines, *l)
	}
	for of, n := range o.lacking {
		o.Missing = append(o.Missing, RepriceMissing{of[0], of[1], n})
	}
	for _, d := range o.days {
		o.Refused = append(o.Refused, *d)
	}
	slices.SortFunc(o.Lines, func(a, b RepriceLine) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Model, b.Model)) })
	slices.SortFunc(o.Missing, func(a, b RepriceMissing) int {
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.Upstream, b.Upstream))
	})
	slices.SortFunc(o.Refused, func(a, b RepriceRefused) int { return cmp.Compare(a.Day, b.Day) })
	o.Seconds = took.Seconds()
	if o.Seconds > 0 {
		o.PerSecond = int64(float64(o.Read) / o.Seconds)
	}
}
