package pricing

import (
	"strings"
	"time"
)

// Tier is what a request costs as a whole once its input is long.
type Tier struct {
	Above     int64 // input tokens, of every class together
	Inclusive bool  // an input of exactly Above tokens is long already
	Rates     Rates
}

// covers says that an input is long enough for the tier.
func (t *Tier) covers(input int64) bool { return input > t.Above || t.Inclusive && input == t.Above }

// Ladder is the flat price and the prices of long inputs.
type Ladder struct {
	Flat  Rates
	Tiers []Tier // the longest first
}

// tier is the step for an input; nil is the flat price.
func (l *Ladder) tier(input int64) *Tier {
	for i := range l.Tiers {
		if l.Tiers[i].covers(input) {
			return &l.Tiers[i]
		}
	}
	return nil
}

// Origin says who set a price.
type Origin string

// The origins. What people set comes before what was read from a list.
const (
	Manual Origin = "manual"
	Synced Origin = "synced"
)

// Sheet is one value of one price: everything that a model may cost, with all fallbacks applied.
type Sheet struct {
	Ladder
	Services  map[string]*Ladder // by service tier (flex, priority, batch …), named as Service gives it
	MaxInput  int64              // tokens that the model takes; 0 is unknown
	MaxOutput int64              // tokens that the model writes; 0 is unknown
	Version   string             // which value of which price it is
	Origin    Origin
}

// Service is the name under which a service tier is priced; "" is the ordinary one. Providers spell it in several ways.
func Service(reported string) string {
	switch s := strings.ToLower(reported); s {
	case "", "default", "auto", "standard", "standard_only", "on_demand", "provisioned_throughput":
		return "" // what is provisioned is paid for beforehand: its tokens have no price of their own
	case "batches":
		return "batch"
	default:
		return strings.TrimPrefix(s, "on_demand_")
	}
}

// ladder is the one of a service tier. own is false when the tier has no price of its own: it then costs what the
// ordinary one does.
func (s *Sheet) ladder(service string) (_ *Ladder, own bool) {
	if service == "" {
		return &s.Ladder, true
	}
	l := s.Services[service]
	if l == nil && service == "fast" { // another name of priority, where it has no price of its own
		l = s.Services["priority"]
	}
	if l == nil {
		return &s.Ladder, false
	}
	return l, true
}

// ladders are the ordinary one and those of the service tiers.
func (s *Sheet) ladders(yield func(*Ladder) bool) {
	if !yield(&s.Ladder) {
		return
	}
	for _, l := range s.Services {
		if !yield(l) {
			return
		}
	}
}

// Sheets are the prices of one model at one upstream at one time: the one that people set and the one that was synced.
// Either may be nil; with both nil the model is unpriced.
type Sheets struct{ Manual, Synced *Sheet }

// Quote is the price that one attempt is charged at.
type Quote struct {
	Rates   *Rates
	Version string // of the price
	Origin  Origin
	// Inherited: the upstream reported a tier of service for which there is no price; the ordinary one is charged.
	Inherited bool
}

// Quote resolves in the order manual tier, synced tier, manual flat, synced flat. input is all input tokens of the
// attempt; a tier prices the whole of it. reported is the service tier that the upstream says it served: long inputs
// and service tiers do not multiply, the more special price alone counts (pain 67). ok is false when there is no price.
func (s Sheets) Quote(reported string, input int64) (_ Quote, ok bool) {
	service := Service(reported)
	for _, sheet := range [...]*Sheet{s.Manual, s.Synced} {
		if sheet == nil {
			continue
		}
		l, own := sheet.ladder(service)
		if t := l.tier(input); t != nil {
			return Quote{&t.Rates, sheet.Version, sheet.Origin, !own}, true
		}
	}
	sheet := s.Manual
	if sheet == nil {
		sheet = s.Synced
	}
	if sheet == nil {
		return Quote{}, false
	}
	l, own := sheet.ladder(service)
	return Quote{&l.Flat, sheet.Version, sheet.Origin, !own}, true
}

// Call says what an attempt is priced by.
type Call struct {
	Model         string // resolved
	UpstreamModel string // what the body said when it was rewritten; "" if it was not
	Upstream      string
	ServiceTier   string    // as the upstream reported it; "" if it did not
	At            time.Time // when the request came
}

// Book finds prices. A nil Book is not one; an empty book gives empty Sheets.
type Book interface {
	Sheets(model, upstreamModel, upstream string, at time.Time) Sheets
}

// Reasons why an attempt is unpriced.
const (
	PriceNotFound    = "price_not_found"
	CalculationError = "calculation_error" // beyond any real bill; the usage is kept and can be repriced
)

// Bill is what one attempt costs and by which price.
type Bill struct {
	Quote
	Breakdown
	Reason string // why it is unpriced; "" if it is not
}

// Settle prices one attempt that is to be paid. It never fails: what cannot be priced is Unpriced, at no cost, with a
// Reason. Nothing used and no price is no reason.
func Settle(b Book, c Call, u Usage, m Multipliers) (bill Bill) {
	bill.Settle(b, &c, &u, &m)
	return bill
}

// Settle is the same in place, for a bill that is empty.
func (bill *Bill) Settle(b Book, c *Call, u *Usage, m *Multipliers) {
	var ok bool
	bill.Quote, ok = b.Sheets(c.Model, c.UpstreamModel, c.Upstream, c.At).Quote(c.ServiceTier, u.InputTotal())
	if !ok {
		if !u.IsZero() {
			bill.Unpriced, bill.Reason = true, PriceNotFound
		}
		return
	}
	if bill.Breakdown.price(bill.Rates, u, m) != nil {
		*bill = Bill{Breakdown: Breakdown{Unpriced: true}, Reason: CalculationError}
	}
}
