// Package affinity remembers which account served a session, so that the next request of it meets the provider's
// prompt cache again, and which account has what only it can continue. A Table is a pure, bounded machine: bindings come
// from successes only, time comes in with them. Memory rebuilds it from the facts of requests.
package affinity

import (
	"time"

	"github.com/penstock/penstock/domain/lru"
)

// Key names a session: two callers never share one, and neither do two capabilities (C56).
type Key struct {
	Caller     string // API key id
	Capability string // that the request asked for, as in its facts
	Session    string
}

// Binding is where a session was served. The zero value is none.
type Binding struct {
	Upstream string
	Account  string
	Tokens   int64     // input of the session since it was bound here, caches included
	Since    time.Time // when it was bound here; absolute expiry counts from here
	Used     time.Time // its last success; sliding expiry counts from here
}

// IsZero says that there is no binding.
func (b Binding) IsZero() bool { return b.Upstream == "" }

// Success is an answered request of a session.
type Success struct {
	Upstream string
	Account  string
	Tokens   int64     // of its input, caches included
	Planned  time.Time // when its plan was made: what was bound later is not undone by it
	At       time.Time // when it was settled
}

// Change is what a success did to a binding.
type Change uint8

// The changes.
const (
	Unchanged Change = iota // served where it is bound, or too old to tell
	Created
	Moved // served elsewhere: migrated or escaped
)

// Limits of a table. All are above zero.
type Limits struct {
	Entries  int           // the longest unused goes first
	Sliding  time.Duration // without a success
	Absolute time.Duration // since it was bound
}

// Table keeps bindings. New makes one. Find only reads: any number of readers may share a table between two changes.
type Table struct {
	limits Limits
	of     lru.Map[Key, Binding] // by Used
}

// New makes an empty table. Limits that are not above zero are those of the defaults: 10,000, 5 and 30 minutes.
func New(l Limits) *Table {
	t := &Table{}
	t.Limit(l)
	return t
}

// Limit sets other limits; what is too much goes at once, what is too old is no longer found.
func (t *Table) Limit(l Limits) {
	if l.Entries <= 0 {
		l.Entries = 10_000
	}
	if l.Sliding <= 0 {
		l.Sliding = 5 * time.Minute
	}
	if l.Absolute <= 0 {
		l.Absolute = 30 * time.Minute
	}
	t.limits = l
	for t.of.Len() > l.Entries {
		oldest, _ := t.of.Oldest()
		t.of.Drop(oldest)
	}
}

// Len is the number of bindings, expired ones that nobody has met included.
func (t *Table) Len() int { return t.of.Len() }

// Find is the binding of a session at a time, the zero Binding when there is none. Looking does not prolong it. A
// session without an id has none (pain sub2api#3127: a shared id sticks everybody to one account).
func (t *Table) Find(k Key, now time.Time) Binding {
	if k.Session == "" {
		return Binding{}
	}
	b := t.of.Get(k)
	if b == nil || t.expired(b, now) {
		return Binding{}
	}
	return *b
}

func (t *Table) expired(b *Binding, now time.Time) bool {
	return now.Sub(b.Used) >= t.limits.Sliding || now.Sub(b.Since) >= t.limits.Absolute
}

// Succeed takes a success in. It binds a session that is not bound, prolongs a binding to the same account, and moves
// one that is older than the request's plan: of requests that ran at once, one that was planned before the last move
// does not undo it.
func (t *Table) Succeed(k Key, s Success) Change {
	if k.Session == "" || s.Upstream == "" {
		return Unchanged
	}
	b := t.of.Get(k)
	if b == nil || t.expired(b, s.At) {
		t.put(k, Binding{s.Upstream, s.Account, s.Tokens, s.At, s.At})
		return Created
	}
	switch {
	case b.Upstream == s.Upstream && b.Account == s.Account:
		b.Tokens += s.Tokens
		if s.At.After(b.Used) {
			b.Used = s.At
			t.of.Touch(k)
		}
		return Unchanged
	case b.Since.After(s.Planned):
		return Unchanged
	}
	t.put(k, Binding{s.Upstream, s.Account, s.Tokens, s.At, s.At})
	return Moved
}

// Forget removes the binding of a session.
func (t *Table) Forget(k Key) { t.of.Drop(k) }

// All yields every binding that is in force, the last used first.
func (t *Table) All(now time.Time) func(yield func(Key, Binding) bool) {
	return func(yield func(Key, Binding) bool) {
		for k, b := range t.of.All() {
			if !t.expired(b, now) && !yield(k, *b) {
				return
			}
		}
	}
}

// put sets a binding and makes room for a new one.
func (t *Table) put(k Key, b Binding) {
	if t.of.Get(k) == nil {
		t.makeRoom(b.Used)
	}
	*t.of.Touch(k) = b
}

// makeRoom drops the oldest bindings while they have expired or there are as many as there may be.
func (t *Table) makeRoom(now time.Time) {
	for {
		oldest, b := t.of.Oldest()
		if b == nil || t.of.Len() < t.limits.Entries && !t.expired(b, now) {
			return
		}
		t.of.Drop(oldest)
	}
}
