package memory

import (
	"context"

	"github.com/penstock/penstock/events"
)

// Secret returns one version of a sealed credential, or the newest for version 0; nil when there is none.
func (s *Store) Secret(ctx context.Context, id string, version int64) (*events.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	list := s.secrets[id]
	for i := len(list) - 1; i >= 0; i-- {
		if version == 0 || list[i].Version == version {
			v := list[i]
			return &v, nil
		}
	}
	return nil, nil
}
