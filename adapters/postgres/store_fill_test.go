package postgres_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/adapters/postgres"
	"github.com/penstock/penstock/adapters/postgres/pgtest"
	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/events/storetest"
)

func TestStoresAreMovedIntoPostgreSQLAndOut(t *testing.T) {
	server := pgtest.Shared(t)
	storetest.Move(t, storetest.Kinds{
		"memory": func(*testing.T) storetest.Movable { return memory.NewStore() },
		"postgres": func(t *testing.T) storetest.Movable {
			return openStore(t, server.NewDatabase(t), postgres.StoreOptions{})
		},
		"sqlite": func(t *testing.T) storetest.Movable {
			s, err := sqlite.OpenStore(filepath.Join(t.TempDir(), "events.db"), sqlite.StoreOptions{})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			return s
		},
	})
}
