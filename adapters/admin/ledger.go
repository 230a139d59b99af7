package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/ledger"
	"github.com/penstock/penstock/domain/money"
)

// Ledger books what operators give to users, and tells what they have and what they have spent. Unknown users wrap ErrNotFound.
type Ledger interface {
	// Book stores a fact of domain/ledger, given as a pointer; see actors.Ledger.
	Book(ctx context.Context, fact any) (actors.Booked, error)
	Balance(ctx context.Context, user string) (actors.AccountView, error)
	// Balances are those of all users, in the order of their ids.
	Balances(ctx context.Context) ([]actors.AccountView, error)
	Statements
}

// Booking is a credit or an adjustment that is wanted.
type Booking struct {
	ID     string `json:"id,omitempty" doc:"made when it is absent; the same id is booked once: repeat a call whose answer was lost with the same one"`
	Amount string `json:"amount" doc:"USD, a decimal such as \"12.50\""`
	Note   string `json:"note,omitempty"`
}

// Booked is what became of a booking.
type Booked struct {
	User     string       `json:"user"`
	ID       string       `json:"id"`
	Amount   money.Amount `json:"amount"`
	Note     string       `json:"note,omitempty"`
	Position int64        `json:"position" doc:"of the fact"`
	Again    bool         `json:"again" doc:"it had been booked before, with the same content: nothing was booked now"`
}

// Granting is a subscription that is wanted. At least one of daily, weekly and monthly is set.
type Granting struct {
	Group    string    `json:"group,omitempty" doc:"only for keys of that group"`
	Starts   time.Time `json:"starts,omitzero" doc:"the windows of 24 hours, 7 days and 30 days begin here; absent: as it is, or now"`
	Expires  time.Time `json:"expires,omitzero" doc:"absent: never"`
	Daily    string    `json:"daily,omitempty" doc:"USD"`
	Weekly   string    `json:"weekly,omitempty" doc:"USD"`
	Monthly  string    `json:"monthly,omitempty" doc:"USD, in 30 days"`
	Overflow bool      `json:"overflow,omitempty" doc:"the balance pays what it has no room for"`
	Note     string    `json:"note,omitempty"`
}

// Granted is what became of a subscription.
type Granted struct {
	User         string                     `json:"user"`
	ID           string                     `json:"id"`
	Position     int64                      `json:"position" doc:"of the fact"`
	Again        bool                       `json:"again" doc:"it was so before: nothing was booked"`
	Subscription *actors.SubscriptionStatus `json:"subscription,omitempty" doc:"as it is in force; absent when it was revoked"`
}

type bookInput struct {
	ID   string `path:"id"`
	Body Booking
}

type grantInput struct {
	ID   string `path:"id"`
	SID  string `path:"sid"`
	Body Granting
}

type revokeInput struct {
	ID   string `path:"id"`
	SID  string `path:"sid"`
	Note string `query:"note"`
}

type bookOutput struct {
	Status int
	Body   Booked
}
type grantOutput struct{ Body Granted }

func (s *Server) ledgerRoutes(l Ledger) {
	if l == nil {
		return
	}
	b := bank{s, l}
	op := func(id, method, path, summary string, status ...int) huma.Operation {
		return huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, Tags: []string{"ledger"},
			Errors: append(status, 401, 404, 422), MaxBodyBytes: bodyMax}
	}
	of := "/api/v1/users/{id}"
	huma.Register(s.api, op("creditUser", http.MethodPost, of+"/credits", "Put money on a user's balance", 409, 503), b.credit)
	huma.Register(s.api, op("adjustUser", http.MethodPost, of+"/adjustments", "Correct a user's balance, either way", 409, 503), b.adjust)
	huma.Register(s.api, op("grantSubscription", http.MethodPut, of+"/subscriptions/{sid}", "Give a user a subscription, or change it", 409, 503), b.grant)
	revoke := op("revokeSubscription", http.MethodDelete, of+"/subscriptions/{sid}", "End a subscription", 409, 503)
	revoke.DefaultStatus = http.StatusOK
	huma.Register(s.api, revoke, b.revoke)
	b.tellingRoutes(op)
}

// bank answers what is asked about money.
type bank struct {
	*Server
	ledger Ledger
}

