package actors

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/penstock/penstock/domain/dialect"
	"github.com/penstock/penstock/domain/failure"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/domain/routing"
)

// itinerary is the memory of a request's way: its plan, what of it is left, and what it may still cost. The next request
// uses it again, so that nothing of it may be held beyond the request.
type itinerary struct {
	query  routing.Query
	plan   routing.Plan
	budget routing.Budget
	tries  []trial
	heard  failure.Headroom // of the answer that is read
}

var itineraries = sync.Pool{New: func() any { return new(itinerary) }}

func (l *life) newWay() {
	l.way = itineraries.Get().(*itinerary)
	l.plan, l.budget, l.tries = &l.way.plan, &l.way.budget, l.way.tries[:0]
	l.budget.Reset(&l.snap.Settings)
}

// leaveWay gives the memory back, unless an actor may still look at it.
func (l *life) leaveWay() {
	w := l.way
	if w == nil {
		return
	}
	l.way, l.plan, l.budget, l.cand, l.tries = nil, nil, nil, nil, nil
	if l.shared {
		return
	}
	p := &w.plan
	p.Candidates, p.Excluded, p.ExcludedAccounts = p.Candidates[:0], p.Excluded[:0], p.ExcludedAccounts[:0]
	p.Refusal, p.Affinity, p.Origin = failure.Refusal{}, "", ""
	w.query = routing.Query{}
	clear(w.tries)
	itineraries.Put(w)
}

// turns count the plans of each capability, for round_robin.
type turns [len(capabilities)]atomic.Uint64

// capabilities that endpoints and clients ask for; every other one shares the first counter.
var capabilities = [...]dialect.Capability{
	"", dialect.CapChat, dialect.CapResponses, dialect.CapMessages, dialect.CapGemini, dialect.CapClaudeCode, dialect.CapCodexCLI,
}

// take is how many plans there were before this one.
func (t *turns) take(c dialect.Capability) uint64 {
	return t[max(slices.Index(capabilities[:], c), 0)].Add(1) - 1
}

// routes makes a plan by the present snapshot, without what has failed in this request. The memory of an earlier plan is
// left alone: the present candidate lies in it.
func (l *life) routes(live routing.Live) {
	again, now := l.planned, l.entered
	if again {
		now, l.plan = l.now(), new(routing.Plan)
	}
	l.planned = true
	q := &l.way.query
	*q = routing.Query{
		Capability: l.c.Endpoint.Capability, Client: l.c.Client, Model: l.c.Ask.Model, Key: l.key, Now: now, Seed: l.d.Random(),
		Turn: l.d.turns.take(l.c.Endpoint.Capability), Exclude: l.failedU, ExcludeAccounts: l.failedA, Session: l.bound(now),
		Length: int64(len(l.c.Body)), LastResort: true,
	}
	routing.Make(q, l.snap, live, l.plan)
	l.tries = l.tries[:0]
	for i := range l.plan.Candidates {
		c := &l.plan.Candidates[i]
		l.tries = append(l.tries, trial{Candidate: c, accounts: c.Accounts})
	}
	if l.way.tries = l.tries; again {
		l.afford()
	} else {
		l.judged()
	}
}

// afford takes off what the request's budget of calls does not allow any more (E23-E26).
func (l *life) afford() {
	for i := range l.tries {
		t := &l.tries[i]
		for _, a := range t.accounts {
			if !t.dead && !l.budget.Allows(t.Upstream.ID, a) {
				t.drop(a)
			}
		}
	}
}

// excluded is what the plan left out, as facts tell it.
func (l *life) excluded() []request.Exclusion {
	p := l.plan
	if len(p.Excluded)+len(p.ExcludedAccounts) == 0 {
		return nil
	}
	list := append(make([]request.Exclusion, 0, len(p.Excluded)+len(p.ExcludedAccounts)), p.Excluded...)
	for i := range list {
		if list[i].Reason == routing.CircuitOpen && list[i].Until.IsZero() {
			f, _ := l.d.System.Board().Figures(list[i].Upstream)
			list[i].Until = f.Until
		}
	}
	return append(list, p.ExcludedAccounts...)
}

// passedOver adds the candidates that turned out to be of no use when they were asked for a lease.
func (l *life) passedOver(list []request.Exclusion) []request.Exclusion {
	for i := range l.tries {
		if t := &l.tries[i]; t.dead && t.reason != "" {
			list = append(list, request.Exclusion{Upstream: t.Upstream.ID, Reason: string(t.reason), Until: t.until})
		}
	}
	return list
}
