package postgres

import (
	"bytes"
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/penstock/penstock/events"
)

// Secret returns one version of a sealed credential, or the newest for version 0; nil when there is none.
func (s *Store) Secret(ctx context.Context, id string, version int64) (v *events.Secret, err error) {
	const sql = `SELECT version, sealed, digest FROM secrets WHERE id = $1 AND ($2 = 0 OR version = $2)
		ORDER BY version DESC LIMIT 1`
	err = s.read(ctx, func(ctx context.Context, c *pgx.Conn) error {
		found := events.Secret{ID: id}
		switch err := c.QueryRow(ctx, sql, text(id), version).Scan(&found.Version, &found.Sealed, &found.Digest); err {
		case nil:
			v = &found
			return nil
		case pgx.ErrNoRows:
			v = nil
			return nil
		default:
			return err
		}
	})
	return v, err
}

func queueSecret(b *pgx.Batch, v *events.Secret) {
	b.Queue(`INSERT INTO secrets (id, version, sealed, digest) VALUES ($1, $2, $3, $4)`, text(v.ID), v.Version, notNil(v.Sealed), notNil(v.Digest))
}

// readSecrets reads all versions, in order of id and version.
func readSecrets(ctx context.Context, c *pgx.Conn) (list []events.Secret, err error) {
	rows, err := c.Query(ctx, `SELECT id, version, sealed, digest FROM secrets ORDER BY id, version`)
	if err != nil {
		return nil, err
	}
	var id []byte
	var v events.Secret
	_, err = pgx.ForEachRow(rows, []any{&id, &v.Version, &v.Sealed, &v.Digest}, func() error {
		list = append(list, events.Secret{ID: plain(id), Version: v.Version, Sealed: bytes.Clone(v.Sealed), Digest: bytes.Clone(v.Digest)})
		return nil
	})
	return list, err
}

func sameSecret(a, b *events.Secret) bool {
	return a.ID == b.ID && a.Version == b.Version && bytes.Equal(a.Sealed, b.Sealed) && bytes.Equal(a.Digest, b.Digest)
}
