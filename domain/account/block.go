package account

import "time"

// AutomaticMax caps a block that no operator asked for: an upstream's hint of days is tried again after this.
const AutomaticMax = 5 * time.Minute

// Operator is the source of a block that a person asked for. It is not capped.
const Operator = "operator"

// Block is the cool-down of one account: a pure machine, mutated in place, called from one goroutine. The zero value
// with its Account set is not blocked.
type Block struct {
	Account string
	until   time.Time
	reason  string
	source  string
}

// Set blocks the account until the later of its present deadline and the given one (pain 46). Unless the source is
// Operator, the new deadline lies at most AutomaticMax after now. It returns nil when that changes nothing.
func (b *Block) Set(now, until time.Time, reason, source string) *Blocked {
	if last := now.Add(AutomaticMax); source != Operator && until.After(last) {
		until = last
	}
	if !until.After(now) || !until.After(b.until) {
		return nil
	}
	f := &Blocked{Account: b.Account, Reason: reason, Until: until, Source: source}
	b.Evolve(f)
	return f
}

// Clear unblocks the account. It returns nil when it was not blocked.
func (b *Block) Clear(now time.Time, by string) *Unblocked {
	if !b.Active(now) {
		return nil
	}
	f := &Unblocked{Account: b.Account, By: by}
	b.Evolve(f)
	return f
}

// Evolve applies a stored fact, *Blocked or *Unblocked; anything else is ignored.
func (b *Block) Evolve(fact any) {
	switch f := fact.(type) {
	case *Blocked:
		b.until, b.reason, b.source = f.Until, f.Reason, f.Source
	case *Unblocked:
		b.until, b.reason, b.source = time.Time{}, "", ""
	}
}

// Active says whether the account is blocked. A block ends by itself at its deadline.
func (b *Block) Active(now time.Time) bool { return now.Before(b.until) }

// Until is the deadline of the last block, also when it is past; zero when there was none or it was lifted.
func (b *Block) Until() time.Time { return b.until }

// Reason of the last block.
func (b *Block) Reason() string { return b.reason }
