// Package memory keeps events and read models in maps: for tests, and as the oracle that the other stores are compared with. It
// is written to be obviously right, not to be fast. No program holds it.
package memory

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/penstock/penstock/events"
)

// Store is the event store in memory (events.Store). The zero value is not ready, use NewStore.
type Store struct {
	mu       sync.Mutex
	closed   bool
	rows     []events.Committed // in order of position; never changed
	archived []events.RawRow    // what is left of removed ones, in order of position; never changed
	streams  map[string][]int   // indexes of a stream's rows
	commits  []events.Commit
	secrets  map[string][]events.Secret // by id, in order of version
	groups   []events.FeedCheckpoint    // kept for others
	hasher   events.Hasher
}

var _ events.Store = (*Store)(nil)

// NewStore makes an empty store.
func NewStore() *Store {
	return &Store{streams: map[string][]int{}, secrets: map[string][]events.Secret{}}
}

// draft is what a batch will have added, if nothing fails.
type draft struct {
	s       *Store
	rows    []events.Committed
	secrets []events.Secret
}

// Append stores a batch (events.Store). Rows that came with AnyVersion carry their version afterwards.
func (s *Store) Append(ctx context.Context, batch []events.Append, lowWater events.Position) ([]events.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	if err := events.Encoded(batch); err != nil {
		return nil, err
	}
	d := draft{s: s}
	results := make([]events.Result, len(batch))
	for i := range batch {
		results[i] = d.append(&batch[i])
	}
	d.commit(lowWater)
	return results, nil
}

// append adds one append to the draft, finds it stored already, or refuses it.
func (d *draft) append(a *events.Append) events.Result {
	before := *d
	first := d.next()
	versions := make([]int64, len(a.Rows))
	err := d.add(a, versions)
	if err == nil {
		for i, v := range versions {
			a.Rows[i].Version = v
		}
		return events.Result{First: first}
	}
	*d = before
	if at := d.stored(a); at > 0 {
		return events.Result{First: at}
	}
	return events.Result{Err: err}
}

func (d *draft) add(a *events.Append, versions []int64) error {
	for i, r := range a.Rows {
		tail, ended := d.tail(r.Stream)
		if r.Version == events.AnyVersion {
			r.Version = tail
		}
		if r.Version != tail || r.Terminal && ended {
			return fmt.Errorf("%w: %s is at version %d, the append expects %d", events.ErrConflict, r.Stream, tail, r.Version)
		}
		versions[i] = r.Version
		c := events.Committed{Position: d.next(), Row: r}
		c.Hash = d.s.hasher.Row(c.Position, &r)
		d.rows = append(d.rows, c)
	}
	for _, v := range a.Secrets {
		if d.secret(v.ID, v.Version) != nil {
			return fmt.Errorf("%w: secret %s has version %d already", events.ErrConflict, v.ID, v.Version)
		}
		d.secrets = append(d.secrets, v)
	}
	return nil
}

// next is the position of the next fact.
func (d *draft) next() events.Position {
	if n := len(d.rows); n > 0 {
		return d.rows[n-1].Last() + 1
	}
	return d.s.head() + 1
}

// each visits the rows of a stream, with those of the draft.
func (d *draft) each(stream string, visit func(*events.Committed)) {
	for _, i := range d.s.streams[stream] {
		visit(&d.s.rows[i])
	}
	for i := range d.rows {
		if d.rows[i].Stream == stream {
			visit(&d.rows[i])
		}
	}
}

// tail is the version of a stream, and whether a terminal row has ended it.
func (d *draft) tail(stream string) (version int64, ended bool) {
	d.each(stream, func(c *events.Committed) {
		version = c.Version + int64(len(c.Facts))
		ended = ended || c.Terminal
	})
	return version, ended
}

// stored is the position of an append that was stored before with the same content, 0 when there is none. Rows that
// the store was to number are never found: this store has no faults after which their caller could be in doubt.
func (d *draft) stored(a *events.Append) events.Position {
	var first, next events.Position
	for i, r := range a.Rows {
		at := d.same(r)
		if at == 0 || i > 0 && at != next {
			return 0
		}
		if i == 0 {
			first = at
		}
		next = at + events.Position(len(r.Facts))
	}
	for _, v := range a.Secrets {
		was := d.secret(v.ID, v.Version)
		if was == nil || !bytes.Equal(was.Sealed, v.Sealed) || !bytes.Equal(was.Digest, v.Digest) {
			return 0
		}
	}
	return first
}

func (d *draft) same(r events.Row) (at events.Position) {
	d.each(r.Stream, func(c *events.Committed) {
		if c.Version == r.Version && c.Hash == d.s.hasher.Row(c.Position, &r) {
			at = c.Position
		}
	})
	return at
}

// secret is a version of a secret, also of the draft.
func (d *draft) secret(id string, version int64) *events.Secret {
	for _, list := range [][]events.Secret{d.s.secrets[id], d.secrets} {
		for i := range list {
			if list[i].ID == id && list[i].Version == version {
				return &list[i]
			}
		}
	}
	return nil
}

// commit makes the draft part of the store.
func (d *draft) commit(lowWater events.Position) {
	s := d.s
	for _, v := range d.secrets {
		v.Sealed, v.Digest = bytes.Clone(v.Sealed), bytes.Clone(v.Digest)
		s.secrets[v.ID] = append(s.secrets[v.ID], v)
		slices.SortFunc(s.secrets[v.ID], func(a, b events.Secret) int { return int(a.Version - b.Version) })
	}
	if len(d.rows) == 0 {
		return
	}
	link := events.Commit{First: d.rows[0].Position}
	link.Bounds = events.Bounds{LowWater: lowWater, Earliest: math.MaxInt64}
	link.N = int64(d.next() - link.First)
	hashes := make([][32]byte, len(d.rows))
	for i := range d.rows {
		c := &d.rows[i]
		hashes[i] = c.Hash
		s.streams[c.Stream] = append(s.streams[c.Stream], len(s.rows)+i)
		c.At = c.At.UTC().Truncate(1000)
		c.Payload = bytes.Clone(c.Payload)
		c.Facts = make([]events.Fact, len(c.Facts)) // what is read is decoded from the payload
	}
	if n := len(s.commits); n > 0 {
		link.Previous, link.Latest = s.commits[n-1].Hash, s.commits[n-1].Latest
	}
	for i := range d.rows {
		at := d.rows[i].At.UnixMicro()
		link.Earliest, link.Latest = min(link.Earliest, at), max(link.Latest, at)
	}
	link.Hash = s.hasher.Commit(link.Previous, link.First, link.N, link.Bounds, hashes)
	s.rows, s.commits = append(s.rows, d.rows...), append(s.commits, link)
}

// head is the position of the last fact.
func (s *Store) head() events.Position {
	if n := len(s.commits); n > 0 {
		return s.commits[n-1].First + events.Position(s.commits[n-1].N) - 1
	}
	return 0
}

// usable refuses everything after Close, and work for a context that has ended.
func (s *Store) usable(ctx context.Context) error {
	if s.closed {
		return fmt.Errorf("%w: memory store closed", events.ErrUnavailable)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", events.ErrUnavailable, err)
	}
	return nil
}

// Probe succeeds until the store is closed.
func (s *Store) Probe(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.usable(ctx)
}

// Close refuses everything from now on.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}
