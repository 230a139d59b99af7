package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/adapters/postgres"
	"github.com/penstock/penstock/adapters/postgres/pgtest"
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

func readDatabase(t testing.TB) string {
	t.Helper()
	return pgtest.Shared(t).NewDatabase(t)
}

func openRead(t testing.TB, dsn string, list ...projections.Projection) *postgres.ReadModel {
	t.Helper()
	m, err := postgres.OpenReadModel(context.Background(), dsn, list...)
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

func openShadow(t testing.TB, dsn string, list ...projections.Projection) *postgres.ReadModel {
	t.Helper()
	m, err := postgres.OpenShadow(context.Background(), dsn, list...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// auditor is somebody else's connection.
func auditor(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// lines are the rows of a query, each as one text.
func lines(t testing.TB, c *pgx.Conn, query string, args ...any) []string {
	t.Helper()
	found, err := c.Query(context.Background(), query, args...)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return list
}

func do(t testing.TB, c *pgx.Conn, statement string) {
	t.Helper()
	if _, err := c.Exec(context.Background(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
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

// hour is a change that adds one request to an hour of the statistics.
func hour(changes *projections.Changes, name string, n int64) {
	row := make([]projections.Value, len(stats.Hours.Columns))
	for i, c := range stats.Hours.Columns {
		if row[i] = projections.Text(name); c.Number() {
			row[i] = projections.Int(n)
		}
	}
	changes.Add(stats.Hours, row...)
}
