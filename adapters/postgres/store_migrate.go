package postgres

import (
	"context"
	"io/fs"

	"github.com/cockroachdb/errors"
	"github.com/jackc/pgx/v5"

	"github.com/penstock/penstock/migrations"
)

// ErrNewerSchema is wrapped by the error of opening a database that a newer program has migrated.
var ErrNewerSchema = migrations.ErrNewer

// migrate brings the schema up to the last file of dir, each file in a transaction of its own together with its line
// in schema_migrations. It writes nothing to a database that is up to date, and refuses one that is ahead
// (ErrNewerSchema).
func migrate(ctx context.Context, c *pgx.Conn, files fs.FS, dir string) error {
	at, err := schemaNumber(ctx, c)
	if err != nil {
		return err
	}
	pending, err := migrations.Pending(files, dir, at)
	if err != nil {
		return err
	}
	for _, m := range pending {
		if err := apply(ctx, c, m); err != nil {
			return errors.Wrapf(err, "migration %s", m)
		}
	}
	return nil
}

// apply runs one migration unless another process has been faster.
func apply(ctx context.Context, c *pgx.Conn, m migrations.Migration) error {
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1, 0)`, lockMigrate); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS schema_migrations (
			number bigint PRIMARY KEY, name text NOT NULL)`); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `INSERT INTO schema_migrations (number, name) VALUES ($1, $2) ON CONFLICT DO NOTHING`, m.Number, m.Name)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		_, err = tx.Exec(ctx, m.SQL, pgx.QueryExecModeSimpleProtocol) // many statements in one text
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
