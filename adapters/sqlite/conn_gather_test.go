package sqlite

import (
	"context"
	"io"
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cockroachdb/errors"
	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/sqlite/faultfs"
)

// slab is a file in memory that counts what it is asked to do.
type slab struct {
	vfs.File
	bytes         []byte
	writes, syncs int
	fault         error
}

func (s *slab) WriteAt(p []byte, off int64) (int, error) {
	s.writes++
	if s.fault != nil {
		return 0, s.fault
	}
	if end := int(off) + len(p); end > len(s.bytes) {
		s.bytes = append(s.bytes, make([]byte, end-len(s.bytes))...)
	}
	return copy(s.bytes[off:], p), nil
}

func (s *slab) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(len(s.bytes)) {
		return 0, io.EOF
	}
	return copy(p, s.bytes[off:]), nil
}

func (s *slab) Sync(vfs.SyncFlag) error       { s.syncs++; return nil }
func (s *slab) Size() (int64, error)          { return int64(len(s.bytes)), nil }
func (s *slab) Truncate(size int64) error     { s.bytes = s.bytes[:size]; return nil }
func (s *slab) Unlock(vfs.LockLevel) error    { return nil }
func (s *slab) Close() error                  { return nil }
func (f *gatherFile) put(text string, at int) { _, _ = f.WriteAt([]byte(text), int64(at)) }

func TestWritesBehindEachOtherReachTheFileAsOneAndBeforeTheSync(t *testing.T) {
	s := &slab{}
	f := &gatherFile{File: s}
	f.put("ab", 0)
	f.put("cd", 2)
	require.Zero(t, s.writes)
	require.NoError(t, f.Sync(0))
	require.Equal(t, "abcd", string(s.bytes))
	require.Equal(t, 1, s.writes)
	require.Equal(t, 1, s.syncs)
	f.put("x", 1) // not behind it
	f.put("y", 3)
	require.NoError(t, f.Sync(0))
	require.Equal(t, "axcy", string(s.bytes))
	large := make([]byte, gatherMax)
	f.put(string(large), 4)
	f.put("z", 4+gatherMax)
	require.Len(t, s.bytes, 4+gatherMax, "more than fits is written")
}

func TestNobodyCanTellThatWritesAreHeldBack(t *testing.T) {
	for what, look := range map[string]func(f *gatherFile, s *slab) error{
		"read": func(f *gatherFile, _ *slab) error {
			p := make([]byte, 2)
			n, err := f.ReadAt(p, 1)
			if string(p[:n]) != "bc" {
				return errors.Newf("read %q", p[:n])
			}
			return err
		},
		"size": func(f *gatherFile, _ *slab) error {
			n, err := f.Size()
			if n != 3 {
				return errors.Newf("size %d", n)
			}
			return err
		},
		"truncate": func(f *gatherFile, _ *slab) error { return f.Truncate(3) },
		"unlock":   func(f *gatherFile, _ *slab) error { return f.Unlock(vfs.LOCK_NONE) },
	} {
		t.Run(what, func(t *testing.T) {
			s := &slab{}
			f := &gatherFile{File: s}
			f.put("abc", 0)
			require.NoError(t, look(f, s))
			require.Equal(t, "abc", string(s.bytes))
		})
	}
}

func TestAWriteThatFailsLaterIsReportedAndForgotten(t *testing.T) {
	s := &slab{fault: sqlite3.FULL}
	f := &gatherFile{File: s}
	f.put("abc", 0)
	require.ErrorIs(t, f.Sync(0), sqlite3.FULL)
	require.Zero(t, s.syncs, "what is not written is not synced")
	s.fault = nil
	require.NoError(t, f.Sync(0))
	require.Empty(t, s.bytes)
}

