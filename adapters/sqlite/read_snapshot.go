package sqlite

import (
	"context"

	"github.com/cockroachdb/errors"
	"github.com/ncruces/go-sqlite3"

	"github.com/penstock/penstock/projections"
)

// readSnapshot is a read transaction on a connection of its own.
type readSnapshot struct{ c *conn }

// Snapshot implements projections.ReadModel.
func (m *ReadModel) Snapshot(context.Context) (projections.Snapshot, error) {
	c, err := openConn(m.path, connOptions{QueryOnly: true})
	if err != nil {
		return nil, err
	}
	err = c.run(`BEGIN`)
	if err == nil { // the first read takes the snapshot
		_, err = checkpoint(c, "")
	}
	if err != nil {
		return nil, errors.CombineErrors(errors.Wrapf(err, "take a snapshot of %s", m.path), c.close())
	}
	return &readSnapshot{c}, nil
}

// Checkpoint implements projections.Snapshot.
func (s *readSnapshot) Checkpoint(projection string) (projections.Checkpoint, error) {
	return checkpoint(s.c, projection)
}

// Scan implements projections.Snapshot.
func (s *readSnapshot) Scan(ctx context.Context, t *projections.Table) (projections.Rows, error) {
	stmt, _, err := s.c.Prepare(selectRows(t) + " ORDER BY " + columns(t.Columns[:t.Key]))
	if err != nil {
		return nil, errors.Wrapf(err, "read table %s", t.Name)
	}
	return &rowScan{ctx: ctx, stmt: stmt}, nil
}

// Close implements projections.Snapshot.
func (s *readSnapshot) Close() error { return s.c.close() }

// rowScan reads the rows of a statement.
type rowScan struct {
	ctx  context.Context
	stmt *sqlite3.Stmt
	row  []projections.Value
	read int
	err  error
}

// Next implements projections.Rows.
func (s *rowScan) Next() ([]projections.Value, bool) {
	if s.read++; s.read%1024 == 0 {
		s.err = s.ctx.Err()
	}
	if s.err != nil || !s.stmt.Step() {
		return nil, false
	}
	s.row = columnValues(s.stmt, s.row[:0])
	return s.row, true
}

// Err implements projections.Rows.
func (s *rowScan) Err() error { return errors.CombineErrors(s.err, s.stmt.Err()) }

// Close implements projections.Rows.
func (s *rowScan) Close() error { return s.stmt.Close() }
