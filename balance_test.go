package penstock_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/cmd/mockllm/simulator"
	"github.com/penstock/penstock/domain/ledger"
	"github.com/penstock/penstock/domain/money"
)

// book gives something to a user.
func (r *rig) book(fact any) actors.Booked {
	r.t.Helper()
	b, err := r.gw.Ledger().Book(r.t.Context(), fact)
	if err != nil {
		r.t.Fatalf("book %+v: %v", fact, err)
	}
	return b
}

// cheap is an upstream whose answers cost 0.007 each, and at most 0.0124.
func (r *rig) cheap(ttfb int) *simulator.Server {
	b := fixed()
	b.PromptTokens, b.CachedTokens, b.OutTokens, b.TTFBMs = 20, 0, 10, float64(ttfb)
	up := r.upstream("a", b, nil)
	r.apply(map[string]any{"kind": "price", "id": "p", "model": "m-*", "input": "100", "output": "500"})
	return up
}

// chat asks with a key, and says how it was answered and who pays.
func (r *rig) chat(key string) (*http.Response, string, string) {
	r.t.Helper()
	resp, body := r.post("/v1/chat/completions", limitedChat, "Authorization", key)
	if resp.StatusCode != 200 {
		code, _, _ := opensOf(r.t, body)
		return resp, body, fmt.Sprint(resp.StatusCode, " ", code)
	}
	_, text := r.admin("GET", "/api/v1/events?type=request.admitted&request="+resp.Header.Get("X-Request-Id"), nil)
	var found struct {
		Items []struct {
			Data struct {
				PaidBy string `json:"paid_by"`
			}
		}
	}
	if err := json.Unmarshal(text, &found); err != nil || len(found.Items) == 0 {
		r.t.Fatalf("%v: %s", err, text)
	}
	return resp, body, "paid by " + found.Items[0].Data.PaidBy
}

func (r *rig) funds() string {
	r.t.Helper()
	text, err := json.MarshalIndent(r.gw.Ledger().Accounts(), "", " ")
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

// What users were given and have spent is the same after each restart, to the last digit: balances, with a mode and without, windows
// of subscriptions, and those of a user that was removed meanwhile (B25, B32; pains 15, 22, 23).
func TestMoneyOfUsersSurvivesARestart(t *testing.T) {
	r := newRig(t, nil)
	r.cheap(0)
	r.apply(map[string]any{"kind": "user", "id": "strict", "budget": "strict", "overdraft": "0.001"}, map[string]any{"kind": "user", "id": "plain"},
		map[string]any{"kind": "user", "id": "both", "budget": "postpaid"}, map[string]any{"kind": "group", "id": "g", "upstreams": []string{"a"}})
	keys := map[string]string{}
	for _, u := range []string{"strict", "plain", "both"} {
		keys[u] = r.key("of-"+u, map[string]any{"user": u, "group": "g"})
	}
	start := time.Now().Add(-10 * 24 * time.Hour)
	said := []any{
		&ledger.Credited{User: "strict", ID: "1", Amount: money.USD / 40}, &ledger.Credited{User: "plain", ID: "1", Amount: money.USD / 80},
		&ledger.Adjusted{User: "plain", ID: "2", Amount: -money.USD / 100, Note: "mistyped"},
		&ledger.Granted{User: "both", Subscription: ledger.Subscription{ID: "s", Group: "g", Starts: start, Weekly: money.USD / 50, Monthly: money.USD, Overflow: true}},
		&ledger.Credited{User: "both", ID: "1", Amount: money.USD / 100}, &ledger.Granted{User: "both", Subscription: ledger.Subscription{ID: "gone", Starts: start, Daily: 5}},
		&ledger.Revoked{User: "both", ID: "gone"},
	}
	at := make([]actors.Booked, len(said))
	for i, fact := range said {
		at[i] = r.book(fact)
	}
	got := map[string][]string{}
	ask := func(user string, times int) {
		for range times {
			_, _, how := r.chat(keys[user])
			got[user] = append(got[user], how)
		}
	}
	for round := range 3 {
		ask("strict", 1)
		ask("plain", 1)
		ask("both", 2)
		want := r.funds()
		r.close()
		r.open()
		if is := r.funds(); is != want {
			t.Fatalf("round %d, after a restart\n%s\nwant\n%s", round, is, want)
		}
		for i, fact := range said {
			if i == 5 { // it is revoked: this would grant it anew
				continue
			}
			if again := r.book(fact); !again.Again || again.Position != at[i].Position {
				t.Errorf("%+v is booked again at %d, %+v", fact, at[i].Position, again)
			}
		}
	}
	for user, want := range map[string]string{
		// 0.026 - 0.007 = 0.019, - 0.007 = 0.012: less than the worst case
		"strict": "[paid by balance paid by balance 429 BALANCE_EXHAUSTED]",
		"plain":  "[paid by balance 429 BALANCE_EXHAUSTED 429 BALANCE_EXHAUSTED]",
		"both":   "[paid by subscription/s paid by subscription/s paid by subscription/s paid by balance paid by balance 429 BALANCE_EXHAUSTED]",
	} {
		if is := fmt.Sprint(got[user]); is != want {
			t.Errorf("%s: %s, want %s", user, is, want)
		}
	}
	want := r.funds()
	for _, path := range []string{"keys/of-both", "users/both"} {
		if status, body := r.admin("DELETE", "/api/v1/"+path, nil); status/100 != 2 {
			t.Fatalf("%s: %d %s", path, status, body)
		}
	}
	if _, err := r.gw.Ledger().Book(t.Context(), said[4]); !errors.Is(err, ledger.ErrUnknownUser) {
		t.Errorf("credit to who is gone: %v", err)
	}
	r.close()
	r.open()
	r.apply(map[string]any{"kind": "user", "id": "both", "budget": "postpaid"})
	if is := r.funds(); is != want {
		t.Errorf("the user came back with\n%s\nand had\n%s", is, want)
	}
}

// A postpaid balance is overspent by no more than what was in flight (pain 24).
func TestAPostpaidBalanceIsOverspentByNoMoreThanWhatWasInFlight(t *testing.T) {
	r := newRig(t, nil)
	r.cheap(20)
	r.apply(map[string]any{"kind": "user", "id": "u", "budget": "postpaid"})
	r.book(&ledger.Credited{User: "u", ID: "1", Amount: money.USD})
	key := r.key("k", map[string]any{"user": "u"})
	const clients = 50
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for {
				if resp, _ := r.post("/v1/chat/completions", limitedChat, "Authorization", key); resp.StatusCode != 200 {
					return
				}
			}
		})
	}
	all.Wait()
	r.await("all to be settled", func() bool { v, _ := r.gw.Ledger().Account("u"); return v.Running == 0 })
	v, _ := r.gw.Ledger().Account("u")
	if v.Spent < money.USD || v.Spent > money.USD+clients*7*money.USD/1000 || v.Reserved != 0 || v.Left != money.USD-v.Spent {
		t.Errorf("%+v", v)
	}
}

