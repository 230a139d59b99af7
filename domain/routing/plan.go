// Package routing makes the plan of a request: the ordered candidates, and why every other upstream was left out. It is
// a pure function of the catalogue's snapshot, the live figures and the request. A Budget then counts what the plan may
// cost in calls.
package routing

import (
	"cmp"
	"time"

	"github.com/penstock/penstock/domain/account"
	"github.com/penstock/penstock/domain/affinity"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/dialect"
	"github.com/penstock/penstock/domain/failure"
	"github.com/penstock/penstock/domain/request"
)

// State of a breaker.
type State uint8

// The states. The zero value is Closed: in service.
const (
	Closed State = iota
	Open
	HalfOpen
)

// Figures of an upstream as it is now. The zero value is an idle upstream of which nothing is known; what is not known
// counts as the best.
type Figures struct {
	Breaker   State
	Until     time.Time     // end of Open
	ProbeFree bool          // HalfOpen: no probe is under way and none is too early
	Held      int           // slots in use
	Slots     int           // 0: unlimited
	Waiting   int           // requests in the queue
	TTFT      time.Duration // usual time to the first content; 0: unknown
	Failures  float64       // share of failures among the recent outcomes, 0..1
	LastUsed  int64         // of its last lease, in Unix nanoseconds; 0: never
}

// full says that a request would have to wait.
func (f *Figures) full() bool { return f.Slots > 0 && f.Held >= f.Slots || f.Waiting > 0 }

// AccountFigures of an account as it is now. An account that nothing is known of is {Active: true}.
type AccountFigures struct {
	Held         int
	Slots        int       // 0: unlimited
	BlockedUntil time.Time // zero or past: not blocked
	ByHand       bool      // the block is an operator's: not even a last resort
	Active       bool      // false: its credential is dead
	TTFT         time.Duration
	Failures     float64
	LastUsed     int64           // Unix nanoseconds; 0: never
	QuotaUsed    float64         // share of the provider's limits that is used, 0..1; 0 also when it is not known
	QuotaReset   int64           // when a quota of hours or days is renewed, in Unix nanoseconds; 0: unknown
	Blocks       *account.Blocks // for those of single models; nil: there are none. It is only read
}

func (f *AccountFigures) full() bool { return f.Slots > 0 && f.Held >= f.Slots }

// Live answers with figures that may be a moment old; the lease has the last word.
type Live interface {
	Upstream(id string) Figures
	Account(id string) AccountFigures
}

// Batch is a Live that finds all accounts of an upstream at once, which is cheaper than one by one. Accounts sets every
// element of into, which is as long as u.Accounts and in the same order (by id); it must not keep into.
type Batch interface {
	Live
	Accounts(u *catalog.CompiledUpstream, into []AccountFigures)
}

// Query is what a plan is asked for.
type Query struct {
	Capability      dialect.Capability // of the endpoint
	Client          dialect.Client     // a recognised one has a pool of its own, with that of Capability to fall back to (C7-C9)
	Fallback        dialect.Capability // serves where Capability cannot, when Client says nothing of that; "": none
	Model           string             // as the client named it; "" passes every model rule (C43)
	Key             *catalog.Key       // of the same snapshot
	Now             time.Time
	Seed            uint64          // chance comes from outside; the same seed gives the same plan
	Turn            uint64          // round_robin: plans made before, of the same capability; losing it only restarts the rounds (E22)
	Exclude         []string        // upstreams that failed in this request
	ExcludeAccounts []string        // accounts that failed in this request
	Session         affinity.Lookup // where the session belongs; the zero value is nowhere
	Length          int64           // bytes of the body, for migration by length
	LastResort      bool            // the lease can take an account although it is blocked; else those are left out
}

// Candidate is one upstream to try. Its Accounts belong to the plan.
type Candidate struct {
	Upstream      *catalog.Upstream
	Accounts      []string // by preference; never empty
	ResolvedModel string   // by alias rules, for logs and prices
	Redirect      bool     // an alias rule applied
	UpstreamModel string   // what the body must say; "" leaves it unchanged
	Tier          int      // the upstream's priority
	Why           string
	Capability    dialect.Capability // of the pool that it comes from
	LastResort    bool               // all its accounts are blocked: the lease must be asked to take one nevertheless (E19)

	full     bool // no free slot
	account  bool // its first account has a free slot
	ttft     time.Duration
	failures float64
}

// Asks is the model that the upstream is asked for when the client names the given one. Limits, blocks and breakers of single
// models are of that.
func (c *Candidate) Asks(model string) string {
	return cmp.Or(c.UpstreamModel, c.ResolvedModel, model)
}

// Why a candidate is where it is.
const (
	WhyWeighted    = "weighted_selection"
	WhyRoundRobin  = "round_robin_selection"
	WhyLeastLoaded = "least_loaded_selection"
	WhyLRU         = "lru_selection"
	WhyScore       = "score_selection"
	WhySingle      = "single_candidate_remaining" // alone in its tier
	WhyProbe       = "half_open_probe"
	WhyLastResort  = "last_resort" // all its accounts are blocked, and so are those of all others
	WhyBound       = "affinity_hit"
	WhyMigrated    = "affinity_migrated" // the session moves up to this upstream
	WhyPinned      = "affinity_pinned"   // no other account can go on with it
)

