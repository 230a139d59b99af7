// Package faultfs is a file system for SQLite that fails on demand: for tests of what a full or broken disk does.
package faultfs

import (
	"sync"

	"github.com/ncruces/go-sqlite3/vfs"
)

// Op is a kind of call that can fail.
type Op int

// The calls that can fail.
const (
	Write Op = iota // also truncation
	Sync
	Open
)

// FS is the operating system's file system with faults. All methods may be called at any time from any goroutine.
type FS struct {
	vfs.VFSFilename
	mu     sync.Mutex
	faults map[Op]*fault
	calls  map[Op]int
}

type fault struct {
	after int // calls that still succeed
	err   error
}

// Register makes a file system without faults known to SQLite under a name that must be unique in the process.
func Register(name string) *FS {
	f := &FS{VFSFilename: vfs.Find("").(vfs.VFSFilename), faults: map[Op]*fault{}, calls: map[Op]int{}}
	vfs.Register(name, f)
	return f
}

// Fail makes all calls of a kind fail with an error after some more have succeeded. Use sqlite3.FULL for a full disk,
// sqlite3.IOERR_WRITE or sqlite3.IOERR_FSYNC for a broken one.
func (f *FS) Fail(op Op, after int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[op] = &fault{after, err}
}

// Heal ends all faults.
func (f *FS) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.faults)
}

// Calls counts the calls of a kind since the start, failed ones too.
func (f *FS) Calls(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

func (f *FS) check(op Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[op]++
	fault := f.faults[op]
	switch {
	case fault == nil:
		return nil
	case fault.after > 0:
		fault.after--
		return nil
	}
	return fault.err
}

// OpenFilename opens a file whose writes and syncs may fail.
func (f *FS) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	if err := f.check(Open); err != nil {
		return nil, flags, err
	}
	inner, flags, err := f.VFSFilename.OpenFilename(name, flags)
	if err != nil {
		return nil, flags, err
	}
	return &file{File: inner, fs: f}, flags, nil
}

type file struct {
	vfs.File
	fs *FS
}

// What SQLite's write-ahead log and locks ask of a file beyond vfs.File.
var (
	_ vfs.FileSharedMemory = (*file)(nil)
	_ vfs.FileLockState    = (*file)(nil)
	_ vfs.FileSizeHint     = (*file)(nil)
)

// WriteAt writes unless it is to fail.
func (f *file) WriteAt(p []byte, off int64) (int, error) {
	if err := f.fs.check(Write); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

// Truncate truncates unless writes are to fail.
func (f *file) Truncate(size int64) error {
	if err := f.fs.check(Write); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

// Sync syncs unless it is to fail.
func (f *file) Sync(flags vfs.SyncFlag) error {
	if err := f.fs.check(Sync); err != nil {
		return err
	}
	return f.File.Sync(flags)
}

// SharedMemory is that of the file below.
func (f *file) SharedMemory() vfs.SharedMemory {
	if s, ok := f.File.(vfs.FileSharedMemory); ok {
		return s.SharedMemory()
	}
	return nil
}

// LockState is that of the file below.
func (f *file) LockState() vfs.LockLevel {
	if s, ok := f.File.(vfs.FileLockState); ok {
		return s.LockState()
	}
	return vfs.LOCK_NONE
}

// SizeHint is passed on.
func (f *file) SizeHint(size int64) error {
	if s, ok := f.File.(vfs.FileSizeHint); ok {
		return s.SizeHint(size)
	}
	return nil
}
