package sqlite_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/adapters/sqlite/faultfs"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/events/storetest"
)

func TestStoresAreMovedIntoSQLiteAndOut(t *testing.T) {
	t.Cleanup(sqlite.Small())
	storetest.Move(t, storetest.Kinds{
		"memory": func(*testing.T) storetest.Movable { return memory.NewStore() },
		"sqlite": func(t *testing.T) storetest.Movable {
			return openStore(t, filepath.Join(t.TempDir(), "events.db"), sqlite.StoreOptions{})
		},
	})
}

// A restore is larger than what the cache holds, so that most of it is in the log before the end. A disk that is full or fails at any
// moment leaves an empty store, also to those who look meanwhile.
func TestAFullDiskLeavesAStoreThatWasBeingFilledEmpty(t *testing.T) {
	file := large(t)
	for name, fault := range map[string]struct {
		op    faultfs.Op
		after int
		err   error
	}{
		"full in between":  {faultfs.Write, 10, sqlite3.FULL},
		"broken at commit": {faultfs.Sync, 0, sqlite3.IOERR_FSYNC},
	} {
		t.Run(name, func(t *testing.T) {
			fs, vfs := faulty(t)
			path := filepath.Join(t.TempDir(), "events.db")
			s := openStore(t, path, sqlite.StoreOptions{VFS: vfs})
			empty := func(s *sqlite.Store) {
				b, err := s.Belongings(context.Background())
				require.NoError(t, err)
				require.Equal(t, &events.Belongings{}, b)
				require.Zero(t, head(t, s))
			}
			fill := func(look func()) error {
				f, err := events.ReadBackup(bytes.NewReader(file))
				require.NoError(t, err)
				n := 0
				_, err = events.Restore(context.Background(), s, f, nil, func(events.Position) {
					if n++; n == 190 {
						look()
					}
				})
				return err
			}
			fs.Fail(fault.op, fault.after, fault.err)
			err := fill(func() {})
			require.ErrorIs(t, err, events.ErrUnavailable)
			require.ErrorIs(t, err, fault.err)
			fs.Heal()
			empty(s)
			empty(openStore(t, path, sqlite.StoreOptions{}))
			beside := openStore(t, path, sqlite.StoreOptions{})
			require.NoError(t, fill(func() { empty(beside) }))
			var again bytes.Buffer
			_, err = events.Backup(context.Background(), beside, events.BackupOptions{}, &again)
			require.NoError(t, err)
			require.True(t, bytes.Equal(file, again.Bytes()))
		})
	}
}

// large is a backup of 20 MB.
func large(t *testing.T) []byte {
	s := memory.NewStore()
	for i := range 200 {
		r := events.Row{Stream: fmt.Sprintf("request/%d", i), At: time.UnixMicro(1_772_000_000_000_000).UTC(), Facts: []events.Fact{
			&request.Resumed{Upstream: strings.Repeat("u", 100_000)},
		}}
		require.NoError(t, events.Encode(&r))
		_, err := s.Append(context.Background(), one(r), 1)
		require.NoError(t, err)
	}
	var file bytes.Buffer
	_, err := events.Backup(context.Background(), s, events.BackupOptions{}, &file)
	require.NoError(t, err)
	return file.Bytes()
}
