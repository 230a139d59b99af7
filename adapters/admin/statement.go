package admin

import (
	"context"
	"net/http"
	"sort"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/danielgtaylor/huma/v2"

	"github.com/penstock/penstock/actors"
	statement "github.com/penstock/penstock/projections/ledger"
)

// Statements tells what was posted for a user or a key, and to all accounts.
type Statements interface {
	Statement(ctx context.Context, q statement.Query) (*statement.Statement, error)
	// Trial is the trial balance between two days; a zero time is no border.
	Trial(ctx context.Context, since, until time.Time) (*statement.Trial, error)
}

// BalancePage is part of all balances.
type BalancePage struct {
	Items []actors.AccountView `json:"items"`
	Next  string               `json:"next"`
}

// DaysInput is a span of days. It is exported because fields of others are not found in an input.
type DaysInput struct {
	Since string `query:"since" doc:"a day in UTC (2026-01-31) or a month (2026-01)"`
	Until string `query:"until" doc:"the same; exclusive"`
}

type statementInput struct {
	User string `query:"user" doc:"id of the user whose it is; or name a key"`
	Key  string `query:"key" doc:"id of the key whose it is; or name a user"`
	DaysInput
	Group string `query:"group" doc:"what usage is gathered by: day (the default) or month"`
}

type balanceOutput struct{ Body actors.AccountView }
type balancesOutput struct{ Body BalancePage }
type statementOutput struct{ Body statement.Statement }
type trialOutput struct{ Body statement.Trial }

// tellingRoutes are those that book nothing.
func (b bank) tellingRoutes(op func(id, method, path, summary string, status ...int) huma.Operation) {
	huma.Register(b.api, op("balance", http.MethodGet, "/api/v1/users/{id}/balance", "What a user was given, what it has spent, and what is left"), b.balance)
	huma.Register(b.api, op("balances", http.MethodGet, "/api/v1/balances", "What every user was given, has spent and has left"), b.balances)
	huma.Register(b.api, op("statement", http.MethodGet, "/api/v1/statements", "What was posted for a user or a key, by day of posting", 503), b.statement)
	huma.Register(b.api, op("trialBalance", http.MethodGet, "/api/v1/ledger/trial", "What was posted to each account of the double-entry books", 503), b.trial)
}

func (b bank) balance(ctx context.Context, in *oneInput) (*balanceOutput, error) {
	account, err := b.ledger.Balance(ctx, in.ID)
	if err != nil {
		return nil, b.problem(ctx, at("path.id"), err)
	}
	return &balanceOutput{account}, nil
}

func (b bank) balances(ctx context.Context, in *listInput) (*balancesOutput, error) {
	all, err := b.ledger.Balances(ctx)
	if err != nil {
		return nil, b.problem(ctx, at("query"), err)
	}
	all = all[sort.Search(len(all), func(i int) bool { return all[i].User > in.After }):]
	page := BalancePage{Items: listed(all)}
	if limit := min(max(in.Limit, 1), listMax); len(all) > limit {
		page.Items, page.Next = all[:limit], all[limit-1].User
	}
	return &balancesOutput{page}, nil
}

func (in *DaysInput) days() (since, until time.Time, err error) {
	if since, err = statement.ParseDay("since", in.Since); err == nil {
		until, err = statement.ParseDay("until", in.Until)
	}
	return since, until, err
}

func (b bank) statement(ctx context.Context, in *statementInput) (*statementOutput, error) {
	q := statement.Query{User: in.User, Key: in.Key, Group: in.Group}
	var err error
	if q.Since, q.Until, err = in.days(); err == nil {
		err = q.Check()
	}
	if err != nil {
		return nil, b.problem(ctx, at("query"), err)
	}
	made, err := b.ledger.Statement(ctx, q)
	if err != nil {
		where := "query"
		if errors.Is(err, ErrNotFound) {
			where = "query.user"
			if q.Key != "" {
				where = "query.key"
			}
		}
		return nil, b.problem(ctx, at(where), err)
	}
	return &statementOutput{*made}, nil
}

func (b bank) trial(ctx context.Context, in *DaysInput) (*trialOutput, error) {
	since, until, err := in.days()
	if err != nil {
		return nil, b.problem(ctx, at("query"), err)
	}
	made, err := b.ledger.Trial(ctx, since, until)
	if err != nil {
		return nil, b.problem(ctx, at("query"), err)
	}
	return &trialOutput{*made}, nil
}
