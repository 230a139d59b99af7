package sqlite

import (
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/cockroachdb/errors"
)

// ErrNewerSchema is wrapped by the error of opening a file that a newer program has migrated.
var ErrNewerSchema = errors.New("the database was written by a newer version of penstock")

// migration is one numbered file of a migrations folder, "0001_events.sql".
type migration struct {
	number int64
	name   string // without number and ending
	sql    string
}

// migrate brings the schema up to the last file of dir, each file in a transaction of its own together with its line
// in schema_migrations. It does nothing to a file that is up to date, and refuses one that is ahead (ErrNewerSchema).
func migrate(c *conn, files fs.FS, dir string) error {
	known, err := migrationsOf(files, dir)
	if err != nil {
		return err
	}
	last := known[len(known)-1].number
	at, err := schemaNumber(c)
	if err != nil {
		return err
	}
	if at > last {
		return errors.Wrapf(ErrNewerSchema, "schema %d, this program knows %d", at, last)
	}
	for _, m := range known {
		if m.number <= at {
			continue
		}
		if err := apply(c, m); err != nil {
			return errors.Wrapf(err, "migration %04d_%s", m.number, m.name)
		}
	}
	return nil
}

// apply runs one migration unless another process has been faster.
func apply(c *conn, m migration) error {
	return c.write(func() error {
		if err := c.Exec(`CREATE TABLE IF NOT EXISTS schema_migrations (
			number INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT`); err != nil {
			return err
		}
		done, err := c.integer(`SELECT count(*) FROM schema_migrations WHERE number = ?`, m.number)
		if err != nil || done > 0 {
			return err
		}
		if err := c.Exec(m.sql); err != nil {
			return err
		}
		s, err := c.stmt(`INSERT INTO schema_migrations (number, name) VALUES (?, ?)`)
		if err != nil {
			return err
		}
		if err := errors.CombineErrors(s.BindInt64(1, m.number), s.BindText(2, m.name)); err != nil {
			return err
		}
		return s.Exec()
	})
}

// schemaNumber is the number of the last migration that the file has seen, 0 for an empty file.
func schemaNumber(c *conn) (int64, error) {
	n, err := c.integer(`SELECT count(*) FROM sqlite_schema WHERE name = 'schema_migrations'`)
	if err != nil || n == 0 {
		return 0, err
	}
	return c.integer(`SELECT max(number) FROM schema_migrations`)
}

// migrationsOf lists a folder in order; numbers start at 1 and have no gaps.
func migrationsOf(files fs.FS, dir string) ([]migration, error) {
	names, err := fs.Glob(files, path.Join(dir, "*.sql"))
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, errors.Newf("no migrations in %q", dir)
	}
	list := make([]migration, 0, len(names))
	for i, file := range names {
		number, name, ok := strings.Cut(strings.TrimSuffix(path.Base(file), ".sql"), "_")
		n, err := strconv.ParseInt(number, 10, 64)
		if !ok || err != nil || n != int64(i+1) {
			return nil, errors.Newf("migration %s: want number %04d and a name", file, i+1)
		}
		sql, err := fs.ReadFile(files, file)
		if err != nil {
			return nil, err
		}
		list = append(list, migration{n, name, string(sql)})
	}
	return list, nil
}
