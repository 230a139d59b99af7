// Package storetest holds what every event store must pass: Run, the promises of events.Store one by one, and
// Differential, random work compared with the memory store.
package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// Run checks every promise of events.Store. open makes a fresh, empty store and closes it when its test ends.
func Run(t *testing.T, open func(t *testing.T) events.Store) {
	for _, group := range []map[string]func(*testing.T, events.Store){appends, conflicts, retries, secrets, reads, finds, faults, chains} {
		for name, promise := range group {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				promise(t, open(t))
			})
		}
	}
	t.Run("what is forged is found", func(t *testing.T) { forge(t, open(t)) })
}

var start = time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)

// row makes an encoded row of request.resumed facts, one per number.
func row(t testing.TB, stream string, version int64, numbers ...int64) events.Row {
	t.Helper()
	r := events.Row{Stream: stream, Version: version, At: start, Node: "node-a"}
	for _, n := range numbers {
		r.Facts = append(r.Facts, &request.Resumed{Upstream: "u", WaitedUS: n})
	}
	require.NoError(t, events.Encode(&r))
	return r
}

func one(r events.Row) events.Append { return events.Append{Rows: []events.Row{r}} }

// put appends a batch that the store must take, every part of it.
func put(t testing.TB, s events.Store, batch ...events.Append) []events.Result {
	t.Helper()
	results, err := s.Append(context.Background(), batch, 0)
	require.NoError(t, err)
	require.Len(t, results, len(batch))
	for i, r := range results {
		require.NoError(t, r.Err, "append %d", i)
		require.NotZero(t, r.First, "append %d", i)
	}
	return results
}

// refused appends one append and wants a conflict.
func refused(t testing.TB, s events.Store, a events.Append) {
	t.Helper()
	results, err := s.Append(context.Background(), []events.Append{a}, 0)
	require.NoError(t, err)
	require.ErrorIs(t, results[0].Err, events.ErrConflict)
	require.Zero(t, results[0].First)
}

type committed = events.Committed

func collect(into *[]committed) func(*committed) bool {
	return func(c *committed) bool { *into = append(*into, *c); return true }
}

func all(t testing.TB, s events.Store) (rows []committed) {
	t.Helper()
	require.NoError(t, s.After(context.Background(), 0, collect(&rows)))
	return rows
}

func head(t testing.TB, s events.Store) events.Position {
	t.Helper()
	p, err := s.Head(context.Background())
	require.NoError(t, err)
	return p
}

// places are the streams and positions of rows, in short: "a@1 b@3".
func places(rows []committed) (text string) {
	for i := range rows {
		if i > 0 {
			text += " "
		}
		text += fmt.Sprintf("%s@%d", rows[i].Stream, rows[i].Position)
	}
	return text
}
