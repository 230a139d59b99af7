package limit

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/money"
)

const cent = money.USD / 100

func total(a money.Amount) Money { return Money{Strict, []Rule{{Limit: a}}} }

// Pains 23, 24, 73: 50 requests at once on a dollar.
func TestAStrictDollarIsNeverOverspentBy50RequestsAtOnce(t *testing.T) {
	b := NewBudget("platform", total(money.USD))
	granted := 0
	for i := range 50 {
		if b.Reserve(fmt.Sprint(i), 7*cent, t0).OK() {
			granted++
		}
	}
	if granted != 14 {
		t.Fatalf("%d of 7 cents each on a dollar", granted)
	}
	no := b.Reserve("late", 7*cent, t0)
	if no.Code != BudgetExceeded || no.Reason != ReasonReserved || no.Owner != "platform" || !no.Reopens.IsZero() {
		t.Errorf("got %+v", no)
	}
	var spent money.Amount
	for i := range 14 {
		if _, ok := b.Settle(fmt.Sprint(i), 6*cent, t0); !ok {
			t.Fatal(i)
		}
		spent += 6 * cent
	}
	v := b.View(t0)
	if v.Sums[0].Spent != spent || v.Reserved != 0 || v.Open != 0 || v.Sums[0].Percent != 84 {
		t.Errorf("got %+v", v)
	}
	if no := b.Reserve("again", 17*cent, t0); no.OK() || no.Reason != "TOTAL" {
		t.Errorf("16 cents are left: got %+v", no)
	}
	if no := b.Reserve("again", 16*cent, t0); !no.OK() {
		t.Errorf("16 cents are left: got %+v", no)
	}
}

func TestAPostpaidBudgetOvershootsByNoMoreThanWhatWasInFlight(t *testing.T) {
	b := NewBudget("group/g", Money{Postpaid, []Rule{{Period{Kind: Daily}, money.USD}}})
	inFlight := 0
	for i := range 50 { // nobody knows what they will cost
		if b.Reserve(fmt.Sprint(i), Unbounded, t0).OK() {
			inFlight++
		}
	}
	if inFlight != 50 {
		t.Fatalf("%d", inFlight)
	}
	for i := range 50 {
		b.Settle(fmt.Sprint(i), 7*cent, t0)
	}
	if v := b.View(t0); v.Sums[0].Percent != 350 {
		t.Errorf("E38: got %+v", v)
	}
	no := b.Check(t0)
	if no.Code != BudgetExceeded || no.Reason != "DAILY" || !no.Reopens.Equal(time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("got %+v", no)
	}
	if no := b.Reserve("x", 0, t0); no.OK() {
		t.Error("beyond the limit nothing more goes")
	}
	if no := b.Check(no.Reopens.Add(-time.Microsecond)); no.OK() {
		t.Error("it opened early")
	}
	if no := b.Check(no.Reopens); !no.OK() {
		t.Error("it must open when it says")
	}
}

func TestWhatCannotBeBoundedIsRefusedByAStrictBudgetOnly(t *testing.T) {
	for _, c := range []struct {
		says string
		m    Money
		want Code
	}{
		{"strict", total(money.USD), BudgetUnboundable},
		{"strict without a limit", Money{Mode: Strict}, ""},
		{"postpaid", Money{Postpaid, []Rule{{Limit: 1}}}, ""},
	} {
		if no := NewBudget("b", c.m).Reserve("r", Unbounded, t0); no.Code != c.want {
			t.Errorf("%s: got %q, want %q", c.says, no.Code, c.want)
		}
	}
}

func TestATopUpIsTheNewWholeAndARefusedOneChangesNothing(t *testing.T) {
	b := NewBudget("b", total(money.USD))
	b.Reserve("other", 30*cent, t0)
	for _, c := range []struct {
		to, held money.Amount
		ok       bool
	}{{40 * cent, 40 * cent, true}, {40 * cent, 40 * cent, true}, {70 * cent, 70 * cent, true}, {71 * cent, 70 * cent, false}, {Unbounded, 70 * cent, false}, {50 * cent, 50 * cent, true}} {
		no := b.Reserve("r", c.to, t0)
		if held, _ := b.Held("r"); no.OK() != c.ok || held != c.held {
			t.Errorf("to %s: %+v, holds %s", c.to, no, held)
		}
	}
	if v := b.View(t0); v.Reserved != 80*cent {
		t.Errorf("set aside: %s", v.Reserved)
	}
}

