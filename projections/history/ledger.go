package history

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/penstock/penstock/domain/ledger"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/events"
)

// operator books on the ledger of a history now and then. It has a chance of its own: the requests are the same with it.
type operator struct {
	rand *rand.Rand
	seed uint64
	made int
}

func newOperator(seed uint64) operator {
	return operator{rand: rand.New(rand.NewPCG(seed, 0x6c6564676572)), seed: seed}
}

// book adds a fact about somebody's money: one as the history begins, then at about every thirtieth step.
func (w *world) book() {
	o := &w.operator
	if w.Plain || o.made > 0 && o.rand.IntN(30) > 0 {
		return
	}
	o.made++
	user := []string{"ann", "cyd"}[o.rand.IntN(2)]
	if w.Keys > 0 {
		user = fmt.Sprintf("user-%03d", o.rand.IntN(w.Keys))
	}
	w.out = append(w.out, events.Append{Rows: []events.Row{{
		Stream: ledger.Stream(user), Version: events.AnyVersion, At: w.now, Node: "node-1", Facts: []events.Fact{o.fact(user, w.now, w.ASCII)},
	}}})
}

func (o *operator) fact(user string, now time.Time, plain bool) events.Fact {
	id, note := fmt.Sprintf("booking-%x-%d", o.seed, o.made), "paid in \xff cash,\n\"thanks\""
	if plain {
		note = "paid in cash"
	}
	amount := money.Amount(1 + o.rand.Int64N(int64(money.USD)))
	subscription := []string{"gold", "plain"}[o.rand.IntN(2)]
	switch o.rand.IntN(5) {
	case 0:
		return &ledger.Adjusted{User: user, ID: id, Amount: -amount, Note: note}
	case 1:
		s := ledger.Subscription{ID: subscription, Starts: now, Daily: amount, Overflow: o.rand.IntN(2) == 0}
		if o.rand.IntN(2) == 0 {
			s.Group, s.Expires, s.Monthly = "team", now.Add(720*time.Hour), 20*amount
		}
		return &ledger.Granted{User: user, Subscription: s, Note: note}
	case 2:
		return &ledger.Revoked{User: user, ID: subscription, Note: note}
	}
	return &ledger.Credited{User: user, ID: id, Amount: amount, Note: note}
}

// pays is whose money a request of a user spends.
func (o *operator) pays(user string) string {
	if user == "" {
		return ""
	}
	return []string{"", "balance", "balance", "subscription/gold"}[o.rand.IntN(4)]
}
