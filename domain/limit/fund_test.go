package limit

import (
	"testing"
	"time"
)

// A user that comes to live on a balance while it works knows what it had spent from one before, once, also after its operator has
// let it go for a while.
func TestABalanceThatIsNewKnowsWhatWasSpentFromIt(t *testing.T) {
	c := ReturningCaller(t0.Add(-day))
	c.Reconfigure(Policy{Keys: []Key{{ID: "k"}}}, t0.Add(-day))
	history := []Spent{{"k", PaidByBalance, t0.Add(-400 * day), 3 * cent, false}, {"k", PaidByNobody, t0, 50 * cent, false}, {"gone", PaidByBalance, t0, 4 * cent, false}}
	p := Policy{Balance: true, Credited: 20 * cent, Keys: []Key{{ID: "k"}}}
	now := t0.Add(time.Hour)
	c.Spend(history[2]) // it is there already, but nobody has asked
	if !c.Reconfigure(p, now) || c.Missing(now) != (Past{now, true}) {
		t.Fatalf("the balance is new: %+v", c.Missing(now))
	}
	late := Spent{"k", PaidByBalance, now, 5 * cent, false}
	c.Spend(late)
	for _, s := range append(history, late) {
		c.Fill(s)
	}
	c.Filled(true)
	if got := *c.View(now).Balance; got != (BalanceView{20 * cent, 12 * cent, 0, 0}) {
		t.Errorf("%+v", got)
	}
	if c.Wonder(now) {
		t.Error("it is known now")
	}
	p.Balance = false
	c.Reconfigure(p, now)
	if c.View(now).Balance != nil {
		t.Error("it is let go")
	}
	c.Spend(Spent{"k", PaidByBalance, now, cent, false}) // of a request that began before
	p.Balance = true
	if c.Reconfigure(p, now) {
		t.Error("the balance was there before")
	}
	if got := *c.View(now).Balance; got != (BalanceView{20 * cent, 13 * cent, 0, 0}) {
		t.Errorf("%+v", got)
	}
}

// Who is new has spent nothing: it needs no history. Who is not does, and so does what is not new about it.
func TestWhoIsNewMissesNothing(t *testing.T) {
	rule := Money{Rules: []Rule{{Period{Kind: Monthly}, cent}}}
	month := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		says    string
		p       Policy
		missing bool
		past    Past
	}{
		{"a new user with a new key", Policy{New: true, Balance: true, Money: rule, Keys: []Key{{ID: "k", New: true, Money: rule}}}, false, Past{t0, false}},
		{"a new user with a key of before", Policy{New: true, Balance: true, Money: rule, Keys: []Key{{ID: "k", Money: rule}}}, true, Past{month, false}},
		{"a user of before with a new key", Policy{Balance: true, Keys: []Key{{ID: "k", New: true, Money: rule}}}, true, Past{t0, true}},
		{"a user of before without a balance", Policy{Keys: []Key{{ID: "k", New: true, Money: rule}}}, false, Past{t0, false}},
		{"a rule of a user of before", Policy{Money: rule}, true, Past{month, false}},
	} {
		m := ReturningCaller(t0)
		if c.p.New {
			m = NewCaller(Policy{})
		}
		if got := m.Reconfigure(c.p, t0); got != c.missing || m.Missing(t0) != c.past {
			t.Errorf("%s: %v, %+v", c.says, got, m.Missing(t0))
		}
	}
}

// Who pays for a request is told once, when it is admitted: what is given to its user later does not pay for it.
func TestWhoPaysIsSettledWhenARequestIsAdmitted(t *testing.T) {
	free := Policy{Keys: []Key{{ID: "k", Group: "g"}}}
	given := Policy{Balance: true, Keys: free.Keys}
	sub := Policy{Subscriptions: []Subscription{{ID: "s", Group: "g", Starts: t0, Daily: cent}}, Keys: free.Keys}
	other := Policy{Subscriptions: []Subscription{{ID: "s", Group: "h", Starts: t0, Daily: cent}}, Keys: free.Keys}
	for _, c := range []struct {
		says          string
		before, after Policy
		funded        bool
		by            string
		code          Code
	}{
		{"free, and credited since", free, given, false, "", ""},
		{"free, and granted since", free, sub, false, "", ""},
		{"of another group", other, sub, false, "", ""},
		{"granted, and credited since", sub, Policy{Balance: true, Credited: cent, Subscriptions: sub.Subscriptions, Keys: free.Keys}, true, "subscription/s", ""},
		{"granted, and revoked since", sub, free, true, "", ""},
		{"on a balance that is used up", given, given, true, "", BalanceExhausted},
	} {
		m := NewCaller(Policy{Balance: c.before.Balance, Credited: cent, Subscriptions: c.before.Subscriptions, Keys: c.before.Keys})
		admitted(t, m, req("1", "k", t0, 1))
		if got := m.Funded("1"); got != c.funded {
			t.Errorf("%s: funded %v", c.says, got)
		}
		m.Reconfigure(c.after, t0)
		if by, no := m.Reserve("1", 1, t0); by != c.by || no.Code != c.code {
			t.Errorf("%s: %q %+v", c.says, by, no)
		}
	}
	if NewCaller(given).Funded("unknown") {
		t.Error("nobody asked for it")
	}
}
