package penstock

import (
	"cmp"
	"context"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/ledger"
)

// statements makes statements of the read models once they have caught up.
type statements struct {
	readings
	still func(projection string) error                                 // wraps projections.ErrRebuilding while its rows stand still
	knows func(ctx context.Context, kind catalog.Kind, id string) error // wraps admin.ErrNotFound
}

// Statement implements admin.Statements. Bill and ledger must tell the same moment: while one of them is rebuilt, there is none.
func (s statements) Statement(ctx context.Context, q ledger.Query) (*ledger.Statement, error) {
	if err := s.whole(); err != nil {
		return nil, err
	}
	made, err := answer(ctx, s.readings, "", q, func(ctx context.Context, q ledger.Query) (*ledger.Statement, error) {
		return ledger.StatementOf(ctx, s.model, q)
	})
	if err != nil || len(made.Lines) > 0 || made.Opening != nil {
		return made, err
	}
	kind, id := catalog.KindUser, q.User // of whom nothing was ever posted
	if q.Key != "" {
		kind, id = catalog.KindKey, q.Key
	}
	return made, s.knows(ctx, kind, id)
}

// whole is an error while bill and ledger do not tell the same moment.
func (s statements) whole() error {
	return cmp.Or(s.still(billing.Projection{}.Name()), s.still(ledger.Projection{}.Name()))
}

// Trial implements admin.Statements.
func (s statements) Trial(ctx context.Context, since, until time.Time) (*ledger.Trial, error) {
	if err := s.whole(); err != nil {
		return nil, err
	}
	return answer(ctx, s.readings, "", since, func(ctx context.Context, since time.Time) (*ledger.Trial, error) {
		return ledger.TrialOf(ctx, s.model, since, until)
	})
}

// treasury is the money of users as the admin API sees it.
type treasury struct {
	statements
	*actors.Ledger
	journal *events.Journal
}

func (g *Gateway) treasury(read readings) treasury {
	of := configuration{g.catalogue, g.journal}
	knows := func(ctx context.Context, kind catalog.Kind, id string) error {
		_, err := of.Get(ctx, kind, id)
		return err
	}
	return treasury{statements{read, g.runner.Rebuilding, knows}, g.accounts, g.journal}
}

// Book implements admin.Ledger.
func (t treasury) Book(ctx context.Context, fact any) (actors.Booked, error) {
	done, err := t.Ledger.Book(ctx, fact)
	return done, refused(err)
}

// Balance implements admin.Ledger.
func (t treasury) Balance(_ context.Context, user string) (actors.AccountView, error) {
	account, ok := t.Account(user)
	if !ok {
		return account, errors.Wrapf(admin.ErrNotFound, "user %s", user)
	}
	return account, nil
}

// Balances implements admin.Ledger.
func (t treasury) Balances(context.Context) ([]actors.AccountView, error) { return t.Accounts(), nil }

// Statement makes the statement of a user or a key; see admin.Statements.
func (o *Offline) Statement(ctx context.Context, q ledger.Query) (*ledger.Statement, error) {
	return o.statements().Statement(ctx, q)
}

// Trial is the trial balance; see admin.Statements.
func (o *Offline) Trial(ctx context.Context, since, until time.Time) (*ledger.Trial, error) {
	return o.statements().Trial(ctx, since, until)
}

func (o *Offline) statements() statements {
	return statements{o.readings, func(string) error { return nil }, func(ctx context.Context, kind catalog.Kind, id string) error {
		state, err := actors.LoadState(ctx, o.store)
		if err != nil {
			return err
		}
		if _, _, ok := state.Get(kind, id); !ok {
			return errors.Wrapf(admin.ErrNotFound, "%s %s", kind, id)
		}
		return nil
	}}
}
