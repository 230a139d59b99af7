package migrations

import (
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

// List reads a folder in order; numbers start at 1 and have no gaps.
func List(files fs.FS, dir string) ([]Migration, error) {
	names, err := fs.Glob(files, path.Join(dir, "*.sql"))
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no migrations in %q", dir)
	}
	list := make([]Migration, 0, len(names))
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
		list = append(list, Migration{n, name, string(sql)})
	}
	return list, nil
}
