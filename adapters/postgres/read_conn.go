package postgres

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/penstock/penstock/projections"
)

// Limits of what a read model asks the server for.
const (
	readConns      = 4                // queries that run at once
	readDialMax    = 5 * time.Second  // unless the address says connect_timeout
	readQueryMax   = 30 * time.Second // one query
	readCommitMax  = 30 * time.Second // one transaction of changes
	readFetchMax   = 2 * time.Minute  // one page of a scan; the first may have to sort
	readCancelMax  = time.Second      // a cancelled query, before its connection is given up
	readCleanMax   = 5 * time.Second  // a rollback, the end of a connection
	readLockMax    = "10s"            // for a lock on a table that somebody else reads, before it is made anew
	readAbandonMax = "60s"            // after which the server ends the transaction of a writer that has vanished
)

var errReadClosed = errors.New("read model is closed")

// readAddress is where a read model lives, and how its connections are set up.
type readAddress struct {
	pool   *pgxpool.Config
	schema string
	name   string // for errors
}

func parseReadAddress(dsn, schema string, socket Socket) (*readAddress, error) {
	c, err := pgxpool.ParseConfig(dsn)
	if err == nil {
		err = splitPassword(c.ConnConfig)
	}
	if err != nil {
		return nil, errors.Wrap(err, "address of the database") // without its password
	}
	to := c.ConnConfig
	if to.ConnectTimeout == 0 {
		to.ConnectTimeout = readDialMax
	}
	to.DialFunc = socket.over(to.DialFunc)
	// A query whose context ends is cancelled at the server too. When that is of no use, the connection is given up.
	to.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: readCancelMax}
	}
	if to.RuntimeParams["application_name"] == "" {
		to.RuntimeParams["application_name"] = "penstock"
	}
	for name, value := range settingsOfNetwork {
		setDefault(to.RuntimeParams, name, value)
	}
	maps.Copy(to.RuntimeParams, settingsAlways)
	maps.Copy(to.RuntimeParams, map[string]string{
		"search_path": "pg_catalog", // every name says its schema
		"timezone":    "UTC",
		"jit":         "off", // compiling costs more than any of these queries
	})
	c.MaxConns = readConns
	return &readAddress{pool: c, schema: schema, name: fmt.Sprintf("%s of %s at %s:%d", schema, to.Database, to.Host, to.Port)}, nil
}

// readers are the settings of the connections that answer queries. Their plans are made for the values that are asked
// for: a filter that matches little and one that matches much are walked in different ways.
func (a *readAddress) readers() *pgxpool.Config {
	c := a.pool.Copy()
	only(c.ConnConfig, primary)
	c.ConnConfig.RuntimeParams["plan_cache_mode"] = "force_custom_plan"
	setDefault(c.ConnConfig.RuntimeParams, "statement_timeout", strconv.FormatInt(readQueryMax.Milliseconds(), 10))
	setDefault(c.ConnConfig.RuntimeParams, "lock_timeout", "0")
	return c
}

// connect opens a connection with settings of its own.
func (a *readAddress) connect(ctx context.Context, settings map[string]string) (*pgx.Conn, error) {
	c := a.pool.ConnConfig.Copy()
	only(c, writable)
	maps.Copy(c.RuntimeParams, settings)
	conn, err := pgx.ConnectConfig(ctx, c)
	return conn, pooled(err)
}

// readerSettings are those of a snapshot, which rests for as long as its owner folds.
var readerSettings = map[string]string{"idle_in_transaction_session_timeout": "0", "statement_timeout": "0", "lock_timeout": readLockMax}

// writerSettings are those of the connection that commits.
func writerSettings(shadow bool) map[string]string {
	settings := map[string]string{
		"idle_in_transaction_session_timeout": readAbandonMax, "lock_timeout": readLockMax,
		"statement_timeout": "0", // a rebuild takes as long as it takes
	}
	if shadow {
		settings["synchronous_commit"] = "off"
	}
	return settings
}

