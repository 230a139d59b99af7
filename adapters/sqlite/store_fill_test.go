package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/events/storetest"
)

func TestStoresAreMovedIntoSQLiteAndOut(t *testing.T) {
	t.Cleanup(sqlite.Small())
	storetest.Move(t, storetest.Kinds{
		"memory": func(*testing.T) storetest.Movable { return memory.NewStore() },
		"sqlite": func(t *testing.T) storetest.Movable {
			return openStore(t, filepath.Join(t.TempDir(), "events.db"), sqlite.StoreOptions{})
		},
	})
}
