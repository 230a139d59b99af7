package ledger

import (
	"errors"
	"fmt"
	"time"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/money"
)

// What errors.Is finds in the errors of a booking, beside catalog.ErrInvalid of a *catalog.InvalidError that names the field.
var (
	ErrUnknownUser         = errors.New("user is not known")
	ErrUnknownSubscription = errors.New("subscription is not known")
	ErrConflict            = errors.New("the id was booked with something else")
)

const (
	amountMax        = 100_000_000 * money.USD // of one booking, and of one window
	noteMax          = 2000                    // bytes
	subscriptionsMax = 64                      // of one user
	yearMin          = 1970                    // of a time; the last is catalog.YearMax
)

// Decide says which facts follow from what an operator wants of a user: the command is the fact itself, as a pointer. None: it
// was booked before, with the very same content. A grant that does not say when it starts keeps the start of the present one
// of its id, else it starts at the given time; times are kept to the microsecond. That the user and the group of a subscription
// exist is for others to say, who know the catalogue.
func (p *Purse) Decide(command any, at time.Time) ([]any, error) {
	user := UserOf(command)
	c := checker{ref: catalog.Ref{Kind: catalog.KindUser, ID: user}}
	if user == "" {
		return nil, fmt.Errorf("%w: %q", ErrUnknownUser, user)
	}
	switch f := command.(type) {
	case *Credited:
		c.id("id", f.ID)
		c.amount(f.Amount)
		c.note(f.Note, false)
		said := *f
		return p.book(&c, f.ID, f.Amount, said, &said)
	case *Adjusted:
		c.id("id", f.ID)
		c.correction(f.Amount)
		c.note(f.Note, true)
		said := *f
		return p.book(&c, f.ID, f.Amount, said, &said)
	case *Granted:
		return p.grant(&c, *f, at)
	case *Revoked:
		return p.revoke(&c, *f)
	}
	return nil, fmt.Errorf("%w: %T", ErrUnknownUser, command)
}

// book decides on money: once for each id.
func (p *Purse) book(c *checker, id string, amount money.Amount, said, fact any) ([]any, error) {
	if err := c.err(); err != nil {
		return nil, err
	}
	if b, ok := p.booked[id]; ok {
		if value(b.fact) != said {
			return nil, fmt.Errorf("%w: %s of user %s was booked before, as another kind, amount or note", ErrConflict, id, c.ref.ID)
		}
		return nil, nil
	}
	if !p.fits(amount) {
		c.fail("amount", "makes the balance larger than can be counted")
		return nil, c.err()
	}
	return []any{fact}, nil
}

// value is what a booked fact says, to compare.
func value(fact any) any {
	switch f := fact.(type) {
	case *Credited:
		return *f
	case *Adjusted:
		return *f
	}
	return nil
}

func (p *Purse) grant(c *checker, f Granted, at time.Time) ([]any, error) {
	s := &f.Subscription
	present := p.subscription(s.ID)
	switch {
	case !s.Starts.IsZero():
	case present != nil:
		s.Starts = present.Starts
	default:
		s.Starts = at
	}
	s.Starts, s.Expires = moment(s.Starts), moment(s.Expires)
	c.subscription(s)
	c.note(f.Note, false)
	if err := c.err(); err != nil {
		return nil, err
	}
	if present != nil && present.same(s) {
		return nil, nil
	}
	if present == nil && len(p.order) >= subscriptionsMax {
		c.fail("id", "is one too many: the user has %d subscriptions that are not revoked", len(p.order))
		return nil, c.err()
	}
	return []any{&f}, nil
}

func (s *Subscription) same(t *Subscription) bool {
	a, b := *s, *t
	a.Starts, a.Expires, b.Starts, b.Expires = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return a == b && s.Starts.Equal(t.Starts) && s.Expires.Equal(t.Expires)
}

func (p *Purse) revoke(c *checker, f Revoked) ([]any, error) {
	c.id("id", f.ID)
	c.note(f.Note, false)
	if err := c.err(); err != nil {
		return nil, err
	}
	switch p.subs[f.ID].fact.(type) {
	case *Granted:
		return []any{&f}, nil
	case *Revoked:
		return nil, nil
	}
	return nil, fmt.Errorf("%w: user %s was never given %s", ErrUnknownSubscription, c.ref.ID, f.ID)
}

// checker collects what is wrong with a command.
type checker struct {
	ref    catalog.Ref
	faults []error
}

func (c *checker) fail(field, format string, args ...any) {
	c.faults = append(c.faults, &catalog.InvalidError{Ref: c.ref, Field: field, Reason: fmt.Sprintf(format, args...)})
}

func (c *checker) err() error { return errors.Join(c.faults...) }

func (c *checker) id(field, id string) {
	if fault := catalog.IDFault(id); fault != "" {
		c.fail(field, "%s", fault)
	}
}

func (c *checker) amount(a money.Amount) {
	if a <= 0 || a > amountMax {
		c.fail("amount", "must be an amount of USD, more than 0 and at most %s", amountMax)
	}
}

func (c *checker) correction(a money.Amount) {
	if a == 0 || a > amountMax || a < -amountMax {
		c.fail("amount", "must be an amount of USD, not 0 and at most %s either way", amountMax)
	}
}

func (c *checker) note(note string, needed bool) {
	switch {
	case needed && note == "":
		c.fail("note", "is required: it says why")
	case len(note) > noteMax:
		c.fail("note", "is longer than %d bytes", noteMax)
	}
}

func (c *checker) subscription(s *Subscription) {
	c.id("id", s.ID)
	if s.Group != "" {
		c.id("group", s.Group)
	}
	c.when("starts", s.Starts)
	if !s.Expires.IsZero() {
		c.when("expires", s.Expires)
		if !s.Expires.After(s.Starts) {
			c.fail("expires", "is not after starts")
		}
	}
	windows := [...]struct {
		field string
		limit money.Amount
	}{{"daily", s.Daily}, {"weekly", s.Weekly}, {"monthly", s.Monthly}}
	any := false
	for _, w := range windows {
		any = any || w.limit != 0
		if w.limit < 0 || w.limit > amountMax {
			c.fail(w.field, "must be an amount of USD, more than 0 and at most %s; without it there is no such window", amountMax)
		}
	}
	if !any {
		c.fail("", "needs at least one of daily, weekly and monthly")
	}
}

func (c *checker) when(field string, t time.Time) {
	if y := t.UTC().Year(); y < yearMin || y > catalog.YearMax {
		c.fail(field, "must be between the years %d and %d", yearMin, catalog.YearMax)
	}
}
