package limit

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/money"
)

func req(id, key string, at time.Time, tokens int64) Request { return Request{id, key, at, tokens} }

// admitted admits a request that must be.
func admitted(t *testing.T, c *Caller, r Request) {
	t.Helper()
	if no := c.Admit(r); !no.OK() {
		t.Fatalf("%s: %+v", r.ID, no)
	}
}

// A33, pain 37: what a rate refuses says whose it is, which one and exactly when it opens, and charges nothing.
func TestARefusalByRateNamesItsWindowAndChargesNothing(t *testing.T) {
	c := NewCaller(Policy{Rate: Rate{RPM: 3, TPM: 1000}, Keys: []Key{{ID: "a", Rate: Rate{RPM: 2}}, {ID: "b", Rate: Rate{TPM: 500}}}})
	admitted(t, c, req("1", "a", at(0), 100))
	admitted(t, c, req("2", "a", at(1500), 100))
	for i, want := range []struct {
		r Request
		Refusal
	}{
		{req("3", "a", at(2000), 1), Refusal{RateLimited, ReasonRPM, "key/a", at(60_000)}},
		{req("3", "b", at(2000), 900), Refusal{RateLimited, ReasonTPM, "user", at(60_000)}},
		{req("3", "nobody", at(2000), 1), Refusal{unknown, ReasonUnknown, "key/nobody", time.Time{}}},
		{req("1", "b", at(2000), 1), Refusal{unknown, ReasonUnknown, "key/b", time.Time{}}}, // the id is taken
	} {
		if got := c.Admit(want.r); got != want.Refusal {
			t.Errorf("%d: got %+v, want %+v", i, got, want.Refusal)
		}
	}
	admitted(t, c, req("3", "b", at(2000), 400))
	// both are full: the later one says when
	if got, want := c.Admit(req("4", "b", at(3000), 400)), (Refusal{RateLimited, ReasonTPM, "key/b", at(62_000)}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := c.Admit(req("4", "b", at(62_000), 400)); !got.OK() {
		t.Errorf("when it says that it opens it must: %+v", got)
	}
	v := c.View(at(62_000))
	if v.Rate.RPM.Used != 1 || v.Keys[1].Rate.TPM.Used != 400 || v.Open != 4 {
		t.Errorf("got %+v", v)
	}
}

func TestARequestThatIsLaterRefusedIsRefunded(t *testing.T) {
	c := NewCaller(Policy{Rate: Rate{RPM: 1, TPM: 100}, Money: total(money.USD), Keys: []Key{{ID: "k", Rate: Rate{RPM: 1}}}})
	admitted(t, c, req("1", "k", at(0), 70))
	c.Reserve("1", money.USD, at(10))
	if !c.Refund("1") || c.Refund("1") {
		t.Error("it is refunded once")
	}
	admitted(t, c, req("2", "k", at(20), 70))
	if no := reserve(c, "2", money.USD, at(20)); !no.OK() {
		t.Errorf("the money came back, too: %+v", no)
	}
}

func reserve(c *Caller, id string, worst money.Amount, now time.Time) Refusal {
	_, no := c.Reserve(id, worst, now)
	return no
}

// TPM counts estimates, corrected by what was really used: less at once, more in the minute in which it is known.
func TestTokensAreCorrectedToWhatWasReallyUsed(t *testing.T) {
	for _, c := range []struct {
		says          string
		real          int64
		at, now, used int64
	}{
		{"less", 40, 5_000, 5_000, 40}, {"more", 250, 5_000, 5_000, 250}, {"not known", -1, 5_000, 5_000, 100},
		{"nothing", 0, 5_000, 5_000, 0},
		{"more, after the arrival has slid out", 250, 90_000, 90_000, 150}, {"less, after it has slid out", 40, 90_000, 90_000, 0},
		{"what is more slides out by itself", 250, 30_000, 60_000, 150}, {"and then all of it", 250, 30_000, 90_000, 0},
	} {
		m := NewCaller(Policy{Keys: []Key{{ID: "k", Rate: Rate{TPM: 1000}}}})
		admitted(t, m, req("1", "k", at(0), 100))
		m.Settle("1", Settlement{At: at(c.at), Tokens: c.real})
		if got := m.View(at(c.now)).Keys[0].Rate.TPM.Used; got != c.used {
			t.Errorf("%s: counts %d, want %d", c.says, got, c.used)
		}
	}
}

// A34, B32: subscription, then balance, then the key's quota, then the user's budget; each with its own code.
func TestMoneyIsLookedForInTheOrderOfTheReference(t *testing.T) {
	full := Money{Postpaid, []Rule{{Period{Kind: Daily}, cent}}}
	sub := Subscription{ID: "s", Starts: t0.Add(-time.Hour), Expires: t0.Add(29 * day), Daily: cent}
	tomorrow := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		says string
		p    Policy
		want Refusal
	}{
		{"all are used up", Policy{Money: full, Balance: true, Subscriptions: []Subscription{sub}, Keys: []Key{{ID: "k", Money: full}}},
			Refusal{SubscriptionExhausted, "DAILY", "subscription/s", t0.Add(23 * time.Hour)}},
		{"no subscription", Policy{Money: full, Balance: true, Keys: []Key{{ID: "k", Money: full}}}, Refusal{BalanceExhausted, "TOTAL", "balance", time.Time{}}},
		{"no balance", Policy{Money: full, Keys: []Key{{ID: "k", Money: full}}}, Refusal{QuotaExceeded, "DAILY", "key/k", tomorrow}},
		{"no quota of the key", Policy{Money: full, Keys: []Key{{ID: "k"}}}, Refusal{BudgetExceeded, "DAILY", "user", tomorrow}},
		{"nothing is limited", Policy{Keys: []Key{{ID: "k"}}}, Refusal{}},
	} {
		m := NewCaller(c.p)
		m.Spend(Spent{"k", "subscription/s", t0, cent, false})
		if got := m.Admit(req("1", "k", t0, 1)); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.says, got, c.want)
		}
	}
}