func (b bank) credit(ctx context.Context, in *bookInput) (*bookOutput, error) {
	return b.book(ctx, in, func(id string, amount money.Amount) any {
		return &ledger.Credited{User: in.ID, ID: id, Amount: amount, Note: in.Body.Note}
	})
}

func (b bank) adjust(ctx context.Context, in *bookInput) (*bookOutput, error) {
	return b.book(ctx, in, func(id string, amount money.Amount) any {
		return &ledger.Adjusted{User: in.ID, ID: id, Amount: amount, Note: in.Body.Note}
	})
}

func (b bank) book(ctx context.Context, in *bookInput, fact func(string, money.Amount) any) (*bookOutput, error) {
	amount, err := usd("body.amount", in.Body.Amount)
	if err != nil {
		return nil, err
	}
	id := in.Body.ID
	if id == "" {
		id = uuid.Must(uuid.NewV7()).String()
	}
	done, err := b.ledger.Book(ctx, fact(id, amount))
	if err != nil {
		return nil, b.refused(ctx, err, "body.id")
	}
	out := &bookOutput{Status: http.StatusCreated, Body: Booked{
		User: in.ID, ID: id, Amount: amount, Note: in.Body.Note, Position: done.Position, Again: done.Again,
	}}
	if done.Again {
		out.Status = http.StatusOK
	}
	return out, nil
}

// usd reads an amount.
func usd(location, text string) (money.Amount, error) {
	amount, err := money.Parse(text)
	if err != nil {
		return 0, invalid(location, "must be an amount of USD such as \"12.50\", with at most ten decimals")
	}
	return amount, nil
}

// refused is the answer to a booking that was refused. conflict is where the id stands.
func (b bank) refused(ctx context.Context, err error, conflict string) error {
	where := "body"
	switch {
	case errors.Is(err, ledger.ErrUnknownUser), errors.Is(err, ErrNotFound):
		where = "path.id"
	case errors.Is(err, ledger.ErrUnknownSubscription):
		where = "path.sid"
	case errors.Is(err, ledger.ErrConflict):
		where = conflict
	}
	return b.problem(ctx, at(where), err)
}

func (b bank) grant(ctx context.Context, in *grantInput) (*grantOutput, error) {
	if fault := catalog.IDFault(in.SID); fault != "" {
		return nil, invalid("path.sid", fault)
	}
	s := ledger.Subscription{ID: in.SID, Group: in.Body.Group, Starts: in.Body.Starts, Expires: in.Body.Expires, Overflow: in.Body.Overflow}
	for _, w := range []struct {
		location, text string
		into           *money.Amount
	}{{"body.daily", in.Body.Daily, &s.Daily}, {"body.weekly", in.Body.Weekly, &s.Weekly}, {"body.monthly", in.Body.Monthly, &s.Monthly}} {
		var err error
		if w.text == "" {
			continue
		}
		if *w.into, err = usd(w.location, w.text); err != nil {
			return nil, err
		}
		if *w.into == 0 {
			return nil, invalid(w.location, "must be more than 0; leave it out for no such window")
		}
	}
	return b.subscribe(ctx, in.ID, in.SID, &ledger.Granted{User: in.ID, Subscription: s, Note: in.Body.Note})
}

func (b bank) revoke(ctx context.Context, in *revokeInput) (*grantOutput, error) {
	if fault := catalog.IDFault(in.SID); fault != "" {
		return nil, invalid("path.sid", fault)
	}
	return b.subscribe(ctx, in.ID, in.SID, &ledger.Revoked{User: in.ID, ID: in.SID, Note: in.Note})
}

func (b bank) subscribe(ctx context.Context, user, id string, fact any) (*grantOutput, error) {
	done, err := b.ledger.Book(ctx, fact)
	if err != nil {
		return nil, b.refused(ctx, err, "path.sid")
	}
	out := &grantOutput{Granted{User: user, ID: id, Position: done.Position, Again: done.Again}}
	account, err := b.ledger.Balance(ctx, user)
	if err != nil {
		return nil, b.problem(ctx, at("path.id"), err)
	}
	for i := range account.Subscriptions {
		if account.Subscriptions[i].ID == id {
			out.Body.Subscription = &account.Subscriptions[i]
		}
	}
	return out, nil
}
