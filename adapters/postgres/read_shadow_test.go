package postgres_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/lawtest"
	"github.com/penstock/penstock/projections/requestlog"
)

const shadowSchemas = `SELECT nspname::text FROM pg_namespace WHERE nspname LIKE 'read\_shadow\_%'`

func TestShadowsOfDeadProgramsAreRemovedAndThoseOfLivingOnesAreNot(t *testing.T) {
	dsn := readDatabase(t)
	a := auditor(t, dsn)
	do(t, a, `CREATE SCHEMA read_shadow_0123456789abcdef`) // somebody else's: it has not our comment
	foreign := lines(t, a, shadowSchemas)
	dead := openShadow(t, dsn, everyProjection...)
	orphan := lines(t, a, shadowSchemas)
	do(t, a, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()`)
	for len(lines(t, a, `SELECT pid::text FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)) > 0 {
		continue // until the server has ended them
	}
	living := openShadow(t, dsn, everyProjection...)
	openRead(t, dsn, everyProjection...)
	left := lines(t, a, shadowSchemas)
	if len(orphan) != 2 || len(left) != 2 || !slices.Contains(left, foreign[0]) || slices.Equal(left, orphan) {
		t.Errorf("left are %v, of %v, want %v and the living one", left, orphan, foreign)
	}
	settle(t, filled(t, 10), living, everyProjection...)
	for _, m := range []projections.ReadModel{living, dead} {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	if left := lines(t, a, shadowSchemas); !slices.Equal(left, foreign) {
		t.Errorf("left after closing are %v", left)
	}
}

