package penstock_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock"
	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/adapters/postgres/pgtest"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/ledger"
)

// call is one of the admin API whose answer is JSON.
func call[T any](r *rig, status int, method, path string, body any) (answer T) {
	r.t.Helper()
	got, text := r.admin(method, path, body)
	require.Equal(r.t, status, got, "%s %s: %s", method, path, text)
	require.NoError(r.t, json.Unmarshal(text, &answer), "%s", text)
	return answer
}

// statementOf is a statement with its lines that are about money as texts: what, how much, and the balance after it.
func (r *rig) statementOf(query string) (*ledger.Statement, []string) {
	r.t.Helper()
	s := call[*ledger.Statement](r, 200, "GET", "/api/v1/statements?"+query, nil)
	var lines []string
	for _, l := range s.Lines {
		text := string(l.Kind) + " " + l.ID + l.Key + l.Model
		if l.Amount != nil {
			text += " " + l.Amount.String() + " = " + l.Balance.String()
		}
		lines = append(lines, text)
	}
	return s, lines
}

// spend sends requests that cost 0.007 each.
func (r *rig) spend(key string, n int) {
	r.t.Helper()
	for range n {
		resp, body := r.post("/v1/chat/completions", limitedChat, "Authorization", r.secret[key])
		require.Equal(r.t, 200, resp.StatusCode, body)
	}
}

// costs is what the bill says somebody has cost.
func (r *rig) costs(by, name string) money.Amount {
	r.t.Helper()
	bill := call[admin.Bill](r, 200, "GET", "/api/v1/billing?by="+by, nil)
	for _, l := range bill.Items {
		if *map[string]*string{"user": l.User, "key": l.Key, "day": l.Day}[by] == name {
			return l.Cost
		}
	}
	return 0
}

func (r *rig) fund() {
	b := fixed()
	b.PromptTokens, b.CachedTokens, b.OutTokens = 20, 0, 10
	r.upstream("a", b, nil)
	r.apply(map[string]any{"kind": "price", "id": "p", "model": "m-*", "input": "50", "output": "250"}, // what callers pay is twice that
		map[string]any{"kind": "group", "id": "callers", "upstreams": []string{"a"}, "multiplier": "2"},
		map[string]any{"kind": "user", "id": "ann"}, map[string]any{"kind": "user", "id": "bob"}, map[string]any{"kind": "user", "id": "idle"})
	r.key("k1", map[string]any{"user": "ann", "group": "callers"})
	r.key("k2", map[string]any{"user": "ann", "group": "callers"})
	r.key("k3", map[string]any{"user": "bob", "group": "callers"})
	r.key("k4", map[string]any{"group": "callers"})
}

