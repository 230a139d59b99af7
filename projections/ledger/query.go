package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/penstock/penstock/domain/ledger"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
)

// ErrQuery is wrapped by every refusal of a query; the text names the field.
var ErrQuery = errors.New("bad statement query")

// Kind is what an entry of the ledger or a line of a statement is about.
type Kind string

// The kinds. The first four are what operators have booked.
const (
	Credit     Kind = "credit"
	Adjustment Kind = "adjustment"
	Grant      Kind = "grant"
	Revocation Kind = "revocation"
	Usage      Kind = "usage"
	Repricing  Kind = "repricing"
)

// Entry is one thing that an operator has booked.
type Entry struct {
	Position     events.Position
	At           time.Time
	User         string
	Kind         Kind
	ID           string
	Amount       money.Amount // USD; 0 of a grant and of a revocation
	Note         string
	Subscription *ledger.Subscription // of a grant
}

// EntryFromRow is the entry that a row of Entries tells.
func EntryFromRow(row []projections.Value) (Entry, error) {
	e := Entry{
		Position: events.Position(row[0].Int()), At: row[1].Time(), User: row[2].Text(), Kind: Kind(row[3].Text()), ID: row[4].Text(),
		Amount: row[5].Money(), Note: row[6].Text(),
	}
	if row[7].IsText() {
		if err := json.Unmarshal([]byte(row[7].Text()), &e.Subscription); err != nil {
			return e, fmt.Errorf("ledger: row %d: subscription: %w", e.Position, err)
		}
	}
	return e, nil
}

// Posting books the entry. That of a grant or a revocation is empty.
func (e *Entry) Posting() ledger.Posting {
	switch e.Kind {
	case Credit:
		return ledger.Credited{User: e.User, Amount: e.Amount}.Posting()
	case Adjustment:
		return ledger.Adjusted{User: e.User, Amount: e.Amount}.Posting()
	}
	return nil
}

// Dimensions are what usage can be summed by. The day is that of posting; reprice is the run of repricing that moved
// something, "" for the usage itself as it was first posted.
var Dimensions = []string{"day", "reprice", "key", "user", "model", "upstream", "paid_by"}

// PostedQuery selects and groups what usage and repricings have posted. The zero value is one sum over everything.
type PostedQuery struct {
	By    []string // Dimensions, in the order of the sums
	User  string   // "" does not filter, as Key
	Key   string
	Since time.Time // start of a UTC day; zero: from the beginning
	Until time.Time // the same, exclusive; zero: to the end
	// Carried: what was posted before Since counts on the day before it, and not not at all.
	Carried bool
}

// Check refuses a query that can not be answered. The error wraps ErrQuery.
func (q *PostedQuery) Check() error {
	for i, by := range q.By {
		if !slices.Contains(Dimensions, by) {
			return fmt.Errorf("%w: by: %q is not one of %s", ErrQuery, by, strings.Join(Dimensions, ", "))
		}
		if slices.Contains(q.By[:i], by) {
			return fmt.Errorf("%w: by: %q is named twice", ErrQuery, by)
		}
	}
	return span(q.Since, q.Until)
}

// Days are the borders of the query as days since 1970; nil is none.
func (q *PostedQuery) Days() (first, end *int64) {
	border := func(t time.Time) *int64 {
		if t.IsZero() {
			return nil
		}
		day := billing.DayOf(t)
		return &day
	}
	return border(q.Since), border(q.Until)
}

// span refuses borders that are no days, or that leave nothing between them.
func span(since, until time.Time) error {
	for _, border := range []struct {
		name string
		at   time.Time
	}{{"since", since}, {"until", until}} {
		if !border.at.IsZero() && !border.at.Equal(border.at.UTC().Truncate(24*time.Hour)) {
			return fmt.Errorf("%w: %s: is not the start of a day in UTC", ErrQuery, border.name)
		}
	}
	if !since.IsZero() && !until.IsZero() && !since.Before(until) {
		return fmt.Errorf("%w: until: is not after since", ErrQuery)
	}
	return nil
}

// ParseDay reads a border: a day, or a month for its first day; "" is none. The error wraps ErrQuery.
func ParseDay(field, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.DateOnly, monthOnly} {
		if t, err := time.Parse(layout, text); err == nil && t.Year() > 0 {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%w: %s: %q is neither a day (2026-01-31) nor a month (2026-01)", ErrQuery, field, text)
}

// Sum is what was posted. A field that the query does not group by is empty.
type Sum struct {
	Day      string // UTC, 2006-01-02: of posting
	Reprice  string
	Key      string
	User     string
	Model    string
	Upstream string
	PaidBy   string

	First, Last  string // days of use
	Requests     int64  // 0 of a repricing
	Attempts     int64  // of a repricing: those that it priced anew
	Cost         money.Amount
	UpstreamCost money.Amount
}

// Summed are the columns of a Sum behind those that it is grouped by, in order.
var Summed = []string{"first", "last", "requests", "attempts", "cost", "upstream_cost"}

// SumFromRow makes a sum of a row that has the fields of by, followed by Summed; days are numbers.
func SumFromRow(by []string, row []projections.Value) Sum {
	var s Sum
	for i, name := range by {
		switch name {
		case "day":
			s.Day = billing.DayText(row[i].Int())
		case "reprice":
			s.Reprice = row[i].Text()
		case "key":
			s.Key = row[i].Text()
		case "user":
			s.User = row[i].Text()
		case "model":
			s.Model = row[i].Text()
		case "upstream":
			s.Upstream = row[i].Text()
		case "paid_by":
			s.PaidBy = row[i].Text()
		}
	}
	row = row[len(by):]
	s.First, s.Last = billing.DayText(row[0].Int()), billing.DayText(row[1].Int())
	s.Requests, s.Attempts, s.Cost, s.UpstreamCost = row[2].Int(), row[3].Int(), row[4].Money(), row[5].Money()
	return s
}

// Posting books the sum, which must be grouped by what tells the accounts.
func (s *Sum) Posting() ledger.Posting {
	return ledger.Usage{Key: s.Key, User: s.User, PaidBy: s.PaidBy, Upstream: s.Upstream, Cost: s.Cost, UpstreamCost: s.UpstreamCost}.Posting()
}

// Reader answers queries over the ledger. A read model of this projection and of the bill is one.
type Reader interface {
	// Booked are the entries of a user, "" of all, before a time (zero: all), in order of their positions.
	Booked(ctx context.Context, user string, until time.Time) ([]Entry, error)
	// Posted sums what usage and repricings have posted, at one moment, ordered by the fields it is grouped by. Without groups it
	// is one sum, or none when there is nothing.
	Posted(ctx context.Context, q PostedQuery) ([]Sum, error)
}
