package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/domain/ledger"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/projections/billing"
)

// Query says whose statement it is, and of when.
type Query struct {
	User  string    // this, or
	Key   string    // that
	Since time.Time // start of a UTC day; zero: from the beginning
	Until time.Time // the same, exclusive; zero: to the end
	Group string    // Groups; "" is day
}

// Groups are what usage of a statement can be gathered by.
var Groups = []string{byDay, byMonth}

const (
	byDay     = "day"
	byMonth   = "month"
	monthOnly = "2006-01"
)

// Check refuses a query that can not be answered. The error wraps ErrQuery.
func (q *Query) Check() error {
	switch {
	case q.User == "" && q.Key == "":
		return fmt.Errorf("%w: user: is missing; a statement is that of a user or of a key", ErrQuery)
	case q.User != "" && q.Key != "":
		return fmt.Errorf("%w: key: cannot stand beside user", ErrQuery)
	case q.Group != "" && !slices.Contains(Groups, q.Group):
		return fmt.Errorf("%w: group: %q is neither day nor month", ErrQuery, q.Group)
	}
	return span(q.Since, q.Until)
}

// Statement is what was posted for a user or a key: what operators booked, one by one, and what was used, by day or month.
// Opening and Closing are the balance before and after it, nil where nothing lives on one: Closing is Opening with the amounts
// of all lines.
type Statement struct {
	User    string        `json:"user,omitempty"`
	Key     string        `json:"key,omitempty"`
	Since   string        `json:"since,omitempty"` // UTC, 2006-01-02; "" is the beginning
	Until   string        `json:"until,omitempty"` // exclusive; "" is now
	Group   string        `json:"group"`           // day or month
	Opening *money.Amount `json:"opening,omitempty"`
	Lines   []Line        `json:"lines"`
	Closing *money.Amount `json:"closing,omitempty"`
	Totals  Totals        `json:"totals"`
}

// Line is one line of a statement.
type Line struct {
	Day  string     `json:"day"`         // of posting: 2006-01-02, or the month of usage and repricings
	At   *time.Time `json:"at,omitzero"` // of what was booked
	Kind Kind       `json:"kind"`
	ID   string     `json:"id,omitempty"` // of the credit, the adjustment, the subscription, or the run of repricing
	Note string     `json:"note,omitempty"`

	Key       string `json:"key,omitempty"`     // in the statement of a user
	Model     string `json:"model,omitempty"`   // in that of a key
	PaidBy    string `json:"paid_by,omitempty"` // balance, subscription/<id>; "" is nobody yet
	UsedFirst string `json:"used_first,omitempty"`
	UsedLast  string `json:"used_last,omitempty"` // days of use that a repricing is about
	Requests  int64  `json:"requests,omitempty"`
	Attempts  int64  `json:"attempts,omitempty"`

	Cost         *money.Amount        `json:"cost,omitempty"`    // that was charged, below 0 when it was given back; nil of what was booked
	Amount       *money.Amount        `json:"amount,omitempty"`  // by which the balance changes; nil when it does not
	Balance      *money.Amount        `json:"balance,omitempty"` // after it
	Subscription *ledger.Subscription `json:"subscription,omitempty"`
}

// Totals are the sums of the lines.
type Totals struct {
	Credited money.Amount `json:"credited"`
	Adjusted money.Amount `json:"adjusted"`
	Requests int64        `json:"requests"`
	Attempts int64        `json:"attempts"` // of usage
	Cost     money.Amount `json:"cost"`     // with what repricings have changed
	PaidBy   []Paid       `json:"paid_by"`  // the cost, by who paid
}

// Paid is what one of those who pay has paid.
type Paid struct {
	PaidBy string       `json:"paid_by"` // balance, subscription/<id>; "" is nobody yet
	Cost   money.Amount `json:"cost"`
}

// StatementOf reads and makes the statement of a query. What is booked while it reads may be missing from a statement up to now,
// never from one of days that are over. The error wraps ErrQuery when it can not be answered.
func StatementOf(ctx context.Context, r Reader, q Query) (*Statement, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	by := []string{"day", "reprice", "key", "paid_by"}
	if q.Key != "" {
		by = []string{"day", "reprice", "model", "paid_by"}
	}
	posted := PostedQuery{By: by, User: q.User, Key: q.Key, Since: q.Since, Until: q.Until, Carried: q.User != ""}
	var booked []Entry
	var err error
	if q.User != "" {
		if booked, err = r.Booked(ctx, q.User, q.Until); err != nil {
			return nil, err
		}
	}
	sums, err := r.Posted(ctx, posted)
	if err != nil {
		return nil, err
	}
	return makeStatement(&q, booked, sums), nil
}

