package catalog

import "github.com/penstock/penstock/domain/pricing"

// Grant is what a key may use in one snapshot. The zero value grants nothing.
type Grant struct {
	all       bool // every upstream and account
	upstreams bits
	accounts  bits // only with byAccount
	byAccount bool // accounts are listed; else every account of a granted upstream

	// NoAccounts: the key is bound to a group that is not in force or has no account. It fails closed (D21-D24, D50).
	NoAccounts bool
}

// Upstream says that the key may use the upstream (at least one of its accounts, if it has any).
func (g *Grant) Upstream(u *CompiledUpstream) bool { return g.all || g.upstreams.has(u.Index) }

// Account says that the key may use the account of a granted upstream.
func (g *Grant) Account(a *CompiledAccount) bool {
	return g.all || !g.byAccount || g.accounts.has(a.Index)
}

// Grant is what a key of this snapshot may use: restricted keys only their list (an empty one is nothing), keys of a
// group only what the group has, and both conditions together when both are there (A38, A39, C40).
func (s *Snapshot) Grant(k *Key) Grant { return s.grants[k.ID] }

// Payer is on whose behalf an attempt is made: the ids of its group, if it has one, and of its key, as of the request's
// admission.
type Payer struct{ Group, Key string }

// Multipliers are all factors on what an attempt at an upstream costs a payer. A group or key that is not in force counts as
// One.
func (s *Snapshot) Multipliers(u *CompiledUpstream, by Payer) pricing.Multipliers {
	m := pricing.Multipliers{Input: u.Input, Output: u.Output, Group: pricing.One, Key: s.keyMultipliers[by.Key]}
	if g := s.groups[by.Group]; g != nil {
		m.Group = g.Multiplier
	}
	return m
}

func (s *Snapshot) buildCallers(users, groups, keys []Resource) {
	s.users = make(map[string]*User, len(users))
	for _, r := range users {
		u := r.(*User)
		s.users[u.ID] = u
	}
	s.groups = make(map[string]*CompiledGroup, len(groups))
	for _, r := range groups {
		g := r.(*Group)
		m, err := pricing.ParseMultiplier(g.Multiplier)
		if err != nil {
			s.skip(Ref{KindGroup, g.ID}, "multiplier", err.Error())
			continue
		}
		s.groups[g.ID] = &CompiledGroup{Group: g, Multiplier: m, grant: s.groupGrant(g)}
	}
	s.keys = keyIndex{make(map[string]*Key, len(keys)), make(map[[32]byte]*Key, len(keys)), map[string][]*Key{}, nil}
	s.grants = make(map[string]Grant, len(keys))
	for _, r := range keys {
		k := r.(*Key)
		m, err := pricing.ParseMultiplier(k.Multiplier)
		if err != nil {
			s.skip(Ref{KindKey, k.ID}, "multiplier", err.Error())
			continue
		}
		if fault := s.keys.add(k); fault != "" {
			s.skip(Ref{KindKey, k.ID}, "hash", fault)
			continue
		}
		if m != pricing.One {
			if s.keyMultipliers == nil {
				s.keyMultipliers = map[string]*pricing.Multiplier{}
			}
			s.keyMultipliers[k.ID] = &m
		}
		s.grants[k.ID] = s.keyGrant(k)
	}
}

func (s *Snapshot) groupGrant(g *Group) Grant {
	grant := Grant{upstreams: newBits(len(s.upstreams)), accounts: newBits(len(s.accounts)), byAccount: true, NoAccounts: true}
	for _, id := range g.Upstreams {
		if u := s.byID[id]; u != nil {
			for i := range u.Accounts {
				grant.allow(u, &u.Accounts[i])
			}
		}
	}
	for _, id := range g.Accounts {
		if a := s.accounts[id]; a != nil {
			grant.allow(s.byID[a.Upstream], a)
		}
	}
	return grant
}

func (g *Grant) allow(u *CompiledUpstream, a *CompiledAccount) {
	g.upstreams.set(u.Index)
	g.accounts.set(a.Index)
	g.NoAccounts = false
}

func (s *Snapshot) keyGrant(k *Key) Grant {
	grant := Grant{all: true}
	if k.Group != "" {
		g := s.groups[k.Group]
		if g == nil {
			return Grant{NoAccounts: true}
		}
		grant = g.grant
	}
	if k.Access == Unrestricted {
		return grant
	}
	listed := newBits(len(s.upstreams)) // restricted, and anything that this version does not know
	for _, id := range k.Upstreams {
		if u := s.byID[id]; u != nil && (grant.all || grant.upstreams.has(u.Index)) {
			listed.set(u.Index)
		}
	}
	grant.all, grant.upstreams = false, listed
	return grant
}

// bits is a set of small numbers. Nil is empty.
type bits []uint64

func newBits(n int) bits      { return make(bits, (n+63)/64) }
func (b bits) set(i int)      { b[i>>6] |= 1 << (i & 63) }
func (b bits) has(i int) bool { return i>>6 < len(b) && b[i>>6]>>(i&63)&1 == 1 }
