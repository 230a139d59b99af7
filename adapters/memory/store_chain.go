package memory

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/penstock/penstock/events"
)

// Chain reads the links of the chain with what is stored of their rows.
func (s *Store) Chain(ctx context.Context, after events.Position, yield func(*events.Commit, []events.RawRow) bool) error {
	s.mu.Lock()
	err := s.usable(ctx)
	commits, rows, archived := s.commits, s.rows, s.archived
	s.mu.Unlock()
	if err != nil {
		return err
	}
	begin := 0
	for begin+1 < len(commits) && commits[begin+1].First <= after+1 {
		begin++
	}
	if len(commits) == 0 || commits[len(commits)-1].First+events.Position(commits[len(commits)-1].N) <= after+1 {
		return nil
	}
	for i := begin; i < len(commits); i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		c := commits[i]
		end := events.Position(math.MaxInt64)
		if i+1 < len(commits) {
			end = commits[i+1].First
		}
		var found []events.RawRow
		for ; len(rows) > 0 || len(archived) > 0; rows = rows[min(1, len(rows)):] {
			for len(archived) > 0 && archived[0].Position < end && (len(rows) == 0 || archived[0].Position < rows[0].Position) {
				if archived[0].Position >= c.First {
					found = append(found, archived[0])
				}
				archived = archived[1:]
			}
			if len(rows) == 0 || rows[0].Position >= end {
				break
			}
			if r := &rows[0]; r.Position >= c.First {
				raw := events.RawRow{Position: r.Position, N: int64(len(r.Facts)), Hash: r.Hash, Row: r.Row}
				raw.Facts = nil
				found = append(found, raw)
			}
		}
		if !yield(&c, found) {
			return nil
		}
	}
	return nil
}

// Remove takes away rows of a removal and keeps what the chain needs of them.
func (s *Store) Remove(ctx context.Context, r events.Removal, limit int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return 0, err
	}
	// Ends go first, so that what is left of a stream always has its beginning.
	var gone []int
	for i := len(s.rows) - 1; i >= 0 && len(gone) < limit; i-- {
		if s.within(r, i) {
			gone = append(gone, i)
		}
	}
	if len(gone) == 0 {
		return 0, nil
	}
	left := make([]events.Committed, 0, len(s.rows)-len(gone)) // readers hold the old rows
	archived := slices.Clone(s.archived)
	streams := map[string][]int{}
	for i, c := range s.rows {
		if len(gone) > 0 && i == gone[len(gone)-1] {
			gone = gone[:len(gone)-1]
			archived = insert(archived, events.RawRow{Position: c.Position, N: int64(len(c.Facts)), Hash: c.Hash, Archived: true})
			continue
		}
		streams[c.Stream] = append(streams[c.Stream], len(left))
		left = append(left, c)
	}
	n := len(s.rows) - len(left)
	s.rows, s.archived, s.streams = left, archived, streams
	return n, nil
}

// within says that the row at index i is one that the removal is about.
func (s *Store) within(r events.Removal, i int) bool {
	c := &s.rows[i]
	if !strings.HasPrefix(c.Stream, events.RequestStreams) || c.Position > r.Through {
		return false
	}
	first := &s.rows[s.streams[c.Stream][0]]
	return first.Version == 0 && r.First <= first.Position && first.Position <= r.Last
}

// insert keeps the order of positions.
func insert(list []events.RawRow, r events.RawRow) []events.RawRow {
	i := len(list)
	for i > 0 && list[i-1].Position > r.Position {
		i--
	}
	return slices.Insert(list, i, r)
}
