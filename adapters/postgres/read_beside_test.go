package postgres_test

import (
	"context"
	"slices"
	"testing"

	"github.com/penstock/penstock/adapters/postgres"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/lawtest"
	"github.com/penstock/penstock/projections/requestlog"
	"github.com/penstock/penstock/projections/stats"
)

const besideSchemas = `SELECT nspname::text FROM pg_namespace WHERE nspname LIKE 'read\_rebuild\_%' OR nspname LIKE '%incoming%' ORDER BY 1`

func TestARebuildThatIsKilledIsGoneOnWith(t *testing.T) {
	lawtest.Killed(t, readDatabase, everyProjection, func(t testing.TB, dsn string, list ...projections.Projection) (lawtest.Data, func()) {
		store, err := openShared(dsn)
		if err != nil {
			t.Fatal(err)
		}
		m := openRead(t, dsn, list...)
		return lawtest.Data{Store: store, Model: m}, func() {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
			if err := store.(*postgres.Store).Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestShadowsThatNobodyWouldGoOnWithAreRemovedWhenTheReadModelOpens(t *testing.T) {
	ctx := context.Background()
	dsn := readDatabase(t)
	a := auditor(t, dsn)
	do(t, a, `CREATE SCHEMA read_rebuild_else_v1`) // somebody else's: it has not our comment
	foreign := lines(t, a, besideSchemas)
	m := openRead(t, dsn, everyProjection...)
	open, err := m.Beside(ctx, requestlog.Projection{})
	if err != nil {
		t.Fatal(err)
	}
	shadow, err := m.Beside(ctx, billing.Projection{})
	if err != nil {
		t.Fatal(err)
	}
	if err := shadow.Close(); err != nil {
		t.Fatal(err)
	}
	if have := lines(t, a, besideSchemas); len(have) != 3 {
		t.Errorf("%q: want two shadows", have)
	}
	openRead(t, dsn, everyProjection...)
	if have := lines(t, a, besideSchemas); len(have) != 3 {
		t.Errorf("%q: want both, which may be gone on with", have)
	}
	openRead(t, dsn, stats.Projection{})
	if have := lines(t, a, besideSchemas); len(have) != 2 || !slices.Contains(have, foreign[0]) {
		t.Errorf("%q: want the one that is open, and %q", have, foreign)
	}
	if err := open.Discard(); err != nil {
		t.Fatal(err)
	}
	if have := lines(t, a, besideSchemas); !slices.Equal(have, foreign) {
		t.Errorf("%q: want %q", have, foreign)
	}
}

// Tables of another version give way when the new ones are complete, with all their indexes under their own names.
func TestNewTablesTakeThePlaceOfThoseOfAnotherVersionWithTheirIndexes(t *testing.T) {
	store, dsn := filled(t, 30), readDatabase(t)
	settle(t, store, openRead(t, dsn, everyProjection...), everyProjection...)
	a := auditor(t, dsn)
	const indexes = `SELECT indexname || ' ' || tablename FROM pg_indexes WHERE schemaname = 'read' ORDER BY 1`
	before := lines(t, a, indexes)
	later := []projections.Projection{again{}, billing.Projection{}, stats.Projection{}}
	m := openRead(t, dsn, later...)
	settle(t, store, m, later...)
	if after := lines(t, a, indexes); !slices.Equal(before, after) {
		t.Errorf("indexes\n%q\nwere\n%q", after, before)
	}
	if have := lines(t, a, besideSchemas); len(have) > 0 {
		t.Errorf("left are %q", have)
	}
}

// again is the request log of a later version with the same tables.
type again struct{ requestlog.Projection }

func (a again) Version() int { return a.Projection.Version() + 1 }
