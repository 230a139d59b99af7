package actors_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/failure"
	"github.com/penstock/penstock/domain/ledger"
	"github.com/penstock/penstock/domain/limit"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// The history is read where it may tell something: not for a user or a key that was never there before, and for the first balance of a
// start on behalf of all others.
func TestTheHistoryIsReadOnceForAllBalances(t *testing.T) {
	r := bank(t, &catalog.User{ID: "u"}, &catalog.User{ID: "v", Budget: "postpaid", Overdraft: "0.3"})
	reads := func(says string, want int) {
		t.Helper()
		if r.recalls != want {
			t.Errorf("%s: read %d times, want %d", says, r.recalls, want)
		}
		r.recalls = 0
	}
	r.apply(key("k", func(k *catalog.Key) { k.User = "v" }))
	if a, b := r.asks(), r.asks(); a+b != "served, paid by balanceserved, paid by balance" {
		t.Fatal(a, b)
	}
	r.apply(&catalog.User{ID: "v"})
	r.book(&ledger.Credited{User: "u", ID: "1", Amount: 5})
	reads("users that are new", 0)
	old := r.system
	r.system, r.ledger = r.openSystem()
	t.Cleanup(func() { _ = old.Stop(t.Context()) })
	r.Dispatcher.System = r.system
	r.system.Reconfigure(layoutOf(r.snap.Load()))
	reads("a start with a balance", 1)
	r.book(&ledger.Credited{User: "v", ID: "1", Amount: money.USD})
	r.apply(&catalog.User{ID: "u"}, &catalog.User{ID: "w", Budget: "strict"}, key("new", func(k *catalog.Key) {
		k.User, k.Limits = "w", &catalog.Limits{Budget: "5", Spending: []catalog.Spending{{Period: "monthly", Limit: "4"}}}
	}))
	reads("all that follows", 0)
	if v, _ := r.ledger.Account("v"); v.Spent != money.USD/2 {
		t.Errorf("%+v", v)
	}
	r.apply(key("k", func(k *catalog.Key) { k.User, k.Limits = "v", &catalog.Limits{Budget: "5"} }))
	reads("a rule of a key that was there before", 1)
	r.sameAfterRestart()
}