func TestSnapshotDoesNotSeeLaterCommits(t *testing.T) {
	store := filled(t, 20)
	m := openRead(t, readDatabase(t), everyProjection...)
	s, err := m.Snapshot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	settle(t, store, m, everyProjection...)
	at, err := s.Checkpoint("requestlog")
	if err != nil || at.Position != 0 {
		t.Errorf("checkpoint %+v, %v, want one at 0", at, err)
	}
	scan, err := s.Scan(context.Background(), requestlog.Requests)
	if err != nil {
		t.Fatal(err)
	}
	if row, more := scan.Next(); more {
		t.Errorf("the snapshot of an empty model shows %v", row)
	}
	if err := scan.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestTwoScansOfOneSnapshotMayBeReadInTurns(t *testing.T) {
	m := openRead(t, readDatabase(t), everyProjection...)
	settle(t, filled(t, 1500), m, everyProjection...) // several pages
	s, err := m.Snapshot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	a, err := s.Scan(context.Background(), requestlog.Requests)
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Scan(context.Background(), requestlog.Requests)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for {
		x, more := a.Next()
		y, also := b.Next()
		if more != also || more && !slices.Equal(x, y) {
			t.Fatalf("row %d: %v (%v) and %v (%v)", n, x, more, y, also)
		}
		if !more {
			break
		}
		n++
	}
	if n != 1500 || a.Err() != nil || b.Err() != nil {
		t.Errorf("%d rows, %v, %v", n, a.Err(), b.Err())
	}
}

// Whoever reads while rows are replaced sees all old ones or all new ones and waits for nothing, a snapshot goes on
// seeing the old ones, and what an operator has built on the tables stays.
func TestReplacedRowsAreSeenWhole(t *testing.T) {
	ctx := context.Background()
	dsn := readDatabase(t)
	small, large := filled(t, 100), filled(t, 400)
	m, a := openRead(t, dsn, everyProjection...), auditor(t, dsn)
	settle(t, small, m, everyProjection...)
	do(t, a, `CREATE VIEW public.spending AS SELECT sum(cost) FROM read.bill_entries`)
	fresh := memory.NewReadModel(everyProjection...)
	settle(t, large, fresh, everyProjection...)
	old, err := m.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	before, err := m.Bill(ctx, billing.Query{})
	if err != nil {
		t.Fatal(err)
	}
	after, err := fresh.Bill(ctx, billing.Query{})
	if err != nil {
		t.Fatal(err)
	}

	stop, readers := make(chan struct{}), sync.WaitGroup{}
	for range 2 {
		readers.Go(func() {
			for {
				bill, err := m.Bill(ctx, billing.Query{})
				if err != nil || bill[0] != before[0] && bill[0] != after[0] {
					t.Errorf("%+v, %v, want %+v or %+v", bill, err, before, after)
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	with, err := fresh.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	at, err := with.Checkpoint("billing")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Replace(ctx, billing.Projection{}, with, at); err != nil {
		t.Fatal(err)
	}
	close(stop)
	readers.Wait()
	have, have2 := lawtest.Dump(t, m, billing.Projection{})
	want, want2 := lawtest.Dump(t, fresh, billing.Projection{})
	if !slices.Equal(have, want) || have2 != want2 {
		t.Errorf("%d rows at %d, want %d at %d", len(have), have2, len(want), want2)
	}
	if n := length(t, old, billing.Entries); n >= length(t, with, billing.Entries) || n == 0 {
		t.Errorf("the snapshot from before has %d entries", n)
	}
	if sum := lines(t, a, `SELECT sum::text FROM public.spending`); sum[0] == "" || len(sum) != 1 {
		t.Errorf("the operator's view says %v", sum)
	}
	if left := lines(t, a, `SELECT relname::text FROM pg_class WHERE relname LIKE 'incoming%'`); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func length(t testing.TB, s projections.Snapshot, table *projections.Table) (n int) {
	t.Helper()
	scan, err := s.Scan(context.Background(), table)
	if err != nil {
		t.Fatal(err)
	}
	for _, more := scan.Next(); more; _, more = scan.Next() {
		n++
	}
	if err := scan.Err(); err != nil {
		t.Fatal(err)
	}
	if err := scan.Close(); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestVerifyFindsRowsThatWereChangedByHandAndRebuildMendsThem(t *testing.T) {
	ctx := context.Background()
	dsn := readDatabase(t)
	store := filled(t, 60)
	m, a := openRead(t, dsn, everyProjection...), auditor(t, dsn)
	settle(t, store, m, everyProjection...)
	shadow := func() (projections.ReadModel, error) { return openShadow(t, dsn, everyProjection...), nil }
	verify := func() projections.Report {
		report, err := projections.Verify(ctx, store, m, billing.Projection{}, shadow)
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	do(t, a, `UPDATE read.bill_entries SET cost = cost + 0.0000000001 WHERE position = (SELECT min(position) FROM read.bill_entries)`)
	do(t, a, `DELETE FROM read.bill_entries WHERE position = (SELECT max(position) FROM read.bill_entries)`)
	if r := verify(); r.Equal || r.DifferingRows != 2 {
		t.Errorf("%+v, want two differing rows", r)
	}
	if _, err := projections.Rebuild(ctx, store, m, billing.Projection{}, shadow); err != nil {
		t.Fatal(err)
	}
	if r := verify(); !r.Equal {
		t.Errorf("after the rebuild: %+v", r)
	}
	var untouched events.Position
	if _, untouched = lawtest.Dump(t, m, requestlog.Projection{}); untouched == 0 {
		t.Error("another projection has lost its checkpoint")
	}
}

// The name of a table that is made anew would lead an open snapshot to an empty table.
func TestATableIsMadeAnewOnlyAfterTheSnapshotsThatSeeIt(t *testing.T) {
	ctx := context.Background()
	dsn := readDatabase(t)
	m, a := openRead(t, dsn, everyProjection...), auditor(t, dsn)
	settle(t, filled(t, 40), m, everyProjection...)
	s, err := m.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	fate := make(chan error, 1)
	go func() { fate <- m.Reset(ctx, requestlog.Projection{}) }()
	for len(lines(t, a, `SELECT pid::text FROM pg_locks WHERE NOT granted AND relation IN ('read.requests'::regclass, 'read.request_spans'::regclass)`)) == 0 {
		select {
		case err := <-fate:
			t.Fatalf("the table was made anew under a snapshot (%v)", err)
		default:
		}
	}
	if n := length(t, s, requestlog.Requests); n != 40 {
		t.Errorf("the snapshot sees %d rows, want 40", n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-fate; err != nil {
		t.Fatal(err)
	}
	if list, at := lawtest.Dump(t, m, requestlog.Projection{}); len(list) != 0 || at != 0 {
		t.Errorf("after the reset %d rows at %d", len(list), at)
	}
}
