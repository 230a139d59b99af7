package affinity

import (
	"time"

	"github.com/penstock/penstock/domain/dialect"
	"github.com/penstock/penstock/domain/request"
)

// pinned are the limits of what only one account can continue: providers keep responses for long.
var pinned = Limits{Entries: 10_000, Sliding: 24 * time.Hour, Absolute: 7 * 24 * time.Hour}

// Memory is what the gateway knows of sessions and of continuations. New makes one. The same successes in the same
// order make the same memory, whether they come from a running request or from facts.
type Memory struct {
	Sessions *Table // by session: where the prompt cache is
	Pins     *Table // by session, and by the id of a response or conversation: which account has its state
}

// NewMemory makes an empty memory.
func NewMemory(l Limits) *Memory {
	return &Memory{Sessions: New(l), Pins: New(pinned)}
}

// Limit sets other limits of the sessions; the number of entries holds for the pins as well.
func (m *Memory) Limit(l Limits) {
	m.Sessions.Limit(l)
	p := pinned
	p.Entries = l.Entries
	m.Pins.Limit(p)
}

// Served is an answered request as the dispatch loop, or its facts, tell it.
type Served struct {
	Caller       string // API key id
	Capability   string
	Dialect      string
	Session      string
	Continuation string // id of the conversation that the request named; "" for none
	Response     string // id of the answer; "" when it is not known
	Success
}

// Learn takes a success in and says what became of the session's binding.
func (m *Memory) Learn(s Served) Change {
	if s.Dialect == dialect.OpenAIResponses.String() {
		for _, id := range [...]string{s.Session, s.Continuation, s.Response} {
			if id != "" {
				m.Pins.Succeed(pinKey(s.Caller, id), s.Success)
			}
		}
	}
	return m.Sessions.Succeed(Key{s.Caller, s.Capability, s.Session}, s.Success)
}

// pinKey leaves the capability out: a response can be continued whatever pool it came from.
func pinKey(caller, id string) Key { return Key{Caller: caller, Session: id} }

// Lookup is what is known for a request.
type Lookup struct {
	Binding Binding
	Pin     Pin // PinNone: Binding is a preference; else no other account can serve
}

// Pin says why only the bound account can serve.
type Pin uint8

// The pins.
const (
	PinNone         Pin = iota
	PinContinuation     // the request goes on from a response or conversation that the account keeps
	PinReasoning        // the input holds reasoning that only the account can read; without it any account would do
	PinCiphertext       // the same of an item that cannot be left out
)

// Ask is what a request says of its session.
type Ask struct {
	Key
	Continuation string // dialect.Request.Continuation
	Reasoning    bool   // dialect.Request.EncryptedReasoning
	Ciphertext   bool   // dialect.Request.EncryptedOther
}

// Find is where a request belongs. What pins wins over the session; a pin of which nothing is known pins nothing: the
// upstream will say so, and whoever serves is bound.
func (m *Memory) Find(a Ask, now time.Time) Lookup {
	if a.Continuation != "" {
		if b := m.Pins.Find(pinKey(a.Caller, a.Continuation), now); !b.IsZero() {
			return Lookup{b, PinContinuation}
		}
	}
	if a.Reasoning || a.Ciphertext {
		if b := m.Pins.Find(pinKey(a.Caller, a.Session), now); !b.IsZero() {
			if a.Ciphertext {
				return Lookup{b, PinCiphertext}
			}
			return Lookup{b, PinReasoning}
		}
	}
	return Lookup{m.Sessions.Find(a.Key, now), PinNone}
}

// Fold makes a memory from the facts of requests, in the order of their positions: what a restart reads of the last
// minutes. It keeps what it needs of open requests until they end. NewFold makes one.
type Fold struct {
	Memory *Memory

	open map[string]*story
}

// story is what an open request has told so far. A stream that began before the facts that are read is not known, and
// its end tells nothing.
type story struct {
	served  Served
	planned time.Time
}

// NewFold folds into a memory.
func NewFold(m *Memory) *Fold { return &Fold{Memory: m, open: map[string]*story{}} }

// Evolve takes one fact of a request in, which happened at the given time. It is total: facts of others change nothing.
func (f *Fold) Evolve(id string, fact any, at time.Time) {
	switch x := fact.(type) {
	case *request.Admitted:
		f.open[id] = &story{planned: at, served: Served{Caller: x.Key, Capability: x.Capability, Dialect: x.Dialect, Session: x.Session, Continuation: x.Continues}}
	case *request.Dispatched:
		if s := f.open[id]; s != nil {
			s.served.Upstream, s.served.Account = x.Upstream, x.Account
		}
	case *request.Rejected:
		delete(f.open, id)
	case *request.Settled:
		s := f.open[id]
		delete(f.open, id)
		if s != nil && Binds(x) {
			s.served.Planned, s.served.At, s.served.Tokens = s.planned, at, x.Usage.InputTotal()
			s.served.Response = x.ResponseID
			f.Memory.Learn(s.served)
		}
	}
}

// Binds says that a settlement shows that its last account served the session: a completed request only (B48, C56).
func Binds(s *request.Settled) bool { return s.Sent && s.Outcome == request.Completed }
