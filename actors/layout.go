package actors

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

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

// reconfigureUpstream gives an upstream its settings and all its accounts. The reply lists the accounts' actors; nil
// means that the actor failed.
type reconfigureUpstream struct {
	quiet
	spec     catalog.Upstream
	accounts []catalog.Account
	reply    chan []*accountRef
}

// Reconfigure makes the actors follow a layout: new ones are started, changed ones are told, removed ones are stopped.
// It is in force when it returns. Nobody who holds a slot loses it: fewer slots mean no new grants until enough are
// freed, and holders of a removed upstream just finish. Waiters of an upstream that was removed or is not active any
// more are evicted. After Stop it does nothing.
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
		r := was.upstreams[spec.ID]
		if r == nil {
			d := newUpstreamDesk(s, spec)
			r = &upstreamRef{ref: s.spawn("upstream/"+spec.ID, d), id: spec.ID, figures: d.figures}
		}
		is.upstreams[spec.ID], view.upstreams[spec.ID] = r, r.figures
		for _, a := range s.instruct(r, spec, accounts[spec.ID], was) {
			is.accounts[a.id], view.accounts[a.id] = a, a.figures
			view.of[spec.ID] = append(view.of[spec.ID], accountSpot{a.id, a.figures})
		}
		slices.SortFunc(view.of[spec.ID], func(a, b accountSpot) int { return strings.Compare(a.id, b.id) })
	}
	callers, past := s.placeCallers(l, was, is)
	s.learnPast(is, callers, past, s.placeBudgets(l.Budgets))
	s.dir.Store(is)
	s.board.view.Store(view)
	s.retireRemoved(was, is)
}

// instruct tells an upstream its settings and returns its accounts; those that it had when it failed to take them.
func (s *System) instruct(r *upstreamRef, spec catalog.Upstream, accounts []catalog.Account, was *directory) []*accountRef {
	m := &reconfigureUpstream{spec: spec, accounts: accounts, reply: make(chan []*accountRef, 1)}
	s.send(r.pid, m)
	if refs := answered(m.reply, r.gone, nil); refs != nil {
		return refs
	}
	s.log.Error("upstream kept its old settings", "upstream", spec.ID)
	var old []*accountRef
	for _, a := range was.accounts {
		if a.figures.upstream == spec.ID {
			old = append(old, a)
		}
	}
	return old
}

func (s *System) retireRemoved(was, is *directory) {
	var removed []ref
	for id, r := range was.upstreams {
		if is.upstreams[id] == nil {
			removed = append(removed, r.ref)
		}
	}
	for id, r := range was.callers {
		if is.callers[id] == nil {
			removed = append(removed, r.ref)
		}
	}
	if err := s.retire(context.Background(), removed); err != nil {
		s.log.Error("removed actors did not stop", "error", err)
	}
}

// reconfigure takes new settings. It cannot fail half-way: children are started before anything else is changed.
func (u *upstreamDesk) reconfigure(ctx actor.Context, m *reconfigureUpstream, now time.Time) []*accountRef {
	children := make(map[string]*child, len(m.accounts))
	refs := make([]*accountRef, 0, len(m.accounts))
	for _, spec := range m.accounts {
		c := u.children[spec.ID]
		if c == nil {
			c = u.spawnChild(ctx, spec)
		} else {
			u.sys.send(c.pid, &reconfigureAccount{spec: spec})
		}
		c.spec, c.full, c.inactive = spec, false, false
		children[spec.ID] = c
		refs = append(refs, &accountRef{ref: c.ref, id: spec.ID, figures: c.figures})
	}
	for id, c := range u.children {
		if children[id] == nil {
			ctx.Poison(c.pid) // answers what it was asked before
			if u.own != nil {
				u.own.RemoveAccount(id)
			}
		}
	}
	u.children, u.spec = children, m.spec
	u.gate.Reconfigure(gatePolicy(&m.spec))
	u.breaker.Reconfigure(m.spec.Breaker.Policy())
	u.ownBreakers()
	u.evictHopeless()
	return refs
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

func (u *upstreamDesk) spawnChild(ctx actor.Context, spec catalog.Account) *child {
	d := newAccountDesk(u.sys, ctx.Self(), spec)
	r := ref{gone: make(chan struct{})}
	name := "account/" + spec.ID
	pid, err := ctx.SpawnNamed(u.sys.props(name, d, r.gone), u.sys.unique(name))
	if err != nil {
		panic(err) // names are unique by construction
	}
	r.pid = pid
	return &child{ref: r, spec: spec, figures: d.figures}
}