// Credit, spend, adjust: statement, bill and the live balance are one number; the ledger sums to zero; rebuilt equals live, before
// and after a restart, with and without a gateway. A79, B25, E37, pains 2, 20; B32: a
// subscription pays before the balance.
func TestAStatementIsTheBillAndTheBalance(t *testing.T) {
	r := newRig(t, nil)
	r.fund()
	r.spend("k1", 1) // before there is any credit: owed
	first := call[admin.Booked](r, 201, "POST", "/api/v1/users/ann/credits", map[string]any{"amount": "1.00", "id": "first", "note": "in cash"})
	require.Equal(t, admin.Booked{User: "ann", ID: "first", Amount: money.USD, Note: "in cash", Position: first.Position}, first)
	r.spend("k1", 3)
	r.spend("k2", 2)
	call[admin.Booked](r, 201, "POST", "/api/v1/users/bob/credits", map[string]any{"amount": "3", "id": "first"})
	call[admin.Granted](r, 200, "PUT", "/api/v1/users/bob/subscriptions/gold", map[string]any{"daily": "0.02", "overflow": true, "note": "trial"})
	r.spend("k3", 4)
	r.spend("k4", 1)
	adjusted := call[admin.Booked](r, 201, "POST", "/api/v1/users/ann/adjustments", map[string]any{"amount": "-0.25", "note": "paid back"})
	require.Len(t, adjusted.ID, 36)

	const each = money.USD * 7 / 1000
	check := func() {
		t.Helper()
		s, lines := r.statementOf("user=ann")
		require.Equal(t, []string{
			"credit first 1 = 1", "adjustment " + adjusted.ID + " -0.25 = 0.75", "usage k1",
			"usage k1 -0.021 = 0.729", "usage k2 -0.014 = 0.715",
		}, lines)
		balance := call[actors.AccountView](r, 200, "GET", "/api/v1/users/ann/balance", nil)
		require.Equal(t, balance.Credited-balance.Spent, *s.Closing)
		require.Zero(t, *s.Opening)
		require.Equal(t, r.costs("user", "ann"), s.Totals.Cost)
		require.Equal(t, []ledger.Paid{{PaidBy: "", Cost: each}, {PaidBy: "balance", Cost: 5 * each}}, s.Totals.PaidBy)
		require.EqualValues(t, []int64{6, 6}, []int64{s.Totals.Requests, s.Totals.Attempts})

		s, lines = r.statementOf("user=bob")
		require.Equal(t, []string{"credit first 3 = 3", "grant gold", "usage k3 -0.007 = 2.993", "usage k3"}, lines)
		require.Equal(t, []ledger.Paid{{PaidBy: "balance", Cost: each}, {PaidBy: "subscription/gold", Cost: 3 * each}}, s.Totals.PaidBy)
		require.Equal(t, money.USD/50, s.Lines[1].Subscription.Daily)
		require.Equal(t, "trial", s.Lines[1].Note)
		balance = call[actors.AccountView](r, 200, "GET", "/api/v1/users/bob/balance", nil)
		require.Equal(t, balance.Credited-balance.Spent, *s.Closing)
		require.Equal(t, 3*each, balance.Subscriptions[0].Windows[0].Spent)

		s, lines = r.statementOf("key=k1")
		require.Equal(t, []string{"usage m-1", "usage m-1"}, lines, "by who paid")
		require.Nil(t, s.Closing)
		require.Equal(t, r.costs("key", "k1"), s.Totals.Cost)

		trial := call[ledger.Trial](r, 200, "GET", "/api/v1/ledger/trial", nil)
		require.Zero(t, trial.Sum)
		accounts := map[string]money.Amount{}
		for _, a := range trial.Accounts {
			accounts[a.Account] = a.Amount
		}
		require.Equal(t, map[string]money.Amount{
			"balance/ann": money.USD * 715 / 1000, "balance/bob": 3*money.USD - each, "credits": -4 * money.USD, "adjustments": money.USD / 4, "revenue": 11 * each,
			"owed/ann": -each, "owed/key/k4": -each, "subscription/bob/gold": -3 * each, "cost/a": -11 * each / 2, "payable/a": 11 * each / 2,
		}, accounts)
		r.verify()
	}
	check()
	again := call[admin.Booked](r, 200, "POST", "/api/v1/users/ann/credits", map[string]any{"amount": "1", "id": "first", "note": "in cash"})
	require.True(t, again.Again)
	require.Equal(t, first.Position, again.Position)
	check()
	r.close()
	r.open()
	check()
	status, body := r.admin("POST", "/api/v1/replay", map[string]any{})
	require.Equal(t, 200, status, "%s", body)
	check()

	before, _ := r.statementOf("user=ann")
	r.close()
	o, err := penstock.OpenOffline(t.Context(), r.config.DataDir, r.config.Store, "")
	require.NoError(t, err)
	stopped, err := o.Statement(t.Context(), ledger.Query{User: "ann"})
	require.NoError(t, err)
	require.Equal(t, asJSON(t, before), asJSON(t, stopped))
	trial, err := o.Trial(t.Context(), time.Time{}, time.Time{})
	require.NoError(t, err)
	require.Zero(t, trial.Sum)
	lines, err := o.Bill(t.Context(), billing.Query{})
	require.NoError(t, err)
	require.Equal(t, 11*each, lines[0].Cost)
	_, err = o.Statement(t.Context(), ledger.Query{User: "nobody"})
	require.ErrorIs(t, err, admin.ErrNotFound)
	require.NoError(t, o.Close())
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}

