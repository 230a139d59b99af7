package actors_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/ledger"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// bank is a rig with the user u, to whom the key k belongs.
func bank(t *testing.T, u *catalog.User, more ...catalog.Resource) *rig {
	t.Helper()
	return newRig(t, append([]catalog.Resource{
		u, upstream("a"), account("a1", "a"), key("k", func(k *catalog.Key) { k.User = u.ID }),
		&catalog.Price{ID: "m", Model: "m", PerRequest: "0.25", Input: "0", Output: "0"},
	}, more...)...)
}

func (r *rig) book(fact any) actors.Booked {
	r.t.Helper()
	b, err := r.ledger.Book(r.t.Context(), fact)
	if err != nil {
		r.t.Fatalf("book %+v: %v", fact, err)
	}
	return b
}

// asks runs a request of the user's key and says how it was answered.
func (r *rig) asks() string {
	r.t.Helper()
	r.reply("a", whole(okBody))
	c := r.chat()
	c.Ask.User, c.Ask.Group = c.Key.User, c.Key.Group
	x := r.run(c)
	if x.Status == 200 {
		return "served, paid by " + r.payer(c.ID)
	}
	r.ups.mu.Lock()
	r.ups.replies["a.test"] = nil
	r.ups.mu.Unlock()
	var body struct{ Error struct{ Code, Reason string } }
	if err := json.Unmarshal(x.Body, &body); err != nil {
		r.t.Fatalf("%v: %s", err, x.Body)
	}
	return fmt.Sprint(x.Status, " ", body.Error.Code)
}