// B11, B47: after the wait others may have spent.
func TestAfterAWaitMoneyIsLookedForAgain(t *testing.T) {
	c := NewCaller(Policy{Keys: []Key{{ID: "k", Money: total(10 * cent)}}})
	admitted(t, c, req("1", "k", t0, 1))
	admitted(t, c, req("2", "k", t0, 1))
	if no := reserve(c, "2", 10*cent, t0); !no.OK() {
		t.Fatal(no)
	}
	if no := c.Check("1", t0); no.Code != QuotaExceeded || no.Reason != ReasonReserved {
		t.Errorf("got %+v", no)
	}
	c.Settle("2", Settlement{At: t0, Cost: 2 * cent, Tokens: -1})
	if no := c.Check("1", t0); !no.OK() {
		t.Errorf("8 cents are left: %+v", no)
	}
	c.Reconfigure(Policy{}, t0)
	if no := c.Check("1", t0); no.Reason != ReasonUnknown {
		t.Errorf("the key is gone: %+v", no)
	}
	if _, _, ok := c.Settle("1", Settlement{At: t0}); !ok {
		t.Error("its requests end all the same")
	}
}

// A reservation is all or nothing: what the first owner grants comes back when the second refuses.
func TestAReservationThatOneOwnerRefusesIsGivenBackByTheOthers(t *testing.T) {
	c := NewCaller(Policy{Money: total(5 * cent), Balance: true, Credited: money.USD, Keys: []Key{{ID: "k", Money: total(50 * cent)}}})
	admitted(t, c, req("1", "k", t0, 1))
	if no := reserve(c, "1", 6*cent, t0); no.Code != BudgetExceeded || no.Owner != "user" {
		t.Fatalf("got %+v", no)
	}
	v := c.View(t0)
	if v.Balance.Reserved != 0 || v.Sums[0].Reserved != 0 || v.Keys[0].Sums[0].Reserved != 0 {
		t.Errorf("got %+v", v)
	}
	held := func() money.Amount { return c.View(t0).Balance.Reserved }
	if by, no := c.Reserve("1", 5*cent, t0); by != PaidByBalance || !no.OK() || held() != 5*cent {
		t.Errorf("%s, %+v, held %s", by, no, held())
	}
	if no := reserve(c, "1", 7*cent, t0); no.OK() { // failover to a dearer upstream
		t.Error("the top-up has no room")
	}
	if v := c.View(t0); held() != 5*cent || v.Balance.Left() != 95*cent {
		t.Errorf("held %s, left %s", held(), v.Balance.Left())
	}
}