// A79, B37, E37, E39, pains 16, 20, 22: each settlement and refund counts once.
func TestRepeatingAnEndChangesNothing(t *testing.T) {
	b := NewBudget("b", total(money.USD))
	b.Reserve("a", 10*cent, t0)
	b.Reserve("c", 10*cent, t0)
	for i := range 3 {
		over, ok := b.Settle("a", 12*cent, t0)
		if ok != (i == 0) || ok && over != 2*cent {
			t.Errorf("settled %d: %s, %v", i, over, ok)
		}
		if b.Refund("c") != (i == 0) || b.Refund("unknown") {
			t.Errorf("refunded %d", i)
		}
	}
	if v := b.View(t0); v.Sums[0].Spent != 12*cent || v.Reserved != 0 {
		t.Errorf("got %+v", v)
	}
}

// All rules hold (AND), and the refusal names the time at which the last of them is open again.
func TestOfSeveralRulesTheLastToOpenSaysWhen(t *testing.T) {
	b := NewBudget("b", Money{Postpaid, []Rule{{Period{Kind: Daily}, money.USD}, {Period{Kind: Monthly}, 3 * money.USD}, {Period{Kind: Rolling, Hours: 24}, 2 * money.USD}}})
	b.Spend(money.USD, t0)
	if no := b.Check(t0); no.Reason != "DAILY" || !no.Reopens.Equal(time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("got %+v", no)
	}
	b.Spend(money.USD, t0)
	if no := b.Check(t0); no.Reason != "ROLLING" || !no.Reopens.Equal(t0.Add(24*time.Hour+time.Minute)) {
		t.Errorf("got %+v", no)
	}
	b.Spend(money.USD, t0)
	if no := b.Check(t0); no.Reason != "MONTHLY" || !no.Reopens.Equal(time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("got %+v", no)
	}
	v := b.View(t0).Sums
	if !v[2].ResetsAt.IsZero() || !v[2].Exceeded || v[0].ResetsAt != time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC) {
		t.Errorf("got %+v", v)
	}
}

func TestARuleThatIsNewCountsTheHistoryOnceItIsFilledIn(t *testing.T) {
	daily, monthly := Rule{Period{Kind: Daily}, money.USD}, Rule{Period{Kind: Monthly}, 5 * money.USD}
	b := NewBudget("b", Money{Postpaid, []Rule{daily}})
	b.Spend(30*cent, t0.Add(-48*time.Hour+1)) // of February
	b.Spend(40*cent, t0)
	now := t0.Add(time.Hour)
	if b.Reconfigure(Money{Postpaid, []Rule{{daily.Period, 2 * money.USD}}}, now) {
		t.Error("another limit needs no history")
	}
	if !b.Reconfigure(Money{Postpaid, []Rule{daily, monthly}}, now) {
		t.Error("a new period needs the history")
	}
	b.Spend(5*cent, now.Add(time.Second)) // goes on meanwhile
	for _, x := range []struct {
		a  money.Amount
		at time.Time
	}{{30 * cent, t0.Add(-48*time.Hour + 1)}, {40 * cent, t0}, {5 * cent, now.Add(time.Second)}} {
		b.Fill(x.a, x.at)
	}
	b.Filled()
	v := b.View(now.Add(time.Minute)).Sums
	if v[0].Spent != 45*cent || v[1].Spent != 45*cent {
		t.Errorf("daily %s, monthly %s", v[0].Spent, v[1].Spent)
	}
	if b.Reconfigure(Money{Postpaid, []Rule{monthly, daily}}, now) {
		t.Error("nothing is new in another order")
	}
}

func TestRulesOfOnePeriodAreTheTighterOne(t *testing.T) {
	p := Period{Kind: Rolling, Hours: 24}
	b := NewBudget("b", Money{Postpaid, []Rule{{p, 2 * cent}, {p, cent}}})
	b.Spend(cent, t0)
	if no := b.Check(t0); no.OK() || len(b.View(t0).Sums) != 1 {
		t.Error("a cent is the limit")
	}
}

