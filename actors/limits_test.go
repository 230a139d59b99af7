package actors

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/limit"
	"github.com/penstock/penstock/domain/money"
)

func whole(n int64) *int64 { return &n }

// viewed is what the limits of a key's caller are at now.
func (h *house) viewed(t *testing.T, key string) (v limit.View) {
	t.Helper()
	err := within(h.System, h.dir.Load().keys[key].ref, func(d *callerDesk) { v = d.limits.View(h.now()) })
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (h *house) shared(t *testing.T, name string) (v limit.BudgetView) {
	t.Helper()
	if err := within(h.System, *h.budgets.Load(), func(d *budgetDesk) { v = d.of[name].View(h.now()) }); err != nil {
		t.Fatal(err)
	}
	return v
}

// settled gives a pass back with what its request has cost.
func (h *house) settled(p Pass, cost money.Amount, tokens int64) {
	p.paid, p.bill = true, limit.Settlement{At: h.now(), Cost: cost, Tokens: tokens}
	h.Leave(p)
}

func TestAWindowOpensAgainAtItsVeryMillisecond(t *testing.T) { // A33, pain 37
	h := openHouse(t, Layout{Keys: []catalog.Key{{ID: "k", Limits: &catalog.Limits{RPM: whole(2)}}}})
	first, no := h.Admit("key/k", "k", req("a"), nil)
	if no != nil {
		t.Fatal(no)
	}
	h.settled(first, 0, 5)
	h.passTime(1500 * time.Millisecond)
	if p, no := h.Admit("key/k", "k", req("b"), nil); no != nil {
		t.Fatal(no)
	} else {
		h.settled(p, 0, 5)
	}
	opens := testStart.Add(time.Minute)
	for _, left := range []time.Duration{58_500 * time.Millisecond, time.Millisecond} {
		h.clock.Store(int64(time.Minute - left))
		if _, no := h.Admit("key/k", "k", req("c"), nil); no == nil || no.Reason != Limited || no.Limit.Code != limit.RateLimited || !no.Limit.Reopens.Equal(opens) {
			t.Fatalf("%s before it opens: %+v", left, no)
		}
	}
	h.clock.Store(int64(time.Minute))
	p, no := h.Admit("key/k", "k", req("c"), nil)
	if no != nil {
		t.Fatalf("at its time: %+v", no.Limit)
	}
	h.Leave(p) // refused later: it has charged nothing
	if p, no = h.Admit("key/k", "k", req("d"), nil); no != nil {
		t.Fatalf("a refused request was charged: %+v", no.Limit)
	}
	h.settled(p, 0, 5)
	if v := h.viewed(t, "k"); v.Open != 0 || v.Keys[0].Rate.RPM.Used != 2 {
		t.Errorf("%+v", v)
	}
}

func TestWhoGivesUpWaitingForASlotIsNotCharged(t *testing.T) { // B10, B31, pain 37
	h := openHouse(t, Layout{Keys: []catalog.Key{{ID: "k", Slots: count(1), Limits: &catalog.Limits{RPM: whole(2)}}}})
	p := h.enter(t, "a", "k").ends("")
	waiting := h.enter(t, "b", "k").waits()
	if v := h.viewed(t, "k"); v.Keys[0].Rate.RPM.Used != 2 {
		t.Fatalf("%+v", v.Keys)
	}
	close(waiting.gone)
	waiting.ends(Aborted)
	if v := h.viewed(t, "k"); v.Keys[0].Rate.RPM.Used != 1 || v.Open != 1 {
		t.Errorf("%+v", v)
	}
	h.settled(p, 0, 0)
}

func TestMoneyThatOthersSpentWhileItWaitedIsGone(t *testing.T) { // B11, B47
	h := openHouse(t, Layout{Keys: []catalog.Key{{ID: "k", Slots: count(1), Limits: &catalog.Limits{Budget: "1"}}}})
	p := h.enter(t, "a", "k").ends("")
	waiting := h.enter(t, "b", "k").waits()
	h.settled(p, money.USD, 10)
	waiting.ends(Limited)
	if waiting.no.Limit.Code != limit.QuotaExceeded {
		t.Errorf("%+v", waiting.no.Limit)
	}
	if v := h.viewed(t, "k"); v.Open != 0 || v.Keys[0].Sums[0].Spent != money.USD {
		t.Errorf("%+v", v)
	}
}

// Who is removed and comes back while a request of its is running pays for it, once.
func TestARequestThatOutlivesItsUserIsStillSpent(t *testing.T) {
	l := Layout{
		Users: []catalog.User{{ID: "u", Budget: "strict", Overdraft: "5"}},
		Keys:  []catalog.Key{{ID: "k", User: "u", Limits: &catalog.Limits{Budget: "9"}}},
	}
	h := openHouse(t, l)
	admit := func(id string) Pass {
		p, no := h.Admit("user/u", "k", req(id), nil)
		if no != nil {
			t.Fatal(no)
		}
		if by, no := h.reserve(p, money.USD); !p.funded || by != limit.PaidByBalance || !no.OK() {
			t.Fatal(by, no)
		}
		p.paidBy = limit.PaidByBalance
		return p
	}
	a, b := admit("a"), admit("b")
	h.Reconfigure(Layout{})
	h.passTime(time.Second)
	early := a
	early.paid, early.bill = true, limit.Settlement{At: h.now(), Cost: money.USD}
	h.Reconfigure(Layout{})
	h.passTime(time.Second)
	h.Reconfigure(l)
	h.Leave(early)
	h.settled(b, 2*money.USD, 1)
	v := h.viewed(t, "k")
	if v.Balance == nil || v.Balance.Spent != 3*money.USD || v.Balance.Reserved != 0 || v.Keys[0].Sums[0].Spent != 3*money.USD {
		t.Errorf("%+v %+v", v.Balance, v.Keys)
	}
	h.settled(admit("c"), money.USD, 1)
	if v := h.viewed(t, "k"); v.Balance.Spent != 4*money.USD || v.Open != 0 {
		t.Errorf("%+v", v.Balance)
	}
}

// Pains 23, 24, 73: many requests at once on strict limits never set aside more than there is, and give all of it back.
func TestManyAtOnceNeverSetMoreAsideThanThereIs(t *testing.T) {
	h := openHouse(t, Layout{
		Keys: []catalog.Key{
			{ID: "k1", Budget: "strict", Limits: &catalog.Limits{Budget: "1"}}, {ID: "k2", Budget: "strict", Limits: &catalog.Limits{Budget: "1"}},
		},
		Budgets: map[string]limit.Money{
			"platform": {Mode: limit.Strict, Rules: []limit.Rule{{Limit: 15 * money.USD / 10}}},
			"group/g":  {Mode: limit.Strict, Rules: []limit.Rule{{Limit: 2 * money.USD}}},
		},
	})
	const worst, real = money.USD / 50, money.USD / 100
	var spent [2]atomic.Int64
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			key := i % 2
			id := fmt.Sprint("k", key+1)
			for n := range 20 {
				name := fmt.Sprint(i, "-", n)
				p, no := h.Admit("key/"+id, id, req(name), nil)
				if no != nil {
					continue
				}
				of := []share{{"group/g", worst}, {"platform", worst}}
				if _, no := h.reserve(p, worst); no.OK() && h.reserveShares(name, of).OK() {
					if v := h.shared(t, "platform"); v.Reserved+v.Sums[0].Spent > 15*money.USD/10 {
						t.Errorf("%s is set aside", v.Reserved)
					}
					spent[key].Add(int64(real))
					h.settleShares(name, []share{{"group/g", real}, {"platform", real}}, h.now(), true)
					h.settled(p, real, 1)
					continue
				}
				h.settleShares(name, of, time.Time{}, false)
				h.Leave(p)
			}
		})
	}
	all.Wait()
	var total money.Amount
	for i, id := range []string{"k1", "k2"} {
		v := h.viewed(t, id)
		sum := v.Keys[0].Sums[0]
		if v.Open != 0 || sum.Reserved != 0 || int64(sum.Spent) != spent[i].Load() || sum.Spent > money.USD {
			t.Errorf("%s: %+v, really spent %d", id, v, spent[i].Load())
		}
		total += sum.Spent
	}
	for _, name := range []string{"platform", "group/g"} {
		if v := h.shared(t, name); v.Open != 0 || v.Reserved != 0 || v.Sums[0].Spent != total {
			t.Errorf("%+v, want %s", v, total)
		}
	}
	if total < 14*money.USD/10 {
		t.Errorf("only %s was spent", total)
	}
}

