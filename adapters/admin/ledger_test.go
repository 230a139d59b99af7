package admin

import (
	"context"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/domain/ledger"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections/billing"
	statement "github.com/penstock/penstock/projections/ledger"
)

// till is the money of the users ann and bob: the real machine of the ledger, and a read model in which nothing was posted.
type till struct {
	state    ledger.State
	position int64
	away     error
}

func (l *till) Book(_ context.Context, fact any) (actors.Booked, error) {
	user := ledger.UserOf(fact)
	if user != "ann" && user != "bob" {
		return actors.Booked{}, errors.Wrapf(ledger.ErrUnknownUser, "user %q", user)
	}
	if l.away != nil {
		return actors.Booked{}, Unavailable(l.away)
	}
	facts, err := l.state.Purse(user).Decide(fact, time.Unix(100, 0))
	if err != nil {
		return actors.Booked{}, err
	}
	for _, f := range facts {
		l.position++
		l.state.Evolve(f, l.position)
	}
	return actors.Booked{Position: l.state.Purse(user).Position(fact), Again: len(facts) == 0}, nil
}

func (l *till) Balance(_ context.Context, user string) (actors.AccountView, error) {
	if user != "ann" && user != "bob" {
		return actors.AccountView{}, errors.Wrapf(ErrNotFound, "user %s", user)
	}
	v := actors.AccountView{User: user, Credited: l.state.Purse(user).Credited}
	for _, s := range l.state.Purse(user).Subscriptions() {
		v.Subscriptions = append(v.Subscriptions, actors.SubscriptionStatus{ID: s.ID, Starts: s.Starts})
	}
	return v, nil
}

func (l *till) Balances(ctx context.Context) ([]actors.AccountView, error) {
	ann, _ := l.Balance(ctx, "ann")
	bob, _ := l.Balance(ctx, "bob")
	return []actors.AccountView{ann, bob}, nil
}

func (l *till) Statement(ctx context.Context, q statement.Query) (*statement.Statement, error) {
	return statement.StatementOf(ctx, memory.NewReadModel(billing.Projection{}, statement.Projection{}), q)
}

func (l *till) Trial(ctx context.Context, since, until time.Time) (*statement.Trial, error) {
	return statement.TrialOf(ctx, memory.NewReadModel(billing.Projection{}, statement.Projection{}), since, until)
}

// A booking has an id and counts once; who leaves the id out gets a new one each time.
func TestABookingIsMadeOnce(t *testing.T) {
	b := newBench(t)
	one := b.ok(201, b.ask("POST", "/api/v1/users/ann/credits", `{"amount":"5","id":"x","note":"n"}`))
	require.Equal(t, map[string]any{"user": "ann", "id": "x", "amount": "5", "note": "n", "position": 1.0, "again": false}, one)
	require.Equal(t, true, b.ok(200, b.ask("POST", "/api/v1/users/ann/credits", `{"amount":"5.0","id":"x","note":"n"}`))["again"])
	require.Equal(t, []string{"body.id: x of user ann was booked before, as another kind, amount or note"}, b.refused(409, b.ask("POST", "/api/v1/users/ann/credits", `{"amount":"6","id":"x","note":"n"}`)))
	first := b.ok(201, b.ask("POST", "/api/v1/users/ann/credits", `{"amount":"5"}`))
	second := b.ok(201, b.ask("POST", "/api/v1/users/ann/credits", `{"amount":"5"}`))
	require.NotEqual(t, first["id"], second["id"])
	require.Equal(t, "15", b.ok(200, b.ask("GET", "/api/v1/users/ann/balance", ""))["credited"])
	require.Len(t, b.refused(404, b.ask("POST", "/api/v1/users/eve/credits", `{"amount":"5"}`)), 1)
	b.till.away = events.ErrUnavailable
	away := b.ask("POST", "/api/v1/users/ann/credits", `{"amount":"5"}`)
	require.Empty(t, b.refused(503, away), "nothing is wrong with what was sent")
	require.Contains(t, away.Body.String(), events.ErrUnavailable.Error(), "the reason is told")
	b.refused(503, b.ask("PUT", "/api/v1/users/ann/subscriptions/s", `{"daily":"5"}`))
}

func TestASubscriptionIsPutAndDeleted(t *testing.T) {
	b := newBench(t)
	put := b.ok(200, b.ask("PUT", "/api/v1/users/ann/subscriptions/s", `{"daily":"5","starts":"2026-01-01T00:00:00Z"}`))
	require.Equal(t, "2026-01-01T00:00:00Z", put["subscription"].(map[string]any)["starts"])
	require.Equal(t, true, b.ok(200, b.ask("PUT", "/api/v1/users/ann/subscriptions/s", `{"daily":"5"}`))["again"])
	require.Equal(t, []string{"body.daily: must be more than 0; leave it out for no such window"},
		b.refused(422, b.ask("PUT", "/api/v1/users/ann/subscriptions/s", `{"daily":"0"}`)))
	require.NotContains(t, b.ok(200, b.ask("DELETE", "/api/v1/users/ann/subscriptions/s", "")), "subscription")
	require.Len(t, b.refused(404, b.ask("DELETE", "/api/v1/users/ann/subscriptions/never", "")), 1)
}

func TestBalancesAreReadByPages(t *testing.T) {
	b := newBench(t)
	page := b.ok(200, b.ask("GET", "/api/v1/balances?limit=1", ""))
	require.Len(t, page["items"], 1)
	require.Equal(t, "ann", page["next"])
	page = b.ok(200, b.ask("GET", "/api/v1/balances?limit=1&after=ann", ""))
	require.Equal(t, "bob", page["items"].([]any)[0].(map[string]any)["user"])
	require.Equal(t, "", page["next"])
	require.Equal(t, []any{}, b.ok(200, b.ask("GET", "/api/v1/statements?user=ann", ""))["lines"])
	require.Equal(t, "0", b.ok(200, b.ask("GET", "/api/v1/ledger/trial?since=2026-01", ""))["sum"])
}
