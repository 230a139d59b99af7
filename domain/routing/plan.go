// Package routing makes the plan of a request: the ordered candidates, and why every other upstream was left out. It is
// a pure function of the catalogue's snapshot, the live figures and the request.
package routing

import (
	"cmp"
	"slices"
	"time"

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

// Figures of an upstream as it is now. The zero value is an idle upstream of which nothing is known.
type Figures struct {
	Breaker   State
	Until     time.Time     // end of Open
	ProbeFree bool          // HalfOpen: no probe is under way and none is too early
	Held      int           // slots in use
	Slots     int           // 0: unlimited
	Waiting   int           // requests in the queue
	TTFT      time.Duration // usual time to the first content; 0: unknown
}

// full says that a request would have to wait.
func (f *Figures) full() bool { return f.Slots > 0 && f.Held >= f.Slots || f.Waiting > 0 }

// AccountFigures of an account as it is now. An account that nothing is known of is {Active: true}.
type AccountFigures struct {
	Held         int
	Slots        int       // 0: unlimited
	BlockedUntil time.Time // zero or past: not blocked
	Active       bool      // false: its credential is dead
}

// Live answers with figures that may be a moment old; the lease has the last word.
type Live interface {
	Upstream(id string) Figures
	Account(id string) AccountFigures
}

// Query is what a plan is asked for.
type Query struct {
	Capability      dialect.Capability
	Fallback        dialect.Capability // serves when no granted upstream declares Capability (C8, C9); "": none
	Model           string             // as the client named it; "" passes every model rule (C43)
	Key             *catalog.Key       // of the same snapshot
	Now             time.Time
	Seed            uint64   // chance comes from outside; the same seed gives the same plan
	Exclude         []string // upstreams that failed in this request
	ExcludeAccounts []string // accounts that failed in this request
}

// Candidate is one upstream to try. Its Accounts belong to the plan.
type Candidate struct {
	Upstream      *catalog.Upstream
	Accounts      []string // by preference: least used first; never empty
	ResolvedModel string   // by alias rules, for logs and prices
	Redirect      bool     // an alias rule applied
	UpstreamModel string   // what the body must say; "" leaves it unchanged
	Tier          int      // the upstream's priority
	Why           string
}

// Why a candidate is where it is.
const (
	WhyWeighted = "weighted_selection"
	WhySingle   = "single_candidate_remaining" // alone in its tier
	WhyProbe    = "half_open_probe"
)

// Why an upstream was left out.
const (
	NotGranted      = "not_granted"
	ModelNotAllowed = "model_not_allowed"
	CircuitOpen     = "circuit_open"
	Excluded        = "excluded"   // it failed in this request
	NoAccount       = "no_account" // none that is active, granted and unblocked
)

// exclusionsMax bounds what a plan says about upstreams that it leaves out, because it becomes part of an event.
const exclusionsMax = 32

// Plan is the answer to a Query. It is reused: Make overwrites it and keeps its memory, so nothing of it may be held
// beyond the next Make.
type Plan struct {
	Candidates []Candidate
	Excluded   []request.Exclusion // upstreams with the capability, at most 32; not_granted ones only without candidates
	Unlisted   int                 // further exclusions
	Capability dialect.Capability  // of the pool that was used
	Refusal    failure.Refusal     // set when there are no candidates

	accounts []string
	ranks    []rank
	draws    []draw
}

// rank is an account of one upstream while they are sorted.
type rank struct {
	id          string
	held, slots int
}

// draw is a candidate of one tier while it is put into order.
type draw struct {
	full bool // behind the others of its tier: who has a free slot now is asked first
	key  float64
	ttft time.Duration
	at   int // in Candidates
}

// tally counts why upstreams fell out.
type tally struct {
	pool, granted, matched, open int
	until                        time.Time // earliest end of an open breaker or a block
}

// Make fills into with the plan for q. Order of the filters: capability, grants, model rules, breaker, exclusions,
// accounts; then tiers ascending, and weighted chance within a tier.
func Make(q Query, snap *catalog.Snapshot, live Live, into *Plan) {
	into.Excluded, into.Unlisted, into.Refusal = into.Excluded[:0], 0, failure.Refusal{}
	into.Capability = q.Capability
	grant := snap.Grant(q.Key)
	t := into.fill(&q, snap, live, &grant)
	if t.granted == 0 && q.Fallback != "" {
		first := t
		into.Capability = q.Fallback
		if t = into.fill(&q, snap, live, &grant); t.pool == 0 {
			into.Capability, t = q.Capability, first
		}
	}
	if len(into.Candidates) == 0 {
		into.refuse(&q, snap, &grant, t)
	}
	if t.granted < t.pool && len(into.Candidates) == 0 {
		for _, u := range snap.Pool(into.Capability) {
			if !grant.Upstream(u) {
				into.exclude(u.ID, NotGranted)
			}
		}
	}
}

// fill makes the candidates of one pool.
func (p *Plan) fill(q *Query, snap *catalog.Snapshot, live Live, grant *catalog.Grant) (t tally) {
	p.Candidates, p.accounts = p.Candidates[:0], p.accounts[:0]
	tier, random := 0, q.Seed
	for _, u := range snap.Pool(p.Capability) {
		t.pool++
		if !grant.Upstream(u) {
			continue
		}
		t.granted++
		match := u.Match(q.Model)
		if !match.Matched {
			p.exclude(u.ID, ModelNotAllowed)
			continue
		}
		t.matched++
		f := live.Upstream(u.ID)
		probing, reason := breaker(&f, q.Now)
		if reason == "" && slices.Contains(q.Exclude, u.ID) {
			reason = Excluded
		}
		if reason == CircuitOpen {
			t.open++
			t.soon(f.Until, q.Now)
		}
		if reason != "" {
			p.exclude(u.ID, reason)
			continue
		}
		from := len(p.accounts)
		if blocked, failed := p.prefer(q, u, live, grant); from == len(p.accounts) {
			t.soon(blocked, q.Now)
			if failed {
				p.exclude(u.ID, Excluded)
			} else {
				p.exclude(u.ID, NoAccount)
			}
			continue
		}
		if n := len(p.Candidates); n > 0 && p.Candidates[n-1].Tier != u.Priority {
			random = p.order(tier, random)
			tier = n
		}
		c := Candidate{Upstream: u.Upstream, Accounts: p.accounts[from:len(p.accounts):len(p.accounts)],
			ResolvedModel: match.Resolved, Redirect: match.Redirect, UpstreamModel: u.BodyModel(q.Model, match.Resolved),
			Tier: u.Priority, Why: WhyWeighted}
		if probing {
			c.Why = WhyProbe
		}
		p.draws = append(p.draws, draw{full: f.full(), ttft: f.TTFT, at: len(p.Candidates)})
		p.Candidates = append(p.Candidates, c)
	}
	p.order(tier, random)
	return t
}

// breaker says whether an upstream is a probe, or out of service (A41).
func breaker(f *Figures, now time.Time) (probing bool, reason string) {
	switch {
	case f.Breaker == Open && now.Before(f.Until), f.Breaker == HalfOpen && !f.ProbeFree:
		return false, CircuitOpen
	}
	return f.Breaker != Closed, ""
}

// prefer appends the usable accounts of an upstream, least used first, equal ones in their fixed order. Without one it
// says until when they are blocked, and whether some would be usable if they had not failed in this request.
func (p *Plan) prefer(q *Query, u *catalog.CompiledUpstream, live Live, grant *catalog.Grant) (blocked time.Time, failed bool) {
	p.ranks = p.ranks[:0]
	for i := range u.Accounts {
		a := &u.Accounts[i]
		if !a.Active || !grant.Account(a) {
			continue
		}
		f := live.Account(a.ID)
		switch {
		case !f.Active:
		case slices.Contains(q.ExcludeAccounts, a.ID):
			failed = true
		case f.BlockedUntil.After(q.Now):
			if blocked.IsZero() || f.BlockedUntil.Before(blocked) {
				blocked = f.BlockedUntil
			}
		default:
			p.ranks = append(p.ranks, rank{a.ID, f.Held, f.Slots})
		}
	}
	if len(p.ranks) > 1 {
		slices.SortStableFunc(p.ranks, lessUsed)
	}
	for i := range p.ranks {
		p.accounts = append(p.accounts, p.ranks[i].id)
	}
	return blocked, failed
}

// lessUsed compares held/slots without dividing; unlimited slots count as unused, and then the smaller number wins.
func lessUsed(a, b rank) int {
	x, y := a.held*max(b.slots, 1), b.held*max(a.slots, 1)
	if a.slots == 0 {
		x = 0
	}
	if b.slots == 0 {
		y = 0
	}
	return cmp.Or(cmp.Compare(x, y), cmp.Compare(a.held, b.held))
}

func (p *Plan) exclude(upstream, reason string) {
	if len(p.Excluded) == exclusionsMax {
		p.Unlisted++
		return
	}
	p.Excluded = append(p.Excluded, request.Exclusion{Upstream: upstream, Reason: reason})
}

// soon keeps the earliest time at which something comes back.
func (t *tally) soon(until, now time.Time) {
	if until.After(now) && (t.until.IsZero() || until.Before(t.until)) {
		t.until = until
	}
}

// refuse says why there is no candidate.
func (p *Plan) refuse(q *Query, snap *catalog.Snapshot, grant *catalog.Grant, t tally) {
	code, reason := failure.AllUpstreamsUnavailable, failure.NoHealthyCandidates
	switch {
	case snap.ActiveUpstreams() == 0:
		code, reason = failure.NoUpstreamsConfigured, ""
	case grant.NoAccounts:
		code, reason = failure.NoAccountsInGroup, ""
	case t.pool == 0:
		reason = failure.CapabilityNotSupported
	case t.granted == 0:
		code, reason = failure.NoAuthorizedUpstreams, ""
	case t.matched == 0:
		reason = failure.ModelNotAllowed
	case t.open == t.matched:
		reason = failure.UpstreamCircuitOpen
	}
	p.Refusal = failure.New(code, reason).WithUntil(t.until, q.Now)
}
