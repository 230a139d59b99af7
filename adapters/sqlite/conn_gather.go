package sqlite

import (
	"sync"
	"syscall"

	"github.com/cockroachdb/errors"
	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

// gatherMax bounds the bytes that one file gathers before it writes them.
const gatherMax = 256 << 10

var registering sync.Mutex

// gathering registers a file system that hands writes on to the one named ("" is that of the operating system) in
// larger pieces, and returns its name. SQLite writes a commit to its log as two small pieces per page, one behind the
// other; a system call for each is a good part of what a commit costs.
//
// Nobody else may see a page before its writer has synced: it is for connections with synchronous=FULL only, where
// SQLite syncs the log before it shows a commit to others. It is not for the database file: a checkpoint that does not
// reach the end of the log says that pages are there without a sync, and others then read the old ones.
func gathering(base string) string {
	name := "gathering-" + orElse(base, "os")
	registering.Lock()
	defer registering.Unlock()
	if vfs.Find(name) == nil {
		vfs.Register(name, gatherFS{base})
	}
	return name
}

// gatherFS is the file system; base is the name of the one below.
type gatherFS struct{ base string }

var _ vfs.VFSFilename = gatherFS{}

func (f gatherFS) Open(name string, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	return vfs.Find(f.base).Open(name, flags)
}

func (f gatherFS) Delete(name string, syncDir bool) error {
	return vfs.Find(f.base).Delete(name, syncDir)
}

func (f gatherFS) Access(name string, flags vfs.AccessFlag) (bool, error) {
	return vfs.Find(f.base).Access(name, flags)
}

func (f gatherFS) FullPathname(name string) (string, error) {
	return vfs.Find(f.base).FullPathname(name)
}

// OpenFilename gathers the writes to the log only.
func (f gatherFS) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (file vfs.File, _ vfs.OpenFlag, err error) {
	if base, ok := vfs.Find(f.base).(vfs.VFSFilename); ok {
		file, flags, err = base.OpenFilename(name, flags)
	} else {
		file, flags, err = vfs.Find(f.base).Open(name.String(), flags)
	}
	if err != nil || flags&vfs.OPEN_WAL == 0 {
		return file, flags, err
	}
	return &gatherFile{File: file}, flags, nil
}

// gatherFile holds back the bytes of buf, which belong at the offset at. Whatever could tell that they are not in the
// file writes them first. Bytes whose write has failed are dropped: SQLite takes the transaction back. It is a log: locks and
// shared memory are asked of the database file.
//
// So it does not hear of it when a transaction ends that had more pages than the cache holds: whoever takes one back says so (drop).
// What was held back of it would be written over what others have committed to the same place since.
type gatherFile struct {
	vfs.File
	buf []byte
	at  int64
}

func (f *gatherFile) flush() error {
	if len(f.buf) == 0 {
		return nil
	}
	_, err := f.File.WriteAt(f.buf, f.at)
	f.buf = f.buf[:0]
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) { // SQLite would only speak of a disk I/O error
		err = vfs.SystemError(err, sqlite3.FULL)
	}
	return err
}

// drop forgets what is held back.
func (f *gatherFile) drop() { f.buf = f.buf[:0] }

// log is the connection's write-ahead log, nil where it gathers nothing, or is not open yet.
func (c *conn) log() *gatherFile {
	file, err := c.FileControl("main", sqlite3.FCNTL_JOURNAL_POINTER)
	if err != nil {
		return nil // there is no file
	}
	f, _ := file.(*gatherFile)
	return f
}

// drop forgets what the log holds back of a transaction that was taken back.
func (c *conn) drop() {
	if f := c.log(); f != nil {
		f.drop()
	}
}

func (f *gatherFile) end() int64 { return f.at + int64(len(f.buf)) }

// WriteAt gathers what follows on what is held back.
func (f *gatherFile) WriteAt(p []byte, off int64) (int, error) {
	if off != f.end() || len(f.buf)+len(p) > gatherMax {
		if err := f.flush(); err != nil {
			return 0, err
		}
		f.at = off
	}
	f.buf = append(f.buf, p...)
	return len(p), nil
}

func (f *gatherFile) ReadAt(p []byte, off int64) (int, error) {
	if off < f.end() && off+int64(len(p)) > f.at {
		if err := f.flush(); err != nil {
			return 0, err
		}
	}
	return f.File.ReadAt(p, off)
}

func (f *gatherFile) Truncate(size int64) error {
	if err := f.flush(); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

// Sync fails as if nothing had been written: the commit that ends there is told to have failed, and must not be found when the log is
// read anew after a crash.
func (f *gatherFile) Sync(flags vfs.SyncFlag) error {
	at, n := f.at, len(f.buf)
	if err := f.flush(); err != nil {
		return err
	}
	err := f.File.Sync(flags)
	if err != nil && n > 0 {
		clear(f.buf[:n])
		_, _ = f.File.WriteAt(f.buf[:n], at) // what counts is err
	}
	return err
}

func (f *gatherFile) Size() (int64, error) {
	if err := f.flush(); err != nil {
		return 0, err
	}
	return f.File.Size()
}

func (f *gatherFile) Unlock(lock vfs.LockLevel) error {
	return errors.CombineErrors(f.flush(), f.File.Unlock(lock))
}

// Close forgets what was not synced: nobody has committed it.
func (f *gatherFile) Close() error {
	f.drop()
	return f.File.Close()
}