func TestABalanceIsCreditMinusSpendWithAFloor(t *testing.T) {
	p := Policy{Overdraft: 10 * cent, Keys: []Key{{ID: "k"}}}
	c := NewCaller(p)
	admitted(t, c, req("free", "k", t0, 1)) // never credited: it does not live on a balance
	c.Refund("free")
	p.Balance, p.Credited = true, 5*cent
	c = NewCaller(p)
	c.Spend(Spent{"k", PaidByBalance, t0, 14 * cent, false})
	admitted(t, c, req("1", "k", t0, 1))
	if by, _, _ := settled(c, "1", 3*cent); by != PaidByBalance {
		t.Errorf("paid by %q", by)
	}
	if no := c.Admit(req("2", "k", t0, 1)); no.Code != BalanceExhausted || !no.Reopens.IsZero() {
		t.Errorf("got %+v", no)
	}
	p.Credited += 3 * cent
	if c.Reconfigure(p, t0) {
		t.Error("it knows what was spent from its balance")
	}
	if got := c.View(t0).Balance; *got != (BalanceView{8 * cent, 17 * cent, 0, 10 * cent}) || got.Left() != cent {
		t.Errorf("got %+v", got)
	}
	admitted(t, c, req("2", "k", t0, 1))
	p.Overdraft = 0
	c.Reconfigure(p, t0)
	if no := c.Check("2", t0); no.Code != BalanceExhausted {
		t.Errorf("without the overdraft: %+v", no)
	}
}

func settled(c *Caller, id string, cost money.Amount) (string, money.Amount, bool) {
	c.Reserve(id, cost, t0)
	return c.Settle(id, Settlement{At: t0, Cost: cost, Tokens: -1})
}

