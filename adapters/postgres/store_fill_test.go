package postgres_test

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/adapters/postgres"
	"github.com/penstock/penstock/adapters/postgres/pgtest"
	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/events"
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

// SQLite has no bound on it; the error says which row it is.
func TestAStreamThatPostgreSQLCannotIndexIsNamed(t *testing.T) {
	from, into := memory.NewStore(), openStore(t, pgtest.Shared(t).NewDatabase(t), postgres.StoreOptions{})
	put(t, from, one(row(t, "node/a", 0))...)
	put(t, from, one(row(t, "node/"+strings.Repeat("long", 600), 0))...)
	var file bytes.Buffer
	_, err := events.Backup(context.Background(), from, events.BackupOptions{}, &file)
	require.NoError(t, err)
	backup, err := events.ReadBackup(&file)
	require.NoError(t, err)
	_, err = events.Restore(context.Background(), into, backup, nil, nil)
	require.ErrorContains(t, err, "the row at position 2 has a stream")
	require.Zero(t, head(t, into))
	put(t, into, one(row(t, "node/a", 0))...)
}
