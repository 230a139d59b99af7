package postgres

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"regexp"
	"strconv"

	"github.com/cockroachdb/errors"
	"github.com/jackc/pgx/v5"

	"github.com/penstock/penstock/projections"
)

// First numbers of the advisory locks of read models, beside those of the store.
const (
	lockReadSetUp int32 = 0x50656e41 + iota // second number 0: somebody makes tables
	lockShadow                              // second number of the shadow: its owner lives
	lockBeside                              // second number of the shadow: somebody folds into it
)

// A shadow's schema is known by its name and its comment, so that no schema of anybody else is ever dropped.
const (
	shadowPrefix = "read_shadow_"
	shadowMark   = "rows that are folded again to be compared; removed when its program ends"
)

var shadowName = regexp.MustCompile("^" + shadowPrefix + "([0-9a-f]{16})$")

// shadowLock is the second number of the lock of a shadow's schema.
func shadowLock(schema string) (n int32, ok bool) {
	match := shadowName.FindStringSubmatch(schema)
	if match == nil {
		return 0, false
	}
	bits, err := strconv.ParseUint(match[1][:8], 16, 32)
	return int32(uint32(bits)), err == nil
}

// OpenShadow makes an empty read model in a new schema, to fold events into and be compared with the living one. Close
// removes it. Its tables are not logged, so that a shadow does not outlive a crash of the server. What a program that
// died has left behind is removed by the next one that opens a read model or a shadow.
func OpenShadow(ctx context.Context, dsn string, list ...projections.Projection) (*ReadModel, error) {
	return Socket(nil).OpenShadow(ctx, dsn, list...)
}

// OpenShadow is that of the package, with connections through the socket.
func (s Socket) OpenShadow(ctx context.Context, dsn string, list ...projections.Projection) (*ReadModel, error) {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	at, err := parseReadAddress(dsn, shadowPrefix+hex.EncodeToString(random[:]), s)
	if err != nil {
		return nil, err
	}
	hold, err := at.connect(ctx, writerSettings(true))
	if err != nil {
		return nil, errors.Wrap(err, "open shadow read model")
	}
	number, _ := shadowLock(at.schema)
	if _, err := hold.Exec(ctx, "SELECT pg_advisory_lock($1, $2)", lockShadow, number); err != nil {
		hangUp(hold)
		return nil, errors.Wrap(err, "open shadow read model")
	}
	m, err := newReadModel(ctx, at, hold)
	if err != nil {
		hangUp(hold)
		return nil, err
	}
	m.mark = shadowMark
	if err = m.sweepShadows(ctx); err == nil {
		err = m.setUp(ctx, list)
	}
	if err != nil {
		return nil, errors.CombineErrors(err, m.Close())
	}
	return m, nil
}

// sweepShadows drops shadows whose owner does not live any more.
func (m *ReadModel) sweepShadows(ctx context.Context) error {
	return m.sweep(ctx, shadowPrefix, shadowMark, lockShadow, shadowLock)
}

// sweep drops the schemas whose names begin so, as far as they are ours to drop and nobody holds their lock; lock is its second
// number, false for a schema that stays.
func (m *ReadModel) sweep(ctx context.Context, prefix, mark string, kind int32, lock func(schema string) (number int32, ok bool)) error {
	return m.transact(ctx, readCommitMax, func(ctx context.Context, w *readWriter) error {
		schemas, err := w.schemas(ctx, prefix, mark)
		if err != nil {
			return err
		}
		for _, schema := range schemas {
			number, ok := lock(schema)
			if !ok {
				continue
			}
			var dead bool
			err := w.conn.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock($1, $2)", kind, number).Scan(&dead)
			if err == nil && dead {
				err = w.run(ctx, "DROP SCHEMA IF EXISTS "+quote(schema)+" CASCADE")
			}
			if err != nil {
				return errors.Wrapf(err, "remove shadow %s", schema)
			}
		}
		return nil
	})
}

// schemas are those of ours whose names begin so.
func (w *readWriter) schemas(ctx context.Context, prefix, mark string) ([]string, error) {
	rows, err := w.conn.Query(ctx, `SELECT nspname FROM pg_namespace
		WHERE starts_with(nspname::text, $1) AND obj_description(oid, 'pg_namespace') = $2 AND pg_has_role(nspowner, 'USAGE')`, prefix, mark)
	if err != nil {
		return nil, errors.Wrap(err, "look for shadows")
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return list, errors.Wrap(err, "look for shadows")
}

// dropShadow removes the schema of a shadow that is being closed, and lets go of it.
func (m *ReadModel) dropShadow() error {
	ctx, cancel := context.WithTimeout(context.Background(), readCommitMax)
	defer cancel()
	drop := "DROP SCHEMA IF EXISTS " + quote(m.at.schema) + " CASCADE"
	_, err := m.hold.Exec(ctx, drop)
	if err != nil && m.hold.IsClosed() { // it died while nobody used it
		var again *pgx.Conn
		if again, err = m.at.connect(ctx, writerSettings(true)); err == nil {
			_, err = again.Exec(ctx, drop)
			hangUp(again)
		}
	}
	hangUp(m.hold)
	return errors.Wrapf(err, "remove shadow %s", m.at.name)
}
