package routing

import "github.com/penstock/penstock/domain/catalog"

// callsMax bounds the calls of a request that is to go on until all is exhausted.
const callsMax = 1000

// Budget counts the calls of one request over all its plans (E23-E26): those that are repeated with the same account
// count like any other. Reset sets its limits; the zero value allows nothing.
type Budget struct {
	calls, perUpstream, perAccount int // 0 of the last two: as many as the request has
	made                           int
	spent                          []spending
}

type spending struct {
	upstream, account string
	calls             int
}

// Reset begins a request. Memory is kept.
func (b *Budget) Reset(s *catalog.Settings) {
	*b = Budget{calls: s.MaxAttempts, perUpstream: s.Scheduling.PerUpstream, perAccount: s.Scheduling.PerAccount, spent: b.spent[:0]}
	if b.calls == 0 {
		b.calls = callsMax
	}
}

// Left is how many calls the request may still make, to whomever.
func (b *Budget) Left() int { return max(b.calls-b.made, 0) }

// Allows says that a call to the upstream with the account is within all limits.
func (b *Budget) Allows(upstream, account string) bool {
	ofUpstream, ofAccount := b.Spent(upstream, account)
	return b.made < b.calls && (b.perUpstream == 0 || ofUpstream < b.perUpstream) && (b.perAccount == 0 || ofAccount < b.perAccount)
}

// Spend counts a call that is about to be made.
func (b *Budget) Spend(upstream, account string) {
	b.made++
	for i := range b.spent {
		if s := &b.spent[i]; s.upstream == upstream && s.account == account {
			s.calls++
			return
		}
	}
	b.spent = append(b.spent, spending{upstream, account, 1})
}

// Spent is how many calls an upstream has had, and how many of them with the account.
func (b *Budget) Spent(upstream, account string) (ofUpstream, ofAccount int) {
	for i := range b.spent {
		if s := &b.spent[i]; s.upstream == upstream {
			ofUpstream += s.calls
			if s.account == account {
				ofAccount += s.calls
			}
		}
	}
	return ofUpstream, ofAccount
}
