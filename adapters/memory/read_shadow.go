package memory

import (
	"context"
	"slices"

	"github.com/penstock/penstock/projections"
)

// shadow is a read model beside the living one. It lives as long as that.
type shadow struct {
	*ReadModel
	of      *ReadModel
	name    string
	version int
}

// Beside implements projections.ReadModel.
func (m *ReadModel) Beside(_ context.Context, p projections.Projection) (projections.Shadow, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.shadows[p.Name()]; s != nil && s.version == p.Version() {
		return s, nil
	}
	s := &shadow{ReadModel: NewReadModel(p), of: m, name: p.Name(), version: p.Version()}
	m.shadows[p.Name()] = s
	return s, nil
}

// Discard implements projections.Shadow.
func (s *shadow) Discard() error {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	delete(s.of.shadows, s.name)
	return nil
}

// Shadows names the projections that have a shadow.
func (m *ReadModel) Shadows() []string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var names []string
	for name := range m.shadows {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Serves implements projections.ReadModel. Rows are read by the places of their columns, which must be the same.
func (m *ReadModel) Serves(_ context.Context, p projections.Projection) (bool, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, t := range p.Tables() {
		if !slices.Equal(m.columns[t.Name], t.Columns) {
			return false, nil
		}
	}
	return true, nil
}
