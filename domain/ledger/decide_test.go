package ledger

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/money"
)

var at = time.Date(2026, 3, 1, 12, 0, 0, 123_456_789, time.UTC)

// told folds facts, at positions from 1.
func told(facts ...any) *State {
	s := &State{}
	for i, f := range facts {
		s.Evolve(f, int64(i)+1)
	}
	return s
}

func credit(id string, a money.Amount) *Credited { return &Credited{User: "u", ID: id, Amount: a} }

func adjust(id string, a money.Amount) *Adjusted {
	return &Adjusted{User: "u", ID: id, Amount: a, Note: "why"}
}

func grant(id string, change func(*Subscription)) *Granted {
	g := &Granted{User: "u", Subscription: Subscription{ID: id, Starts: moment(at), Daily: money.USD}}
	if change != nil {
		change(&g.Subscription)
	}
	return g
}

func revoke(id string) *Revoked { return &Revoked{User: "u", ID: id} }

// Money is booked once for each id, whoever repeats it; the same id with something else is a mistake.
func TestWhatIsBookedOnceIsNotBookedAgain(t *testing.T) {
	for _, c := range []struct {
		says    string
		before  []any
		command any
		books   bool
		at      int64 // of the earlier booking
		err     error
	}{
		{"a first credit", nil, credit("1", 5), true, 0, nil},
		{"another id", []any{credit("1", 5)}, credit("2", 5), true, 0, nil},
		{"the same again", []any{credit("0", 9), credit("1", 5)}, credit("1", 5), false, 2, nil},
		{"the same id with another amount", []any{credit("1", 5)}, credit("1", 6), false, 0, ErrConflict},
		{"the same id with another note", []any{credit("1", 5)}, &Credited{User: "u", ID: "1", Amount: 5, Note: "other"}, false, 0, ErrConflict},
		{"credits and adjustments share their ids", []any{credit("1", 5)}, adjust("1", 5), false, 0, ErrConflict},
		{"an adjustment below zero", nil, adjust("1", -5), true, 0, nil},
		{"an adjustment again", []any{adjust("1", -5)}, adjust("1", -5), false, 1, nil},
		{"an id of another user", []any{&Credited{User: "v", ID: "1", Amount: 7}}, credit("1", 5), true, 0, nil},
		{"a first grant", nil, grant("s", nil), true, 0, nil},
		{"the same grant", []any{grant("s", nil)}, grant("s", nil), false, 1, nil},
		{"the same grant in another zone", []any{grant("s", nil)},
			grant("s", func(s *Subscription) { s.Starts = s.Starts.In(time.FixedZone("", 7200)) }), false, 1, nil},
		{"the same grant that does not say when", []any{grant("s", func(s *Subscription) { s.Starts = s.Starts.Add(-time.Hour) })},
			grant("s", func(s *Subscription) { s.Starts = time.Time{} }), false, 1, nil},
		{"a changed grant", []any{grant("s", nil)}, grant("s", func(s *Subscription) { s.Weekly = 7 }), true, 0, nil},
		{"a grant after its revocation", []any{grant("s", nil), revoke("s")}, grant("s", nil), true, 0, nil},
		{"a revocation", []any{grant("s", nil)}, revoke("s"), true, 0, nil},
		{"a second revocation", []any{grant("s", nil), revoke("s")}, revoke("s"), false, 2, nil},
		{"a revocation of what never was", []any{grant("s", nil)}, revoke("other"), false, 0, ErrUnknownSubscription},
		{"nobody", nil, &Credited{ID: "1", Amount: 5}, false, 0, ErrUnknownUser},
		{"what is no fact of the ledger", nil, &catalog.User{ID: "u"}, false, 0, ErrUnknownUser},
	} {
		t.Run(c.says, func(t *testing.T) {
			s := told(c.before...)
			p := s.Purse("u")
			facts, err := p.Decide(c.command, at)
			if !errors.Is(err, c.err) || (len(facts) == 1) != c.books {
				t.Fatalf("%v, %v", facts, err)
			}
			if got := p.Position(c.command); err == nil && !c.books && got != c.at {
				t.Errorf("booked at %d, want %d", got, c.at)
			}
			for i, f := range facts {
				if f == c.command {
					t.Error("the fact is the command itself, which is not ours")
				}
				s.Evolve(f, int64(len(c.before)+i)+1)
			}
			if again, err := s.Purse("u").Decide(c.command, at); c.books && (err != nil || len(again) != 0) {
				t.Errorf("repeated: %v, %v", again, err)
			}
		})
	}
}

