package memory

import (
	"context"
	"slices"
	"sort"
	"strings"

	"github.com/penstock/penstock/events"
)

// Stream reads the rows of one stream with version ≥ from, in order.
func (s *Store) Stream(ctx context.Context, stream string, from int64, yield func(*events.Committed) bool) error {
	return s.scan(ctx, false, 0, yield, func(c *events.Committed) bool { return c.Stream == stream && c.Version >= from })
}

// After reads all rows with a fact after the position.
func (s *Store) After(ctx context.Context, after events.Position, yield func(*events.Committed) bool) error {
	return s.scan(ctx, false, 0, yield, func(c *events.Committed) bool { return c.Last() > after })
}

// Scan reads as After does, without decoding.
func (s *Store) Scan(ctx context.Context, after events.Position, need func(string) bool, yield func([]events.Stored) bool) error {
	const pageRows = 100
	s.mu.Lock()
	err, rows := s.usable(ctx), s.rows // rows do not change
	s.mu.Unlock()
	if err != nil {
		return err
	}
	first := sort.Search(len(rows), func(i int) bool { return rows[i].Last() > after })
	for part := range slices.Chunk(rows[first:], pageRows) {
		page := make([]events.Stored, len(part))
		for i, c := range part {
			r := &page[i]
			r.Position, r.N, r.Stream, r.Version, r.At = c.Position, int64(len(c.Facts)), c.Stream, c.Version, c.At
			r.Types, r.Node = c.Types, c.Node
			if need(c.Types) {
				r.Payload = c.Payload
			}
		}
		if err := ctx.Err(); err != nil || !yield(page) {
			return err
		}
	}
	return nil
}

// Find reads rows that match a filter.
func (s *Store) Find(ctx context.Context, f events.Query, yield func(*events.Committed) bool) error {
	return s.scan(ctx, f.Newest, f.Limit, yield, func(c *events.Committed) bool { return found(f, c) })
}

func found(f events.Query, c *events.Committed) bool {
	equal := func(want, is string) bool { return want == "" || want == is }
	switch {
	case !strings.HasPrefix(c.Stream, f.StreamPrefix), !equal(f.Stream, c.Stream), !equal(f.Request, c.Request), !equal(f.Key, c.Key), !equal(f.Upstream, c.Upstream):
		return false
	case f.Type != "" && !events.HasType(c.Types, f.Type):
		return false
	case !f.Since.IsZero() && c.At.Before(f.Since), !f.Until.IsZero() && !c.At.Before(f.Until):
		return false
	case f.Text != "" && !strings.Contains(string(c.Payload), f.Text):
		return false
	case f.Newest:
		return (f.After == 0 || c.Position < f.After) && c.Position >= f.Through
	}
	return c.Position > f.After && (f.Through == 0 || c.Position <= f.Through)
}

// scan hands on copies of the rows that match, at most limit of them (0: all). yield runs outside of the lock.
func (s *Store) scan(ctx context.Context, newest bool, limit int, yield func(*events.Committed) bool,
	matches func(*events.Committed) bool,
) error {
	s.mu.Lock()
	err, rows := s.usable(ctx), s.rows // rows do not change
	s.mu.Unlock()
	given := 0
	for i := 0; i < len(rows) && err == nil; i++ {
		c := &rows[i]
		if newest {
			c = &rows[len(rows)-1-i]
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case !matches(c):
			continue
		case limit > 0 && given == limit:
			return nil
		}
		given++
		one := []events.Stored{{Committed: *c, N: int64(len(c.Facts))}}
		if more, err := events.HandOn(one, yield); !more || err != nil {
			return err
		}
	}
	return err
}

// Head is the position of the last stored fact.
func (s *Store) Head(ctx context.Context) (events.Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head(), s.usable(ctx)
}

// LowWater is what the writer of the commit that holds a position had said.
func (s *Store) LowWater(ctx context.Context, at events.Position) (low events.Position, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.commits {
		if at == 0 || c.First <= at {
			low = c.LowWater
		}
	}
	return low, s.usable(ctx)
}
