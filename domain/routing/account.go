package routing

import (
	"cmp"
	"slices"
	"time"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/request"
)

// rank is an account of one upstream while they are sorted. Its place is one number, from the top: 21 bits of priority,
// full, 32 bits of the strategy's key as a sortable float, 10 bits of how many it holds.
type rank struct {
	place uint64
	at    int // in the upstream's accounts, and in facts
}

const (
	priorityMax = 1 << 20 // either side of zero
	heldMax     = 1<<10 - 1
)

// placed makes a place. Smaller ones come first.
func placed(priority int, full bool, key float64, held int) uint64 {
	p := uint64(min(max(priority, -priorityMax), priorityMax-1)+priorityMax)<<43 | uint64(sortable(key))<<10 | uint64(min(max(held, 0), heldMax))
	if full {
		p |= 1 << 42
	}
	return p
}

// preference is what became of an upstream's accounts.
type preference struct {
	accounts []string // by preference
	last     bool     // all of them are blocked
	free     bool     // one has a free slot
	failed   bool     // some would do if they had not failed in this request
	blocked  time.Time
	quota    float64 // the least share that one of them has used
	reset    int64
}

// prefer sorts the usable accounts of an upstream by priority, then by the strategy; equal ones stay in their fixed
// order. Those blocked, as a whole or for the model that is asked for, are used only when there is no other, the one that comes back first in front (E18, E19).
func (m *maker) prefer(u *catalog.CompiledUpstream, model string) (p preference) {
	m.look(u)
	now, facts, list, blocked := m.q.Now, m.facts, m.ranks[:0], m.blocked[:0]
	for i := range u.Accounts {
		a := &u.Accounts[i]
		if !m.grant.Account(a) || m.pin && a.ID != m.q.Session.Binding.Account {
			continue
		}
		reason, until := "", time.Time{}
		f := &facts[i]
		switch {
		case !a.Active:
			reason = AccountDisabled
		case a.ExpiresAt != nil && !now.Before(*a.ExpiresAt):
			reason = AccountExpired
		default:
			if !f.Active {
				reason = AccountDead
			} else if slices.Contains(m.q.ExcludeAccounts, a.ID) {
				reason, p.failed = Excluded, true
			} else if reason, until = f.blocked(model, now); reason != "" {
				if p.blocked.IsZero() || until.Before(p.blocked) {
					p.blocked = until
				}
				if f.ByHand && reason == AccountBlocked {
					break
				}
				blocked = append(blocked, rank{placed(0, false, until.Sub(now).Seconds(), 0), i})
			}
		}
		if reason != "" {
			m.excludeAccount(request.Exclusion{Upstream: u.ID, Account: a.ID, Reason: reason, Until: until})
			if a.ID == m.q.Session.Binding.Account {
				m.lost = reason
			}
			continue
		}
		full := f.full()
		if p.free = p.free || !full; len(list) == 0 || f.QuotaUsed < p.quota {
			p.quota, p.reset = f.QuotaUsed, f.QuotaReset
		}
		list = append(list, rank{at: i})
	}
	m.ranks, m.blocked = list, blocked
	switch {
	case len(list) > 0:
		m.rank(u, list)
	case m.q.LastResort && m.set.LastResort && len(blocked) > 0:
		list, p.last = blocked, true
		sortRanks(list)
	}
	all, from := m.accounts, len(m.accounts)
	for i := range list {
		all = append(all, u.Accounts[list[i].at].ID)
	}
	m.accounts, p.accounts = all, all[from:len(all):len(all)]
	return p
}

// blocked says why an account may not be asked for a model, and until when; "": it may.
func (f *AccountFigures) blocked(model string, now time.Time) (reason string, until time.Time) {
	if f.BlockedUntil.After(now) {
		reason, until = AccountBlocked, f.BlockedUntil
	}
	if f.Blocks == nil {
		return reason, until
	}
	if at := f.Blocks.ModelUntil(model, now); at.After(until) {
		if until = at; reason == "" {
			reason = ModelBlocked
		}
	}
	return reason, until
}

// rank sorts by the priority of the accounts, free before full, and by the strategy.
func (m *maker) rank(u *catalog.CompiledUpstream, list []rank) {
	if len(list) == 1 {
		return
	}
	facts, accounts := m.facts, u.Accounts
	switch m.strategy {
	case catalog.StrategyRoundRobin:
		n := uint64(len(list))
		for i := range list {
			r := &list[i]
			r.place = placed(accounts[r.at].Priority, facts[r.at].full(), float64((uint64(i)+n-m.q.Turn%n)%n), 0)
		}
	case catalog.StrategyLRU:
		for i := range list {
			r := &list[i]
			r.place = placed(accounts[r.at].Priority, facts[r.at].full(), unused(facts[r.at].LastUsed, m.now), 0)
		}
	case catalog.StrategyScore:
		m.scoreAccounts(u, list)
	default:
		for i := range list {
			r := &list[i]
			f := &facts[r.at]
			r.place = placed(accounts[r.at].Priority, false, load(f.Held, f.Slots), f.Held)
		}
	}
	sortRanks(list)
}

// load is the share of slots in use; unlimited ones count as unused.
func load(held, slots int) float64 {
	if slots <= 0 {
		return 0
	}
	return float64(held) / float64(slots)
}

// look gets the figures of all accounts of an upstream, in their order.
func (m *maker) look(u *catalog.CompiledUpstream) {
	n := len(u.Accounts)
	if cap(m.facts) < n {
		m.facts = make([]AccountFigures, n)
	}
	m.facts = m.facts[:n]
	if m.batch != nil {
		m.batch.Accounts(u, m.facts)
		return
	}
	for i := range u.Accounts {
		m.facts[i] = m.live.Account(u.Accounts[i].ID)
	}
}

// sortRanks sorts by place; equal ones stay in their order. Few are usual.
func sortRanks(list []rank) {
	if len(list) > 16 {
		slices.SortStableFunc(list, func(a, b rank) int { return cmp.Compare(a.place, b.place) })
		return
	}
	for i := 1; i < len(list); i++ {
		r, k := list[i], i
		for ; k > 0 && list[k-1].place > r.place; k-- {
			list[k] = list[k-1]
		}
		list[k] = r
	}
}