// A later price moves the balance when it is booked, and the statement says so on that day with the run: what was posted before
// stays as it was, and all sums agree (pains 5, 80).
func TestARepricingStandsOnTheStatementAndMovesTheBalance(t *testing.T) {
	r := newRig(t, nil)
	r.fund()
	call[admin.Booked](r, 201, "POST", "/api/v1/users/ann/credits", map[string]any{"amount": "1", "id": "first"})
	r.spend("k1", 3)
	r.spend("k2", 1)
	_, before := r.statementOf("user=ann")
	require.Equal(t, []string{"credit first 1 = 1", "usage k1 -0.021 = 0.979", "usage k2 -0.007 = 0.972"}, before)

	r.apply(map[string]any{"kind": "price", "id": "q", "model": "m-1", "input": "25", "output": "125", "effective_from": "2020-01-01T00:00:00Z"}) // half of it
	run := r.reprice(map[string]any{"apply": true, "run": "cheaper", "key": "k1"})
	require.True(t, run.Applied)
	check := func() {
		t.Helper()
		s, lines := r.statementOf("user=ann")
		require.Equal(t, append(before, "repricing cheaperk1 0.0105 = 0.9825"), lines)
		last := s.Lines[len(s.Lines)-1]
		require.EqualValues(t, []int64{0, 3}, []int64{last.Requests, last.Attempts})
		balance := call[actors.AccountView](r, 200, "GET", "/api/v1/users/ann/balance", nil)
		require.Equal(t, balance.Credited-balance.Spent, *s.Closing)
		require.Equal(t, r.costs("user", "ann"), s.Totals.Cost)
		s, _ = r.statementOf("key=k1")
		require.Equal(t, r.costs("key", "k1"), s.Totals.Cost)
		require.Zero(t, call[ledger.Trial](r, 200, "GET", "/api/v1/ledger/trial", nil).Sum)
		r.verify()
	}
	check()
	r.close()
	r.open()
	check()
	r.reprice(map[string]any{"apply": true, "key": "k1"})
	check()
}

// What can not be booked or asked is refused with the name of the field; nothing is booked.
func TestMoneyThatCanNotBeBookedIsRefusedByField(t *testing.T) {
	r := newRig(t, nil)
	r.fund()
	call[admin.Booked](r, 201, "POST", "/api/v1/users/ann/credits", map[string]any{"amount": "2", "id": "one"})
	call[admin.Granted](r, 200, "PUT", "/api/v1/users/ann/subscriptions/s", map[string]any{"daily": "2", "starts": "2026-01-01T00:00:00Z"})
	again := call[admin.Granted](r, 200, "PUT", "/api/v1/users/ann/subscriptions/s", map[string]any{"daily": "2"})
	require.True(t, again.Again, "it starts as it did")
	for _, c := range []struct {
		method, path string
		body         any
		status       int
		location     string
	}{
		{"POST", "/users/nobody/credits", map[string]any{"amount": "1"}, 404, "path.id"},
		{"POST", "/users/ann/credits", map[string]any{"amount": "0"}, 422, "body.amount"},
		{"POST", "/users/ann/credits", map[string]any{"amount": "-1"}, 422, "body.amount"},
		{"POST", "/users/ann/credits", map[string]any{"amount": "1,5"}, 422, "body.amount"},
		{"POST", "/users/ann/credits", map[string]any{"amount": 1.5}, 422, "body.amount"},
		{"POST", "/users/ann/credits", map[string]any{}, 422, "body"},
		{"POST", "/users/ann/credits", map[string]any{"amount": "1", "why": "x"}, 422, "body.why"},
		{"POST", "/users/ann/credits", map[string]any{"amount": "1", "id": "a b"}, 422, "body.id"},
		{"POST", "/users/ann/credits", map[string]any{"amount": "1", "note": strings.Repeat("x", 5000)}, 422, "body.note"},
		{"POST", "/users/ann/credits", map[string]any{"amount": "3", "id": "one"}, 409, "body.id"},
		{"POST", "/users/ann/adjustments", map[string]any{"amount": "2", "id": "one", "note": "x"}, 409, "body.id"},
		{"POST", "/users/ann/adjustments", map[string]any{"amount": "2"}, 422, "body.note"},
		{"POST", "/users/ann/adjustments", map[string]any{"amount": "0", "note": "x"}, 422, "body.amount"},
		{"PUT", "/users/ann/subscriptions/t", map[string]any{}, 422, "body"},
		{"PUT", "/users/ann/subscriptions/t", map[string]any{"daily": "x"}, 422, "body.daily"},
		{"PUT", "/users/ann/subscriptions/t", map[string]any{"weekly": "-1"}, 422, "body.weekly"},
		{"PUT", "/users/ann/subscriptions/t", map[string]any{"daily": "1", "group": "none"}, 422, "body.group"},
		{"PUT", "/users/ann/subscriptions/t", map[string]any{"daily": "1", "expires": "2001-01-01T00:00:00Z"}, 422, "body.expires"},
		{"PUT", "/users/ann/subscriptions/" + url.PathEscape("a b"), map[string]any{"daily": "1"}, 422, "path.sid"},
		{"PUT", "/users/nobody/subscriptions/t", map[string]any{"daily": "1"}, 404, "path.id"},
		{"DELETE", "/users/ann/subscriptions/none", nil, 404, "path.sid"},
		{"GET", "/users/nobody/balance", nil, 404, "path.id"},
		{"GET", "/statements", nil, 422, "query.user"},
		{"GET", "/statements?user=ann&key=k1", nil, 422, "query.key"},
		{"GET", "/statements?user=nobody", nil, 404, "query.user"},
		{"GET", "/statements?key=nothing", nil, 404, "query.key"},
		{"GET", "/statements?user=ann&since=soon", nil, 422, "query.since"},
		{"GET", "/statements?user=ann&since=2026-02&until=2026-01-31", nil, 422, "query.until"},
		{"GET", "/statements?user=ann&group=hour", nil, 422, "query.group"},
		{"GET", "/ledger/trial?until=x", nil, 422, "query.until"},
	} {
		status, body := r.admin(c.method, "/api/v1"+c.path, c.body)
		var problem struct {
			Errors []struct{ Location string }
		}
		require.NoError(t, json.Unmarshal(body, &problem), "%s", body)
		require.Equal(t, c.status, status, "%s %v: %s", c.path, c.body, body)
		require.NotEmpty(t, problem.Errors, "%s %v: %s", c.path, c.body, body)
		require.Equal(t, c.location, problem.Errors[0].Location, "%s %v: %s", c.path, c.body, body)
	}
	s, _ := r.statementOf("user=ann")
	require.Equal(t, 2*money.USD, *s.Closing)
	require.Empty(t, call[*ledger.Statement](r, 200, "GET", "/api/v1/statements?user=idle", nil).Lines)

	ended := call[admin.Granted](r, 200, "DELETE", "/api/v1/users/ann/subscriptions/s?note=over", nil)
	require.Nil(t, ended.Subscription)
	require.True(t, call[admin.Granted](r, 200, "DELETE", "/api/v1/users/ann/subscriptions/s?note=over", nil).Again)
	page := call[admin.BalancePage](r, 200, "GET", "/api/v1/balances?limit=2", nil)
	require.Equal(t, []string{"ann", "bob", "bob"}, []string{page.Items[0].User, page.Items[1].User, page.Next})
	page = call[admin.BalancePage](r, 200, "GET", "/api/v1/balances?limit=2&after=bob", nil)
	require.Len(t, page.Items, 1)
	require.Equal(t, "", page.Next)
}

