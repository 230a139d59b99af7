// Package spool keeps the segments of an events.Spool as files of a folder (events.SpoolFolder).
package spool

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/events"
)

// Folder is the path of a folder, which is made, for its owner alone, with the first segment.
type Folder string

var _ events.SpoolFolder = Folder("")

const suffix = ".spool"

func (f Folder) path(name string) string { return filepath.Join(string(f), name+suffix) }

// Segments are the names of the files, without their suffix, in order. A folder that is not there has none.
func (f Folder) Segments() ([]string, error) {
	entries, err := os.ReadDir(string(f))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), suffix); ok && e.Type().IsRegular() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, err
}

// Create makes a file and the folder's entry of it durable.
func (f Folder) Create(name string, room int64) (events.SpoolFile, error) {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(f.path(name), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	made := segment{file}
	err = reserve(file, room)
	for _, sync := range []func() error{file.Sync, f.sync, Folder(filepath.Dir(string(f))).sync} {
		if err == nil {
			err = sync()
		}
	}
	if err != nil {
		return nil, errors.CombineErrors(errors.Wrap(err, f.path(name)), errors.CombineErrors(file.Close(), os.Remove(f.path(name))))
	}
	return made, nil
}

// Open opens a file for reading and writing.
func (f Folder) Open(name string) (events.SpoolFile, error) {
	file, err := os.OpenFile(f.path(name), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return segment{file}, nil
}

// Remove removes a file.
func (f Folder) Remove(name string) error { return os.Remove(f.path(name)) }

// sync makes the entries of the folder durable.
func (f Folder) sync() error {
	d, err := os.Open(string(f))
	if err != nil {
		return err
	}
	return errors.CombineErrors(d.Sync(), d.Close())
}

// segment is an open file.
type segment struct{ *os.File }

// Size is the length of the file.
func (s segment) Size() (int64, error) {
	i, err := s.Stat()
	if err != nil {
		return 0, err
	}
	return i.Size(), nil
}

// Sync waits until what was written is on disk.
func (s segment) Sync() error { return sync(s.File) }
