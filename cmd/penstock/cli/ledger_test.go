package cli

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/adapters/memory"
	domain "github.com/penstock/penstock/domain/ledger"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	statement "github.com/penstock/penstock/projections/ledger"
)

// till is the money of a place: the real machine of the ledger over the catalogue's users, and the real read models.
type till struct {
	state    domain.State
	model    *memory.ReadModel
	position int64
	away     error // what bookings are refused with
}

var postings = []projections.Projection{billing.Projection{}, statement.Projection{}}

// Book implements admin.Ledger.
func (p *place) Book(_ context.Context, fact any) (actors.Booked, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.till.away != nil {
		return actors.Booked{}, p.till.away
	}
	user := domain.UserOf(fact)
	if _, _, ok := p.state.Get("user", user); !ok {
		return actors.Booked{}, errors.Wrapf(domain.ErrUnknownUser, "user %q", user)
	}
	facts, err := p.till.state.Purse(user).Decide(fact, noon)
	if err != nil {
		return actors.Booked{}, err
	}
	if len(facts) == 0 {
		return actors.Booked{Position: p.till.state.Purse(user).Position(fact), Again: true}, nil
	}
	p.till.tell(nil, facts[0])
	return actors.Booked{Position: p.till.position}, nil
}

// tell folds a fact, one hour later than the one before.
func (t *till) tell(story *request.Story, fact events.Fact) {
	at := noon.Add(time.Duration(t.position) * time.Hour)
	t.position++
	if story != nil {
		story.Evolve(fact, at)
	}
	t.state.Evolve(fact, t.position)
	if t.model == nil {
		t.model = memory.NewReadModel(postings...)
	}
	var out projections.Changes
	var steps []projections.Step
	for _, p := range postings {
		p.Fold(story, fact, projections.Place{Position: events.Position(t.position), First: 1, At: at}, &out)
		steps = append(steps, projections.Step{Projection: p.Name(), Version: p.Version(), From: events.Position(t.position - 1), To: events.Position(t.position)})
	}
	if err := t.model.Commit(context.Background(), &out, steps); err != nil {
		panic(err)
	}
}

// Balance implements admin.Ledger.
func (p *place) Balance(_ context.Context, user string) (actors.AccountView, error) {
	if _, _, ok := p.state.Get("user", user); !ok {
		return actors.AccountView{}, domain.ErrUnknownUser
	}
	purse := p.till.state.Purse(user)
	v := actors.AccountView{User: user, OnBalance: purse.Lives(), Budget: "postpaid", Credited: purse.Credited, Left: purse.Credited}
	for _, s := range purse.Subscriptions() {
		v.Subscriptions = append(v.Subscriptions, actors.SubscriptionStatus{ID: s.ID, Group: s.Group, Starts: s.Starts, Expires: s.Expires, InForce: true, Overflow: s.Overflow,
			Windows: []actors.SpentStatus{{Period: "DAILY", Limit: s.Daily, Spent: money.USD / 2, ResetsAt: noon.Add(24 * time.Hour)}}})
	}
	return v, nil
}

// Balances implements admin.Ledger.
func (p *place) Balances(ctx context.Context) (all []actors.AccountView, err error) {
	for _, r := range p.state.List("user") {
		v, _ := p.Balance(ctx, r.Ident())
		all = append(all, v)
	}
	return all, nil
}

// Statement implements admin.Statements.
func (p *place) Statement(ctx context.Context, q statement.Query) (*statement.Statement, error) {
	if p.till.model == nil {
		p.till.model = memory.NewReadModel(postings...)
	}
	return statement.StatementOf(ctx, p.till.model, q)
}

// Trial implements admin.Statements.
func (p *place) Trial(ctx context.Context, since, until time.Time) (*statement.Trial, error) {
	return statement.TrialOf(ctx, p.till.model, since, until)
}

// users makes some users.
func (d *desk) users(ids ...string) {
	d.t.Helper()
	var text strings.Builder
	for _, id := range ids {
		text.WriteString("---\nkind: user\nid: " + id + "\n")
	}
	d.ok("apply", "-f", d.file("users.yaml", text.String()))
}

