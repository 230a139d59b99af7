package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/events"
)

// Rows are inserted many at a time; what becomes of each append does not depend on that, nor on where in a group the
// refused ones are. The memory store, which takes one after the other, says what is right.
func TestAConflictAnywhereInALargeGroupRefusesOneAppendOnly(t *testing.T) {
	ctx := context.Background()
	const n = 75
	for _, at := range []int{0, 1, 31, 32, 40, 66, n - 1} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			store, oracle := openStore(t, filepath.Join(t.TempDir(), "events.db"), sqlite.StoreOptions{}), memory.NewStore()
			var w traffic
			known := w.batch(t, n)
			batch := w.batch(t, n)
			taken := known[0].Rows[0]
			batch[at].Rows[0].Stream, batch[at].Rows[0].Request = taken.Stream, taken.Request // begins what has begun
			again := known[1]                                                                 // as stored: found, not refused
			batch[(at+1)%n] = again
			second := batch[(at+2)%n].Rows[0] // goes on where its neighbour in the group begins
			second.Version, second.Terminal = int64(len(second.Facts)), true
			batch[(at+3)%n] = events.Append{Rows: []events.Row{second}}
			batch[(at+4)%n] = batch[(at+3)%n] // the same once more

			for _, s := range []events.Store{store, oracle} {
				results, err := s.Append(ctx, known, 1)
				require.NoError(t, err)
				for _, r := range results {
					require.NoError(t, r.Err)
				}
			}
			got, err := store.Append(ctx, batch, 1)
			require.NoError(t, err)
			want, err := oracle.Append(ctx, batch, 1)
			require.NoError(t, err)
			for i := range want {
				require.Equal(t, want[i].First, got[i].First, "append %d", i)
				require.Equal(t, want[i].Err == nil, got[i].Err == nil, "append %d: %v", i, got[i].Err)
				if want[i].Err != nil {
					require.ErrorIs(t, got[i].Err, events.ErrConflict)
				}
			}
			require.ErrorIs(t, got[at].Err, events.ErrConflict)
			require.Equal(t, rowsOf(t, oracle), rowsOf(t, store))
		})
	}
}

func rowsOf(t *testing.T, s events.Store) (rows []string) {
	t.Helper()
	require.NoError(t, s.After(context.Background(), 0, func(c *events.Committed) bool {
		rows = append(rows, fmt.Sprint(c.Position, c.Stream, c.Version, c.Terminal, c.Types, c.Hash))
		return true
	}))
	return rows
}
