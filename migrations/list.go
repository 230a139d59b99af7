package migrations

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Migration is one numbered file of a folder, "0001_events.sql".
type Migration struct {
	Number int64
	Name   string // without number and ending
	SQL    string
}

// String is the migration's name with its number, such as "0002_feed".
func (m Migration) String() string { return fmt.Sprintf("%04d_%s", m.Number, m.Name) }

// ErrNewer is wrapped by the error of Pending for a schema that a newer program has made.
var ErrNewer = errors.New("the database was written by a newer version of penstock")

// Pending are the migrations of a folder, in order, that a schema lacks; at is the number of the last one that it has, 0 for
// none. The error may wrap ErrNewer.
func Pending(files fs.FS, dir string, at int64) ([]Migration, error) {
	known, err := list(files, dir)
	if err != nil {
		return nil, err
	}
	if last := int64(len(known)); at > last {
		return nil, fmt.Errorf("schema %d, this program knows %d: %w", at, last, ErrNewer)
	}
	return known[at:], nil
}

// list reads a folder in order; numbers start at 1 and have no gaps.
func list(files fs.FS, dir string) ([]Migration, error) {
	names, err := fs.Glob(files, path.Join(dir, "*.sql"))
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no migrations in %q", dir)
	}
	known := make([]Migration, 0, len(names))
	for i, file := range names {
		number, name, ok := strings.Cut(strings.TrimSuffix(path.Base(file), ".sql"), "_")
		n, err := strconv.ParseInt(number, 10, 64)
		if !ok || err != nil || n != int64(i+1) {
			return nil, fmt.Errorf("migration %s: want number %04d and a name", file, i+1)
		}
		sql, err := fs.ReadFile(files, file)
		if err != nil {
			return nil, err
		}
		known = append(known, Migration{n, name, string(sql)})
	}
	return known, nil
}
