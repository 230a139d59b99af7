package catalog

import (
	"cmp"
	"slices"

	"github.com/penstock/penstock/domain/access"
	"github.com/penstock/penstock/domain/dialect"
	"github.com/penstock/penstock/domain/pricing"
)

// Snapshot is the catalogue at one revision, compiled for the hot path. It is immutable and safe for any number of
// readers. What is wrong in it is skipped, never fatal (E52). Build makes it; its zero value is an empty catalogue
// without settings.
type Snapshot struct {
	Revision int64
	Settings Settings
	Born     map[Ref]bool   // users and keys of ids that were never there before the snapshot that this one follows
	Skipped  []InvalidError // rows that are out of force, by kind and id; one bad row never takes others along

	upstreams []*CompiledUpstream // by id
	byID      map[string]*CompiledUpstream
	accounts  map[string]*CompiledAccount
	pools     map[dialect.Capability][]*CompiledUpstream // active ones, by priority and id
	active    int

	keys   keyIndex
	grants map[string]Grant // by key id
	// keyMultipliers has only those that are not One.
	keyMultipliers map[string]*pricing.Multiplier
	users          map[string]*User
	groups         map[string]*CompiledGroup
	prices         priceBook
	rules          []*CompiledRule          // by priority and id
	hooks          []*Webhook               // by id
	access         map[string]*access.Rules // by key id, of those that have any
}

// CompiledUpstream is an upstream with all that its row means.
type CompiledUpstream struct {
	*Upstream
	Index      int               // place in Upstreams
	Accounts   []CompiledAccount // all, active or not, by id
	Input      pricing.Multiplier
	Output     pricing.Multiplier
	Disconnect Disconnect

	models *modelRules
	faults []InvalidError // parts of the row that are out of force
}

// Match says whether the upstream takes the model, and under which name it is logged and priced.
func (u *CompiledUpstream) Match(model string) Match { return u.models.match(model) }

// BodyModel is the model that the body must name when it is to be rewritten: by the requested name first, then by the
// resolved one. "" leaves the body unchanged. Model rules never rewrite (C19).
func (u *CompiledUpstream) BodyModel(requested, resolved string) string {
	if len(u.UpstreamModels) == 0 {
		return ""
	}
	if to, ok := u.UpstreamModels[requested]; ok {
		return to
	}
	return u.UpstreamModels[resolved]
}

// CompiledAccount is an account with its place among all accounts.
type CompiledAccount struct {
	*Account
	Index int
}

// CompiledGroup is a group with its multiplier read.
type CompiledGroup struct {
	*Group
	Multiplier pricing.Multiplier

	grant   Grant
	clients access.Clients
}

// Build compiles a state. Expressions of resources that prev has unchanged are taken over from it; prev may be nil.
func Build(s *State, prev *Snapshot) *Snapshot {
	b := &Snapshot{Revision: s.Revision}
	if b.Settings = DefaultSettings(); s.Defaults != nil {
		b.Settings = *s.Defaults
	}
	rows := map[Kind][]Resource{}
	for ref, row := range s.rows {
		if row.resource != nil {
			rows[ref.Kind] = append(rows[ref.Kind], row.resource)
		}
		if row.broken != "" {
			b.skip(ref, "", row.broken)
		}
		b.born(ref, row, prev)
	}
	for _, list := range rows {
		slices.SortFunc(list, func(x, y Resource) int { return cmp.Compare(x.Ident(), y.Ident()) })
	}
	b.buildUpstreams(rows[KindUpstream], rows[KindAccount], prev)
	b.buildCallers(rows[KindUser], rows[KindGroup], rows[KindKey])
	b.buildAccess()
	b.buildPrices(s, rows[KindPrice])
	b.buildRules(rows[KindRule])
	for _, r := range rows[KindWebhook] {
		b.hooks = append(b.hooks, r.(*Webhook))
	}
	for _, r := range rows[KindSetting] {
		set := r.(*Setting)
		if _, field, err := b.Settings.put(set.Name, set.Value); err != nil {
			b.skip(Ref{KindSetting, set.Name}, field, err.Error())
		}
	}
	slices.SortStableFunc(b.Skipped, func(x, y InvalidError) int {
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.ID, y.ID), cmp.Compare(x.Field, y.Field))
	})
	return b
}

// born notes whose stream has begun since the previous snapshot.
func (s *Snapshot) born(ref Ref, row row, prev *Snapshot) {
	switch {
	case prev == nil || row.version != 1 || row.resource == nil:
	case ref.Kind == KindUser && prev.users[ref.ID] == nil, ref.Kind == KindKey && prev.keys.byID[ref.ID] == nil:
		if s.Born == nil {
			s.Born = map[Ref]bool{}
		}
		s.Born[ref] = true
	}
}

func (s *Snapshot) skip(ref Ref, field, reason string) {
	s.Skipped = append(s.Skipped, InvalidError{ref, field, reason})
}

