package sqlite

import (
	"bytes"
	"context"

	"github.com/ncruces/go-sqlite3"

	"github.com/penstock/penstock/events"
)

// Secret returns one version of a sealed credential, or the newest for version 0; nil when there is none.
func (s *Store) Secret(ctx context.Context, id string, version int64) (v *events.Secret, err error) {
	err = s.read(ctx, func(c *conn) error {
		v, err = readSecret(c, id, version)
		return err
	})
	return v, err
}

func readSecret(c *conn, id string, version int64) (v *events.Secret, err error) {
	err = c.each(`SELECT version, sealed, digest FROM secrets WHERE id = ?1 AND (?2 = 0 OR version = ?2)
		ORDER BY version DESC LIMIT 1`, func(b *binder) {
		b.text(id)
		b.integer(version)
	}, func(q *sqlite3.Stmt) bool {
		v = &events.Secret{
			ID: id, Version: q.ColumnInt64(0), Sealed: q.ColumnBlob(1, []byte{}), Digest: q.ColumnBlob(2, []byte{}),
		}
		return false
	})
	return v, err
}

func sameSecret(a, b *events.Secret) bool {
	return a.ID == b.ID && a.Version == b.Version && bytes.Equal(a.Sealed, b.Sealed) && bytes.Equal(a.Digest, b.Digest)
}