// payer is who pays for a request by its facts.
func (r *rig) payer(id string) (by string) {
	r.t.Helper()
	if err := r.journal.Sync(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	err := r.store.Stream(r.t.Context(), "request/"+id, 0, func(c *events.Committed) bool {
		for _, f := range c.Facts {
			if a, ok := f.(*request.Admitted); ok {
				by = a.PaidBy
			}
		}
		return true
	})
	if err != nil {
		r.t.Fatal(err)
	}
	if by == "" {
		return "nobody"
	}
	return by
}

// accounts is what everybody has, as it is shown.
func accounts(t testing.TB, l *actors.Ledger) string {
	t.Helper()
	text, err := json.MarshalIndent(l.Accounts(), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sameAfterRestart wants everything that is known of money to be known to a gateway that starts now.
func (r *rig) sameAfterRestart() {
	r.t.Helper()
	s, l := r.openSystem()
	defer func() { _ = s.Stop(r.t.Context()) }()
	s.Reconfigure(layoutOf(r.snap.Load()))
	if want, got := accounts(r.t, r.ledger), accounts(r.t, l); got != want {
		r.t.Errorf("after a restart\n%s\nwant\n%s", got, want)
	}
	for _, k := range r.snap.Load().Keys() {
		want, _ := r.system.KeyStatus(k.ID)
		got, _ := s.KeyStatus(k.ID)
		a, _ := json.Marshal(want)
		b, _ := json.Marshal(got)
		if string(a) != string(b) {
			r.t.Errorf("key %s after a restart\n%s\nwant\n%s", k.ID, b, a)
		}
	}
}

// What is given to a user pays for the very next request, in the order subscription, balance; what is used up pays for none
// (B25, B32).
func TestWhatIsBookedPaysForTheVeryNextRequest(t *testing.T) {
	r := bank(t, &catalog.User{ID: "u"})
	start := r.Now().Add(-time.Hour)
	sub := ledger.Subscription{ID: "s", Starts: start, Daily: 25 * money.USD / 100}
	for _, c := range []struct {
		does any
		want string
	}{
		{nil, "served, paid by nobody"},
		{&ledger.Credited{User: "u", ID: "1", Amount: 30 * money.USD / 100}, "served, paid by balance"},
		{nil, "served, paid by balance"}, // 0.05 is left, and it is kept as an estimate
		{nil, "429 BALANCE_EXHAUSTED"},
		{&ledger.Granted{User: "u", Subscription: sub}, "served, paid by subscription/s"},
		{nil, "429 SUBSCRIPTION_EXHAUSTED"},
		{&ledger.Credited{User: "u", ID: "2", Amount: money.USD}, "429 SUBSCRIPTION_EXHAUSTED"}, // it does not overflow
		{&ledger.Granted{User: "u", Subscription: ledger.Subscription{ID: "s", Starts: start, Daily: sub.Daily, Overflow: true}}, "served, paid by balance"},
		{&ledger.Granted{User: "u", Subscription: ledger.Subscription{ID: "s", Starts: start, Daily: 30 * money.USD / 100}}, "served, paid by subscription/s"},
		{&ledger.Revoked{User: "u", ID: "s"}, "served, paid by balance"},
		{&ledger.Adjusted{User: "u", ID: "3", Amount: -money.USD, Note: "was not meant"}, "429 BALANCE_EXHAUSTED"},
		{&ledger.Granted{User: "u", Subscription: sub}, "429 SUBSCRIPTION_EXHAUSTED"}, // its window knows what was spent in it before
	} {
		if c.does != nil {
			if b := r.book(c.does); b.Position == 0 || b.Again {
				t.Fatalf("%+v", b)
			}
		}
		if got := r.asks(); got != c.want {
			t.Fatalf("after %+v: %s, want %s", c.does, got, c.want)
		}
		r.sameAfterRestart()
	}
	v, ok := r.ledger.Account("u")
	if !ok || !v.OnBalance || v.Credited != 30*money.USD/100 || v.Spent != money.USD || v.Left != -70*money.USD/100 || v.Reserved != 0 || v.Running != 0 ||
		len(v.Subscriptions) != 1 || !v.Subscriptions[0].InForce || v.Subscriptions[0].Windows[0].Spent != money.USD/2 {
		t.Errorf("%+v", v)
	}
	if _, ok := r.ledger.Account("nobody"); ok {
		t.Error("nobody has an account")
	}
}

// A strict user sets the worst case aside: at its balance, and at limits of its keys that do not say otherwise; what has no bound is
// refused. A postpaid one is served as long as anything is left.
func TestTheModeOfAUserHoldsForItsBalanceAndItsKeys(t *testing.T) {
	for _, c := range []struct {
		user, key      string
		bounded        bool
		credit, budget string
		want           []string
	}{
		{"strict", "", true, "0.3", "", []string{"served, paid by balance", "429 BALANCE_EXHAUSTED"}},
		{"postpaid", "", true, "0.3", "", []string{"served, paid by balance", "served, paid by balance", "429 BALANCE_EXHAUSTED"}},
		{"strict", "", true, "9", "0.3", []string{"served, paid by balance", "429 API_KEY_QUOTA_EXCEEDED"}},
		{"strict", "postpaid", true, "9", "0.3", []string{"served, paid by balance", "served, paid by balance", "429 API_KEY_QUOTA_EXCEEDED"}},
		{"postpaid", "strict", true, "9", "0.3", []string{"served, paid by balance", "429 API_KEY_QUOTA_EXCEEDED"}},
		{"strict", "", false, "9", "", []string{"400 BUDGET_UNBOUNDABLE"}},
		{"postpaid", "", false, "9", "", []string{"served, paid by balance"}},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			r := bank(t, &catalog.User{ID: "u", Budget: c.user})
			if c.bounded {
				r.apply(&catalog.Price{ID: "m", Model: "m", PerRequest: "0.25", Input: "0", Output: "0", MaxOutputTokens: 10})
			}
			r.apply(key("k", func(k *catalog.Key) {
				k.User, k.Budget = "u", c.key
				if c.budget != "" {
					k.Limits = &catalog.Limits{Budget: c.budget}
				}
			}))
			amount, err := money.Parse(c.credit)
			if err != nil {
				t.Fatal(err)
			}
			r.book(&ledger.Credited{User: "u", ID: "1", Amount: amount})
			for i, want := range c.want {
				if got := r.asks(); got != want {
					t.Errorf("request %d: %s, want %s", i, got, want)
				}
			}
			r.sameAfterRestart()
		})
	}
}

// The order in which subscriptions pay is that in which they were granted; one for a group pays for keys of it only; one that has not
// begun, or is over, pays nothing, and the balance does.
func TestSubscriptionsOfAUserPayForWhomTheyAreMeant(t *testing.T) {
	group := &catalog.Group{ID: "g", Upstreams: []string{"a"}}
	r := bank(t, &catalog.User{ID: "u"}, group)
	now := r.Now()
	grant := func(id string, change func(*ledger.Subscription)) {
		s := ledger.Subscription{ID: id, Starts: now.Add(-time.Hour), Weekly: money.USD}
		change(&s)
		r.book(&ledger.Granted{User: "u", Subscription: s})
	}
	grant("of-g", func(s *ledger.Subscription) { s.Group = "g" })
	if got := r.asks(); got != "served, paid by nobody" {
		t.Errorf("a key without a group: %s", got)
	}
	grant("later", func(s *ledger.Subscription) { s.Starts = now.Add(time.Hour) })
	if got := r.asks(); got != "429 SUBSCRIPTION_EXHAUSTED" {
		t.Errorf("one that has not begun: %s", got)
	}
	grant("over", func(s *ledger.Subscription) { s.Expires = now.Add(-time.Minute) })
	r.book(&ledger.Credited{User: "u", ID: "1", Amount: money.USD})
	if got := r.asks(); got != "served, paid by balance" {
		t.Errorf("none in force: %s", got)
	}
	grant("first", func(*ledger.Subscription) {})
	grant("second", func(*ledger.Subscription) {})
	if got := r.asks(); got != "served, paid by subscription/first" {
		t.Errorf("in order: %s", got)
	}
	r.apply(key("k", func(k *catalog.Key) { k.User, k.Group = "u", "g" }))
	if got := r.asks(); got != "served, paid by subscription/of-g" {
		t.Errorf("a key of the group: %s", got)
	}
	r.sameAfterRestart()
}

// Money of a user outlives its removal: when it comes back it has what it had.
func TestAUserThatComesBackHasWhatItHad(t *testing.T) {
	user := &catalog.User{ID: "u", Budget: "strict", Overdraft: "0.1"}
	price := &catalog.Price{ID: "m", Model: "m", PerRequest: "0.25", Input: "0", Output: "0", MaxOutputTokens: 10}
	r := bank(t, user, price)
	if got := r.asks(); got != "429 BALANCE_EXHAUSTED" { // the overdraft alone is not enough for the worst case
		t.Fatal(got)
	}
	r.book(&ledger.Credited{User: "u", ID: "1", Amount: money.USD})
	r.book(&ledger.Granted{User: "u", Subscription: ledger.Subscription{ID: "s", Starts: r.Now().Add(-time.Hour), Daily: 51 * money.USD / 100, Overflow: true}})
	for _, want := range []string{"subscription/s", "subscription/s", "balance"} {
		if got := r.asks(); got != "served, paid by "+want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
	want := accounts(t, r.ledger)
	r.remove(catalog.KindKey, "k")
	r.remove(catalog.KindUser, "u")
	if _, err := r.ledger.Book(t.Context(), &ledger.Credited{User: "u", ID: "2", Amount: 1}); !errors.Is(err, ledger.ErrUnknownUser) {
		t.Errorf("credit to who is gone: %v", err)
	}
	if len(r.ledger.Accounts()) != 0 {
		t.Error("who is gone has no account")
	}
	r.sameAfterRestart()
	r.apply(user, key("k", func(k *catalog.Key) { k.User = "u" }))
	if got := accounts(t, r.ledger); got != want {
		t.Errorf("it came back with\n%s\nand had\n%s", got, want)
	}
	r.sameAfterRestart()
	if b := r.book(&ledger.Credited{User: "u", ID: "1", Amount: money.USD}); !b.Again {
		t.Error("the credit of before is booked again")
	}
}

// Who is put on a balance, taken off it and put on it again keeps what it spent from it, also over a restart in between.
func TestABalanceKnowsWhatWasSpentFromItWhateverTheUserWasMeanwhile(t *testing.T) {
	r := bank(t, &catalog.User{ID: "u", Budget: "postpaid", Overdraft: "0.3"})
	if a, b, c := r.asks(), r.asks(), r.asks(); a+b != "served, paid by balanceserved, paid by balance" || c != "429 BALANCE_EXHAUSTED" {
		t.Fatal(a, b, c)
	}
	r.apply(&catalog.User{ID: "u"})
	if got := r.asks(); got != "served, paid by nobody" {
		t.Fatal(got)
	}
	r.sameAfterRestart()
	// A start that has nobody on a balance reads nothing of it; the first credit does.
	old := r.system
	r.system, r.ledger = r.openSystem()
	t.Cleanup(func() { _ = old.Stop(t.Context()) })
	r.Dispatcher.System = r.system
	r.system.Reconfigure(layoutOf(r.snap.Load()))
	r.book(&ledger.Credited{User: "u", ID: "1", Amount: money.USD / 2})
	if got := r.asks(); got != "429 BALANCE_EXHAUSTED" {
		t.Errorf("half a dollar was spent before: %s", got)
	}
	r.book(&ledger.Credited{User: "u", ID: "2", Amount: 1})
	if got := r.asks(); got != "served, paid by balance" {
		t.Error(got)
	}
	r.sameAfterRestart()
}

func TestWhatCannotBeBookedSaysWhy(t *testing.T) {
	r := bank(t, &catalog.User{ID: "u"})
	r.book(&ledger.Credited{User: "u", ID: "1", Amount: 5, Note: "first"})
	before := accounts(t, r.ledger)
	for _, c := range []struct {
		fact any
		is   error
		text string
	}{
		{&ledger.Credited{User: "v", ID: "1", Amount: 5}, ledger.ErrUnknownUser, `user "v": user is not known`},
		{&ledger.Credited{ID: "1", Amount: 5}, ledger.ErrUnknownUser, `user "": user is not known`},
		{&ledger.Credited{User: "u", ID: "1", Amount: 6}, ledger.ErrConflict, "the id was booked with something else: 1 of user u was booked before, as another kind, amount or note"},
		{&ledger.Credited{User: "u", ID: "2"}, catalog.ErrInvalid, "user u: amount: must be an amount of USD, more than 0 and at most 100000000"},
		{&ledger.Granted{User: "u", Subscription: ledger.Subscription{ID: "s", Group: "g", Daily: 1}}, catalog.ErrInvalid, "user u: group: group g does not exist"},
		{&ledger.Revoked{User: "u", ID: "s"}, ledger.ErrUnknownSubscription, "subscription is not known: user u was never given s"},
	} {
		if _, err := r.ledger.Book(t.Context(), c.fact); !errors.Is(err, c.is) || err.Error() != c.text {
			t.Errorf("%+v: %v", c.fact, err)
		}
	}
	if got := accounts(t, r.ledger); got != before {
		t.Errorf("something was booked:\n%s", got)
	}
}

// An operator that repeats itself, or several at once, book once; every answer says where.
func TestManyWhoBookTheSameBookItOnce(t *testing.T) {
	r := bank(t, &catalog.User{ID: "u"})
	var all sync.WaitGroup
	got := make([]actors.Booked, 20)
	for i := range got {
		all.Go(func() { got[i] = r.book(&ledger.Credited{User: "u", ID: "1", Amount: 7}) })
	}
	all.Wait()
	first := 0
	for _, b := range got {
		if !b.Again {
			first++
		}
		if b.Position != got[0].Position || b.Position == 0 {
			t.Errorf("%+v", got)
		}
	}
	if v, _ := r.ledger.Account("u"); first != 1 || v.Credited != 7 {
		t.Errorf("%d bookings, %s", first, v.Credited)
	}
}

// What another process has booked meanwhile is found, and what it has left out is booked behind it.
func TestWhatAnotherProcessHasBookedIsFound(t *testing.T) {
	r := bank(t, &catalog.User{ID: "u"})
	r.book(&ledger.Credited{User: "u", ID: "1", Amount: 7})
	s, other := r.openSystem()
	defer func() { _ = s.Stop(t.Context()) }()
	s.Reconfigure(layoutOf(r.snap.Load()))
	fact := &ledger.Credited{User: "u", ID: "2", Amount: 8}
	first, err := other.Book(t.Context(), fact)
	if err != nil {
		t.Fatal(err)
	}
	if b := r.book(fact); b != (actors.Booked{Position: first.Position, Again: true}) { // the store has refused it first
		t.Errorf("%+v, want %+v", b, first)
	}
	if b := r.book(&ledger.Credited{User: "u", ID: "3", Amount: 9}); b.Again {
		t.Errorf("%+v", b)
	}
	if v, _ := r.ledger.Account("u"); v.Credited != 24 {
		t.Errorf("%+v", v)
	}
}

// While the store is away nothing is booked; when nobody knows whether it was, repeating it tells (the same id is never booked twice).
func TestABookingThatTheStoreDoesNotTakeIsNotInForce(t *testing.T) {
	r := bank(t, &catalog.User{ID: "u"})
	fact := &ledger.Credited{User: "u", ID: "1", Amount: 7}
	r.store.breakOn("balance.credited", 1)
	if _, err := r.ledger.Book(t.Context(), fact); !errors.Is(err, events.ErrUnavailable) {
		t.Fatal(err)
	}
	if v, _ := r.ledger.Account("u"); v.Credited != 0 || v.OnBalance {
		t.Fatalf("%+v", v)
	}
	r.until("the store to be back", func() bool { return r.journal.Diverted() == nil })
	if b := r.book(fact); b.Again {
		t.Fatalf("%+v", b)
	}
	for i, stored := range []bool{true, false} {
		fact := &ledger.Credited{User: "u", ID: fmt.Sprint("doubt-", i), Amount: 1}
		lost := false
		r.store.mu.Lock()
		r.store.doubt = func(types string) (bool, bool) {
			lose := types == "balance.credited" && !lost
			lost = lost || lose
			return lose, stored
		}
		r.store.mu.Unlock()
		var b actors.Booked
		_, err := r.ledger.Book(t.Context(), fact)
		if err == nil {
			t.Fatal("the answer was lost")
		}
		r.until("the store to be back", func() bool { b, err = r.ledger.Book(t.Context(), fact); return err == nil })
		if v, _ := r.ledger.Account("u"); v.Credited != money.Amount(8+i) || b.Position == 0 {
			t.Errorf("stored %v: %+v, credited %s", stored, b, v.Credited)
		}
	}
	r.sameAfterRestart()
}