// transact runs f in a transaction on the writing connection, which is opened anew after a fault. within 0 is no limit.
func (m *ReadModel) transact(ctx context.Context, within time.Duration, f func(context.Context, *readWriter) error) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer func() { err = errors.Wrapf(err, "read model %s", m.at.name) }()
	if m.closed {
		return errReadClosed
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.life, cancel)()
	if within > 0 {
		ctx, cancel = context.WithTimeout(ctx, within)
		defer cancel()
	}
	tx, err := m.begin(ctx)
	if err != nil {
		return err
	}
	known := maps.Clone(m.known)
	if err = f(ctx, m.w); err == nil {
		err = tx.Commit(ctx)
	}
	if err != nil {
		m.undo(ctx, tx)
		if codeOf(err) == readOnly { // as of the store's session
			m.dropWriter()
		}
		clear(m.known)
		maps.Copy(m.known, known)
	}
	return err
}

// begin starts a transaction. A connection that has died since its last use is replaced: nothing was asked of it yet.
func (m *ReadModel) begin(ctx context.Context) (pgx.Tx, error) {
	if m.w != nil {
		tx, err := m.w.conn.Begin(ctx)
		if err == nil || ctx.Err() != nil {
			return tx, err
		}
		m.dropWriter()
	}
	conn, err := m.at.connect(ctx, writerSettings(m.hold != nil))
	if err != nil {
		return nil, err
	}
	m.w = newReadWriter(conn, m.at.schema, m.known)
	m.w.shadow = m.hold != nil
	if m.hold == nil {
		// A commit that was answered must not be lost in a crash of the server: the runner would go on from a checkpoint
		// that is not there any more. Stricter settings than "on" are the operator's choice.
		const durable = `SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'`
		if _, err := conn.Exec(ctx, durable); err != nil {
			m.dropWriter()
			return nil, err
		}
	}
	return conn.Begin(ctx)
}

// undo rolls back; a connection on which that fails is closed, which rolls back too.
func (m *ReadModel) undo(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readCleanMax)
	defer cancel()
	_ = tx.Rollback(ctx) // what matters is the error before
	if m.w.conn.IsClosed() || m.w.conn.PgConn().TxStatus() != 'I' {
		m.dropWriter()
	}
}

func (m *ReadModel) dropWriter() {
	if m.w != nil {
		hangUp(m.w.conn)
		m.w = nil
	}
}

// hangUp closes a connection of which nothing is expected any more.
func hangUp(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), readCleanMax)
	defer cancel()
	_ = c.Close(ctx) // it may be broken, which is as good
}

// each runs a query on one of the reading connections and calls f with each row, which is valid until f returns. A
// connection that turns out to be dead before its first row is replaced.
func (m *ReadModel) each(ctx context.Context, q *readQuery, f func([]projections.Value) error) error {
	ctx, cancel := context.WithTimeout(ctx, readQueryMax)
	defer cancel()
	defer context.AfterFunc(m.life, cancel)()
	var err error
	for range readConns + 1 {
		var again bool
		if again, err = m.try(ctx, q, f); !again {
			break
		}
	}
	if err != nil && m.life.Err() != nil {
		err = errReadClosed
	}
	return errors.Wrapf(err, "read model %s", m.at.name)
}

// rows is each of a query, for projections.Collect.
func (m *ReadModel) rows(ctx context.Context, q *readQuery) func(func([]projections.Value) error) error {
	return func(f func([]projections.Value) error) error { return m.each(ctx, q, f) }
}

// try runs a query once. again says that it failed for its connection alone.
func (m *ReadModel) try(ctx context.Context, q *readQuery, f func([]projections.Value) error) (again bool, err error) {
	c, err := m.pool.Acquire(ctx)
	if err != nil {
		return false, err
	}
	defer c.Release()
	fresh := true
	rows, err := c.Query(ctx, q.sql.String(), append([]any{pgx.QueryResultFormats{pgx.BinaryFormatCode}}, q.args...)...)
	if err == nil {
		defer rows.Close()
		var row []projections.Value
		for rows.Next() {
			fresh = false
			if row, err = appendRow(row[:0], rows.FieldDescriptions(), rows.RawValues()); err != nil {
				return false, err
			}
			if err := f(row); err != nil {
				return false, err
			}
		}
		err = rows.Err()
	}
	return err != nil && fresh && ctx.Err() == nil && c.Conn().IsClosed(), err
}

func appendRow(row []projections.Value, fields []pgconn.FieldDescription, raw [][]byte) ([]projections.Value, error) {
	for i := range raw {
		v, err := fieldValue(fields[i].DataTypeOID, raw[i])
		if err != nil {
			return row, errors.Wrapf(err, "column %s", fields[i].Name)
		}
		row = append(row, v)
	}
	return row, nil
}