// What the operating system says of a full disk is said as such: a disk I/O error sends an operator after a broken one.
func TestAFullDiskIsCalledFull(t *testing.T) {
	disk := faultfs.Register("gather-full-test")
	w, err := openConn(filepath.Join(t.TempDir(), "x.db"), connOptions{VFS: "gather-full-test"})
	require.NoError(t, err)
	defer w.close()
	require.NoError(t, w.Exec(`CREATE TABLE a (n INTEGER PRIMARY KEY, x)`))
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
		disk.Fail(faultfs.Write, 0, &fs.PathError{Op: "write", Path: "x.db-wal", Err: errno})
		err = w.write(func() error { return w.Exec(`INSERT INTO a (x) VALUES (1)`) })
		require.ErrorIs(t, err, sqlite3.FULL)
		require.ErrorContains(t, err, "full")
		disk.Heal()
	}
	disk.Fail(faultfs.Write, 0, &fs.PathError{Op: "write", Path: "x.db-wal", Err: syscall.EIO})
	require.ErrorIs(t, w.write(func() error { return w.Exec(`INSERT INTO a (x) VALUES (1)`) }), sqlite3.IOERR)
	disk.Heal()
	require.NoError(t, w.write(func() error { return w.Exec(`INSERT INTO a (x) VALUES (1)`) }))
}

// Another connection must see a commit as soon as it is made, and what a checkpoint has moved.
func TestCommitsAndCheckpointsAreSeenByOtherConnections(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	w, err := openConn(path, connOptions{CacheKiB: 64}) // so small that pages are written before the commit and read back
	require.NoError(t, err)
	defer w.close()
	require.NoError(t, w.Exec(`CREATE TABLE a (n INTEGER PRIMARY KEY, x)`))
	r, err := openConn(path, connOptions{QueryOnly: true})
	require.NoError(t, err)
	defer r.close()
	for i := range int64(30) {
		require.NoError(t, w.write(func() error {
			return w.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)
				INSERT INTO a (x) SELECT hex(randomblob(200)) FROM n; UPDATE a SET x = x || n WHERE n % 7 = 0`)
		}))
		n, err := r.integer(`SELECT count(*) FROM a`)
		require.NoError(t, err)
		require.Equal(t, 400*(i+1), n)
		if i%3 == 0 {
			_, _, err := w.WALCheckpoint("main", sqlite3.CHECKPOINT_RESTART)
			require.NoError(t, err)
		}
	}
	ok, err := r.text(`PRAGMA integrity_check`)
	require.NoError(t, err)
	require.Equal(t, "ok", ok)
}

// What a transaction had written when it was taken back must never come over what others have committed in its place.
func TestWhatIsTakenBackIsNotWrittenOverTheCommitsOfOthers(t *testing.T) {
	insert := func(c *conn, who string) error {
		return c.Exec(`INSERT INTO a (x) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)
			SELECT '` + who + `' || hex(randomblob(200)) FROM n`)
	}
	for what, after := range map[string]func(a *conn) error{
		"read": func(a *conn) error { _, err := a.integer(`SELECT sum(length(x)) FROM a`); return err },
		"write": func(a *conn) error {
			return a.write(func() error { return a.Exec(`DELETE FROM a WHERE x LIKE 'a%'`) })
		},
		"close": func(a *conn) error { return a.close() },
	} {
		for name, fault := range map[string]func(ctx context.Context, cancel func()) error{
			"an error":              func(context.Context, func()) error { return errClosed },
			"an end of the context": func(_ context.Context, cancel func()) error { cancel(); return sqlite3.INTERRUPT },
		} {
			t.Run(what+" after "+name, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "x.db")
				open := func() *conn {
					c, err := openConn(path, connOptions{CacheKiB: 64}) // so small that pages are written before the commit
					require.NoError(t, err)
					return c
				}
				a, b := open(), open()
				defer b.close()
				require.NoError(t, a.Exec(`CREATE TABLE a (n INTEGER PRIMARY KEY, x)`))
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				a.SetInterrupt(ctx)
				require.Error(t, a.write(func() error {
					require.NoError(t, insert(a, "a"))
					require.NotEmpty(t, a.log().buf, "the test writes too little")
					return fault(ctx, cancel)
				}))
				a.SetInterrupt(context.Background())
				for range 3 {
					require.NoError(t, b.write(func() error { return insert(b, "b") }))
				}
				require.NoError(t, after(a))
				if what != "close" {
					require.NoError(t, a.close())
				}
				c := open()
				defer c.close()
				n, err := c.integer(`SELECT count(*) FROM a WHERE x LIKE 'b%'`)
				require.NoError(t, err)
				require.Equal(t, int64(1200), n)
				ok, err := c.text(`PRAGMA integrity_check`)
				require.NoError(t, err)
				require.Equal(t, "ok", ok)
			})
		}
	}
}