// A repricing moves the balance, the windows and the budgets by its difference at the time of the settlement, live and after a restart
// (pain 80).
func TestARepricingIsTheSameLiveAndAfterARestart(t *testing.T) {
	limits := &catalog.Limits{Budget: "100", Spending: []catalog.Spending{{Period: "daily", Limit: "50"}}}
	r := bank(t, &catalog.User{ID: "u", Limits: limits})
	r.apply(key("k", func(k *catalog.Key) { k.User, k.Limits = "u", limits }), &catalog.Group{ID: "g", Upstreams: []string{"a"}, Limits: limits},
		upstream("a", func(u *catalog.Upstream) { u.Limits = limits }), setting("platform.daily", "77"))
	r.book(&ledger.Credited{User: "u", ID: "1", Amount: money.USD})
	r.book(&ledger.Granted{User: "u", Subscription: ledger.Subscription{ID: "s", Starts: r.Now().Add(-time.Hour), Daily: money.USD / 4, Overflow: true}})
	for _, want := range []string{"subscription/s", "balance"} {
		if got := r.asks(); got != "served, paid by "+want {
			t.Fatal(got)
		}
	}
	reprice := func(id string, by money.Amount) {
		t.Helper()
		var s request.Story
		var version int64
		err := r.store.Stream(t.Context(), "request/"+id, 0, func(c *events.Committed) bool {
			for _, f := range c.Facts {
				s.Evolve(f, c.At)
			}
			version += int64(len(c.Facts))
			return true
		})
		if err != nil || s.Settled == nil {
			t.Fatal(err, s)
		}
		is := request.Charge{Cost: s.Settled.Cost + by, UpstreamCost: s.Settled.UpstreamCost + by}
		fact := &request.Repriced{Reprice: "r-" + id, Cost: by, UpstreamCost: by, Changes: []request.Repricing{{
			N: 1, At: s.EndedAt, Was: request.Charge{Cost: s.Settled.Cost, UpstreamCost: s.Settled.UpstreamCost}, Is: is,
		}}}
		err = r.system.Steady(func() error {
			row := events.Row{Stream: "request/" + id, Version: version, At: r.Now().UTC(), Request: id, Key: "k", Facts: []events.Fact{fact}}
			if err := r.journal.Commit(events.Append{Rows: []events.Row{row}}, events.May); err != nil {
				return err
			}
			ask := s.Ask()
			r.system.Repriced(ask.Key, ask.User, ask.Group, s.PaidBy(), s.EndedAt, by, []actors.UsedUpstream{{Upstream: "a", Cost: by}})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	reprice("r1", -money.USD/10)
	reprice("r2", money.USD/2)
	v, _ := r.ledger.Account("u")
	if v.Spent != 75*money.USD/100 || v.Subscriptions[0].Windows[0].Spent != 15*money.USD/100 {
		t.Errorf("%+v", v)
	}
	st, _ := r.system.KeyStatus("k")
	for _, of := range [][]actors.SpentStatus{st.Spending, st.User.Spending} {
		for _, x := range of {
			if x.Spent != 90*money.USD/100 {
				t.Errorf("%+v", of)
			}
		}
	}
	if b := st.User.Balance; b == nil || b.Left != 25*money.USD/100 || len(st.User.Subscriptions) != 1 {
		t.Errorf("%+v", st.User)
	}
	r.sameAfterRestart()
	if got := r.asks(); got != "served, paid by subscription/s" {
		t.Errorf("the window has room again: %s", got)
	}
}

// A request whose node has died is settled by recovery, and paid for by whoever paid for it.
func TestAnAbandonedRequestKeepsItsPayer(t *testing.T) {
	r := bank(t, &catalog.User{ID: "u"})
	r.book(&ledger.Credited{User: "u", ID: "1", Amount: money.USD})
	row := events.Row{Stream: "request/dead", At: r.Now().UTC(), Request: "dead", Key: "k", Facts: []events.Fact{
		&request.Admitted{Ask: request.Ask{Key: "k", User: "u", Model: "m"}, InputEstimate: 3, PaidBy: limit.PaidByBalance, Plan: []request.Candidate{{Upstream: "a"}}},
		&request.Dispatched{N: 1, Upstream: "a", Account: "a1"},
	}}
	if err := r.journal.Commit(events.Append{Rows: []events.Row{row}}, events.May); err != nil {
		t.Fatal(err)
	}
	open, err := actors.FindOpen(t.Context(), r.store)
	if err != nil || len(open) != 1 {
		t.Fatal(open, err)
	}
	if err := actors.Abandon(r.journal, r.snap.Load(), "n", r.Now(), open); err != nil {
		t.Fatal(err)
	}
	s, l := r.openSystem()
	defer func() { _ = s.Stop(t.Context()) }()
	s.Reconfigure(layoutOf(r.snap.Load()))
	if v, _ := l.Account("u"); v.Spent != 25*money.USD/100 || v.Left != 75*money.USD/100 {
		t.Errorf("%+v", v)
	}
}

// A refusal says when it opens, to the very moment, and nothing is left behind.
func TestARefusalByMoneySaysWhenItOpens(t *testing.T) {
	r := bank(t, &catalog.User{ID: "u"})
	starts := r.Now().Add(-100 * time.Hour).UTC().Truncate(time.Millisecond)
	r.book(&ledger.Granted{User: "u", Subscription: ledger.Subscription{ID: "s", Starts: starts, Weekly: money.USD / 4}})
	if got := r.asks(); got != "served, paid by subscription/s" {
		t.Fatal(got)
	}
	x := r.run(func() *actors.Call { c := r.chat(); c.Ask.User = "u"; return c }())
	opens := starts.Add(7 * 24 * time.Hour)
	if x.Status != 429 || !strings.Contains(string(x.Body), `"reopens_at":"`+opens.Format("2006-01-02T15:04:05.000Z")) {
		t.Errorf("%d %s, opens %s", x.Status, x.Body, opens)
	}
	var body struct{ Error struct{ Code string } }
	if err := json.Unmarshal(x.Body, &body); err != nil || body.Error.Code != failure.SubscriptionExhausted || x.header("Retry-After") == "" {
		t.Errorf("%s", x.Body)
	}
	r.late.Store(int64(time.Until(opens)))
	if v, _ := r.ledger.Account("u"); v.Running != 0 || v.Subscriptions[0].Windows[0].Reserved != 0 {
		t.Errorf("%+v", v)
	}
}

// A request that comes while its key moves to another user is told to be of the one whose money it has used: the catalogue names the
// next one already, and the past of the key is still read; or it was let in with the one before.
func TestARequestIsToldToBeOfWhoseMoneyItUses(t *testing.T) {
	r := bank(t, &catalog.User{ID: "u", Budget: "postpaid"}, &catalog.User{ID: "v", Budget: "postpaid"}, &catalog.User{ID: "w"})
	for _, user := range []string{"u", "v"} {
		r.book(&ledger.Credited{User: user, ID: "1", Amount: money.USD})
	}
	spent := func(user string, want money.Amount) {
		t.Helper()
		if v, _ := r.ledger.Account(user); v.Spent != want {
			t.Errorf("%s has spent %s, want %s", user, v.Spent, want)
		}
	}
	of := func(user string) *catalog.Key {
		return key("k", func(k *catalog.Key) {
			k.User, k.Limits = user, &catalog.Limits{Budget: "9", Spending: []catalog.Spending{{Period: "daily", Limit: "8"}}}
		})
	}
	early := r.chat() // let in with the user before
	early.Ask.User = early.Key.User
	r.apply(of("u"))
	r.read = func() {
		r.read = nil
		if got := r.asks(); got != "served, paid by balance" {
			t.Error(got)
		}
	}
	r.apply(of("v"))
	if r.read != nil {
		t.Fatal("the past of the key was not read")
	}
	spent("u", money.USD/4)
	spent("v", 0)
	r.sameAfterRestart()
	r.reply("a", whole(okBody))
	if x := r.run(early); x.Status != 200 || r.payer(early.ID) != "balance" {
		t.Fatal(x.Status, r.payer(early.ID))
	}
	spent("u", money.USD/4)
	spent("v", money.USD/4)
	r.sameAfterRestart()
}
