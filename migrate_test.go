package penstock_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock"
	"github.com/penstock/penstock/adapters/postgres/pgtest"
	"github.com/penstock/penstock/adapters/sqlite"
)

func TestMigrateNamesWhatIsPendingAndAppliesItOnce(t *testing.T) {
	ctx := context.Background()
	for name, store := range map[string]string{"sqlite": "", "postgres": pgtest.Shared(t).NewDatabase(t)} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			pending, err := penstock.Migrate(ctx, dir, store, true)
			require.NoError(t, err)
			require.Equal(t, "0001_events", pending[0])
			require.NoDirExists(t, dir, "a dry run made something")
			applied, err := penstock.Migrate(ctx, dir, store, false)
			require.NoError(t, err)
			require.Equal(t, pending, applied)
			for _, dry := range []bool{true, false} {
				again, err := penstock.Migrate(ctx, dir, store, dry)
				require.NoError(t, err)
				require.Empty(t, again)
			}
		})
	}
}

func TestMigrateRefusesANewerSchemaAndAFolderInUse(t *testing.T) {
	r := newRig(t, nil)
	_, err := penstock.Migrate(context.Background(), r.config.DataDir, r.config.Store, true)
	require.ErrorIs(t, err, penstock.ErrLocked)
	r.close()
	c, err := sqlite3.Open(filepath.Join(r.config.DataDir, "events.db"))
	require.NoError(t, err)
	require.NoError(t, c.Exec(`INSERT INTO schema_migrations (number, name) VALUES (99, 'later')`))
	require.NoError(t, c.Close())
	for _, dry := range []bool{true, false} {
		_, err = penstock.Migrate(context.Background(), r.config.DataDir, "", dry)
		require.ErrorIs(t, err, sqlite.ErrNewerSchema)
	}
	_, err = penstock.Open(r.config)
	require.ErrorIs(t, err, sqlite.ErrNewerSchema)
}