func TestASharedBudgetThatRefusesLeavesTheOthersAsTheyWere(t *testing.T) {
	h := openHouse(t, Layout{Budgets: map[string]limit.Money{
		"group/g":  {Mode: limit.Strict, Rules: []limit.Rule{{Limit: 10}}},
		"platform": {Mode: limit.Strict, Rules: []limit.Rule{{Limit: 5}}},
	}})
	if no := h.reserveShares("a", []share{{"group/g", 3}, {"platform", 3}}); !no.OK() {
		t.Fatal(no)
	}
	for _, c := range []struct {
		id   string
		each money.Amount
	}{{"a", 6}, {"b", 3}} { // a top-up, and another request
		no := h.reserveShares(c.id, []share{{"group/g", c.each}, {"platform", c.each}})
		if no.Code != limit.BudgetExceeded || no.Owner != "platform" {
			t.Errorf("%+v", no)
		}
		if v := h.shared(t, "group/g"); v.Reserved != 3 || v.Open != 1 {
			t.Errorf("%s: %+v", c.id, v)
		}
	}
}

// After a restart the limits are those that were counted live: a rule that is new asks the history, and rates too (pain 22).
func TestNewRulesKnowWhatWasSpentBefore(t *testing.T) {
	past := []Used{
		{Key: "k", Group: "g", Settled: testStart.Add(-time.Hour), Cost: 7, Upstreams: []UsedUpstream{{"a", 2}, {"b", 3}}},
		{Key: "k", Arrived: testStart.Add(-30 * time.Second), Settled: testStart.Add(-10 * time.Second), Estimate: 10, Tokens: 25, Cost: 4},
		{Key: "k", Arrived: testStart.Add(-2 * time.Minute), Settled: testStart.Add(-5 * time.Second), Estimate: 10, Tokens: 30, Cost: 1},
		{Key: "other", Settled: testStart.Add(-time.Second), Cost: 100},
	}
	h := &house{t: t}
	h.System = NewSystem(Options{Now: h.now, History: func(wanted limit.Past, yield func(*Used)) error {
		for i := range past {
			if wanted.Whole || !past[i].Settled.Before(wanted.Since) {
				yield(&past[i])
			}
		}
		return nil
	}})
	t.Cleanup(func() { _ = h.Stop(t.Context()) })
	h.Reconfigure(Layout{
		Keys:    []catalog.Key{{ID: "k", Limits: &catalog.Limits{Budget: "5", TPM: whole(1000), RPM: whole(5)}}, {ID: "other"}},
		Budgets: map[string]limit.Money{"upstream/b": {Rules: []limit.Rule{{Limit: 9}}}, "platform": {Rules: []limit.Rule{{Limit: 999}}}},
	})
	if err := h.RestoreRates(h.now()); err != nil {
		t.Fatal(err)
	}
	v := h.viewed(t, "k")
	if got := v.Keys[0]; got.Sums[0].Spent != 12 || got.Rate.RPM.Used != 1 || got.Rate.TPM.Used != 10+15+20 {
		t.Errorf("%+v", got)
	}
	if a, b := h.shared(t, "platform").Sums[0].Spent, h.shared(t, "upstream/b").Sums[0].Spent; a != 112 || b != 3 {
		t.Errorf("%v %v", a, b)
	}
}