// A command that is repeated books nothing twice.
func TestCreditBooksOnceAndSaysWhatIsLeft(t *testing.T) {
	d := newDesk(t)
	d.users("ann")
	out := d.ok("credit", "ann", "50", "--id", "b1", "--note", "in cash")
	require.Equal(t, "user ann: credited 50 USD (booking b1, position 1)\nbalance  50 USD\n", out)
	out = d.ok("credit", "ann", "50.00", "--id", "b1", "--note", "in cash")
	require.Contains(t, out, "it was booked before: nothing was booked now")
	require.Contains(t, out, "balance  50 USD\n")
	require.Contains(t, d.ok("credit", "ann", "--adjust=-5.25", "--note", "billed twice"), "adjusted by -5.25 USD")
	var booked struct {
		ID       string
		Amount   string
		Position int
		Again    bool
	}
	require.NoError(t, json.Unmarshal([]byte(d.ok("credit", "ann", "1", "--json")), &booked))
	require.Len(t, booked.ID, 36)
	require.Equal(t, "1", booked.Amount)

	require.Equal(t, "there is no user nobody", d.fails(1, "credit", "nobody", "5"))
	require.Contains(t, d.fails(1, "credit", "ann", "7", "--id", "b1"), "id: b1 of user ann was booked before, as another kind, amount or note")
	require.Equal(t, "USER is empty", d.fails(2, "credit", "", "5"))
	require.Contains(t, d.fails(1, "credit", "ann", "0"), "amount: must be an amount of USD, more than 0")
	require.Contains(t, d.fails(1, "credit", "ann", "--adjust=1"), "note: is required")
	require.Contains(t, d.fails(2, "credit", "ann", "five"), `amount: "five" is not an amount`)
	require.Contains(t, d.fails(2, "credit", "ann", "1.12345678901"), "with at most ten decimals")
	require.Contains(t, d.fails(2, "credit", "ann", "--adjust=much", "--note", "n"), `--adjust: "much" is not an amount`)
	require.Contains(t, d.fails(2, "credit", "ann", "-5"), "--adjust=-5.00 --note WHY")
	require.Contains(t, d.fails(2, "credit", "ann", "5", "--adjust=1"), "--adjust")
	require.Contains(t, d.fails(2, "credit", "ann"), "USER AMOUNT")
	require.Equal(t, money.USD*4575/100, d.place.till.state.Purse("ann").Credited)
}

// A booking of which nobody knows whether it was booked can be repeated: the id is told.
func TestABookingWithoutAnAnswerSaysHowToRepeatIt(t *testing.T) {
	d := newDesk(t)
	d.users("ann")
	d.place.till.away = events.ErrUnavailable
	require.Contains(t, d.fails(1, "credit", "ann", "5", "--id", "b1"), "repeat the command with --id b1")
	d.env["PENSTOCK_ADMIN_URL"] = "http://127.0.0.1:1"
	require.Regexp(t, `repeat the command with --id [0-9a-f-]{36}, which books it once`, d.fails(1, "credit", "ann", "5"))
}

func TestBalancesAreShown(t *testing.T) {
	d := newDesk(t)
	d.users("ann", "bob", "cyd")
	d.ok("credit", "ann", "50", "--id", "b1")
	d.ok("subscription", "grant", "bob", "--id", "gold", "--daily", "5", "--overflow")
	out := d.ok("balance")
	require.Regexp(t, `(?m)^USER +BALANCE +CREDITED +SPENT +SET ASIDE +OVERDRAFT +LEFT +SUBSCRIPTIONS$`, out)
	require.Regexp(t, `(?m)^ann +50 +50 +0 +0 +0 +50 +-$`, out)
	require.Regexp(t, `(?m)^bob +none +- +- +- +- +- +gold$`, out)
	require.Len(t, strings.Split(strings.TrimSpace(d.ok("balance", "--json")), "\n"), 3)
	require.Contains(t, d.ok("balance", "ann"), "balance  50 USD: 50 credited and adjusted, 0 spent\n")
	out = d.ok("balance", "bob")
	require.Contains(t, out, "balance  none")
	require.Contains(t, out, "subscription gold: in force, from ")
	require.Contains(t, out, "daily    0.5 of 5 USD spent")
	require.Contains(t, d.ok("balance", "ann", "--json"), `"credited":"50"`)
	require.Equal(t, "there is no user nobody", d.fails(1, "balance", "nobody"))
	d.fails(2, "balance", "ann", "bob")

	require.Regexp(t, `(?s)ACCOUNT +USD\nbalance/ann +50\ncredits +-50\nall accounts together +0\n`, d.ok("balance", "--books"))
	require.Contains(t, d.ok("balance", "--books", "--json"), `"sum":"0"`)
	d.fails(2, "balance", "ann", "--books")
}

