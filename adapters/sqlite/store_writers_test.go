package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/events/storetest"
)

func TestMain(m *testing.M) {
	storetest.WriteForAnother(openBeside)
	os.Exit(m.Run())
}

// openBeside opens a store that others write to at the same time.
func openBeside(path string) (events.Store, error) {
	return sqlite.OpenStore(path, sqlite.StoreOptions{BusyTimeout: time.Minute})
}

// The gateway's lock on its data folder keeps a second one out; a command that appends beside it must be right all the same.
func TestAReaderBesideSixWritersInTwoProcessesMissesNothing(t *testing.T) {
	storetest.TwoProcesses(t, filepath.Join(t.TempDir(), "events.db"), openBeside)
}