// Why an upstream or an account was left out.
const (
	NotGranted      = "not_granted"
	ModelNotAllowed = "model_not_allowed"
	CircuitOpen     = "circuit_open"
	Excluded        = "excluded"         // it failed in this request
	NoAccount       = "no_account"       // none that is active, granted and unblocked
	PinnedElsewhere = "pinned_elsewhere" // only the account that has the conversation can go on with it

	AccountDisabled = "disabled" // by the operator
	AccountExpired  = "expired"
	AccountDead     = "dead" // its credential is refused
	AccountBlocked  = "blocked"
	ModelBlocked    = "model_blocked" // the account is, for the model that it would be asked for
)

// Bounds of what a plan says about what it leaves out, because it becomes part of an event.
const (
	exclusionsMax = 32
	accountsMax   = 32
)

// Plan is the answer to a Query. It is reused: Make overwrites it and keeps its memory, so nothing of it may be held
// beyond the next Make.
type Plan struct {
	Candidates       []Candidate
	Excluded         []request.Exclusion // upstreams with the capability, at most 32; not_granted ones only without candidates
	Unlisted         int                 // further exclusions
	ExcludedAccounts []request.Exclusion // of granted upstreams, at most 32
	UnlistedAccounts int
	Capability       dialect.Capability // of the pool that was used
	Affinity         string             // "" without a binding; affinity_hit, affinity_migrated, affinity_pinned, affinity_escaped_…
	Origin           string             // account that alone can read the request's encrypted reasoning; for any other it must be dropped
	Refusal          failure.Refusal    // set when there are no candidates

	accounts []string
	ranks    []rank
	facts    []AccountFigures
	blocked  []rank
	draws    []draw
	spots    []spot
	figures  []figures
	last     []Candidate // of last resort, until all others stand
}

// maker is one run of Make. It lives on the stack.
type maker struct {
	*Plan
	q        *Query
	snap     *catalog.Snapshot
	live     Live
	batch    Batch // nil: live is none
	now      int64 // Unix nanoseconds, where age or quota count
	tier     int   // place of the first candidate of the tier that is put into order
	grant    catalog.Grant
	set      *catalog.Scheduling
	strategy string
	why      string
	name     catalog.Name
	pin      bool   // only the bound account can serve
	lost     string // why the bound account is no candidate
	random   uint64
	free     bool // a candidate has a free slot
}

// Make fills into with the plan for q. Order of the filters: capability, grants, model rules, breaker, exclusions,
// accounts; then tiers ascending, and the strategy within a tier; then affinity. The pool to fall back to is used when
// that of the capability has nobody who could serve now (C8, C9, C47): behind those that are only full.
func Make(q *Query, snap *catalog.Snapshot, live Live, into *Plan) {
	m := maker{Plan: into, q: q, snap: snap, live: live, grant: snap.Grant(q.Key), set: &snap.Settings.Scheduling,
		strategy: snap.StrategyOf(q.Key), name: snap.ResolveName(q.Key, q.Model), random: q.Seed}
	m.why = whys[m.strategy]
	m.batch, _ = live.(Batch)
	if m.strategy == catalog.StrategyScore || m.strategy == catalog.StrategyLRU {
		m.now = q.Now.UnixNano()
	}
	m.reset()
	need, fallback := q.Capability, q.Fallback
	if fallback == "" {
		need, fallback = dialect.Pools(q.Capability, q.Client)
	}
	into.Capability = need
	t := m.fill(need, "")
	if !m.free && fallback != "" {
		second := m.fill(fallback, need)
		if t.granted == 0 && second.pool > 0 {
			t, into.Capability = second, fallback
		} else {
			t.merge(second)
		}
	}
	into.Candidates = append(into.Candidates, into.last...)
	if len(into.Candidates) == 0 {
		m.refuse(t)
		return
	}
	m.bind()
	into.Capability = into.Candidates[0].Capability
}

func (m *maker) reset() {
	p := m.Plan
	p.Candidates, p.accounts, p.last = p.Candidates[:0], p.accounts[:0], p.last[:0]
	p.figures = p.figures[:0]
	p.Excluded, p.Unlisted, p.ExcludedAccounts, p.UnlistedAccounts = p.Excluded[:0], 0, p.ExcludedAccounts[:0], 0
	p.Refusal, p.Affinity, p.Origin = failure.Refusal{}, "", ""
	switch m.q.Session.Pin {
	case affinity.PinContinuation, affinity.PinCiphertext:
		m.pin = true
	case affinity.PinReasoning:
		m.pin, p.Origin = !m.set.DropReasoning, m.q.Session.Binding.Account
	}
}

func (p *Plan) exclude(upstream, reason string) {
	if len(p.Excluded) == exclusionsMax {
		p.Unlisted++
		return
	}
	p.Excluded = append(p.Excluded, request.Exclusion{Upstream: upstream, Reason: reason})
}

func (p *Plan) excludeAccount(x request.Exclusion) {
	if len(p.ExcludedAccounts) == accountsMax {
		p.UnlistedAccounts++
		return
	}
	p.ExcludedAccounts = append(p.ExcludedAccounts, x)
}
