package memory

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/penstock/penstock/events"
)

var _ events.Movable = (*Store)(nil)

// Belongings implements events.Movable. The groups are those that it was filled with: it has no feed of its own.
func (s *Store) Belongings(ctx context.Context) (*events.Belongings, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	b := &events.Belongings{Head: s.head(), Groups: slices.Clone(s.groups)}
	for _, id := range slices.Sorted(maps.Keys(s.secrets)) {
		b.Secrets = append(b.Secrets, s.secrets[id]...)
	}
	return b, nil
}

// Fill implements events.Movable.
func (s *Store) Fill(ctx context.Context, b *events.Belongings, chain events.Chain) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	if len(s.commits) > 0 || len(s.secrets) > 0 || len(s.groups) > 0 {
		return events.ErrNotEmpty
	}
	full := NewStore()
	full.groups = slices.Clone(b.Groups)
	for _, v := range b.Secrets {
		v.Sealed, v.Digest = bytes.Clone(v.Sealed), bytes.Clone(v.Digest)
		full.secrets[v.ID] = append(full.secrets[v.ID], v)
	}
	for _, list := range full.secrets {
		slices.SortFunc(list, func(a, b events.Secret) int { return cmp.Compare(a.Version, b.Version) })
	}
	err := chain.Chain(ctx, 0, func(c *events.Commit, rows []events.RawRow) bool {
		full.commits = append(full.commits, *c)
		for i := range rows {
			full.take(&rows[i])
		}
		return true
	})
	if err != nil {
		return err
	}
	s.rows, s.archived, s.streams = full.rows, full.archived, full.streams
	s.commits, s.secrets, s.groups = full.commits, full.secrets, full.groups
	return nil
}

// take puts a row behind the others.
func (s *Store) take(r *events.RawRow) {
	if r.Archived {
		s.archived = append(s.archived, events.RawRow{Position: r.Position, N: r.N, Hash: r.Hash, Archived: true})
		return
	}
	c := events.Committed{Position: r.Position, Hash: r.Hash, Row: r.Row}
	c.Payload = bytes.Clone(c.Payload)
	c.Facts = make([]events.Fact, r.N) // what is read is decoded from the payload
	s.streams[c.Stream] = append(s.streams[c.Stream], len(s.rows))
	s.rows = append(s.rows, c)
}