// A window opens at its very moment, which the refusal has told; the one of 30 days has no second window within its 30 days (pain 25).
func TestWindowsOfASubscriptionOpenAtTheirMoment(t *testing.T) {
	r := newRig(t, nil)
	r.cheap(0)
	const day = 24 * time.Hour
	soon := time.Now().Add(2500 * time.Millisecond).UTC().Truncate(time.Millisecond)
	for _, c := range []struct {
		id    string
		sub   ledger.Subscription
		opens bool
	}{
		{"daily", ledger.Subscription{Starts: soon.Add(-3 * day), Daily: 1}, true},
		{"weekly", ledger.Subscription{Starts: soon.Add(-14 * day), Weekly: 1, Daily: 2}, true},
		{"monthly", ledger.Subscription{Starts: soon.Add(-30 * day), Monthly: 1}, true},
		{"a-month", ledger.Subscription{Starts: soon.Add(-30 * day), Expires: soon, Monthly: 1}, false},
		{"a-month-of-days", ledger.Subscription{Starts: soon.Add(-30 * day), Expires: soon, Daily: 1, Monthly: 1}, false},
	} {
		c.sub.ID = "s"
		r.apply(map[string]any{"kind": "user", "id": c.id})
		r.book(&ledger.Granted{User: c.id, Subscription: c.sub})
		key := r.key("of-"+c.id, map[string]any{"user": c.id})
		if _, body, how := r.chat(key); how != "paid by subscription/s" {
			t.Fatalf("%s: %s %s", c.id, how, body)
		}
		resp, body, how := r.chat(key)
		_, _, opens := opensOf(t, body)
		if how != "429 SUBSCRIPTION_EXHAUSTED" || c.opens != opens.Equal(soon) || !c.opens && !opens.IsZero() {
			t.Errorf("%s: %s, opens at %s, want %s", c.id, how, opens, soon)
		}
		if retry := resp.Header.Get("Retry-After"); c.opens != (retry != "") || c.opens && retry > "3" {
			t.Errorf("%s: Retry-After %q", c.id, retry)
		}
	}
	for _, id := range []string{"daily", "weekly", "monthly"} {
		served := time.Time{}
		r.await("the window of "+id, func() bool {
			before := time.Now()
			resp, _ := r.post("/v1/chat/completions", limitedChat, "Authorization", r.secret["of-"+id])
			if resp.StatusCode == 200 {
				served = arrivedAt(t, resp.Header.Get("X-Request-Id"))
			} else if before.After(soon) {
				t.Fatalf("%s is shut at %s, after %s", id, before, soon)
			}
			return resp.StatusCode == 200
		})
		if served.Before(soon) {
			t.Errorf("%s served at %s, before %s", id, served, soon)
		}
	}
	for _, id := range []string{"a-month", "a-month-of-days"} {
		if _, body, how := r.chat(r.secret["of-"+id]); how != "429 SUBSCRIPTION_EXHAUSTED" {
			t.Errorf("%s is over: %s %s", id, how, body)
		}
	}
}

