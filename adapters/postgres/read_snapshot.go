package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/penstock/penstock/projections"
)

// fetchRows is how many rows of a scan are in memory at once.
const fetchRows = 1024

// readSnapshot is a transaction of repeatable reads on a connection of its own.
type readSnapshot struct {
	at          *readAddress
	conn        *pgx.Conn
	checkpoints map[string]projections.Checkpoint
	scans       int
}

// Snapshot implements projections.ReadModel.
func (m *ReadModel) Snapshot(ctx context.Context) (projections.Snapshot, error) {
	if m.life.Err() != nil {
		return nil, errors.Wrapf(errReadClosed, "snapshot of read model %s", m.at.name)
	}
	ctx, cancel := context.WithTimeout(ctx, readQueryMax)
	defer cancel()
	conn, err := m.at.connect(ctx, readerSettings)
	if err != nil {
		return nil, errors.Wrapf(err, "snapshot of read model %s", m.at.name)
	}
	s := &readSnapshot{at: m.at, conn: conn}
	for range 3 { // a table may be made anew between two steps
		if err = s.begin(ctx); !isUndefined(err) {
			break
		}
		if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil {
			break
		}
	}
	if err != nil {
		hangUp(conn)
		return nil, errors.Wrapf(err, "snapshot of read model %s", m.at.name)
	}
	return s, nil
}

func isUndefined(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == "42P01"
}

// begin freezes the view. Names of tables are never frozen: without the locks, a table that is made anew later would be
// found in the place of the old one, with no rows that this view may see. Locks do not freeze the view, the first
// query after them does.
func (s *readSnapshot) begin(ctx context.Context) error {
	rows, err := s.conn.Query(ctx, `SELECT relname FROM pg_class
		WHERE relnamespace = $1::text::regnamespace AND relkind = 'r' ORDER BY relname`, quote(s.at.schema))
	if err != nil {
		return err
	}
	tables, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (name string, err error) {
		err = row.Scan(&name)
		return tableIn(s.at.schema, name), err
	})
	if err != nil {
		return err
	}
	if _, err := s.conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"); err != nil {
		return err
	}
	if _, err := s.conn.Exec(ctx, "LOCK TABLE "+strings.Join(tables, ", ")+" IN ACCESS SHARE MODE"); err != nil {
		return err
	}
	rows, err = s.conn.Query(ctx, "SELECT projection, version, position FROM "+tableIn(s.at.schema, checkpointsTable))
	if err != nil {
		return err
	}
	s.checkpoints, err = collectCheckpoints(rows)
	return err
}

// Checkpoint implements projections.Snapshot.
func (s *readSnapshot) Checkpoint(projection string) (projections.Checkpoint, error) {
	at := s.checkpoints[projection]
	at.Projection = projection
	return at, nil
}

// Scan implements projections.Snapshot. It reads through a cursor, so that neither side holds more than a page.
func (s *readSnapshot) Scan(ctx context.Context, t *projections.Table) (projections.Rows, error) {
	s.scans++
	scan := &readScan{ctx: ctx, conn: s.conn.PgConn(), table: t.Name, cursor: fmt.Sprintf("scan_%d", s.scans)}
	scan.page = make([]projections.Value, 0, fetchRows*len(t.Columns))
	scan.width = len(t.Columns)
	_, err := s.conn.PgConn().Exec(ctx, fmt.Sprintf("DECLARE %s NO SCROLL CURSOR FOR %s ORDER BY %s",
		scan.cursor, selectFrom(s.at.schema, t), quoteAll(keyOf(t)))).ReadAll()
	if err != nil {
		return nil, errors.Wrapf(err, "read table %s of %s", t.Name, s.at.name)
	}
	return scan, nil
}

// Close implements projections.Snapshot. The view has ended when it returns: the server notices the end of a connection later, and
// what comes next may be about rows that the view keeps from being cleaned up.
func (s *readSnapshot) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), readCleanMax)
	defer cancel()
	_, _ = s.conn.Exec(ctx, "ROLLBACK") // it may be broken, which is as good
	hangUp(s.conn)
	return nil
}

// readScan reads the rows of a cursor page by page.
type readScan struct {
	ctx    context.Context
	conn   *pgconn.PgConn
	table  string
	cursor string
	width  int
	page   []projections.Value // rows after rows
	next   int                 // where in the page the next row begins
	ended  bool                // the page is the last one
	err    error
}

// Next implements projections.Rows.
func (s *readScan) Next() ([]projections.Value, bool) {
	if s.next == len(s.page) {
		if s.ended || s.err != nil {
			return nil, false
		}
		if s.err = s.fetch(); s.err != nil || len(s.page) == 0 {
			return nil, false
		}
	}
	row := s.page[s.next : s.next+s.width : s.next+s.width]
	s.next += s.width
	return row, true
}

// fetch reads the next page.
func (s *readScan) fetch() error {
	ctx, cancel := context.WithTimeout(s.ctx, readFetchMax)
	defer cancel()
	s.page, s.next = s.page[:0], 0
	sql := fmt.Sprintf("FETCH FORWARD %d FROM %s", fetchRows, s.cursor)
	result := s.conn.ExecParams(ctx, sql, nil, nil, nil, []int16{pgx.BinaryFormatCode})
	var err error
	for err == nil && result.NextRow() {
		s.page, err = appendRow(s.page, result.FieldDescriptions(), result.Values())
	}
	_, closed := result.Close()
	if err == nil {
		err = closed
	}
	if err != nil {
		s.page = s.page[:0]
		return errors.Wrapf(err, "read table %s", s.table)
	}
	s.ended = len(s.page) < fetchRows*s.width
	return nil
}

// Err implements projections.Rows.
func (s *readScan) Err() error { return s.err }

// Close implements projections.Rows.
func (s *readScan) Close() error {
	if s.conn.IsClosed() || s.conn.TxStatus() != 'T' {
		return nil // the cursor has ended with its transaction
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), readCleanMax)
	defer cancel()
	_, err := s.conn.Exec(ctx, "CLOSE "+s.cursor).ReadAll()
	return errors.Wrapf(err, "read table %s", s.table)
}
