package postgres_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/adapters/postgres"
	"github.com/penstock/penstock/adapters/postgres/pgtest"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/lawtest"
	"github.com/penstock/penstock/projections/requestlog"
	"github.com/penstock/penstock/projections/stats"
)

func TestReadModelKeepsTheLawsOfProjections(t *testing.T) {
	addresses := map[projections.ReadModel]string{}
	shadows := readDatabase(t)
	lawtest.Run(t, lawtest.Subject{
		Projections: everyProjection,
		Store:       memoryStore,
		Model: func(t testing.TB) projections.ReadModel {
			dsn := readDatabase(t)
			m := openRead(t, dsn, everyProjection...)
			addresses[m] = dsn
			return m
		},
		Shadow: func() (projections.ReadModel, error) {
			return postgres.OpenShadow(context.Background(), shadows, everyProjection...)
		},
		Reopen: func(t testing.TB, m projections.ReadModel) projections.ReadModel {
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			again := openRead(t, addresses[m], everyProjection...)
			addresses[again] = addresses[m]
			return again
		},
		Seeds: 2,
	})
	left := lines(t, auditor(t, shadows), `SELECT nspname::text FROM pg_namespace WHERE nspname ~ 'shadow'`)
	if len(left) != 0 {
		t.Errorf("shadows that were closed are still there: %v", left)
	}
}

func TestReadModelAnswersAsTheOneInMemory(t *testing.T) {
	lawtest.Differential(t, everyProjection, memoryStore,
		func(t testing.TB) lawtest.Readers { return openRead(t, readDatabase(t), everyProjection...) },
		func(testing.TB) lawtest.Readers { return memory.NewReadModel(everyProjection...) })
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
	store, dsn := filled(t, 30), readDatabase(t)
	m := openRead(t, dsn, everyProjection...)
	settle(t, store, m, everyProjection...)
	later := []projections.Projection{renamed{}, billing.Projection{}, stats.Projection{}}
	m = openRead(t, dsn, later...)
	settle(t, store, m, later...)
	if list, _ := lawtest.Dump(t, m, renamed{}); len(list) != 30 {
		t.Errorf("%d rows of the new version, want 30", len(list))
	}
	if list, _ := lawtest.Dump(t, m, billing.Projection{}); len(list) == 0 {
		t.Error("the rebuild of one projection has emptied another")
	}
}

func TestATableThatSomebodyBuiltAViewOnIsNotDroppedAndTheErrorNamesTheView(t *testing.T) {
	dsn := readDatabase(t)
	m, a := openRead(t, dsn, everyProjection...), auditor(t, dsn)
	do(t, a, `CREATE VIEW public.spending AS SELECT key, sum(cost) FROM read.requests GROUP BY key`)
	err := m.Reset(context.Background(), requestlog.Projection{})
	if err == nil || !strings.Contains(err.Error(), "view public.spending") {
		t.Errorf("%v, want an error that names the view", err)
	}
	do(t, a, `DROP VIEW public.spending`)
	if err := m.Reset(context.Background(), requestlog.Projection{}); err != nil {
		t.Errorf("after the view was dropped: %v", err)
	}
}

func TestOfTwoWritersOfOneReadModelTheSlowerOneIsRefused(t *testing.T) {
	dsn := readDatabase(t)
	step := []projections.Step{{Projection: "stats", Version: stats.Projection{}.Version(), To: 5}}
	fates := make(chan error)
	for i := range 2 {
		m := openRead(t, dsn, everyProjection...)
		var changes projections.Changes
		hour(&changes, "x", 1)
		step := slices.Clone(step)
		step[0].To += events.Position(i)
		go func() { fates <- m.Commit(context.Background(), &changes, step) }()
	}
	one, other := <-fates, <-fates
	if one != nil {
		one, other = other, one
	}
	if one != nil || !errors.Is(other, projections.ErrCheckpoint) {
		t.Errorf("%v and %v, want none and ErrCheckpoint", one, other)
	}
	if rows, _ := lawtest.Dump(t, openRead(t, dsn, everyProjection...), stats.Projection{}); len(rows) != 1 || !strings.Contains(rows[0], " 1 1 ") {
		t.Errorf("%v, want one row that was added to once", rows)
	}
}

func TestACommitThatWasInterruptedChangesNothingAndTheNextOneGoesThrough(t *testing.T) {
	m := openRead(t, readDatabase(t), everyProjection...)
	var changes projections.Changes
	hour(&changes, "x", 1)
	step := []projections.Step{{Projection: "stats", Version: stats.Projection{}.Version(), To: 5}}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := m.Commit(ended, &changes, step); err == nil {
		t.Error("a commit went through although its context had ended")
	}
	if list, at := lawtest.Dump(t, m, stats.Projection{}); len(list) != 0 || at != 0 {
		t.Errorf("%v at %d", list, at)
	}
	if err := m.Commit(context.Background(), &changes, step); err != nil {
		t.Fatal(err)
	}
	if list, at := lawtest.Dump(t, m, stats.Projection{}); len(list) != 1 || at != 5 {
		t.Errorf("%v at %d", list, at)
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
	if _, err := m.Snapshot(context.Background()); err == nil {
		t.Error("a closed read model gave a snapshot")
	}
}

// A commit that has to go in several statements takes effect whole.
func TestMoreRowsThanOneStatementTakesAreWrittenAsOne(t *testing.T) {
	m := openRead(t, readDatabase(t), everyProjection...)
	var changes projections.Changes
	const n = 9000
	for i := range int64(n) {
		hour(&changes, "x", i)
	}
	step := []projections.Step{{Projection: "stats", Version: stats.Projection{}.Version(), To: 5}}
	for range 2 {
		if err := m.Commit(context.Background(), &changes, step); err != nil {
			t.Fatal(err)
		}
	}
	list, _ := lawtest.Dump(t, m, stats.Projection{})
	if len(list) != n || !strings.Contains(list[n-1], " 8999 8999 8999") {
		t.Errorf("%d rows, the last one %s", len(list), list[len(list)-1])
	}
}

func TestReadModelRefusesADatabaseThatIsNotInUTF8(t *testing.T) {
	server := pgtest.Shared(t)
	server.Exec(t, `CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0`)
	defer server.Exec(t, `DROP DATABASE latin`)
	dsn := strings.Replace(server.DSN(), "/postgres?", "/latin?", 1)
	if _, err := postgres.OpenReadModel(context.Background(), dsn); err == nil || !strings.Contains(err.Error(), "UTF8") {
		t.Errorf("%v, want an error about UTF8", err)
	}
}

func TestABadAddressIsRefusedWithoutItsPassword(t *testing.T) {
	_, err := postgres.OpenReadModel(context.Background(), "postgres://u:geheim@h:port/x")
	if err == nil || strings.Contains(err.Error(), "geheim") {
		t.Errorf("%v", err)
	}
}