// B25, B32, pain 25: which subscription pays, what happens at its edges, and what comes after it.
func TestSubscriptionsPayInOrderAndWithinTheirTime(t *testing.T) {
	ends := t0.Add(30 * day)
	monthly := Subscription{ID: "m", Starts: t0, Expires: ends, Monthly: cent}
	spentUp := []Spent{{"k", "subscription/m", t0.Add(day), cent, false}}
	for _, c := range []struct {
		says   string
		subs   []Subscription
		spent  []Spent
		credit money.Amount
		now    time.Time
		by     string
		want   Refusal
	}{
		{"in force", []Subscription{monthly}, nil, 0, t0, "subscription/m", Refusal{}},
		{"to its last moment", []Subscription{monthly}, nil, 0, ends.Add(-time.Microsecond), "subscription/m", Refusal{}},
		{"over", []Subscription{monthly}, nil, 0, ends, "", Refusal{SubscriptionExhausted, ReasonExpired, "user", time.Time{}}},
		{"not begun", []Subscription{monthly}, nil, 0, t0.Add(-1), "", Refusal{SubscriptionExhausted, ReasonExpired, "user", t0}},
		{"used up: no second window in 30 days", []Subscription{monthly}, spentUp, 0, ends.Add(-1), "", Refusal{SubscriptionExhausted, "MONTHLY", "subscription/m", time.Time{}}},
		{"used up, and longer than a month", []Subscription{{ID: "m", Starts: t0, Monthly: cent}}, spentUp, 0, ends.Add(-1), "",
			Refusal{SubscriptionExhausted, "MONTHLY", "subscription/m", ends}},
		{"used up, the next pays", []Subscription{monthly, {ID: "n", Starts: t0}}, spentUp, 0, t0.Add(2 * day), "subscription/n", Refusal{}},
		{"used up, the balance may not pay", []Subscription{monthly}, spentUp, cent, t0.Add(2 * day), "", Refusal{SubscriptionExhausted, "MONTHLY", "subscription/m", time.Time{}}},
		{"used up, the balance pays", []Subscription{{ID: "m", Starts: t0, Monthly: cent, Overflow: true}}, spentUp, cent, t0.Add(2 * day), PaidByBalance, Refusal{}},
		{"used up like the balance, which opens with the next window", []Subscription{{ID: "m", Starts: t0, Monthly: cent, Overflow: true}},
			append(spentUp[:1:1], Spent{"k", PaidByBalance, t0, cent, false}), cent, t0.Add(2 * day), "", Refusal{BalanceExhausted, "TOTAL", PaidByBalance, ends}},
		{"not begun, the balance is used up", []Subscription{monthly}, []Spent{{"k", PaidByBalance, t0, cent, false}}, cent, t0.Add(-1), "",
			Refusal{BalanceExhausted, "TOTAL", PaidByBalance, t0}},
		{"over, the balance pays", []Subscription{monthly}, nil, cent, ends, PaidByBalance, Refusal{}},
		{"of another group", []Subscription{{ID: "m", Group: "other", Starts: t0}}, nil, 0, t0, PaidByNobody, Refusal{}},
	} {
		m := NewCaller(Policy{Balance: c.credit > 0, Credited: c.credit, Subscriptions: c.subs, Keys: []Key{{ID: "k", Group: "g"}}})
		for _, s := range c.spent {
			m.Spend(s)
		}
		no := m.Admit(req("1", "k", c.now, 1))
		by := ""
		if no.OK() {
			by, no = m.Reserve("1", cent/2, c.now)
		}
		if by != c.by || no != c.want {
			t.Errorf("%s: %q, %+v; want %q, %+v", c.says, by, no, c.by, c.want)
		}
	}
}

func TestSubscriptionsPayInTheOrderInWhichTheyAreListed(t *testing.T) {
	a, b := Subscription{ID: "a", Starts: t0, Daily: cent}, Subscription{ID: "b", Starts: t0, Daily: cent}
	c := NewCaller(Policy{Subscriptions: []Subscription{a, b}, Keys: []Key{{ID: "k"}}})
	c.Reconfigure(Policy{Subscriptions: []Subscription{b, a}, Keys: []Key{{ID: "k"}}}, t0)
	admitted(t, c, req("1", "k", t0, 1))
	if by, no := c.Reserve("1", cent, t0); by != "subscription/b" || !no.OK() {
		t.Errorf("paid by %q, %+v", by, no)
	}
}

func TestASubscriptionThatIsTakenAwayStillGetsTheEndOfItsRequests(t *testing.T) {
	p := Policy{Subscriptions: []Subscription{{ID: "s", Starts: t0, Daily: cent}}, Keys: []Key{{ID: "k"}}}
	c := NewCaller(p)
	admitted(t, c, req("1", "k", t0, 1))
	c.Reserve("1", cent, t0)
	c.Reconfigure(Policy{Keys: p.Keys}, t0)
	if by, _, ok := c.Settle("1", Settlement{At: t0, Cost: cent}); by != "subscription/s" || !ok {
		t.Errorf("%q, %v", by, ok)
	}
}