// The model keeps every fact and adds them up anew for each question. Seeded; strict is never over.
func TestABudgetDoesWhatItsModelDoes(t *testing.T) {
	for seed := range uint64(80) {
		r := rand.New(rand.NewPCG(seed, 3))
		m := Money{Mode(seed % 2), []Rule{{Period{Kind: Daily}, 3 * money.USD}, {Limit: 40 * money.USD}, {Period{Kind: Monthly}, 20 * money.USD}}}
		b := NewBudget("b", m)
		held := map[string]money.Amount{}
		var facts []Spent
		now := t0
		sums := func() (reserved, today, month, all money.Amount) {
			for _, a := range held {
				reserved += a
			}
			for _, f := range facts {
				all += f.Cost
				if f.At.Format(time.DateOnly) == now.Format(time.DateOnly) {
					today += f.Cost
				}
				if f.At.Month() == now.Month() {
					month += f.Cost
				}
			}
			return reserved, today, month, all
		}
		for step := range 500 {
			now = now.Add(time.Duration(r.Int64N(int64(time.Hour))))
			id := fmt.Sprint(r.IntN(12))
			switch r.IntN(3) {
			case 0:
				worst := money.Amount(r.Int64N(int64(money.USD)))
				reserved, today, month, all := sums()
				reserved -= held[id]
				need := worst
				if m.Mode == Postpaid {
					need = 1
				}
				want := today+reserved+need <= m.Rules[0].Limit && all+reserved+need <= m.Rules[1].Limit && month+reserved+need <= m.Rules[2].Limit
				if no := b.Reserve(id, worst, now); no.OK() != want {
					t.Fatalf("seed %d, step %d: %+v, model %v", seed, step, no, want)
				} else if want {
					held[id] = worst
				} else if !no.Reopens.IsZero() {
					again := NewBudget("b", m)
					for _, f := range facts {
						again.Spend(f.Cost, f.At)
					}
					for k, a := range held {
						again.Reopen(k, a)
					}
					if !again.Reserve(id, worst, no.Reopens).OK() {
						t.Fatalf("seed %d, step %d: not open at %s", seed, step, no.Reopens)
					}
				}
			case 1:
				most, known := held[id]
				cost := money.Amount(r.Int64N(int64(most) + 1))
				if _, ok := b.Settle(id, cost, now); ok != known {
					t.Fatalf("seed %d, step %d: settled %v", seed, step, ok)
				} else if ok {
					facts = append(facts, Spent{At: now, Cost: cost})
					delete(held, id)
				}
			case 2:
				if r.IntN(4) == 0 {
					_, known := held[id]
					if b.Refund(id) != known {
						t.Fatalf("seed %d, step %d: refund", seed, step)
					}
					delete(held, id)
				}
			}
			reserved, today, month, all := sums()
			v := b.View(now)
			if v.Reserved != reserved || v.Sums[0].Spent != today || v.Sums[1].Spent != all || v.Sums[2].Spent != month {
				t.Fatalf("seed %d, step %d: got %+v, model %s %s %s %s", seed, step, v, reserved, today, all, month)
			}
			if m.Mode == Strict && (today+reserved > m.Rules[0].Limit && reserved == 0 || all+reserved > m.Rules[1].Limit) {
				t.Fatalf("seed %d, step %d: over", seed, step)
			}
		}
	}
}

// A clock that went a week ahead and was set back does not open a strict budget until it is there again.
func TestAStrictBudgetHoldsAfterItsClockWasAhead(t *testing.T) {
	b := NewBudget("platform", Money{Strict, []Rule{{Period{Kind: Daily}, 3 * cent}}})
	use := func(id string, at time.Time) Refusal {
		no := b.Reserve(id, cent, at)
		if no.OK() {
			b.Settle(id, cent, at)
		}
		return no
	}
	for i, at := range []time.Time{t0, t0.Add(week), t0.Add(time.Second), t0.Add(2 * time.Second)} {
		if no := use(string(rune('a'+i)), at); !no.OK() {
			t.Fatalf("%d: %+v", i, no)
		}
	}
	if no := use("e", t0.Add(3*time.Second)); no.OK() || !no.Reopens.After(t0) || no.Reopens.After(t0.Add(day)) {
		t.Errorf("%+v", no)
	}
}