// While the store takes no writes, nothing is booked, and whoever books is told so at once; requests go on.
func TestNothingIsBookedWhileTheStoreIsAway(t *testing.T) {
	r, server, key := onOwnServer(t, nil)
	r.apply(map[string]any{"kind": "user", "id": "ann"})
	booking := map[string]any{"amount": "1", "id": "one"}
	server.Stop(t, pgtest.Immediate)
	resp, body := r.post("/v1/chat/completions", askBody, "Authorization", "Bearer "+key)
	require.Equal(t, 200, resp.StatusCode, body)
	becomes(r, "events are spooled", isSpooling)
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{"POST", "credits", booking}, {"POST", "adjustments", map[string]any{"amount": "1", "note": "x"}},
		{"PUT", "subscriptions/s", map[string]any{"daily": "1"}}, {"DELETE", "subscriptions/s", nil},
	} {
		status, text := r.soon(1250*time.Millisecond, c.method, "/api/v1/users/ann/"+c.path, c.body)
		require.Equal(t, 503, status, "%s: %s", c.path, text)
	}
	require.Zero(t, call[actors.AccountView](r, 200, "GET", "/api/v1/users/ann/balance", nil).Credited, "what is in memory is shown")
	server.Restart(t)
	becomes(r, "the gateway is well", isWell)
	require.False(t, call[admin.Booked](r, 201, "POST", "/api/v1/users/ann/credits", booking).Again)
	require.True(t, call[admin.Booked](r, 200, "POST", "/api/v1/users/ann/credits", booking).Again)
	s, _ := r.statementOf("user=ann")
	require.Equal(t, money.USD, *s.Closing)
}
