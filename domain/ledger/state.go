package ledger

import (
	"math"
	"slices"
	"time"

	"github.com/penstock/penstock/domain/money"
)

// Purse is what operators have given to one user, by the facts of its stream. The zero value is a user that was given
// nothing.
type Purse struct {
	Credited money.Amount // what was credited and adjusted, together
	Version  int64        // facts in the stream
	booked   map[string]booked
	subs     map[string]booked // what was said last of each subscription
	order    []string          // ids of the subscriptions that are not revoked, in the order in which they pay
}

// booked is a fact and its position.
type booked struct {
	fact     any
	position int64
}

// State is all purses. The zero value has none.
type State struct{ of map[string]*Purse }

// Purse is that of a user, never nil. It is not to be changed.
func (s *State) Purse(user string) *Purse {
	if p := s.of[user]; p != nil {
		return p
	}
	return &Purse{}
}

// Evolve folds a fact at its position; facts of others than operators' money are passed over.
func (s *State) Evolve(fact any, position int64) {
	user := UserOf(fact)
	if user == "" {
		return
	}
	s.own(user).evolve(fact, position)
}

// Skip counts facts of a user that cannot be read.
func (s *State) Skip(user string, facts int64) {
	s.own(user).Version += facts
}

// own is the purse of a user, to be changed; it is made when there is none.
func (s *State) own(user string) *Purse {
	if s.of == nil {
		s.of = map[string]*Purse{}
	}
	p := s.of[user]
	if p == nil {
		p = &Purse{}
		s.of[user] = p
	}
	return p
}

// UserOf is whose stream a fact belongs to; "" when it is none of this package.
func UserOf(fact any) string {
	switch f := fact.(type) {
	case *Credited:
		return f.User
	case *Adjusted:
		return f.User
	case *Granted:
		return f.User
	case *Revoked:
		return f.User
	}
	return ""
}

func (p *Purse) evolve(fact any, position int64) {
	p.Version++
	if p.booked == nil {
		p.booked, p.subs = map[string]booked{}, map[string]booked{}
	}
	b := booked{fact, position}
	switch f := fact.(type) {
	case *Credited:
		p.Credited += f.Amount
		p.booked[f.ID] = b
	case *Adjusted:
		p.Credited += f.Amount
		p.booked[f.ID] = b
	case *Granted:
		if !slices.Contains(p.order, f.Subscription.ID) {
			p.order = append(p.order, f.Subscription.ID)
		}
		p.subs[f.Subscription.ID] = b
	case *Revoked:
		p.order = slices.DeleteFunc(slices.Clone(p.order), func(id string) bool { return id == f.ID })
		p.subs[f.ID] = b
	}
}

// Lives says that the user lives on its balance: something was booked on it, ever.
func (p *Purse) Lives() bool { return len(p.booked) > 0 }

// Subscriptions are those that are not revoked, in the order in which they pay: that of their first grants.
func (p *Purse) Subscriptions() []Subscription {
	list := make([]Subscription, 0, len(p.order))
	for _, id := range p.order {
		list = append(list, p.subs[id].fact.(*Granted).Subscription)
	}
	return list
}

// subscription is the one of an id, nil when it was never granted or is revoked.
func (p *Purse) subscription(id string) *Subscription {
	if g, ok := p.subs[id].fact.(*Granted); ok {
		return &g.Subscription
	}
	return nil
}

// Position is where what a command says was booked; 0 when it was not.
func (p *Purse) Position(command any) int64 {
	switch c := command.(type) {
	case *Credited:
		return p.booked[c.ID].position
	case *Adjusted:
		return p.booked[c.ID].position
	case *Granted:
		return p.subs[c.Subscription.ID].position
	case *Revoked:
		return p.subs[c.ID].position
	}
	return 0
}

// fits says that the sum of what is booked stays within what an Amount can hold, with room for a budget beside it.
func (p *Purse) fits(a money.Amount) bool {
	const most = math.MaxInt64 / 4
	sum := p.Credited + a // neither is beyond most
	return -most <= sum && sum <= most
}

// moment is how times of these facts are written: in UTC, to the microsecond.
func moment(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}
