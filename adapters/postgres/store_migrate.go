package postgres

import (
	"context"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/jackc/pgx/v5"
)

// ErrNewerSchema is wrapped by the error of opening a database that a newer program has migrated.
var ErrNewerSchema = errors.New("the database was written by a newer version of penstock")

// migration is one numbered file of a migrations folder, "0001_events.sql".
type migration struct {
	number int64
	name   string // without number and ending
	sql    string
}

// migrate brings the schema up to the last file of dir, each file in a transaction of its own together with its line
// in schema_migrations. It writes nothing to a database that is up to date, and refuses one that is ahead
// (ErrNewerSchema).
func migrate(ctx context.Context, c *pgx.Conn, files fs.FS, dir string) error {
	known, err := migrationsOf(files, dir)
	if err != nil {
		return err
	}
	last := known[len(known)-1].number
	at, err := schemaNumber(ctx, c)
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
		if err := apply(ctx, c, m); err != nil {
			return errors.Wrapf(err, "migration %04d_%s", m.number, m.name)
		}
	}
	return nil
}

// apply runs one migration unless another process has been faster.
func apply(ctx context.Context, c *pgx.Conn, m migration) error {
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1, 0)`, lockMigrate); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS schema_migrations (
			number bigint PRIMARY KEY, name text NOT NULL)`); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `INSERT INTO schema_migrations (number, name) VALUES ($1, $2) ON CONFLICT DO NOTHING`, m.number, m.name)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		_, err = tx.Exec(ctx, m.sql, pgx.QueryExecModeSimpleProtocol) // many statements in one text
		return err
	})
}

// schemaNumber is the number of the last migration that the database has seen, 0 for an empty one.
func schemaNumber(ctx context.Context, c *pgx.Conn) (n int64, err error) {
	var there bool
	if err := c.QueryRow(ctx, `SELECT to_regclass('schema_migrations') IS NOT NULL`).Scan(&there); err != nil || !there {
		return 0, err
	}
	err = c.QueryRow(ctx, `SELECT coalesce(max(number), 0) FROM schema_migrations`).Scan(&n)
	return n, err
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
