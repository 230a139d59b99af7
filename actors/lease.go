package actors

import (
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/domain/account"
	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/gate"
	"github.com/penstock/penstock/domain/limit"
)

// LeaseID names one attempt of one request.
type LeaseID = gate.LeaseID

// Want asks for a slot.
type Want struct {
	ID  LeaseID
	Key string // API key id, shown beside the slot
	// Class, Weight (below 1: 1) and Deadline (zero: only the queues bound the wait) say how it waits.
	Class    gate.Class
	Weight   int
	Deadline time.Time
	// Recall fires when an operator wants the slot back; who holds it then ends what it does and releases. nil: it is not told.
	Recall *Gone
}

// ask is a want as a queue takes it.
func (w *Want) ask(tag any) gate.Ask {
	return gate.Ask{ID: w.ID, Key: w.Key, Class: w.Class, Weight: w.Weight, Deadline: w.Deadline, Tag: tag}
}

// Candidate is one upstream that would do, and which of its accounts.
type Candidate struct {
	Upstream string
	Accounts []string // in order of preference, never empty
	// Model is what the upstream is asked for; blocks and breakers may be those of a single model.
	Model      string
	LastResort bool // take an account although it is blocked, unless an operator blocked it
}

// Lease is one slot at an upstream and at one of its accounts, with the breaker's permit. It is held until Release.
type Lease struct {
	ID         LeaseID
	Upstream   string
	Account    string
	Generation uint64 // of the permit
	Probe      bool   // the one attempt that a half-open breaker lets through, of the upstream or of the account and model
	Ticket     uint64 // of the queue that it waited in, 0 without a wait
	Waited     time.Duration
}

// Reason says why there is no lease.
type Reason string

// The reasons.
const (
	ConcurrencyFull Reason = "concurrency_full" // every slot is taken and there is no queue (A51)
	QueueFull       Reason = "queue_full"       // every queue that could be joined is full (A53)
	CircuitOpen     Reason = "circuit_open"     // the breaker lets nobody through now
	NoAccount       Reason = "no_account"       // every account is blocked, inactive or unknown
	TimedOut        Reason = "timed_out"        // waited to the last deadline (A52)
	TooLate         Reason = "too_late"         // its turn would come after its deadline, so that it did not wait
	Recalled        Reason = "recalled"         // an operator took the slot back while it was granted
	Aborted         Reason = "aborted"          // the client went away (A54), or Cancel
	Evicted         Reason = "evicted"          // the queues were emptied: breaker opened, upstream removed or inactive
	UnknownUpstream Reason = "unknown_upstream" // not in the layout, or not active
	UnknownCaller   Reason = "unknown_caller"   // neither key nor user is in the layout
	Limited         Reason = "limited"          // a limit of the caller: see Refusal.Limit
	NoBudget        Reason = "budget_exceeded"  // of the upstream
	TooManyIPs      Reason = "too_many_ips"     // the key is in use from as many addresses as it may be
	LocalFault      Reason = "local_fault"      // a fault of this program; nothing is held
	Stopped         Reason = "stopped"          // the system was stopped
)

// Refusal is an answer without a lease. Nothing is held and nothing waits.
type Refusal struct {
	Reason   Reason
	Upstream string         // the upstream that the reason is about; "" when about none in particular
	Until    time.Time      // when it may work again, zero when unknown
	Position int            // in the queue that was left, 0 without one
	Limit    *limit.Refusal // of Limited: which limit, and when it opens again
}

// Place is where a request waits.
type Place struct {
	Upstreams []string  // in the order of the candidates
	Position  int       // in the queue of the first one, from 1
	Ticket    uint64    // of the first one
	Deadline  time.Time // the latest of their deadlines
	// Expected is how long the wait at the first one will be, when Estimated says that this is known.
	Expected  time.Duration
	Estimated bool
}

// Outcome is what an attempt has to tell. The zero value is neutral.
type Outcome struct {
	Result breaker.Result
	Class  string        // domain/failure
	Status int           // HTTP status of the upstream, 0 without one
	TTFT   time.Duration // to the first content, 0 when there was none
	Took   time.Duration // of the whole attempt, 0 while it runs
	Block  *Block        // blocks the account
	Quota  account.Quota // what the answer says of the account's limits
	Model  string        // that was asked for, for the evidence
	Said   string        // what the upstream said, likewise, without secrets
}

// Block asks that an account is not used for a while. See domain/account.
type Block struct {
	Model string // only for this one; "": all
	account.Ask
}

// claimState makes sure that a request that waits at several places is served once: the first who moves it away from
// waiting decides. The zero value waits.
type claimState struct{ v atomic.Uint32 }

const (
	claimWaiting uint32 = iota
	claimGranted
	claimCancelled
)

func (c *claimState) grant() bool   { return c.v.CompareAndSwap(claimWaiting, claimGranted) }
func (c *claimState) cancel() bool  { return c.v.CompareAndSwap(claimWaiting, claimCancelled) }
func (c *claimState) waiting() bool { return c.v.Load() == claimWaiting }
