package actors

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/domain/affinity"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/dialect"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/domain/routing"
	"github.com/penstock/penstock/events"
)

// Affinity is what one gateway knows of the sessions that it serves. Requests look it up while they are planned and teach
// it when they have succeeded. NewAffinity makes one; nil knows nothing and learns nothing.
type Affinity struct {
	mu     sync.RWMutex
	memory *affinity.Memory
	limits affinity.Limits

	created, moved atomic.Uint64
	ends           [affinityEnds]atomic.Uint64
}

// The ends of a look at the memory, as AffinityCounts counts them.
const (
	affinityMiss = iota // the session is not known
	affinityHit
	affinityMigrated
	affinityPinned
	affinityEscaped
	affinityEnds
)

// NewAffinity makes an empty memory with the limits of the settings.
func NewAffinity(s *catalog.Scheduling) *Affinity {
	l := limitsOf(s)
	return &Affinity{memory: affinity.NewMemory(l), limits: l}
}

func limitsOf(s *catalog.Scheduling) affinity.Limits {
	return affinity.Limits{Entries: s.Bindings, Sliding: s.Sliding, Absolute: s.Absolute}
}

// Limit puts other settings in force.
func (a *Affinity) Limit(s *catalog.Scheduling) {
	l := limitsOf(s)
	a.mu.Lock()
	defer a.mu.Unlock()
	if l != a.limits {
		a.limits = l
		a.memory.Limit(l)
	}
}

// Bounds of what Load reads: for as long as the account of a continuation is remembered, and no more facts than are
// read in a few seconds.
const (
	affinityAge   = 24 * time.Hour
	affinityFacts = 1_000_000
)

// Load learns from the facts of the last requests, as they lie in the store, before there is traffic. What cannot be
// read tells nothing.
func (a *Affinity) Load(ctx context.Context, store events.Store, now time.Time) error {
	head, err := store.Head(ctx)
	if err != nil {
		return errors.Wrap(err, "restore affinity")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	fold := affinity.NewFold(a.memory)
	q := events.Query{StreamPrefix: events.RequestStreams, Since: now.Add(-affinityAge), After: max(head-affinityFacts, 0)}
	return errors.Wrap(events.FindReadable(ctx, store, q, func(c *events.Committed) {
		for _, f := range c.Facts {
			fold.Evolve(c.Request, f, c.At)
		}
	}, nil), "restore affinity")
}

func (a *Affinity) find(ask affinity.Ask, now time.Time) affinity.Lookup {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.memory.Find(ask, now)
}

func (a *Affinity) learn(s affinity.Served) {
	a.mu.Lock()
	change := a.memory.Learn(s)
	a.mu.Unlock()
	switch change {
	case affinity.Created:
		a.created.Add(1)
	case affinity.Moved:
		a.moved.Add(1)
	}
}

// AffinityCounts are the figures of a memory.
type AffinityCounts struct {
	Bindings int // sessions that are bound, expired ones that nobody has met included
	Pins     int // responses and sessions that only one account can continue
	// Since the start: bindings that were made and that moved, and what plans found.
	Created, Moved                       uint64
	Miss, Hit, Migrated, Pinned, Escaped uint64
}

// Counts of the moment.
func (a *Affinity) Counts() AffinityCounts {
	if a == nil {
		return AffinityCounts{}
	}
	a.mu.RLock()
	c := AffinityCounts{Bindings: a.memory.Sessions.Len(), Pins: a.memory.Pins.Len()}
	a.mu.RUnlock()
	c.Created, c.Moved = a.created.Load(), a.moved.Load()
	c.Miss, c.Hit, c.Migrated = a.ends[affinityMiss].Load(), a.ends[affinityHit].Load(), a.ends[affinityMigrated].Load()
	c.Pinned, c.Escaped = a.ends[affinityPinned].Load(), a.ends[affinityEscaped].Load()
	return c
}

// AffinityStatus is the sessions that are bound to one upstream, or to all.
type AffinityStatus struct {
	Bindings int            `json:"bindings"` // all of them
	Sessions []BoundSession `json:"sessions"` // the last used ones, never null
}

// BoundSession is one binding.
type BoundSession struct {
	Key        string    `json:"key"`
	Capability string    `json:"capability"`
	Session    string    `json:"session"`
	Upstream   string    `json:"upstream"`
	Account    string    `json:"account"`
	Tokens     int64     `json:"tokens"` // input of the session since it was bound
	Since      time.Time `json:"since"`
	Used       time.Time `json:"used"`
}

// Status counts the sessions that are bound to an upstream ("": any) and lists at most limit of them.
func (a *Affinity) Status(upstream string, now time.Time, limit int) AffinityStatus {
	s := AffinityStatus{Sessions: []BoundSession{}}
	if a == nil {
		return s
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	for k, b := range a.memory.Sessions.All(now) {
		if upstream != "" && b.Upstream != upstream {
			continue
		}
		if s.Bindings++; len(s.Sessions) < limit {
			s.Sessions = append(s.Sessions, BoundSession{
				Key: k.Caller, Capability: k.Capability, Session: k.Session, Upstream: b.Upstream, Account: b.Account,
				Tokens: b.Tokens, Since: b.Since.UTC(), Used: b.Used.UTC(),
			})
		}
	}
	return s
}

// bound looks up where the request's session belongs.
func (l *life) bound(now time.Time) (found affinity.Lookup) {
	a, ask, scan := l.d.Affinity, &l.c.Ask, &l.c.Scan
	if a == nil || ask.Session == "" && ask.Continues == "" {
		return found
	}
	return a.find(affinity.Ask{
		Key: affinity.Key{Caller: ask.Key, Capability: ask.Capability, Session: ask.Session}, Continuation: ask.Continues,
		Reasoning: scan.EncryptedReasoning, Ciphertext: scan.EncryptedOther,
	}, now)
}

// judged counts what a plan made of the session.
func (l *life) judged() {
	if l.d.Affinity == nil || l.c.Ask.Session == "" && l.c.Ask.Continues == "" {
		return
	}
	end := affinityEscaped
	switch l.plan.Affinity {
	case "":
		end = affinityMiss
	case routing.WhyBound:
		end = affinityHit
	case routing.WhyMigrated:
		end = affinityMigrated
	case routing.WhyPinned:
		end = affinityPinned
	}
	l.d.Affinity.ends[end].Add(1)
}

// learn binds the session to who has served it, once the request has succeeded (C56, B13).
func (l *life) learn(s *request.Settled) {
	a, ask := l.d.Affinity, &l.c.Ask
	if a == nil || ask.Session == "" && ask.Continues == "" && s.ResponseID == "" || !affinity.Binds(s) {
		return
	}
	a.learn(affinity.Served{
		Caller: ask.Key, Capability: ask.Capability, Dialect: ask.Dialect, Session: ask.Session, Continuation: ask.Continues,
		Response: s.ResponseID,
		Success: affinity.Success{
			Upstream: l.lease.Upstream, Account: l.lease.Account, Tokens: s.Usage.InputTotal(), Planned: l.admittedAt, At: l.tookAt,
		},
	})
}

// foreign says that the request's encrypted reasoning is of another account than the one that is about to get it.
func (l *life) foreign() bool { return l.plan.Origin != "" && l.plan.Origin != l.lease.Account }

// continues says whether a later request can name an answer of the dialect to go on from it.
func continues(d dialect.Dialect) bool { return d == dialect.OpenAIResponses }