// One that is taken away and given again is what it was, also with what was spent from it meanwhile, and needs no history.
func TestASubscriptionThatComesBackKeepsItsWindows(t *testing.T) {
	p := Policy{Subscriptions: []Subscription{{ID: "r", Starts: t0, Daily: cent}, {ID: "s", Starts: t0, Daily: 3 * cent}}, Keys: []Key{{ID: "k"}}}
	c := NewCaller(p)
	c.Spend(Spent{"k", "subscription/s", t0, cent, false})
	for range 3 {
		if c.Reconfigure(Policy{Keys: p.Keys}, t0) || len(c.View(t0).Subscriptions) != 0 {
			t.Fatalf("%+v", c.View(t0).Subscriptions)
		}
	}
	c.Spend(Spent{"k", "subscription/s", t0, cent, false})
	if c.Reconfigure(p, t0) {
		t.Error("it knows its windows")
	}
	if got := c.View(t0).Subscriptions; len(got) != 2 || got[1].Sums[0].Spent != 2*cent || got[0].Sums[0].Spent != 0 {
		t.Errorf("%+v", got)
	}
	p.Subscriptions[1].Starts = t0.Add(-time.Hour)
	if !c.Reconfigure(p, t0) {
		t.Error("other windows are new")
	}
}

// A key that is removed and made again, at the same user, has spent what its running requests come to: a restart says so, too.
func TestAKeyThatComesBackHasSpentWhatRanMeanwhile(t *testing.T) {
	p := Policy{Money: Money{Strict, []Rule{{Period{}, 9 * cent}}}, Keys: []Key{{ID: "k", Money: Money{Strict, []Rule{{Period{}, 3 * cent}}}}}}
	c := NewCaller(p)
	for _, id := range []string{"1", "2"} {
		admitted(t, c, req(id, "k", t0, 1))
		c.Reserve(id, cent, t0)
	}
	gone := p
	gone.Keys = nil
	c.Reconfigure(gone, t0)
	if !c.Reconfigure(p, t0.Add(time.Second)) {
		t.Fatal("what it spent before is not known")
	}
	c.Settle("1", Settlement{At: t0, Cost: cent}) // before the key was back: the history tells it
	c.Fill(Spent{Key: "k", At: t0, Cost: cent})
	c.Filled(true)
	c.Settle("2", Settlement{At: t0.Add(time.Minute), Cost: cent})
	c.Settle("2", Settlement{At: t0.Add(time.Minute), Cost: cent})
	if v := c.View(t0.Add(time.Minute)); v.Keys[0].Sums[0].Spent != 2*cent || v.Keys[0].Sums[0].Reserved != 0 || v.Sums[0].Spent != 2*cent {
		t.Errorf("%+v of the key, %+v", v.Keys[0].Sums, v.Sums)
	}
}