// A start is not made longer for windows that nobody has.
func TestRatesAreOnlyReadWhereSomebodyHasAWindow(t *testing.T) {
	for _, c := range []struct {
		says string
		key  catalog.Key
		user *catalog.User
		read bool
	}{
		{"no limit at all", catalog.Key{ID: "k"}, nil, false},
		{"a budget only", catalog.Key{ID: "k", Limits: &catalog.Limits{Budget: "5"}}, nil, false},
		{"requests of a key", catalog.Key{ID: "k", Limits: &catalog.Limits{RPM: whole(5)}}, nil, true},
		{"tokens of a user", catalog.Key{ID: "k", User: "u"}, &catalog.User{ID: "u", Limits: &catalog.Limits{TPM: whole(5)}}, true},
	} {
		t.Run(c.says, func(t *testing.T) {
			var reads int
			h := &house{t: t}
			h.System = NewSystem(Options{Now: h.now, History: func(limit.Past, func(*Used)) error { reads++; return nil }})
			t.Cleanup(func() { _ = h.Stop(t.Context()) })
			l := Layout{Keys: []catalog.Key{c.key}}
			if c.user != nil {
				l.Users = []catalog.User{*c.user}
			}
			h.Reconfigure(l)
			reads = 0 // of budgets, which are asked for as soon as they are there
			if err := h.RestoreRates(h.now()); err != nil || (reads > 0) != c.read {
				t.Fatalf("read %d times, %v", reads, err)
			}
		})
	}
}
