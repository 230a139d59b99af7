package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/penstock/penstock/domain/breaker"
)

// verdict is what an account says to TryLease.
type verdict uint8

const (
	verdictYes verdict = iota
	verdictFull
	verdictBlocked
	verdictInactive
	verdictFault
)

// tryLease goes from an upstream to one of its accounts, leaseAnswer comes back. Both live inside the grant that they
// are about, so that a grant costs no allocation; the grant belongs to whoever got the last message.
type (
	tryLease struct {
		quiet
		grant *grant
		from  *actor.PID
	}
	leaseAnswer struct {
		quiet
		grant *grant
	}
)

// grant is a lease in the making: the upstream has set a slot and a permit aside and asks one account after the other.
type grant struct {
	id       LeaseID
	key      string
	recall   *Gone // of the asker; nil: none
	accounts []string
	model    string // for blocks and breakers of single models
	last     bool   // last resort: an account serves although it is blocked, unless an operator blocked it
	since    time.Time
	now      time.Time     // when an account was asked last: it and its upstream judge by the same moment
	try      *tryUpstream  // the asker: one of these two
	join     *joinUpstream //
	queued   bool          // join only: it serves a waiter of the queue

	pending    bool // a slot is set aside
	prev, next *grant
	permit     breaker.Permit
	own        breaker.Permit // of the breaker of the account and model, where there are such
	asked      *child         // the account that has the word
	at         int            // accounts that were asked or passed over
	faulted    bool           // an account answered with a fault
	void       Reason         // set: give everything back and refuse with this
	won        bool           // the claim was won

	verdict verdict // the account's answer
	until   time.Time
	scope   string // the model whose block stands in the way; "": the account's
	trial   bool   // the account lets it through as the probe of a block

	ask    tryLease
	answer leaseAnswer
}

// reset makes a grant ready for a new asker. What is asked for beside the accounts stays.
func (g *grant) reset(w Want, accounts []string, now time.Time) {
	try, join := g.try, g.join
	*g = grant{id: w.ID, key: w.Key, recall: w.Recall, accounts: accounts, model: g.model, last: g.last, since: now, try: try, join: join}
	g.ask.grant, g.answer.grant = g, g
}

// win wins the claim of the joiner: no other upstream will serve it.
func (g *grant) win() bool {
	g.won = g.join.party.claim.grant()
	return g.won
}

// grantList holds the grants in the making, newest first.
type grantList struct{ head *grant }

func (l *grantList) add(g *grant) {
	g.pending, g.prev, g.next = true, nil, l.head
	if l.head != nil {
		l.head.prev = g
	}
	l.head = g
}

func (l *grantList) remove(g *grant) {
	if !g.pending {
		return
	}
	if g.prev == nil {
		l.head = g.next
	} else {
		g.prev.next = g.next
	}
	if g.next != nil {
		g.next.prev = g.prev
	}
	g.pending, g.prev, g.next = false, nil, nil
}

func (l *grantList) find(id LeaseID) *grant {
	for g := l.head; g != nil; g = g.next {
		if g.id == id {
			return g
		}
	}
	return nil
}
