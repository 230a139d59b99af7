package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/events"
)

// The writer upholds it, without an index: what it remembers of a stream, and what it must look up, say the same.
func TestARequestEndsOnceWhateverTheWriterRemembers(t *testing.T) {
	const overflow = "too many streams to remember"
	ctx := context.Background()
	end := func(version int64) events.Row {
		r := row(t, "request/a", version)
		r.Terminal = true
		return r
	}
	for _, corrected := range []bool{false, true} { // a late correction is no end, and leaves the request ended
		for what, forget := range map[string]func(t *testing.T, path string, s *sqlite.Store) *sqlite.Store{
			"nothing": func(_ *testing.T, _ string, s *sqlite.Store) *sqlite.Store { return s },
			"a restart": func(t *testing.T, path string, s *sqlite.Store) *sqlite.Store {
				require.NoError(t, s.Close())
				return openStore(t, path, sqlite.StoreOptions{})
			},
			"another writer on the file": func(t *testing.T, path string, _ *sqlite.Store) *sqlite.Store {
				return openStore(t, path, sqlite.StoreOptions{})
			},
			overflow: func(t *testing.T, _ string, s *sqlite.Store) *sqlite.Store {
				for i := range 3 {
					batch := make([]events.Append, 12_000)
					for j := range batch {
						batch[j] = one(row(t, fmt.Sprintf("request/%d-%d", i, j), 0))[0]
					}
					_, err := s.Append(ctx, batch, 0)
					require.NoError(t, err)
				}
				return s
			},
			"a refused append": func(t *testing.T, _ string, s *sqlite.Store) *sqlite.Store {
				r, err := s.Append(ctx, one(row(t, "request/a", 99)), 0)
				require.NoError(t, err)
				require.ErrorIs(t, r[0].Err, events.ErrConflict)
				return s
			},
		} {
			if what == overflow && !corrected {
				continue // slow, and the other says more
			}
			t.Run(fmt.Sprintf("%s, corrected %v", what, corrected), func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(t.TempDir(), "events.db")
				s := openStore(t, path, sqlite.StoreOptions{})
				stored := func(s *sqlite.Store, r events.Row) error {
					results, err := s.Append(ctx, one(r), 0)
					require.NoError(t, err)
					return results[0].Err
				}
				require.NoError(t, stored(s, row(t, "request/a", 0)))
				s = forget(t, path, s)
				require.NoError(t, stored(s, row(t, "request/a", 1)))
				require.NoError(t, stored(s, end(2)))
				next := int64(3)
				if corrected {
					require.NoError(t, stored(s, row(t, "request/a", next)))
					next++
				}
				s = forget(t, path, s)
				before := head(t, s)
				require.ErrorIs(t, stored(s, end(next)), events.ErrConflict)
				require.ErrorIs(t, stored(s, end(events.AnyVersion)), events.ErrConflict)
				results, err := s.Append(ctx, []events.Append{
					one(row(t, "request/a", next))[0], one(end(next + 1))[0], one(row(t, "request/a", next+1))[0],
				}, 0)
				require.NoError(t, err)
				require.NoError(t, results[0].Err)
				require.ErrorIs(t, results[1].Err, events.ErrConflict, "behind a correction in the same batch")
				require.NoError(t, results[2].Err)
				require.NoError(t, stored(s, end(2)), "the end that is stored is found")
				require.Equal(t, before+2, head(t, s))
			})
		}
	}
}
