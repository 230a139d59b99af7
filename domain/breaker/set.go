package breaker

import (
	"cmp"
	"slices"
	"time"
)

// Bounds of a Set.
const (
	SetMax    = 1024             // machines at once; models are named by callers, so their number is not ours to trust
	idleFor   = 10 * time.Minute // a closed machine without failures is forgotten after this
	forgetFor = time.Hour        // and with a few failures after this
)

// Set is the breakers of one upstream by account and model: a pure machine like Breaker, with its verbs and a Key. A key
// costs nothing until its first failure, and is forgotten some time after its breaker has closed. Make it with NewSet.
type Set struct {
	upstream string
	policy   Policy
	machines map[Key]*machine
	base     uint64 // above the generation of every machine that was forgotten, so that none of its permits is taken for another's
}

type machine struct {
	Breaker
	used time.Time // last outcome
}

// NewSet makes a set in which everything is closed.
func NewSet(upstream string, p Policy) *Set {
	return &Set{upstream: upstream, policy: p, machines: map[Key]*machine{}, base: 1}
}

// Reconfigure sets another policy for all.
func (s *Set) Reconfigure(p Policy) {
	s.policy = p
	for _, m := range s.machines {
		m.Reconfigure(p)
	}
}

// Check is Breaker's.
func (s *Set) Check(k Key, now time.Time) (bool, time.Time) {
	if m := s.machines[k]; m != nil {
		return m.Check(now)
	}
	return true, time.Time{}
}

// Acquire is Breaker's. The permit belongs to the key.
func (s *Set) Acquire(k Key, now time.Time) (Permit, bool, *HalfOpened) {
	if m := s.machines[k]; m != nil {
		return m.Acquire(now)
	}
	return Permit{}, true, nil
}

// Valid is Breaker's.
func (s *Set) Valid(k Key, p Permit) bool {
	if m := s.machines[k]; m != nil {
		return m.Valid(p)
	}
	return !p.Probe
}

// Cancel is Breaker's.
func (s *Set) Cancel(k Key, p Permit) {
	if m := s.machines[k]; m != nil {
		m.Cancel(p)
	}
}

// Record is Breaker's. The outcome's time is e.At. When the set is full of breakers that are not closed, failures of
// further keys are not counted here.
func (s *Set) Record(k Key, p Permit, r Result, e Evidence) any {
	m := s.machines[k]
	if m == nil {
		if r != Failure || p.Probe {
			return nil
		}
		if m = s.make(k, e.At); m == nil {
			return nil
		}
	}
	m.used = e.At
	return m.Record(p, r, e)
}

// ForceOpen is Breaker's; nil when the set is full of breakers that are not closed.
func (s *Set) ForceOpen(k Key, now, until time.Time) *Opened {
	m := s.machines[k]
	if m == nil {
		if m = s.make(k, now); m == nil {
			return nil
		}
	}
	m.used = now
	return m.ForceOpen(now, until)
}

// ForceClose is Breaker's.
func (s *Set) ForceClose(k Key, now time.Time) *Closed {
	m := s.machines[k]
	if m == nil {
		return nil
	}
	m.used = now
	return m.ForceClose(now)
}

// Evolve applies a stored fact about an account and model of this upstream; anything else is ignored.
func (s *Set) Evolve(fact any, at time.Time) {
	upstream, k, ok := KeyOf(fact)
	if !ok || upstream != s.upstream || k == (Key{}) {
		return
	}
	m := s.machines[k]
	if m == nil {
		if _, closed := fact.(*Closed); closed {
			return
		}
		if m = s.make(k, at); m == nil {
			return
		}
	}
	m.used = at
	m.Evolve(fact, at)
}

// RemoveAccount forgets an account that is no more.
func (s *Set) RemoveAccount(account string) {
	for k := range s.machines {
		if k.Account == account {
			s.drop(k)
		}
	}
}

// Opens is when the first of the open breakers lets a probe through; zero when none is open beyond now.
func (s *Set) Opens(now time.Time) (first time.Time) {
	for _, m := range s.machines {
		if m.until.After(now) && (first.IsZero() || m.until.Before(first)) {
			first = m.until
		}
	}
	return first
}

// Entry is a key that has a machine.
type Entry struct {
	Key
	*Breaker
}

// All lists the keys that have a machine, by account and model; the others are closed and without failures. The
// breakers are the set's own: look, do not touch.
func (s *Set) All() []Entry {
	list := make([]Entry, 0, len(s.machines))
	for k, m := range s.machines {
		list = append(list, Entry{k, &m.Breaker})
	}
	slices.SortFunc(list, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Model, b.Model))
	})
	return list
}

// make gives a key a machine, after forgetting what is idle; nil when all places are taken by breakers at work.
func (s *Set) make(k Key, now time.Time) *machine {
	s.sweep(now)
	if len(s.machines) >= SetMax && !s.evict() {
		return nil
	}
	m := &machine{Breaker: *New(s.upstream, s.policy, now), used: now}
	m.key = k
	// Permits from before count: they were given while the key was closed. Probes get numbers never used before.
	m.generation, m.spell = s.base, 0
	s.machines[k] = m
	return m
}

func (s *Set) sweep(now time.Time) {
	for k, m := range s.machines {
		if idle := now.Sub(m.used); m.state == StateClosed && (idle >= forgetFor || m.failures == 0 && idle >= idleFor) {
			s.drop(k)
		}
	}
}

// evict forgets the closed machine that was used longest ago. Ties go by key, so that the same story has the same end.
func (s *Set) evict() bool {
	var victim Key
	found := false
	for k, m := range s.machines {
		if m.state != StateClosed {
			continue
		}
		if old := s.machines[victim]; !found || m.used.Before(old.used) ||
			m.used.Equal(old.used) && cmp.Or(cmp.Compare(k.Account, victim.Account), cmp.Compare(k.Model, victim.Model)) < 0 {
			victim, found = k, true
		}
	}
	if found {
		s.drop(victim)
	}
	return found
}

func (s *Set) drop(k Key) {
	s.base = max(s.base, s.machines[k].generation+1)
	delete(s.machines, k)
}
