package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/penstock/penstock/projections"
)

// ReadModel keeps the rows of projections in maps: the oracle for the read models of databases. It answers by walking all rows.
type ReadModel struct {
	mu          sync.RWMutex
	tables      map[string]rows                 // by name
	columns     map[string][]projections.Column // of tables
	checkpoints map[string]projections.Checkpoint
	shadows     map[string]*shadow // by projection
}

// rows of a table by primary key. A row is replaced, never changed, so snapshots share it.
type rows map[string][]projections.Value

// NewReadModel makes an empty one with the tables of the projections.
func NewReadModel(list ...projections.Projection) *ReadModel {
	m := &ReadModel{
		tables: map[string]rows{}, columns: map[string][]projections.Column{},
		checkpoints: map[string]projections.Checkpoint{}, shadows: map[string]*shadow{},
	}
	for _, p := range list {
		m.create(p)
	}
	return m
}

func (m *ReadModel) create(p projections.Projection) {
	for _, t := range p.Tables() {
		m.tables[t.Name], m.columns[t.Name] = rows{}, t.Columns
	}
}

// Commit implements projections.ReadModel.
func (m *ReadModel) Commit(ctx context.Context, changes *projections.Changes, steps []projections.Step) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	made := 0
	for _, s := range steps {
		switch at := m.checkpoints[s.Projection].Position; at {
		case s.From:
		case s.To:
			made++
		default:
			return fmt.Errorf("%w: %s is at %d, not at %d", projections.ErrCheckpoint, s.Projection, at, s.From)
		}
	}
	if made > 0 && made == len(steps) {
		return nil
	}
	if made > 0 {
		return fmt.Errorf("%w: %d of %d steps have been made", projections.ErrCheckpoint, made, len(steps))
	}
	for cut := range changes.Cuts() {
		maps.DeleteFunc(m.tables[cut.Table.Name], func(_ string, row []projections.Value) bool { return cut.Takes(row) })
	}
	for c := range changes.All() {
		if err := m.apply(c); err != nil {
			return err
		}
	}
	for _, s := range steps {
		m.checkpoints[s.Projection] = projections.Checkpoint{Projection: s.Projection, Version: s.Version, Position: s.To}
	}
	return nil
}

func (m *ReadModel) apply(c *projections.Change) error {
	table := m.tables[c.Table.Name]
	if table == nil {
		return fmt.Errorf("read model has no table %q", c.Table.Name)
	}
	key := string(c.Table.AppendKey(nil, c.Values))
	have, known := table[key]
	switch {
	case known && c.Op == projections.Append:
	case known && c.Op == projections.Add:
		sum := slices.Clone(have)
		for i := c.Table.Key; i < len(sum); i++ {
			sum[i] = projections.Sum(sum[i], c.Values[i])
		}
		table[key] = sum
	case known && c.Op == projections.Widen:
		row := slices.Clone(have)
		projections.WidenRow(c.Table, row, c.Values)
		table[key] = row
	default:
		table[key] = slices.Clone(c.Values)
	}
	return nil
}

// Checkpoints implements projections.ReadModel.
func (m *ReadModel) Checkpoints(context.Context) ([]projections.Checkpoint, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.Collect(maps.Values(m.checkpoints)), nil
}

// Reset implements projections.ReadModel.
func (m *ReadModel) Reset(_ context.Context, p projections.Projection) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.create(p)
	delete(m.checkpoints, p.Name())
	return nil
}

// Replace implements projections.ReadModel.
func (m *ReadModel) Replace(ctx context.Context, p projections.Projection, with projections.Snapshot, at projections.Checkpoint) error {
	fresh := map[string]rows{}
	for _, t := range p.Tables() {
		fresh[t.Name] = rows{}
		if err := collect(ctx, t, with, fresh[t.Name]); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.create(p)
	maps.Copy(m.tables, fresh)
	m.checkpoints[p.Name()] = at
	return nil
}

func collect(ctx context.Context, t *projections.Table, from projections.Snapshot, into rows) error {
	scan, err := from.Scan(ctx, t)
	if err != nil {
		return err
	}
	for row, more := scan.Next(); more; row, more = scan.Next() {
		into[string(t.AppendKey(nil, row))] = slices.Clone(row)
	}
	if err := scan.Err(); err != nil {
		_ = scan.Close() // the first error is the one that tells
		return err
	}
	return scan.Close()
}

// Snapshot implements projections.ReadModel.
func (m *ReadModel) Snapshot(context.Context) (projections.Snapshot, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	s := &snapshot{tables: map[string]rows{}, checkpoints: maps.Clone(m.checkpoints)}
	for name, table := range m.tables {
		s.tables[name] = maps.Clone(table)
	}
	return s, nil
}

// Close implements projections.ReadModel.
func (m *ReadModel) Close() error { return nil }

// all are the rows of a table in no order. They must not be changed.
func (m *ReadModel) all(t *projections.Table) [][]projections.Value {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.Collect(maps.Values(m.tables[t.Name]))
}

type snapshot struct {
	tables      map[string]rows
	checkpoints map[string]projections.Checkpoint
}

// Checkpoint implements projections.Snapshot.
func (s *snapshot) Checkpoint(projection string) (projections.Checkpoint, error) {
	at := s.checkpoints[projection]
	at.Projection = projection
	return at, nil
}

// Scan implements projections.Snapshot.
func (s *snapshot) Scan(_ context.Context, t *projections.Table) (projections.Rows, error) {
	table := s.tables[t.Name]
	if table == nil {
		return nil, fmt.Errorf("read model has no table %q", t.Name)
	}
	return &scan{rest: slices.SortedFunc(maps.Values(table), t.CompareKeys)}, nil
}

// Close implements projections.Snapshot.
func (s *snapshot) Close() error { return nil }

type scan struct{ rest [][]projections.Value }

// Next implements projections.Rows.
func (s *scan) Next() ([]projections.Value, bool) {
	if len(s.rest) == 0 {
		return nil, false
	}
	row := s.rest[0]
	s.rest = s.rest[1:]
	return row, true
}

// Err implements projections.Rows.
func (s *scan) Err() error { return nil }

// Close implements projections.Rows.
func (s *scan) Close() error { return nil }