func TestFaultsOfABookingNameTheField(t *testing.T) {
	long := strings.Repeat("x", 2001)
	full := told()
	for i := range subscriptionsMax {
		full.Evolve(grant(strings.Repeat("s", i+1), nil), int64(i)+1)
	}
	rich := told(credit("1", 1<<61-5))
	for _, c := range []struct {
		of      *State
		command any
		want    string
	}{
		{nil, credit("1", 0), "user u: amount: must be an amount of USD, more than 0 and at most 100000000"},
		{nil, credit("1", -5), "user u: amount: must be an amount of USD, more than 0 and at most 100000000"},
		{nil, credit("1", 100_000_000*money.USD+1), "user u: amount: must be an amount of USD, more than 0 and at most 100000000"},
		{nil, adjust("1", 0), "user u: amount: must be an amount of USD, not 0 and at most 100000000 either way"},
		{nil, adjust("1", -100_000_000*money.USD-1), "user u: amount: must be an amount of USD, not 0 and at most 100000000 either way"},
		{nil, &Adjusted{User: "u", ID: "1", Amount: 5}, "user u: note: is required: it says why"},
		{nil, &Credited{User: "u", ID: "1", Amount: 5, Note: long}, "user u: note: is longer than 2000 bytes"},
		{nil, credit("", 5), "user u: id: is required"},
		{nil, credit("a/b", 5), "user u: id: must be letters, digits and ._-:@+, with a letter or digit first"},
		{nil, credit(long[:129], 5), "user u: id: is longer than 128 bytes"},
		{nil, credit("-", 0), "user u: id: must be letters, digits and ._-:@+, with a letter or digit first\nuser u: amount: must be an amount of USD, more than 0 and at most 100000000"},
		{rich, credit("2", 10), "user u: amount: makes the balance larger than can be counted"},
		{nil, grant("", nil), "user u: id: is required"},
		{nil, grant("s", func(s *Subscription) { s.Daily = 0 }), "user u: needs at least one of daily, weekly and monthly"},
		{nil, grant("s", func(s *Subscription) { s.Daily = -1 }), "user u: daily: must be an amount of USD, more than 0 and at most 100000000; without it there is no such window"},
		{nil, grant("s", func(s *Subscription) { s.Weekly, s.Monthly = -1, -1 }), "user u: weekly: must be an amount of USD, more than 0 and at most 100000000; without it there is no such window\nuser u: monthly: must be an amount of USD, more than 0 and at most 100000000; without it there is no such window"},
		{nil, grant("s", func(s *Subscription) { s.Expires = s.Starts }), "user u: expires: is not after starts"},
		{nil, grant("s", func(s *Subscription) { s.Starts = time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC) }), "user u: starts: must be between the years 1970 and 9999"},
		{nil, grant("s", func(s *Subscription) { s.Expires = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }), "user u: expires: must be between the years 1970 and 9999"},
		{nil, grant("s", func(s *Subscription) { s.Group = "a b" }), "user u: group: must be letters, digits and ._-:@+, with a letter or digit first"},
		{full, grant("other", nil), "user u: id: is one too many: the user has 64 subscriptions that are not revoked"},
		{nil, revoke(""), "user u: id: is required"},
	} {
		s := c.of
		if s == nil {
			s = told()
		}
		facts, err := s.Purse("u").Decide(c.command, at)
		if err == nil || err.Error() != c.want || !errors.Is(err, catalog.ErrInvalid) || facts != nil {
			t.Errorf("%v\nwant %s", err, c.want)
		}
	}
	if facts, err := full.Purse("u").Decide(grant("s", func(s *Subscription) { s.Daily = 9 }), at); err != nil || len(facts) != 1 {
		t.Errorf("one that is there may be changed: %v", err)
	}
}

// Times are those of windows, which are exact to the microsecond; a grant that does not say when it starts does now.
func TestTimesOfAGrantAreKeptToTheMicrosecond(t *testing.T) {
	facts, err := told().Purse("u").Decide(&Granted{User: "u", Subscription: Subscription{
		ID: "s", Expires: at.Add(time.Hour).In(time.FixedZone("", 3600)), Monthly: 1,
	}}, at)
	if err != nil {
		t.Fatal(err)
	}
	got := facts[0].(*Granted).Subscription
	if want := at.Truncate(time.Microsecond); got.Starts != want || got.Expires != want.Add(time.Hour) {
		t.Errorf("%s to %s", got.Starts, got.Expires)
	}
}

// A state is the sum of its facts: what is left of each user is what was given and not taken, in the order in which it was given.
func TestAPurseIsWhatWasGiven(t *testing.T) {
	s := told(credit("1", 50), adjust("2", -20), &Credited{User: "v", ID: "1", Amount: 7}, grant("a", nil), grant("b", nil),
		grant("a", func(s *Subscription) { s.Daily = 3 }), grant("c", nil), revoke("b"), grant("b", nil), revoke("c"), &catalog.User{})
	s.Skip("u", 2)
	s.Skip("w", 1)
	p := s.Purse("u")
	var order []string
	for _, x := range p.Subscriptions() {
		order = append(order, x.ID+" "+x.Daily.String())
	}
	if p.Credited != 30 || !p.Lives() || p.Version != 11 || strings.Join(order, ", ") != "a 0.0000000003, b 1" {
		t.Errorf("%+v %v", p, order)
	}
	if v := s.Purse("v"); v.Credited != 7 || !v.Lives() || v.Version != 1 {
		t.Errorf("%+v", v)
	}
	if w, x := s.Purse("w"), s.Purse("x"); w.Lives() || w.Version != 1 || x.Lives() || x.Version != 0 {
		t.Errorf("%+v %+v", w, x)
	}
	if told(grant("a", nil)).Purse("u").Lives() {
		t.Error("a subscription is no balance")
	}
}
