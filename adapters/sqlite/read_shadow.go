package sqlite

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/ncruces/go-sqlite3"

	"github.com/penstock/penstock/projections"
)

// besideMark stands between the file of a read model and the name and version of a projection in that of a shadow.
const besideMark = ".rebuild-"

// besideFile is the file of a shadow of the read model at path.
func besideFile(path string, p projections.Projection) string {
	return fmt.Sprintf("%s%s%s-v%d", path, besideMark, p.Name(), p.Version())
}

// shadowFile is a read model in a file beside the living one.
type shadowFile struct{ *ReadModel }

// Beside implements projections.ReadModel. The shadow is a file beside that of the living rows, which keeps what was
// committed when the program is killed.
func (m *ReadModel) Beside(_ context.Context, p projections.Projection) (projections.Shadow, error) {
	path := besideFile(m.path, p)
	if err := sweepBeside(m.path, func(file string) bool {
		return file != path && strings.HasPrefix(file, m.path+besideMark+p.Name()+"-v")
	}); err != nil {
		return nil, err
	}
	s, err := openBeside(path, p)
	if isDamaged(err) { // after a power cut
		if err = removeDatabase(path); err == nil {
			s, err = openBeside(path, p)
		}
	}
	if err != nil {
		return nil, err
	}
	return shadowFile{s}, nil
}

func openBeside(path string, p projections.Projection) (*ReadModel, error) {
	s := newReadModel(path)
	s.shadow = true
	if err := s.open([]projections.Projection{p}); err != nil {
		return nil, err
	}
	return s, nil
}

// Discard implements projections.Shadow.
func (s shadowFile) Discard() error {
	return errors.CombineErrors(s.Close(), removeDatabase(s.path))
}

// removeDatabase removes a file with what belongs to it. The file goes first: without its log it might be damaged, a log
// without its file is nothing.
func removeDatabase(path string) error {
	for _, ending := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + ending); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return errors.Wrap(err, "remove shadow read model")
		}
	}
	return nil
}

// sweepShadows removes the shadows that no projection of the list would go on with, and those that their programs have not removed:
// they can be as large as the read model.
func sweepShadows(path string, list []projections.Projection) error {
	folder := filepath.Dir(path)
	left, err := os.ReadDir(folder)
	if err != nil {
		return errors.Wrap(err, "look for shadow read models")
	}
	for _, f := range left {
		if f.IsDir() && strings.HasPrefix(f.Name(), shadowFolder) {
			if err := os.RemoveAll(filepath.Join(folder, f.Name())); err != nil {
				return errors.Wrap(err, "remove a shadow read model that was left")
			}
		}
	}
	wanted := map[string]bool{}
	for _, p := range list {
		wanted[besideFile(path, p)] = true
	}
	return sweepBeside(path, func(file string) bool { return !wanted[file] })
}

// sweepBeside removes the shadows of a read model that are not to be kept.
func sweepBeside(path string, unwanted func(file string) bool) error {
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return errors.Wrap(err, "look for shadow read models")
	}
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), filepath.Base(path)+besideMark) {
			continue
		}
		name := strings.TrimSuffix(strings.TrimSuffix(f.Name(), "-wal"), "-shm")
		file := filepath.Join(filepath.Dir(path), name)
		if unwanted(file) {
			if err := removeDatabase(file); err != nil {
				return err
			}
		}
	}
	return nil
}

// Serves implements projections.ReadModel.
func (m *ReadModel) Serves(ctx context.Context, p projections.Projection) (serves bool, err error) {
	err = m.pool.read(ctx, func(c *conn) error {
		for _, t := range p.Tables() {
			if serves, err = hasColumns(c, t); err != nil || !serves {
				return err
			}
		}
		return nil
	})
	return serves, errors.Wrapf(err, "read model %s", m.path)
}

// hasColumns says that the stored table has all columns of a declaration.
func hasColumns(c *conn, t *projections.Table) (bool, error) {
	kinds := map[string]string{}
	if err := c.each(`SELECT name, type FROM pragma_table_info(?)`, func(b *binder) { b.text(t.Name) }, func(s *sqlite3.Stmt) bool {
		kinds[s.ColumnText(0)] = s.ColumnText(1)
		return true
	}); err != nil {
		return false, err
	}
	for _, column := range t.Columns {
		if kinds[column.Name] != typeOf(column) {
			return false, nil
		}
	}
	return true, nil
}