func TestSubscriptionsAreGrantedAndRevoked(t *testing.T) {
	d := newDesk(t)
	d.users("ann")
	d.ok("apply", "-f", d.file("group.yaml", "kind: group\nid: team\n"))
	out := d.ok("subscription", "grant", "ann", "--id", "gold", "--group", "team", "--daily", "5", "--weekly", "20", "--monthly", "60",
		"--starts", "2026-06-01", "--expires", "720h", "--overflow", "--note", "spring")
	require.Contains(t, out, "user ann: subscription gold is in force (position 1)")
	require.Contains(t, out, "for keys of group team")
	require.Regexp(t, `(?m)^2026-06-01 +grant gold .* daily 5, weekly 20, monthly 60, for keys of group team, until 2026-07-01 12:00:00; spring$`,
		d.ok("statement", "ann"))
	want := domain.Subscription{ID: "gold", Group: "team", Starts: noon.Truncate(24 * time.Hour), Expires: noon.Add(720 * time.Hour),
		Daily: 5 * money.USD, Weekly: 20 * money.USD, Monthly: 60 * money.USD, Overflow: true}
	require.Equal(t, []domain.Subscription{want}, d.place.till.state.Purse("ann").Subscriptions())
	require.Contains(t, d.ok("subscription", "revoke", "ann", "gold"), "subscription gold has ended (position 2)")
	require.Contains(t, d.ok("subscription", "revoke", "ann", "gold"), "it was so before")
	require.Empty(t, d.place.till.state.Purse("ann").Subscriptions())
	require.Contains(t, d.ok("subscription", "grant", "ann", "--id", "s", "--daily", "1", "--json"), `"again":false`)

	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{2, "--id ID", []string{"ann"}}, {2, "--daily", []string{"ann", "--id", "x", "--daily", "much"}},
		{2, "--starts", []string{"ann", "--id", "x", "--daily", "1", "--starts", "24h"}},
		{2, "--expires", []string{"ann", "--id", "x", "--daily", "1", "--expires", "-24h"}},
		{1, "id: must be letters", []string{"ann", "--id", "a/b", "--daily", "1"}},
		{1, "needs at least one of daily, weekly and monthly", []string{"ann", "--id", "x"}},
		{1, "user is not known", []string{"nobody", "--id", "x", "--daily", "1"}},
	} {
		require.Contains(t, d.fails(c.code, append([]string{"subscription", "grant"}, c.args...)...), c.want)
	}
	require.Contains(t, d.fails(1, "subscription", "revoke", "ann", "none"), "id: user ann was never given none")
	require.Contains(t, d.fails(1, "subscription", "revoke", "ann", "a b"), "id: must be letters")
	require.Equal(t, "ID is empty", d.fails(2, "subscription", "revoke", "ann", ""))
}

// spring is a user that was credited and has used something, with texts that a spreadsheet would take for formulas.
func spring(t *testing.T) *desk {
	d := newDesk(t)
	d.users("ann")
	d.ok("credit", "ann", "50", "--id", "b1", "--note", "=1+1, \"cash\"")
	story := &request.Story{ID: "r1"}
	for _, f := range []events.Fact{
		&request.Admitted{Ask: request.Ask{Key: "k1", User: "ann", Model: "@gpt\x1b[31m"}, PaidBy: "balance"},
		&request.Dispatched{N: 1, Upstream: "a"},
		&request.Settled{Outcome: request.Completed, Status: 200, Sent: true, Attempts: 1, Cost: money.USD / 4, UpstreamCost: money.USD / 5},
	} {
		d.place.till.tell(story, f)
	}
	return d
}