// A restart: what is folded from the facts is what was counted live, whatever comes next (pain 15).
func TestAfterARestartACallerIsExactlyWhatItWas(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 4))
		mode := Mode(seed % 2)
		p := Policy{Rate: Rate{RPM: 40, TPM: 9000}, Balance: true, Credited: 3 * money.USD, Overdraft: cent,
			Money:         Money{mode, []Rule{{Period{Kind: Daily}, 3 * money.USD}}},
			Subscriptions: []Subscription{{ID: "s", Starts: t0, Daily: 20 * cent, Overflow: true}},
			Keys: []Key{{ID: "a", Rate: Rate{RPM: 20}, Money: Money{mode, []Rule{{Period{Kind: Rolling, Hours: 5}, money.USD}}}},
				{ID: "b", Rate: Rate{TPM: 5000}, Money: Money{mode, []Rule{{Limit: 2 * money.USD}, {Period{Kind: Monthly}, money.USD}}}}}}
		live := NewCaller(p)
		type flying struct {
			r    Request
			held money.Amount
			by   string
		}
		open := map[string]flying{}
		var facts []func(*Caller)
		fact := func(f func(*Caller)) { facts = append(facts, f) }
		now := t0
		for step := range 300 {
			now = now.Add(time.Duration(r.Int64N(4e9))).Truncate(time.Microsecond)
			id := fmt.Sprint(step)
			if r.IntN(2) == 0 {
				q := req(id, []string{"a", "b"}[r.IntN(2)], now, r.Int64N(500))
				if !live.Admit(q).OK() {
					continue
				}
				worst := money.Amount(r.Int64N(int64(10 * cent)))
				by, no := live.Reserve(id, worst, now)
				if !no.OK() || r.IntN(8) == 0 {
					live.Refund(id)
					continue
				}
				open[id] = flying{q, worst, by}
				continue
			}
			for id, f := range open {
				s := Settlement{now, money.Amount(r.Int64N(int64(f.held) + 1)), r.Int64N(900)}
				if by, over, ok := live.Settle(id, s); by != f.by || over != 0 || !ok {
					t.Fatalf("seed %d: %s, %s, %v", seed, by, over, ok)
				}
				fact(func(c *Caller) {
					c.Charge(f.r.Key, 1, min(f.r.Tokens, s.Tokens), f.r.At)
					c.Charge(f.r.Key, 0, s.Tokens-f.r.Tokens, s.At)
					c.Spend(Spent{f.r.Key, f.by, s.At, s.Cost, false})
				})
				delete(open, id)
				break
			}
		}
		for id := range open { // those are not of the past
			live.Refund(id)
		}
		again := NewCaller(p)
		for _, f := range facts {
			f(again)
		}
		for _, after := range []time.Duration{0, time.Millisecond, 13 * time.Second, time.Minute, time.Hour, 5 * time.Hour, 26 * time.Hour, 40 * day} {
			got, want := again.View(now.Add(after)), live.View(now.Add(after))
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d, %s later\ngot  %+v\nwant %+v", seed, after, got, want)
			}
		}
		if v := live.View(now); mode == Strict && v.Balance.Left() < 0 {
			t.Fatalf("seed %d: %+v", seed, v.Balance)
		}
	}
}

// Shows 2: 50 clients on a dollar and on rpm 60, in every order; the dollar and the window are never over.
func TestFiftyClientsOnADollarAndSixtyPerMinute(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 5))
		c := NewCaller(Policy{Keys: []Key{{ID: "k", Rate: Rate{RPM: 60}, Money: total(money.USD)}}})
		open := map[string]money.Amount{}
		var arrivals []time.Time
		now := t0
		for step := range 3000 {
			now = now.Add(time.Duration(r.Int64N(int64(200 * time.Millisecond))))
			if id := fmt.Sprint(step); len(open) < 50 && r.IntN(3) > 0 {
				if c.Admit(req(id, "k", now, 1)).OK() {
					worst := money.Amount(r.Int64N(int64(2 * cent)))
					if !reserve(c, id, worst, now).OK() {
						c.Refund(id)
						continue
					}
					open[id] = worst
					arrivals = append(arrivals, now.Truncate(time.Millisecond))
				}
			} else {
				for id, worst := range open {
					c.Settle(id, Settlement{now, worst - worst/3, -1})
					delete(open, id)
					break
				}
			}
			if s := c.View(now).Keys[0].Sums[0]; s.Spent+s.Reserved > money.USD {
				t.Fatalf("seed %d: %s + %s", seed, s.Spent, s.Reserved)
			}
		}
		for i := 60; i < len(arrivals); i++ {
			if gap := arrivals[i].Sub(arrivals[i-60]); gap < time.Minute {
				t.Fatalf("seed %d: 61 requests within %s", seed, gap)
			}
		}
		if len(arrivals) < 60 {
			t.Fatalf("seed %d: only %d requests", seed, len(arrivals))
		}
	}
}

