package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/lawtest"
	"github.com/penstock/penstock/projections/stats"
)

func TestARebuildThatIsKilledIsGoneOnWith(t *testing.T) {
	lawtest.Killed(t, testing.TB.TempDir, everyProjection, func(t testing.TB, folder string, list ...projections.Projection) (lawtest.Data, func()) {
		store, err := sqlite.OpenStore(filepath.Join(folder, "events.db"), sqlite.StoreOptions{})
		if err != nil {
			t.Fatal(err)
		}
		m := openRead(t, filepath.Join(folder, "read.db"), list...)
		return lawtest.Data{Store: store, Model: m}, func() {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// left are the files of a folder.
func left(t *testing.T, folder string) (names []string) {
	t.Helper()
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names
}

func TestShadowsThatNobodyWouldGoOnWithAreRemovedWhenTheReadModelOpens(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "read.db")
	m := openRead(t, path, everyProjection...)
	for _, p := range []projections.Projection{billing.Projection{}, renamed{}} {
		shadow, err := m.Beside(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		if err := shadow.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".rebuild-gone-v1-wal", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	m = openRead(t, path, billing.Projection{}, stats.Projection{})
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if names := left(t, filepath.Dir(path)); len(names) != 2 || names[1] != filepath.Base(path)+".rebuild-billing-v"+versionOf(billing.Projection{}) {
		t.Errorf("left are %q", names)
	}
}

func TestAShadowWhoseFileIsDamagedIsMadeAnew(t *testing.T) {
	store := filled(t, 30)
	path := filepath.Join(t.TempDir(), "read.db")
	m := openRead(t, path, everyProjection...)
	settle(t, store, m, everyProjection...)
	if err := os.WriteFile(path+".rebuild-billing-v"+versionOf(billing.Projection{}), []byte("this is no database, whatever its name says"), 0o600); err != nil {
		t.Fatal(err)
	}
	report, err := projections.Rebuild(context.Background(), store, m, billing.Projection{}, nil)
	if err != nil || report.Rows == 0 || report.ResumedFrom != 0 {
		t.Errorf("%+v, %v", report, err)
	}
}

func versionOf(p projections.Projection) string { return strconv.Itoa(p.Version()) }

// The folder of a shadow whose program was killed goes with the next start (pain 71).
func TestAShadowThatWasLeftIsRemoved(t *testing.T) {
	dir := t.TempDir()
	left, err := sqlite.OpenShadow(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = left.Close() })
	if err := os.Mkdir(filepath.Join(dir, "archive"), 0o700); err != nil {
		t.Fatal(err)
	}
	shadows := func() (n int) {
		t.Helper()
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list {
			if f.IsDir() {
				n++
			}
		}
		return n - 1 // the archive
	}
	if n := shadows(); n != 1 {
		t.Fatalf("%d shadows", n)
	}
	m := openRead(t, filepath.Join(dir, "read.db"))
	defer m.Close()
	if n := shadows(); n != 0 {
		t.Errorf("%d shadows are left, or the archive is gone", n)
	}
}