func TestAStatementIsATextATableOrAnObject(t *testing.T) {
	d := spring(t)
	out := d.ok("statement", "ann")
	require.Contains(t, out, "statement of user ann; days are in UTC, amounts in USD\nbalance before: 0\n")
	require.Regexp(t, `(?m)^DAY +WHAT +KEY +PAID BY +REQUESTS +ATTEMPTS +COST +CHANGES +BALANCE +NOTE$`, out)
	require.Regexp(t, `(?m)^2026-06-01 +credit b1 +- +- +- +- +- +50 +50 +=1\+1, "cash"$`, out)
	require.Regexp(t, `(?m)^2026-06-01 +usage +k1 +balance +1 +1 +0.25 +-0.25 +49.75 +-$`, out)
	require.Contains(t, out, "balance after: 49.75\nused: 0.25 for 1 requests in 1 attempts\n  paid by balance: 0.25\n")
	out = d.ok("statement", "--key", "k1", "--since", "30d")
	require.Contains(t, out, "statement of key k1, from 2026-05-02")
	require.Regexp(t, `(?m)^2026-06-01 +usage +@gpt \[31m +balance`, out)
	require.NotContains(t, out, "balance after")
	require.Contains(t, d.ok("statement", "ann", "--since", "2026-07"), "balance before: 49.75\nnothing was posted\nbalance after: 49.75\n")

	var s statement.Statement
	require.NoError(t, json.Unmarshal([]byte(d.ok("statement", "ann", "--json", "--group", "month")), &s))
	require.Equal(t, "2026-06", s.Lines[1].Day)
	require.Equal(t, money.USD*4975/100, *s.Closing)

	require.Equal(t, strings.Join([]string{
		"day,at,kind,id,key,model,paid_by,used_first,used_last,requests,attempts,cost,amount,balance,note",
		",,opening,,,,,,,,,,,0,",
		`2026-06-01,2026-06-01T12:00:00Z,credit,b1,,,,,,,,,50,50,"'=1+1, ""cash"""`,
		"2026-06-01,,usage,,k1,,balance,,,1,1,0.25,-0.25,49.75,",
		",,closing,,,,,,,,,,,49.75,", "",
	}, "\r\n"), d.ok("statement", "ann", "--csv"))
	rows, err := csv.NewReader(strings.NewReader(d.ok("statement", "--key", "k1", "--csv"))).ReadAll()
	require.NoError(t, err)
	require.Equal(t, "'@gpt [31m", rows[1][5])

	delete(d.env, "PENSTOCK_ADMIN_URL") // the gateway is stopped
	d.env["PENSTOCK_ADMIN_LISTEN"] = "127.0.0.1:1"
	require.Contains(t, d.ok("statement", "ann"), "balance after: 49.75\n")
	require.Contains(t, d.ok("balance", "--books"), "all accounts together")
}

func TestAStatementThatCanNotBeMadeSaysWhatIsWrong(t *testing.T) {
	d := spring(t)
	for want, args := range map[string][]string{
		"USER or --key KEY":                 {},
		"statement takes USER or --key KEY": {"ann", "--key", "k1"},
		"--since: \"soon\" is not a day":    {"ann", "--since", "soon"},
		"until: is not after since":         {"ann", "--since", "2026-02-01", "--until", "2026-02"},
		"group: \"hour\" is neither":        {"ann", "--group", "hour"},
		"--csv: cannot stand beside --json": {"ann", "--csv", "--json"},
	} {
		require.Contains(t, d.fails(2, append([]string{"statement"}, args...)...), want)
	}
}

// A cell that a spreadsheet would run is text in it.
func TestTextsAreInertInSpreadsheets(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "paid": "paid", "a=b": "a=b", "=cmd()": "'=cmd()", "+1": "'+1", "-1": "'-1", "@x": "'@x", " =1": "' =1", "\t=1": "' =1",
		"\ufeff=1": "'\ufeff=1", "＝1": "'＝1", "line\none": "line one",
	} {
		require.Equal(t, want, inert(text), "%q", text)
	}
}
