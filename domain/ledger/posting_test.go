package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/penstock/penstock/domain/ledger"
	"github.com/penstock/penstock/domain/money"
)

// What each kind of entry does to the accounts: a subscription or the balance pays, else it is owed.
func TestEveryPostingNamesBothSides(t *testing.T) {
	use := func(u ledger.Usage) ledger.Posting {
		u.Key, u.Upstream, u.Cost, u.UpstreamCost = "k", "up", 30, 20
		return u.Posting()
	}
	upstream := []ledger.Side{{Account: "payable/up", Amount: 20}, {Account: "cost/up", Amount: -20}}
	for name, c := range map[string]struct {
		is   ledger.Posting
		want []ledger.Side
	}{
		"credit":             {ledger.Credited{User: "ann", Amount: 50}.Posting(), []ledger.Side{{Account: "balance/ann", Amount: 50}, {Account: "credits", Amount: -50}}},
		"adjustment":         {ledger.Adjusted{User: "ann", Amount: -5}.Posting(), []ledger.Side{{Account: "balance/ann", Amount: -5}, {Account: "adjustments", Amount: 5}}},
		"by the balance":     {use(ledger.Usage{User: "ann", PaidBy: "balance"}), append([]ledger.Side{{Account: "revenue", Amount: 30}, {Account: "balance/ann", Amount: -30}}, upstream...)},
		"by a subscription":  {use(ledger.Usage{User: "ann", PaidBy: "subscription/gold"}), append([]ledger.Side{{Account: "revenue", Amount: 30}, {Account: "subscription/ann/gold", Amount: -30}}, upstream...)},
		"by nobody":          {use(ledger.Usage{User: "ann"}), append([]ledger.Side{{Account: "revenue", Amount: 30}, {Account: "owed/ann", Amount: -30}}, upstream...)},
		"a key without user": {use(ledger.Usage{}), append([]ledger.Side{{Account: "revenue", Amount: 30}, {Account: "owed/key/k", Amount: -30}}, upstream...)},
	} {
		if !reflect.DeepEqual([]ledger.Side(c.is), c.want) || c.is.Sum() != 0 {
			t.Errorf("%s: %v, want %v", name, c.is, c.want)
		}
	}
}

// The ledger sums to zero: every posting, every key, every day and the whole, whatever is booked in whatever order; and each
// account has what was booked on it.
func TestTheLedgerSumsToZeroWhateverIsBooked(t *testing.T) {
	for seed := range uint64(50) {
		dice := rand.New(rand.NewPCG(seed, 8))
		amount := func() money.Amount { return money.Amount(dice.Int64N(int64(money.USD))) - money.USD/3 }
		pick := func(of ...string) string { return of[dice.IntN(len(of))] }
		whole, by := ledger.Trial{}, map[string]ledger.Trial{}
		var revenue, cost, credits, adjusted, annHas money.Amount
		for range 200 {
			var p ledger.Posting
			user, key := pick("ann", "bob", ""), pick("k1", "k2")
			switch dice.IntN(4) {
			case 0:
				f := ledger.Credited{User: pick("ann", "bob"), Amount: amount()}
				p, credits = f.Posting(), credits-f.Amount
			case 1:
				f := ledger.Adjusted{User: pick("ann", "bob"), Amount: amount()}
				p, adjusted = f.Posting(), adjusted-f.Amount
			default:
				u := ledger.Usage{Key: key, User: user, PaidBy: pick("", "balance", "subscription/gold"), Upstream: pick("a", "b"), Cost: amount(), UpstreamCost: amount()}
				p, revenue, cost = u.Posting(), revenue+u.Cost, cost-u.UpstreamCost
			}
			if p.Sum() != 0 {
				t.Fatalf("seed %d: %v sums to %v", seed, p, p.Sum())
			}
			annHas += p.On("balance/ann")
			whole.Add(p)
			for _, of := range []string{key, fmt.Sprint("day ", dice.IntN(5))} {
				if by[of] == nil {
					by[of] = ledger.Trial{}
				}
				by[of].Add(p)
			}
		}
		for of, trial := range by {
			if trial.Sum() != 0 {
				t.Errorf("seed %d: %s sums to %v", seed, of, trial.Sum())
			}
		}
		if whole.Sum() != 0 || whole["revenue"] != revenue || whole["credits"] != credits || whole["adjustments"] != adjusted ||
			whole["cost/a"]+whole["cost/b"] != cost || whole["balance/ann"] != annHas {
			t.Errorf("seed %d: %v", seed, whole)
		}
		var listed money.Amount
		for _, a := range whole.Accounts() {
			listed += a.Amount
		}
		if listed != 0 || len(whole.Accounts()) == 0 {
			t.Errorf("seed %d: %v", seed, whole.Accounts())
		}
	}
}
