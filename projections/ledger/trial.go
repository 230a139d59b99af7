package ledger

import (
	"context"
	"time"

	"github.com/penstock/penstock/domain/ledger"
	"github.com/penstock/penstock/domain/money"
)

// Trial is what was posted to each account of the double-entry books. It sums to zero.
type Trial struct {
	Since    string        `json:"since,omitempty"` // UTC, 2006-01-02; "" is the beginning
	Until    string        `json:"until,omitempty"` // exclusive; "" is now
	Accounts []ledger.Side `json:"accounts"`        // in order of their names, without those that have nothing
	Sum      money.Amount  `json:"sum"`
}

// TrialOf reads and makes the trial balance of what was posted between two days in UTC; a zero time is no border. The error
// wraps ErrQuery when it can not be answered.
func TrialOf(ctx context.Context, r Reader, since, until time.Time) (*Trial, error) {
	posted := PostedQuery{By: []string{"key", "user", "upstream", "paid_by"}, Since: since, Until: until}
	if err := posted.Check(); err != nil {
		return nil, err
	}
	booked, err := r.Booked(ctx, "", until)
	if err != nil {
		return nil, err
	}
	sums, err := r.Posted(ctx, posted)
	if err != nil {
		return nil, err
	}
	all := ledger.Trial{}
	for i := range booked {
		if e := &booked[i]; !e.At.Before(since) {
			all.Add(e.Posting())
		}
	}
	for i := range sums {
		all.Add(sums[i].Posting())
	}
	return &Trial{Since: dayOf(since), Until: dayOf(until), Accounts: all.Accounts(), Sum: all.Sum()}, nil
}

// dayOf is a border as it is shown.
func dayOf(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.DateOnly)
}