// A rule that is set while a caller works counts what was spent before, once the history is filled in; what goes on
// meanwhile counts once.
func TestANewRuleOfACallerCountsTheHistoryOnceItIsFilledIn(t *testing.T) {
	rules := []Rule{{Period{Kind: Daily}, money.USD}, {Period{Kind: Rolling}, money.USD}}
	sub := Subscription{ID: "s", Starts: t0.Add(-day), Daily: money.USD}
	c := NewCaller(Policy{Keys: []Key{{ID: "k"}, {ID: "other"}}})
	history := []Spent{{"k", PaidByNobody, t0.Add(-20 * time.Hour), cent, false}, {"k", "subscription/s", t0, 2 * cent, false}, {"other", PaidByNobody, t0, 4 * cent, false}}
	for _, s := range history {
		c.Spend(s)
	}
	now := t0.Add(time.Hour)
	if !c.Reconfigure(Policy{Money: Money{Rules: rules}, Subscriptions: []Subscription{sub}, Keys: []Key{{ID: "k", Money: Money{Rules: rules}}}}, now) {
		t.Fatal("the rules are new")
	}
	late := Spent{"k", "subscription/s", now.Add(time.Second), 8 * cent, false}
	c.Spend(late)
	for _, s := range append(history, late) {
		c.Fill(s)
	}
	c.Filled(true)
	c.Spend(Spent{"k", PaidByNobody, now, 16 * cent, false})
	v := c.View(now.Add(time.Minute))
	for _, w := range []struct {
		says string
		got  money.Amount
		want money.Amount
	}{
		{"the user, today", v.Sums[0].Spent, 30 * cent}, {"the user, in 24 hours", v.Sums[1].Spent, 31 * cent},
		{"the key, today", v.Keys[0].Sums[0].Spent, 26 * cent}, {"the key, in 24 hours", v.Keys[0].Sums[1].Spent, 27 * cent},
		{"the subscription", v.Subscriptions[0].Sums[0].Spent, 10 * cent},
	} {
		if w.got != w.want {
			t.Errorf("%s: %s, want %s", w.says, w.got, w.want)
		}
	}
}

// A reprice moves the sums by its difference, in the period of the settlement that it corrects, also below what it was.
func TestARepriceCountsInThePeriodOfItsSettlement(t *testing.T) {
	c := NewCaller(Policy{Keys: []Key{{ID: "k", Money: Money{Rules: []Rule{{Period{Kind: Daily}, money.USD}, {Limit: money.USD}}}}}})
	c.Spend(Spent{"k", "", t0.Add(-day), 50 * cent, false})
	c.Spend(Spent{"k", "", t0, 50 * cent, false})
	if no := c.Admit(req("1", "k", t0, 1)); no.Code != QuotaExceeded || no.Reason != "TOTAL" {
		t.Fatalf("got %+v", no)
	}
	c.Spend(Spent{"k", "", t0.Add(-day), -20 * cent, false})
	v := c.View(t0).Keys[0]
	if v.Sums[0].Spent != 50*cent || v.Sums[1].Spent != 80*cent {
		t.Errorf("got %+v", v)
	}
	admitted(t, c, req("1", "k", t0, 1))
}

func TestARequestInASteadyStateDoesNotAllocate(t *testing.T) {
	callers, ids := tenThousand()
	c, id, now := callers[0], ids[0], t0
	one := func() {
		now = now.Add(100 * time.Millisecond)
		c.Admit(Request{id, "k", now, 1000})
		c.Check(id, now)
		c.Reserve(id, cent, now)
		c.Settle(id, Settlement{now, cent / 2, 1500})
	}
	for range 2000 {
		one()
	}
	if n := testing.AllocsPerRun(500, one); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if v := c.View(now); v.Keys[0].Rate.RPM.Used != 600 || v.Keys[0].Rate.TPM.Used != 900_000 {
		t.Errorf("got %+v", v.Keys[0].Rate)
	}
}

