package sqlite

import (
	"io/fs"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/migrations"
)

// ErrNewerSchema is wrapped by the error of opening a file that a newer program has migrated.
var ErrNewerSchema = migrations.ErrNewer

// migrate brings the schema up to the last file of dir, each file in a transaction of its own together with its line
// in schema_migrations. It does nothing to a file that is up to date, and refuses one that is ahead (ErrNewerSchema).
func migrate(c *conn, files fs.FS, dir string) error {
	at, err := schemaNumber(c)
	if err != nil {
		return err
	}
	pending, err := migrations.Pending(files, dir, at)
	if err != nil {
		return err
	}
	for _, m := range pending {
		if err := apply(c, m); err != nil {
			return errors.Wrapf(err, "migration %s", m)
		}
	}
	return nil
}

// apply runs one migration unless another process has been faster.
func apply(c *conn, m migrations.Migration) error {
	return c.write(func() error {
		if err := c.Exec(`CREATE TABLE IF NOT EXISTS schema_migrations (
			number INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT`); err != nil {
			return err
		}
		done, err := c.integer(`SELECT count(*) FROM schema_migrations WHERE number = ?`, m.Number)
		if err != nil || done > 0 {
			return err
		}
		if err := c.Exec(m.SQL); err != nil {
			return err
		}
		return c.exec(`INSERT INTO schema_migrations (number, name) VALUES (?, ?)`, func(b *binder) {
			b.integer(m.Number)
			b.text(m.Name)
		})
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