// makeStatement makes a statement of what was booked and posted up to its end.
func makeStatement(q *Query, booked []Entry, sums []Sum) *Statement {
	s := &Statement{User: q.User, Key: q.Key, Since: dayOf(q.Since), Until: dayOf(q.Until), Group: cmp.Or(q.Group, byDay), Lines: []Line{}}
	var opening money.Amount
	lives := false // on a balance
	account := ledger.BalanceOf(q.User)
	for i := range booked {
		e := &booked[i]
		p := e.Posting()
		lives = lives || p != nil
		if e.At.Before(q.Since) {
			opening += p.On(account)
			continue
		}
		l := Line{Day: billing.DayText(billing.DayOf(e.At)), At: &e.At, Kind: e.Kind, ID: e.ID, Note: e.Note, Subscription: e.Subscription}
		if p != nil {
			l.Amount = ptr(p.On(account))
		}
		s.Lines = append(s.Lines, l)
	}
	used := gathering{of: s, at: map[lineKey]int{}}
	for i := range sums {
		x := &sums[i]
		x.User = q.User
		lives = lives || q.User != "" && x.PaidBy == ledger.PaidByBalance
		if x.Day < s.Since {
			opening += x.Posting().On(account)
			continue
		}
		used.add(x)
	}
	s.Lines = append(s.Lines, used.sorted()...)
	slices.SortStableFunc(s.Lines, func(a, b Line) int {
		return cmp.Or(cmp.Compare(s.period(a.Day), s.period(b.Day)), cmp.Compare(a.order(), b.order()))
	})
	if lives {
		s.carry(opening)
	}
	s.total()
	return s
}

// gathering is the lines of what was used and repriced, in the making.
type gathering struct {
	of    *Statement
	lines []Line
	at    map[lineKey]int
}

// lineKey tells those lines apart.
type lineKey struct{ day, run, key, model, paidBy string }

// add adds a sum to the line of its period.
func (g *gathering) add(x *Sum) {
	is := lineKey{day: g.of.period(x.Day), run: x.Reprice, key: x.Key, model: x.Model, paidBy: x.PaidBy}
	if i, known := g.at[is]; known {
		l := &g.lines[i]
		l.Requests, l.Attempts, *l.Cost = l.Requests+x.Requests, l.Attempts+x.Attempts, *l.Cost+x.Cost
		l.UsedFirst, l.UsedLast = min(l.UsedFirst, x.First), max(l.UsedLast, x.Last)
		return
	}
	l := Line{
		Day: is.day, Kind: Usage, Key: x.Key, Model: x.Model, PaidBy: x.PaidBy, UsedFirst: x.First, UsedLast: x.Last,
		Requests: x.Requests, Attempts: x.Attempts, Cost: ptr(x.Cost),
	}
	if x.Reprice != "" {
		l.Kind, l.ID = Repricing, x.Reprice
	}
	g.at[is] = len(g.lines)
	g.lines = append(g.lines, l)
}

// sorted are the lines in the order of what tells them apart. Those that a balance has paid say by how much it changes.
func (g *gathering) sorted() []Line {
	slices.SortFunc(g.lines, func(a, b Line) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Model, b.Model),
			cmp.Compare(a.PaidBy, b.PaidBy))
	})
	for i := range g.lines {
		l := &g.lines[i]
		if l.Kind == Usage {
			l.UsedFirst, l.UsedLast = "", "" // the day of posting
		}
		if user := g.of.User; user != "" && l.PaidBy == ledger.PaidByBalance {
			posting := ledger.Usage{User: user, PaidBy: l.PaidBy, Cost: *l.Cost}.Posting()
			l.Amount = ptr(posting.On(ledger.BalanceOf(user)))
		}
	}
	return g.lines
}

// period is what a day is shown as where lines are gathered.
func (s *Statement) period(day string) string {
	if s.Group == byMonth {
		return day[:len(monthOnly)]
	}
	return day
}

// order is that of lines of one period: what was booked, what was used, what was repriced.
func (l *Line) order() int {
	switch l.Kind {
	case Usage:
		return 1
	case Repricing:
		return 2
	}
	return 0
}

// carry writes the balance behind every line.
func (s *Statement) carry(balance money.Amount) {
	s.Opening = ptr(balance)
	for i := range s.Lines {
		if l := &s.Lines[i]; l.Amount != nil {
			balance += *l.Amount
			l.Balance = ptr(balance)
		}
	}
	s.Closing = ptr(balance)
}

func (s *Statement) total() {
	t := &s.Totals
	paid := map[string]money.Amount{}
	for i := range s.Lines {
		l := &s.Lines[i]
		switch l.Kind {
		case Credit:
			t.Credited += *l.Amount
		case Adjustment:
			t.Adjusted += *l.Amount
		case Usage:
			t.Requests, t.Attempts = t.Requests+l.Requests, t.Attempts+l.Attempts
		}
		if l.Cost != nil {
			t.Cost += *l.Cost
			paid[l.PaidBy] += *l.Cost
		}
	}
	t.PaidBy = []Paid{}
	for by, cost := range paid {
		t.PaidBy = append(t.PaidBy, Paid{by, cost})
	}
	slices.SortFunc(t.PaidBy, func(a, b Paid) int { return cmp.Compare(a.PaidBy, b.PaidBy) })
}

func ptr(a money.Amount) *money.Amount { return &a }
