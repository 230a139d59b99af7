package actors

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/limit"
)

// Layout is what of the catalogue has actors. Order does not matter; ids are unique within a kind.
type Layout struct {
	Upstreams []catalog.Upstream
	Accounts  []catalog.Account // of unknown upstreams: ignored
	Users     []catalog.User
	Keys      []catalog.Key
	Budgets   map[string]limit.Money // that callers share, by name: group/ID, platform, upstream/ID; those with rules
	Born      map[catalog.Ref]bool   // users and keys of which there was never one of that id before: they have no past
}

func (l *Layout) born(kind catalog.Kind, id string) bool {
	return l.Born[catalog.Ref{Kind: kind, ID: id}]
}

// reconfigureUpstream gives an upstream its settings and all its accounts.
type reconfigureUpstream struct {
	quiet
	spec     catalog.Upstream
	accounts []seated
	figures  *upstreamFigures // where it shows itself from here on
	reply    chan bool        // false: the actor failed
}

// seated is an account at its upstream.
type seated struct {
	*accountRef
	spec catalog.Account
}

// Reconfigure makes the actors follow a layout: new ones are started, changed ones are told, removed ones are stopped.
// It is in force when it returns. Nobody who holds a slot loses it: fewer slots mean no new grants until enough are
// freed, and holders of what is removed just finish: should it come back meanwhile, its slots are still taken. Waiters of an
// upstream that was removed or is not active any more are evicted. After Stop it does nothing.
func (s *System) Reconfigure(l Layout) {
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.stopped.Load() {
		return
	}
	was := s.dir.Load()
	is := &directory{
		upstreams: map[string]*upstreamRef{}, accounts: map[string]*accountRef{},
		callers: make(map[CallerID]*callerRef, len(was.callers)), keys: make(map[string]*callerRef, len(l.Keys)),
	}
	view := &boardView{upstreams: map[string]*upstreamFigures{}, accounts: map[string]*accountFigures{}, of: map[string][]accountSpot{}}
	accounts := map[string][]catalog.Account{}
	for _, a := range l.Accounts {
		accounts[a.Upstream] = append(accounts[a.Upstream], a)
	}
	for _, spec := range l.Upstreams {
		r := s.placeUpstream(spec, was)
		is.upstreams[spec.ID], view.upstreams[spec.ID] = r, r.figures
		for _, a := range s.instruct(r, spec, s.seat(accounts[spec.ID], was), was) {
			is.accounts[a.id], view.accounts[a.id] = a, a.figures
			view.of[spec.ID] = append(view.of[spec.ID], accountSpot{a.id, a.figures})
		}
		slices.SortFunc(view.of[spec.ID], func(a, b accountSpot) int { return strings.Compare(a.id, b.id) })
	}
	callers, past := s.placeCallers(l, was, is)
	s.learnPast(is, callers, past, s.placeBudgets(l.Budgets))
	removed := s.part(was, is)
	s.dir.Store(is)
	s.board.view.Store(view)
	if err := s.retire(context.Background(), removed); err != nil {
		s.log.Error("removed actors did not stop", "error", err)
	}
}

// placeUpstream finds the actor of an upstream, or starts it.
func (s *System) placeUpstream(spec catalog.Upstream, was *directory) *upstreamRef {
	if r := was.upstreams[spec.ID]; r != nil {
		return r
	}
	if r := was.holder(spec.ID); r != nil { // it is back
		return &upstreamRef{ref: r.ref, id: r.id, figures: &upstreamFigures{}}
	}
	d := newUpstreamDesk(s, spec)
	return &upstreamRef{ref: s.spawn("upstream/"+spec.ID, d), id: spec.ID, figures: d.figures}
}

// seat finds the actors of an upstream's accounts, or starts them. The figures are new ones where an account is new at it.
func (s *System) seat(accounts []catalog.Account, was *directory) []seated {
	list := make([]seated, 0, len(accounts))
	for _, spec := range accounts {
		r := was.accounts[spec.ID]
		if r == nil || r.figures.upstream != spec.Upstream {
			r = &accountRef{id: spec.ID, figures: &accountFigures{upstream: spec.Upstream}}
			if known := was.account(spec.ID); known != nil {
				r.ref = known.ref
			} else {
				r.ref = s.spawn("account/"+spec.ID, newAccountDesk(s, spec.ID))
			}
		}
		list = append(list, seated{r, spec})
	}
	return list
}

// instruct tells an upstream its settings and returns its accounts; those that it had when it failed to take them.
func (s *System) instruct(r *upstreamRef, spec catalog.Upstream, accounts []seated, was *directory) (has []*accountRef) {
	m := &reconfigureUpstream{spec: spec, accounts: accounts, figures: r.figures, reply: make(chan bool, 1)}
	s.send(r.pid, m)
	if answered(m.reply, r.gone, false) {
		for _, a := range accounts {
			has = append(has, a.accountRef)
		}
		return has
	}
	s.log.Error("upstream kept its old settings", "upstream", spec.ID)
	for _, a := range accounts {
		if was.account(a.id) == nil {
			s.engine.Root.Poison(a.pid) // it has not begun
		}
	}
	for _, a := range was.accounts {
		if a.figures.upstream == spec.ID {
			has = append(has, a)
		}
	}
	return has
}

// reconfigure takes new settings. Who has a slot keeps it, also of an account that is not here any more.
func (u *upstreamDesk) reconfigure(m *reconfigureUpstream, now time.Time) {
	children := make(map[string]*child, len(m.accounts))
	for _, a := range m.accounts {
		c := u.children[a.id]
		if c == nil || c.figures != a.figures {
			c = &child{ref: a.ref, figures: a.figures}
		}
		u.sys.send(c.pid, &reconfigureAccount{spec: a.spec, upstream: u.self, figures: a.figures})
		c.spec, c.full, c.inactive = a.spec, false, false
		children[a.id] = c
	}
	u.dismiss(children)
	u.children, u.spec = children, m.spec
	if u.figures != m.figures { // it is back, or leaves
		u.figures, u.breaker = m.figures, breaker.New(u.id, m.spec.Breaker.Policy(), now)
	}
	u.gate.Reconfigure(gatePolicy(&m.spec))
	u.breaker.Reconfigure(m.spec.Breaker.Policy())
	u.ownBreakers()
	u.evictHopeless()
}

// evictHopeless throws out who cannot be served any more: everybody when the upstream is not active, else those whose
// accounts are all removed or inactive.
func (u *upstreamDesk) evictHopeless() {
	r := Refusal{Reason: Evicted, Upstream: u.id}
	if u.spec.Active {
		u.evict(r, func(j *joinUpstream) bool {
			return !slices.ContainsFunc(j.grant.accounts, func(id string) bool {
				c := u.children[id]
				return c != nil && c.spec.Active
			})
		})
		return
	}
	u.evict(r, nil)
	for g := u.pending.head; g != nil; g = g.next {
		g.void = UnknownUpstream
	}
}
