package pricing

import "github.com/penstock/penstock/domain/money"

// Charge is what one attempt is booked at.
type Charge struct {
	Version  string // of the price; "" when unpriced
	Upstream money.Amount
	Caller   money.Amount
	Unpriced bool
}

// Posted is one attempt of a settled request as it stands in the books, earlier repricings included.
type Posted struct {
	N           int
	Call        Call
	Usage       Usage
	Source      Source
	Multipliers Multipliers // that it was priced with
	Free        bool        // the caller pays nothing for it, as it got nothing
	Charge      Charge
}

// Change is the difference that a book makes to one attempt.
type Change struct {
	N         int
	Was, Is   Charge
	Origin    Origin       // of the price of Is
	Upstream  money.Amount // Is minus Was
	Caller    money.Amount
	Inherited bool // no price for the service tier: the ordinary one counts
}

// Repriced is what a book makes of a settled request.
type Repriced struct {
	Changes  []Change // attempts whose amounts differ, or that were unpriced; by attempt
	Upstream money.Amount
	Caller   money.Amount // sums of the differences
	Missing  []int        // attempts for which the book has no price: they stay as they are
}

// Reprice compares what the attempts of one settled request are booked at with what they cost by a book. It is the
// arithmetic of a difference: once the changes are booked, it finds none (pain 80). An attempt whose price is the same
// under a new version is no change. A price that has gone takes nothing back. Attempts without a known usage have no
// price. The error is ErrOverflow.
func Reprice(b Book, attempts []Posted) (Repriced, error) {
	var r Repriced
	for i := range attempts {
		p := &attempts[i]
		if p.Source == None || p.Source == "" {
			continue
		}
		bill := Settle(b, p.Call, p.Usage, p.Multipliers)
		if bill.Unpriced || bill.Rates == nil {
			if !p.Usage.IsZero() {
				r.Missing = append(r.Missing, p.N)
			}
			continue
		}
		is := Charge{Version: bill.Version, Upstream: bill.Upstream.Total, Caller: bill.Caller.Total}
		if p.Free {
			is.Caller = 0
		}
		was := p.Charge
		if is.Upstream == was.Upstream && is.Caller == was.Caller && !was.Unpriced {
			continue
		}
		c := Change{p.N, was, is, bill.Origin, is.Upstream - was.Upstream, is.Caller - was.Caller, bill.Inherited}
		var ok, fits bool
		r.Upstream, ok = sum(r.Upstream, c.Upstream)
		r.Caller, fits = sum(r.Caller, c.Caller)
		if !ok || !fits {
			return Repriced{}, ErrOverflow
		}
		r.Changes = append(r.Changes, c)
	}
	return r, nil
}
