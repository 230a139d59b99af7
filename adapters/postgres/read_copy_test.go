package postgres_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/postgres"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
)

// Rows that are appended to a shadow are copied when they come behind all others; else the row that is there stays.
func TestAShadowTakesAppendedRowsInAnyOrderAndNeverTwice(t *testing.T) {
	ctx := context.Background()
	p := billing.Projection{}
	m, err := postgres.OpenShadow(ctx, readDatabase(t), p)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	at := events.Position(0)
	commit := func(request string, positions ...int64) {
		var changes projections.Changes
		for _, n := range positions {
			row := make([]projections.Value, len(billing.Entries.Columns))
			for i, c := range billing.Entries.Columns {
				if row[i] = projections.Int(0); !c.Number() {
					row[i] = projections.Text("")
				}
			}
			row[0], row[1] = projections.Int(n), projections.Text(request)
			changes.Append(billing.Entries, row...)
		}
		require.NoError(t, m.Commit(ctx, &changes, []projections.Step{{Projection: p.Name(), Version: p.Version(), From: at, To: at + 1}}))
		at++
	}
	commit("first", 10, 20)
	commit("second", 30, 25)     // behind all, out of order
	commit("third", 15, 20, 40)  // before, there already, behind
	commit("fourth", 30, 41, 10) // there already, behind
	snapshot, err := m.Snapshot(ctx)
	require.NoError(t, err)
	defer snapshot.Close()
	rows, err := snapshot.Scan(ctx, billing.Entries)
	require.NoError(t, err)
	defer rows.Close()
	got := map[int64]string{}
	for row, more := rows.Next(); more; row, more = rows.Next() {
		got[row[0].Int()] = row[1].Text()
	}
	require.NoError(t, rows.Err())
	require.Equal(t, map[int64]string{10: "first", 15: "third", 20: "first", 25: "second", 30: "second", 40: "third", 41: "fourth"}, got)
}