func TestALimitOfRatesThatIsChangedKeepsWhatWasCounted(t *testing.T) {
	c := NewCaller(Policy{Keys: []Key{{ID: "k", Rate: Rate{RPM: 5}}}})
	for i := range 3 {
		admitted(t, c, req(fmt.Sprint(i), "k", t0, 1))
	}
	c.Reconfigure(Policy{Keys: []Key{{ID: "k", Rate: Rate{RPM: 2}}}}, t0)
	if no := c.Admit(req("x", "k", at(1), 1)); no.Reason != ReasonRPM || !no.Reopens.Equal(at(60_000)) {
		t.Errorf("got %+v", no)
	}
}

// missing is what a caller that has just got its policy does not know.
func missing(p Policy) Past {
	c := ReturningCaller(t0)
	c.Reconfigure(p, t0)
	return c.Missing(t0)
}

// How far back a restart must read: folding from there on gives the same as folding everything.
func TestWhatLiesBeforeSinceDoesNotCount(t *testing.T) {
	for i, c := range []struct {
		rules []Rule
		subs  []Subscription
		want  time.Time
		whole bool
	}{
		{[]Rule{{Period{Kind: Daily}, cent}}, nil, time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), false},
		{[]Rule{{Period{Kind: Daily}, cent}, {Period{Kind: Rolling, Hours: 24}, cent}}, nil, t0.Add(-day - time.Minute), false},
		{[]Rule{{Period{Kind: Monthly}, cent}}, []Subscription{{ID: "s", Starts: t0.Add(-8 * day), Weekly: cent}}, t0.Add(-day), false},
		{[]Rule{{Limit: cent}}, nil, t0, true},
	} {
		p := Policy{Subscriptions: c.subs, Keys: []Key{{ID: "k", Money: Money{Rules: c.rules}}}}
		of := missing(p)
		if !of.Since.Equal(c.want) || of.Whole != c.whole {
			t.Errorf("%d: %+v, want since %s", i, of, c.want)
		}
		m := NewCaller(p)
		if m.Spend(Spent{"k", "subscription/s", of.Since.Add(-time.Microsecond), cent, false}); m.Admit(req("1", "k", t0, 1)).OK() == c.whole {
			t.Errorf("%d: what lies before counts, or does not", i)
		}
		for _, r := range c.rules { // and the first that counts does
			m := NewCaller(Policy{Keys: []Key{{ID: "k", Money: Money{Rules: []Rule{r}}}}})
			b := NewBudget("b", Money{})
			b.Reconfigure(Money{Rules: []Rule{r}}, t0)
			first := b.Missing(t0).Since
			if m.Spend(Spent{"k", "", first, cent, false}); r.Kind != Rolling && m.Admit(req("1", "k", t0, 1)).OK() {
				t.Errorf("%d: %s does not count", i, first)
			}
		}
	}
	if of := missing(Policy{Keys: []Key{{ID: "k"}}}); of.Whole || !of.Since.Equal(t0) {
		t.Errorf("without limits nothing counts: %+v", of)
	}
	if of := missing(Policy{Balance: true}); !of.Whole || !of.Since.Equal(t0) {
		t.Errorf("a balance counts everything, whenever it was: %+v", of)
	}
	known := ReturningCaller(t0)
	known.Reconfigure(Policy{Keys: []Key{{ID: "k", New: true, Money: Money{Rules: []Rule{{Period{Kind: Monthly}, cent}}}}}}, t0)
	known.Reconfigure(Policy{Balance: true, Keys: []Key{{ID: "k", Money: Money{Rules: []Rule{{Period{Kind: Monthly}, 2 * cent}}}}}}, t0)
	if of := known.Missing(t0); !of.Whole || !of.Since.Equal(t0) {
		t.Errorf("a rule that was there before needs nothing: %+v", of)
	}
	if of := (Past{Since: t0}).With(Past{Since: t0.Add(-1), Whole: true}).With(Past{Since: t0}); !of.Whole || !of.Since.Equal(t0.Add(-1)) {
		t.Errorf("%+v", of)
	}
}
