package failure

import (
	"regexp"
	"time"

	"github.com/penstock/penstock/domain/account"
	"github.com/penstock/penstock/domain/catalog"
)

// Policy is what the operator decided. The zero value has no rules, no failover on 400, stops on 401 and 403, and asks
// no account twice.
type Policy struct {
	FailoverOn400      bool
	FailoverOn400Match *regexp.Regexp // nil matches every message
	FailoverOnAuth     bool
	Rules              []*catalog.CompiledRule // in order; the first match holds
	BlockDefault       time.Duration           // of a refusal that names no time; 0: 30 s
	BlockMax           time.Duration           // the longest block by an upstream's hint; 0: account.AutomaticMax
	SameAccountRetries int                     // per request
	SameAccountWait    time.Duration           // the longest wait for one
}

// PolicyOf is the policy of the settings with the rules of an upstream.
func PolicyOf(s *catalog.Settings, rules []*catalog.CompiledRule) Policy {
	return Policy{
		s.FailoverOn400, s.FailoverOn400Match, s.FailoverOnAuth, rules,
		s.BlockDefault, s.BlockMax, s.SameAccountRetries, s.SameAccountWait,
	}
}

// blockDefault is how long a 429 without Retry-After, and a forbidden account, are blocked where the policy says nothing.
const blockDefault = 30 * time.Second

func (p *Policy) blockMax() time.Duration {
	if p.BlockMax > 0 {
		return p.BlockMax
	}
	return account.AutomaticMax
}

func (p *Policy) blockDefault() time.Duration {
	if p.BlockDefault > 0 {
		return min(p.BlockDefault, p.blockMax())
	}
	return min(blockDefault, p.blockMax())
}

// Reasons of blocks.
const (
	reasonRate  = account.ReasonRate
	reasonQuota = account.ReasonQuota
	reasonAuth  = "auth" // the credential was refused
	reasonDead  = "dead" // the upstream says that it will never take the credential again
	reasonRule  = "rule"
)

// Block takes the account out of use. For 0 is no block.
type Block struct {
	For    time.Duration // capped by the policy
	Resets time.Duration // what the upstream said, where that is longer
	Probe  bool          // afterwards only single calls try it, until one succeeds
	Model  bool          // only calls of this model: the upstream said that the limit is the model's
	Reason string        // http_429, quota, auth, dead, rule
	Source string        // where For comes from: retry-after, another header, body, message, default, rule <id>
}

// Verdict is what an observation means.
type Verdict struct {
	Class        Class
	Next         Next
	Counts       bool // for the breaker
	Block        Block
	Dead         bool          // the credential is no good any more: deactivated, revoked, unknown
	Again        time.Duration // the upstream named so short a wait that the same account is worth asking again; see Retry
	ClientStatus int           // what the client gets if this is the end; for a passed answer the upstream's own
	ClientCode   string        // code of our own refusal; "" passes the upstream's answer unchanged
	Rule         string        // id of the operator's rule that changed the verdict
}

// Retry says whether to ask the same account again and after how long. A connection that turned out to be dead is
// replaced once, at once. Else it helps only where the upstream named a short wait and nobody else is left to ask; each
// further time waits twice as long. done counts what the request had of either so far. The account is not blocked
// meanwhile: give Block to it only when there is no retry.
func (v Verdict) Retry(p Policy, others bool, done int) (after time.Duration, again bool) {
	switch {
	case v.Next == SameAccount:
		return 0, done == 0
	case v.Next == Stop || v.Again <= 0 || others || done >= p.SameAccountRetries:
		return 0, false
	}
	after = v.Again << min(done, 8)
	return after, after <= p.SameAccountWait
}