// The payer of a request stays the same over a failover, and a strict balance is never over (pains 23, 73).
func TestAFailoverKeepsAStrictBalanceAndItsPayer(t *testing.T) {
	r := newRig(t, nil)
	broken := fixed()
	broken.ErrRate, broken.ErrStatus = 1, 503
	r.upstream("broken", broken, map[string]any{"priority": -1})
	r.cheap(0)
	r.apply(map[string]any{"kind": "user", "id": "u", "budget": "strict"})
	r.book(&ledger.Credited{User: "u", ID: "1", Amount: 3 * money.USD / 100})
	key := r.key("k", map[string]any{"user": "u"})
	served := 0
	for ; served < 9; served++ {
		resp, body, how := r.chat(key)
		if resp.StatusCode != 200 {
			r.expect(resp, body, 429, "BALANCE_EXHAUSTED", "")
			break
		}
		if how != "paid by balance" {
			t.Error(how)
		}
	}
	if v, _ := r.gw.Ledger().Account("u"); served != 3 || v.Left != 9*money.USD/1000 || v.Reserved != 0 {
		t.Errorf("%d were served: %+v", served, v)
	}
}

// What was spent from a balance is what the bill says of it, over days that are open, closed and taken away, after every restart, and for
// a user that is new to the catalogue (pain 22).
func TestABalanceIsWhatTheBillSaysHoweverMuchIsClosed(t *testing.T) {
	if storeOf != nil {
		t.Skip("the history is written into the embedded store")
	}
	for name, settings := range map[string]map[string]string{"closed": nil, "taken away": {"retention.events": "5"}} {
		t.Run(name, func(t *testing.T) {
			r, first := aged(t, settings)
			users := []string{"ann", "cyd"}
			check := func(says string) {
				t.Helper()
				spent := map[string]money.Amount{}
				for _, l := range ask[items[struct {
					User   string
					PaidBy string `json:"paid_by"`
					Cost   money.Amount
				}]](r, "GET", "/api/v1/billing?by=user,paid_by", nil).Items {
					if l.PaidBy == "balance" {
						spent[l.User] = l.Cost
					}
				}
				all := money.Amount(0)
				for _, u := range users {
					v, ok := r.gw.Ledger().Account(u)
					if all += v.Spent; !ok || v.Spent != spent[u] || v.OnBalance && v.Left != v.Credited-v.Spent {
						t.Errorf("%s: %s has spent %s by the bill: %+v", says, u, spent[u], v)
					}
				}
				if all == 0 {
					t.Fatal("nothing was spent from a balance")
				}
			}
			r.open()
			for _, u := range users { // whoever has a past was in the catalogue before
				r.apply(map[string]any{"kind": "user", "id": u})
			}
			r.close()
			r.open()
			for _, u := range users {
				r.apply(map[string]any{"kind": "user", "id": u, "budget": "postpaid"})
			}
			check("as it was found")
			r.close()
			o := offline(t, r)
			for day := 3; day >= 1; day-- {
				if _, err := o.CloseBooks(t.Context(), midnight(first).AddDate(0, 0, 4-day).Format(time.DateOnly)); err != nil {
					t.Fatal(err)
				}
			}
			if err := o.Close(); err != nil {
				t.Fatal(err)
			}
			r.open()
			check("with days closed")
			r.apply(map[string]any{"kind": "user", "id": "ann"}) // lives on its balance only if it was ever credited
			for _, u := range users {
				r.book(&ledger.Credited{User: u, ID: "to-be-sure", Amount: 1})
			}
			check("credited since")
			r.close()
			r.open()
			check("started again")
		})
	}
}
