package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/lawtest"
	"github.com/penstock/penstock/projections/ledger"
	"github.com/penstock/penstock/projections/requestlog"
	"github.com/penstock/penstock/projections/stats"
)

var everyProjection = []projections.Projection{requestlog.Projection{}, billing.Projection{}, stats.Projection{}, ledger.Projection{}}

func memoryStore(testing.TB) events.Store { return memory.NewStore() }

func openRead(t testing.TB, path string, list ...projections.Projection) *sqlite.ReadModel {
	t.Helper()
	m, err := sqlite.OpenReadModel(path, list...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return m
}

func TestReadModelKeepsTheLawsOfProjections(t *testing.T) {
	paths := map[projections.ReadModel]string{}
	lawtest.Run(t, lawtest.Subject{
		Projections: everyProjection,
		Store:       memoryStore,
		Model: func(t testing.TB) projections.ReadModel {
			path := filepath.Join(t.TempDir(), "read.db")
			m := openRead(t, path, everyProjection...)
			paths[m] = path
			return m
		},
		Shadow: func() (projections.ReadModel, error) { return sqlite.OpenShadow(t.TempDir(), everyProjection...) },
		Reopen: func(t testing.TB, m projections.ReadModel) projections.ReadModel {
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			again := openRead(t, paths[m], everyProjection...)
			paths[again] = paths[m]
			return again
		},
		Seeds: 2,
	})
}

func TestReadModelAnswersAsTheOneInMemory(t *testing.T) {
	lawtest.Differential(t, everyProjection, memoryStore,
		func(t testing.TB) lawtest.Readers {
			return openRead(t, filepath.Join(t.TempDir(), "read.db"), everyProjection...)
		},
		func(testing.TB) lawtest.Readers { return memory.NewReadModel(everyProjection...) })
}

func TestReadModelIsRebuiltAfterItsFileWasDeleted(t *testing.T) {
	store := filled(t, 40)
	path := filepath.Join(t.TempDir(), "read.db")
	var before []string
	for range 2 {
		m, err := sqlite.OpenReadModel(path, everyProjection...)
		if err != nil {
			t.Fatal(err)
		}
		settle(t, store, m, everyProjection...)
		rows, at := lawtest.Dump(t, m, requestlog.Projection{})
		rows = slices.DeleteFunc(rows, func(row string) bool { return !strings.HasPrefix(row, requestlog.Requests.Name+":") })
		if head, _ := store.Head(context.Background()); at != head || len(rows) != 40 {
			t.Fatalf("%d rows at %d, want 40 at %d", len(rows), at, head)
		}
		if before != nil && len(before) != len(rows) {
			t.Fatalf("%d rows, before the file was deleted %d", len(rows), len(before))
		}
		before = rows
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		for _, ending := range []string{"", "-wal", "-shm"} {
			if err := os.Remove(path + ending); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
	}
}

// renamed is the request log of a later program: other columns, another version.
type renamed struct{ requestlog.Projection }

var renamedTable = &projections.Table{
	Name: "requests", Key: 1, Indexes: [][]string{{"ended"}},
	Columns: []projections.Column{{Name: "id", Kind: projections.KindText}, {Name: "ended", Kind: projections.KindInt}},
}

func (r renamed) Version() int               { return r.Projection.Version() + 1 }
func (renamed) Tables() []*projections.Table { return []*projections.Table{renamedTable} }
func (renamed) Fold(s *request.Story, _ events.Fact, _ projections.Place, out *projections.Changes) {
	if s != nil {
		out.Put(renamedTable, projections.Text(s.ID), projections.Bool(s.Ended()))
	}
}

func TestReadModelWithTablesOfAnOlderVersionIsRebuiltAtStart(t *testing.T) {
	store := filled(t, 30)
	path := filepath.Join(t.TempDir(), "read.db")
	m := openRead(t, path, everyProjection...)
	settle(t, store, m, everyProjection...)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	later := []projections.Projection{renamed{}, billing.Projection{}, stats.Projection{}}
	m = openRead(t, path, later...)
	settle(t, store, m, later...)
	if rows, _ := lawtest.Dump(t, m, renamed{}); len(rows) != 30 {
		t.Errorf("%d rows of the new version, want 30", len(rows))
	}
	if rows, _ := lawtest.Dump(t, m, billing.Projection{}); len(rows) == 0 {
		t.Error("the rebuild of one projection has emptied another")
	}
}

func TestSnapshotDoesNotSeeLaterCommits(t *testing.T) {
	store := filled(t, 20)
	m := openRead(t, filepath.Join(t.TempDir(), "read.db"), everyProjection...)
	s, err := m.Snapshot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	settle(t, store, m, everyProjection...)
	at, err := s.Checkpoint("requestlog")
	if err != nil || at.Position != 0 {
		t.Errorf("checkpoint %+v, %v, want one at 0", at, err)
	}
	rows, err := s.Scan(context.Background(), requestlog.Requests)
	if err != nil {
		t.Fatal(err)
	}
	if row, more := rows.Next(); more {
		t.Errorf("the snapshot of an empty model shows %v", row)
	}
	if err := rows.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestShadowLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	m, err := sqlite.OpenShadow(dir, everyProjection...)
	if err != nil {
		t.Fatal(err)
	}
	settle(t, filled(t, 10), m, everyProjection...)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestReadModelSaysThatADamagedFileMayBeDeleted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "read.db")
	if err := os.WriteFile(path, bytes.Repeat([]byte("no database "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.OpenReadModel(path, everyProjection...); err == nil || !strings.Contains(err.Error(), "may be deleted") {
		t.Errorf("%v", err)
	}
}

func TestACommitThatWasInterruptedChangesNothingAndTheNextOneGoesThrough(t *testing.T) {
	m := openRead(t, filepath.Join(t.TempDir(), "read.db"), everyProjection...)
	table := stats.Hours
	row := make([]projections.Value, len(table.Columns))
	for i, c := range table.Columns {
		if row[i] = projections.Text("x"); c.Number() {
			row[i] = projections.Int(1)
		}
	}
	var changes projections.Changes
	changes.Add(table, row...)
	step := []projections.Step{{Projection: "stats", Version: stats.Projection{}.Version(), To: 5}}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := m.Commit(ended, &changes, step); err == nil {
		t.Error("a commit went through although its context had ended")
	}
	if rows, at := lawtest.Dump(t, m, stats.Projection{}); len(rows) != 0 || at != 0 {
		t.Errorf("%v at %d", rows, at)
	}
	if err := m.Commit(context.Background(), &changes, step); err != nil {
		t.Fatal(err)
	}
	if rows, at := lawtest.Dump(t, m, stats.Projection{}); len(rows) != 1 || at != 5 {
		t.Errorf("%v at %d", rows, at)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if err := m.Commit(context.Background(), &changes, step); err == nil {
		t.Error("a closed read model took a commit")
	}
	if _, err := m.Checkpoints(context.Background()); err == nil {
		t.Error("a closed read model answered")
	}
}

func TestACommitOfWhichARowIsRefusedChangesNothing(t *testing.T) {
	m := openRead(t, filepath.Join(t.TempDir(), "read.db"), markedProjections...)
	step := []projections.Step{{Projection: "logmarks", Version: requestlog.Marker{}.Version(), To: 5}}
	for _, refused := range []int64{3, 31, 32} { // in the first statement of many rows, and behind it
		var changes projections.Changes
		for block := range int64(40) {
			value := projections.Text("x")
			if block == refused {
				value = projections.Null()
			}
			changes.Append(requestlog.Marks, projections.Int(1), value, projections.Int(block))
		}
		if err := m.Commit(context.Background(), &changes, step); !errors.Is(err, sqlite3.CONSTRAINT_NOTNULL) {
			t.Errorf("row %d: %v", refused, err)
		}
		if rows, at := lawtest.Dump(t, m, requestlog.Marker{}); len(rows) != 0 || at != 0 {
			t.Errorf("row %d: %v at %d", refused, rows, at)
		}
	}
}

// filled is a store with a history of that many requests, all ended.
func filled(t testing.TB, n int) events.Store {
	t.Helper()
	history, err := lawtest.History{Seed: 9, Requests: n, Step: 10 * time.Second}.Appends()
	if err != nil {
		t.Fatal(err)
	}
	store := memory.NewStore()
	lawtest.Commits(t, store, history, 16)
	return store
}

// settle brings the model to the head of the store.
func settle(t testing.TB, store events.Store, m projections.ReadModel, list ...projections.Projection) {
	t.Helper()
	r := projections.NewRunner(projections.Options{Store: store, Model: m, Projections: list})
	if err := r.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := r.Rebuilt(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := r.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
}
