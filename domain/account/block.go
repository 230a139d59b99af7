package account

import (
	"strings"
	"time"
)

// AutomaticMax caps a block that no operator asked for, unless the setting says otherwise: an upstream's hint of days is
// tried again after this (pain 50).
const AutomaticMax = 5 * time.Minute

// resetsMax bounds what is believed of an upstream's own words.
const resetsMax = 366 * 24 * time.Hour

// Operator is the source of a block that a person asked for. It is not capped, and neither is that of a person's rule.
const Operator = "operator"

// Reasons of blocks by which an upstream limits its use.
const (
	ReasonRate  = "http_429" // a burst limit
	ReasonQuota = "quota"    // the end of a quota, or of the money
)

// RulePrefix begins the source of a block by an operator's failure rule.
const RulePrefix = "rule "

// ByProbe is who unblocked what a probe found to be well.
const ByProbe = "probe"

// Block is the cool-down of one account: a pure machine, mutated in place, called from one goroutine. The zero value
// with its Account set is not blocked. A block that was cut short of what the upstream said, or one whose end nobody
// knows, is followed by single probes.
type Block struct {
	Account string
	Model   string // "": all models
	until   time.Time
	resets  time.Time // zero: not known, or until
	reason  string
	source  string
	probed  bool   // probes follow at until
	probe   uint64 // number of the probe in flight, 0 none
	probes  uint64 // numbers given so far
}

// Ask is a wish to block.
type Ask struct {
	Until  time.Time     // where the account may be used again
	Resets time.Time     // when the upstream said that it will serve again; zero: as Until, or not known
	Probe  bool          // let only single probes through at Until, until one succeeds
	Reason string        // http_429, auth, quota …
	Source string        // retry-after, default, operator …
	Max    time.Duration // cap of what no operator asked for; 0 is AutomaticMax
}

// Apply blocks until the later of the present deadline and the one asked for (pain 46): nothing that comes later shortens
// it. What no operator asked for ends at most Max after now, and is then probed. It returns nil when that changes nothing.
func (b *Block) Apply(now time.Time, a Ask) *Blocked {
	f := &Blocked{Account: b.Account, Model: b.Model, Reason: a.Reason, Source: a.Source, Until: a.Until, Probed: a.Probe}
	asked := a.Source == Operator || strings.HasPrefix(a.Source, RulePrefix)
	if a.Max <= 0 {
		a.Max = AutomaticMax
	}
	if last := now.Add(a.Max); !asked && f.Until.After(last) {
		if a.Resets.Before(f.Until) {
			a.Resets = f.Until
		}
		f.Until, f.Probed = last, true
	}
	if !f.Until.After(now) || !f.Until.After(b.until) {
		return nil
	}
	if a.Resets.Before(b.resets) {
		a.Resets = b.resets
	}
	if b.holds(now) {
		f.Probed = f.Probed || b.probed // a shorter trouble on top of a longer one does not end it
	}
	if last := now.Add(resetsMax); a.Resets.After(last) {
		a.Resets = last
	}
	if a.Resets.After(f.Until) {
		f.Resets = &a.Resets
	}
	b.Evolve(f)
	return f
}

// Clear unblocks the account. It returns nil when it was neither blocked nor on probation.
func (b *Block) Clear(now time.Time, by string) *Unblocked {
	if !b.holds(now) {
		return nil
	}
	f := &Unblocked{Account: b.Account, Model: b.Model, By: by}
	b.Evolve(f)
	return f
}

// Evolve applies a stored fact about this account and model, *Blocked or *Unblocked; anything else is ignored.
func (b *Block) Evolve(fact any) {
	switch f := fact.(type) {
	case *Blocked:
		if f.Model != b.Model {
			return
		}
		b.until, b.reason, b.source, b.probed = f.Until, f.Reason, f.Source, f.Probed
		b.resets, b.probe = time.Time{}, 0
		if f.Resets != nil {
			b.resets = *f.Resets
		}
	case *Unblocked:
		if f.Model == b.Model {
			*b = Block{Account: b.Account, Model: b.Model, probes: b.probes}
		}
	}
}

// Permit lets one call use the account. A probe's has a number.
type Permit struct {
	Model string // the model whose block it probes; "": the account's
	Probe uint64 // 0: an ordinary call
}

// Acquire says whether the account may be used now, and if not, from when on: zero while a probe is in flight. On
// probation it lets one call at a time through, as a probe.
func (b *Block) Acquire(now time.Time) (p Permit, ok bool, until time.Time) {
	switch {
	case b.Active(now):
		return Permit{}, false, b.until
	case !b.Probing(now):
		return Permit{}, true, time.Time{}
	case b.probe != 0:
		return Permit{}, false, time.Time{}
	}
	b.probes++
	b.probe = b.probes
	return Permit{b.Model, b.probe}, true, time.Time{}
}

// Check is Acquire without taking the probe's place.
func (b *Block) Check(now time.Time) (ok bool, until time.Time) {
	if b.Active(now) {
		return false, b.until
	}
	return !b.Probing(now) || b.probe == 0, time.Time{}
}

// Release gives a permit back without an outcome: the probe's place is free again. Twice is harmless.
func (b *Block) Release(p Permit) {
	if p.Probe != 0 && p.Probe == b.probe {
		b.probe = 0
	}
}

// Succeeded takes the success of a call: that of the probe in flight ends the probation. Otherwise it returns nil.
func (b *Block) Succeeded(p Permit) *Unblocked {
	if p.Probe == 0 || p.Probe != b.probe {
		return nil
	}
	f := &Unblocked{Account: b.Account, Model: b.Model, By: ByProbe}
	b.Evolve(f)
	return f
}

// Active says whether the account is blocked. A block ends by itself at its deadline.
func (b *Block) Active(now time.Time) bool { return now.Before(b.until) }

// Probing says whether the account is on probation: its block is over, but only single probes go through.
func (b *Block) Probing(now time.Time) bool {
	return b.probed && !now.Before(b.until) && (b.resets.IsZero() || now.Before(b.resets))
}

// Limited says that a limit of the upstream holds: it was met, and nobody knows yet that it is over.
func (b *Block) Limited(now time.Time) bool {
	return (b.reason == ReasonRate || b.reason == ReasonQuota) && b.holds(now)
}

// Resets is when the upstream said that it will serve again; zero: it did not say.
func (b *Block) Resets() time.Time {
	if b.resets.IsZero() && !b.probed {
		return b.until
	}
	return b.resets
}

// holds says that the account is blocked or on probation.
func (b *Block) holds(now time.Time) bool { return b.Active(now) || b.Probing(now) }

// Until is the deadline of the last block, also when it is past; zero when there was none or it was lifted.
func (b *Block) Until() time.Time { return b.until }

// Reason of the last block.
func (b *Block) Reason() string { return b.reason }

// Source of the last block's deadline.
func (b *Block) Source() string { return b.source }
