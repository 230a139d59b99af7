package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/requestlog"
)

// untended are the tables of which the server does not know how many rows they have, or whether all may see them.
const untended = `SELECT relname || ': ' || reltuples || ' rows known, ' || relallvisible || ' of ' || relpages || ' pages visible'
	FROM pg_class WHERE relnamespace = 'read'::regnamespace AND relname = ANY ($1)
	AND (reltuples <= 0 OR relallvisible < pg_relation_size(oid) / current_setting('block_size')::int) ORDER BY 1`

var tendedTables = []string{"requests", "bill_entries"}

// Whichever way the rows of a rebuild have come, the server does not have to find out about them first.
func TestRowsThatHaveTakenThePlaceOfOthersAreVacuumedAndAnalyzed(t *testing.T) {
	store, dsn := filled(t, 300), readDatabase(t)
	settle(t, store, openRead(t, dsn, everyProjection...), everyProjection...)
	a := auditor(t, dsn)
	for _, name := range tendedTables {
		do(t, a, `ALTER TABLE read.`+name+` SET (autovacuum_enabled = off)`)
	}
	if have := lines(t, a, untended, tendedTables); len(have) != 2 {
		t.Fatalf("%q: nothing to see", have)
	}
	// A view that some other session has just then, even one that only begins, keeps pages from being known as visible to all:
	// what is not so once may be so the next time.
	tended := func(how string, rebuild func()) {
		t.Helper()
		var have []string
		for range 10 {
			rebuild()
			if have = lines(t, a, untended, tendedTables); len(have) == 0 {
				return
			}
		}
		t.Errorf("%s: %q", how, have)
	}
	spoil := func() {
		do(t, a, `UPDATE read.requests SET status = 777`)
		do(t, a, `DELETE FROM read.bill_entries`)
	}

	r := projections.NewRunner(projections.Options{Store: store, Model: openRead(t, dsn, everyProjection...), Projections: everyProjection})
	if err := r.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	tended("rows replaced by a server that runs", func() {
		spoil()
		for _, p := range []string{"requestlog", "billing"} {
			if _, err := r.Rebuild(context.Background(), p, nil); err != nil {
				t.Fatal(err)
			}
		}
	})
	if err := r.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	tended("rows replaced by a command", func() {
		spoil()
		for _, p := range []projections.Projection{requestlog.Projection{}, billing.Projection{}} {
			if _, err := projections.Rebuild(context.Background(), store, openRead(t, dsn, everyProjection...), p, nil); err != nil {
				t.Fatal(err)
			}
		}
	})

	later := []projections.Projection{again{}, billing.Projection{}}
	settle(t, store, openRead(t, dsn, later...), later...)
	if have := lines(t, a, untended, tendedTables); len(have) > 0 {
		t.Errorf("tables of another version: %q", have)
	}
}

// The switch itself brings tables that are whole: whoever reads them before they are tended reads as quickly.
func TestTablesOfAnotherVersionAreVacuumedAndAnalyzedWhenTheyAreSwitched(t *testing.T) {
	store, dsn := filled(t, 300), readDatabase(t)
	settle(t, store, openRead(t, dsn, everyProjection...), everyProjection...)
	m := openRead(t, dsn, again{})
	with := openShadow(t, readDatabase(t), again{})
	t.Cleanup(func() { _ = with.Close() })
	settle(t, store, with, again{})
	rows, err := with.Snapshot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	at, err := rows.Checkpoint("requestlog")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Replace(context.Background(), again{}, rows, at); err != nil {
		t.Fatal(err)
	}
	if have := lines(t, auditor(t, dsn), untended, tendedTables[:1]); len(have) > 0 {
		t.Errorf("%q", have)
	}
}

// occupied is a read model with a table that somebody is making an index on.
func occupied(t *testing.T) (store events.Store, m projections.ReadModel, a *pgx.Conn) {
	store, dsn := filled(t, 30), readDatabase(t)
	m = openRead(t, dsn, everyProjection...)
	settle(t, store, m, everyProjection...)
	busy := auditor(t, dsn)
	do(t, busy, `BEGIN; LOCK TABLE read.requests IN SHARE UPDATE EXCLUSIVE MODE`)
	return store, m, auditor(t, dsn)
}

func TestARebuildWhoseRowsCanNotBeTendedHasSucceeded(t *testing.T) {
	store, m, _ := occupied(t)
	if _, err := projections.Rebuild(context.Background(), store, m, requestlog.Projection{}, nil); err != nil {
		t.Error(err)
	}
	var log bytes.Buffer
	r := projections.NewRunner(projections.Options{
		Store: store, Model: m, Projections: everyProjection, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err := r.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Rebuild(context.Background(), "requestlog", nil); err != nil {
		t.Error(err)
	}
	if err := r.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if said := log.String(); !strings.Contains(said, "more slowly") || !strings.Contains(said, "vacuum table requests") {
		t.Errorf("the log says %q", said)
	}
}

func TestCloseEndsTheTendingOfRows(t *testing.T) {
	var err error
	for range 5 { // it gives way by itself after two seconds: on a machine that stands still that may come first
		err = closedWhileTending(t)
		if said := new(pgconn.PgError); err != nil && !(errors.As(err, &said) && said.Code == "55P03") { // lock_not_available
			return
		}
	}
	t.Errorf("it was not ended: %v", err)
}

// closedWhileTending is what becomes of a Tend that waits for a table when its model is closed.
func closedWhileTending(t *testing.T) error {
	_, m, a := occupied(t)
	fate := make(chan error, 1)
	go func() { fate <- m.(projections.Tended).Tend(context.Background(), requestlog.Projection{}) }()
	const vacuums = `SELECT wait_event_type FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'penstock vacuum'`
	for !slices.Contains(lines(t, a, vacuums+` AND wait_event_type IS NOT NULL`), "Lock") {
		select {
		case err := <-fate:
			return err
		default:
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	return <-fate
}