func (s *Snapshot) buildUpstreams(upstreams, accounts []Resource, prev *Snapshot) {
	s.byID = make(map[string]*CompiledUpstream, len(upstreams))
	s.accounts = make(map[string]*CompiledAccount, len(accounts))
	s.pools = map[dialect.Capability][]*CompiledUpstream{}
	for _, r := range upstreams {
		if u := s.compileUpstream(r.(*Upstream), prev); u != nil {
			u.Index = len(s.upstreams)
			s.upstreams = append(s.upstreams, u)
			s.byID[u.ID] = u
		}
	}
	for _, r := range accounts {
		a := r.(*Account)
		u := s.byID[a.Upstream]
		if u == nil {
			s.skip(Ref{KindAccount, a.ID}, "upstream", Ref{KindUpstream, a.Upstream}.String()+" is not in force")
			continue
		}
		u.Accounts = append(u.Accounts, CompiledAccount{Account: a})
	}
	n := 0
	for _, u := range s.upstreams {
		for i := range u.Accounts {
			u.Accounts[i].Index = n
			s.accounts[u.Accounts[i].ID] = &u.Accounts[i]
			n++
		}
		if !u.Active {
			continue // C14: joins no routing
		}
		s.active++
		for _, c := range u.Capabilities {
			c = dialect.NormalizeCapability(string(c))
			if pool := s.pools[c]; len(pool) == 0 || pool[len(pool)-1] != u { // A44: membership, once
				s.pools[c] = append(pool, u)
			}
		}
	}
	for _, pool := range s.pools {
		slices.SortStableFunc(pool, func(a, b *CompiledUpstream) int { return cmp.Compare(a.Priority, b.Priority) })
	}
}

// compileUpstream reads one row; nil when it is out of force.
func (s *Snapshot) compileUpstream(r *Upstream, prev *Snapshot) *CompiledUpstream {
	u := &CompiledUpstream{Upstream: r}
	if old := prev.Upstream(r.ID); old != nil && old.Upstream == r {
		u.Input, u.Output, u.Disconnect, u.models, u.faults = old.Input, old.Output, old.Disconnect, old.models, old.faults
		s.Skipped = append(s.Skipped, u.faults...)
		return u
	}
	ref := Ref{KindUpstream, r.ID}
	var err error
	check := checker{ref: ref}
	if check.baseURL(r.BaseURL); len(check.faults) > 0 {
		s.skip(ref, "base_url", "is not valid")
		return nil
	}
	if u.Input, err = pricing.ParseMultiplier(r.Multipliers.Input); err != nil {
		s.skip(ref, "multipliers.input", err.Error())
		return nil
	}
	if u.Output, err = pricing.ParseMultiplier(r.Multipliers.Output); err != nil {
		s.skip(ref, "multipliers.output", err.Error())
		return nil
	}
	if u.Disconnect, err = parseDisconnect(r.OnDisconnect); err != nil {
		u.faults = append(u.faults, InvalidError{ref, "on_disconnect", err.Error()}) // it cancels
	}
	models, faults := compileRules(r.ModelRules)
	for i, reason := range faults {
		u.faults = append(u.faults, InvalidError{ref, indexed("model_rules", i), reason}) // the others hold
	}
	s.Skipped = append(s.Skipped, u.faults...)
	u.models = &models
	return u
}

func (s *Snapshot) buildRules(rows []Resource) {
	for _, r := range rows {
		c, fault := compileRule(r.(*Rule))
		if fault != nil {
			s.skip(fault.Ref, fault.Field, fault.Reason)
			continue
		}
		s.rules = append(s.rules, c)
	}
	slices.SortStableFunc(s.rules, func(a, b *CompiledRule) int { return cmp.Compare(a.Priority, b.Priority) })
}

// Rules appends the failure rules that apply to an upstream to into, by priority and id.
func (s *Snapshot) Rules(upstream string, into []*CompiledRule) []*CompiledRule {
	for _, r := range s.rules {
		if r.Rule.Upstream == "" || r.Rule.Upstream == upstream {
			into = append(into, r)
		}
	}
	return into
}

// Upstreams is all upstreams in force, active or not, sorted by id. It must not be changed.
func (s *Snapshot) Upstreams() []*CompiledUpstream { return s.upstreams }

// Upstream is one upstream, nil when there is none in force.
func (s *Snapshot) Upstream(id string) *CompiledUpstream {
	if s == nil {
		return nil
	}
	return s.byID[id]
}

// Account is one account, nil when there is none in force.
func (s *Snapshot) Account(id string) *CompiledAccount { return s.accounts[id] }

// ActiveUpstreams counts the upstreams that join routing.
func (s *Snapshot) ActiveUpstreams() int { return s.active }

// Pool is the active upstreams that declare a capability, by priority and id. It must not be changed.
func (s *Snapshot) Pool(c dialect.Capability) []*CompiledUpstream { return s.pools[c] }

// User is one user, nil when there is none in force.
func (s *Snapshot) User(id string) *User { return s.users[id] }

// Group is one group, nil when there is none in force.
func (s *Snapshot) Group(id string) *CompiledGroup { return s.groups[id] }

// Key is one key by id, nil when there is none in force.
func (s *Snapshot) Key(id string) *Key { return s.keys.byID[id] }
