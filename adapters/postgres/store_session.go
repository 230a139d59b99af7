package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/jackc/pgx/v5"

	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/migrations"
)

// Advisory locks have two numbers: what they are for, and the schema that the tables live in, or the whole database.
const (
	lockMigrate int32 = 0x50656e01 + iota
	lockGateway       // held by a session for as long as it lives: the claim to be the only gateway
	lockAppend        // held by a transaction that appends: positions are in the order of commits
)

const (
	thisSchema    = `hashtext(coalesce(current_schema(), ''))`
	wholeDatabase = `0`
)

// session is the one connection that writes. It holds the claim to the database, so that a gateway which loses the
// one has lost the other, and cannot write before it has the claim again.
type session struct {
	conn   *pgx.Conn
	wire   wire // over the same connection
	self   former
	days   map[day]events.Position // partitions that exist, and what table days says of their last position
	ahead  day                     // the day whose partition, and that of the day after it, have been made ahead of time
	copies map[day]string          // names of the prepared COPY into partitions

	aheadNext time.Time // no try to make any before it
}

// Prepared statements of a session, beside one COPY per partition.
const (
	stmtBegin  = "penstock_begin"
	stmtLock   = "penstock_lock"
	stmtChain  = "penstock_chain"
	stmtDays   = "penstock_days"
	stmtLink   = "penstock_link"
	stmtCommit = "penstock_commit"
)

// Not a map: what fails first is said to have failed.
var statements = [][2]string{
	{stmtBegin, `BEGIN`},
	{stmtLock, fmt.Sprintf(`SELECT pg_advisory_xact_lock(%d, %s)`, lockAppend, thisSchema)},
	{stmtChain, `SELECT first, n, hash, latest FROM commits ORDER BY first DESC LIMIT 1`},
	{stmtDays, `UPDATE days SET first = CASE first WHEN 0 THEN $2 ELSE first END, last = greatest(last, $3) WHERE day = $1`},
	{stmtLink, `INSERT INTO commits (first, n, low_water, earliest, latest, previous, hash) VALUES ($1, $2, $3, $4, $5, $6, $7)`},
	{stmtCommit, `COMMIT`},
}

// former names a connection to the server for good: process ids come again.
type former struct {
	pid   int32
	since time.Time
}

// openSession connects, claims the database, migrates it and reads where the chain ends.
func (s *Store) openSession(ctx context.Context) error {
	c, err := s.dialer.connect(ctx)
	if err != nil {
		return err
	}
	w := &session{conn: c, wire: newWire(c), copies: map[day]string{}}
	if err := s.setUp(ctx, w); err != nil {
		drop(c)
		return err
	}
	s.session = w
	clear(s.tails)
	return nil
}

func (s *Store) setUp(ctx context.Context, w *session) error {
	if err := s.within(ctx, func(ctx context.Context) error { return s.claim(ctx, w) }); err != nil {
		return err
	}
	if err := migrate(ctx, w.conn, migrations.FS, "postgres"); err != nil { // takes the time that it takes
		return err
	}
	return s.within(ctx, func(ctx context.Context) error {
		// What a client was told to be stored must be on disk; stricter settings than "on" are the operator's choice.
		const durable = `SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'`
		if _, err := w.conn.Exec(ctx, durable); err != nil {
			return err
		}
		for _, named := range statements {
			if _, err := w.conn.Prepare(ctx, named[0], named[1]); err != nil {
				return err
			}
		}
		if err := w.loadDays(ctx); err != nil {
			return err
		}
		return s.lookAhead(ctx, w)
	})
}

// within bounds a step by the deadline of calls.
func (s *Store) within(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.Deadline)
	defer cancel()
	return f(ctx)
}

// claim makes the session the only one that writes. The store's session before it may still be there when the network
// has lost it: it is ended, unless it waits for a synchronous standby, for its commit would be valid here alone then. The claim is
// not to be had as long as that lasts.
func (s *Store) claim(ctx context.Context, w *session) error {
	const selectOwn = `SELECT current_setting('` + settingOwn + `', true)`
	own, err := w.conn.PgConn().Exec(ctx, selectOwn).ReadAll() // in one message: a pooler may lose a prepared statement
	if err != nil {
		return err
	}
	if string(own[0].Rows[0][0]) != w.conn.Config().RuntimeParams[settingOwn] {
		return errors.Wrap(ErrPooled, "the settings of this session are not there")
	}
	const selectSelf = `SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()`
	if err := w.conn.QueryRow(ctx, selectSelf).Scan(&w.self.pid, &w.self.since); err != nil {
		return err
	}
	before := s.former
	if before.pid != 0 {
		const end = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE pid = $1 AND backend_start = $2 AND wait_event IS DISTINCT FROM 'SyncRep'`
		if _, err := w.conn.Exec(ctx, end, before.pid, before.since); err != nil {
			return err
		}
	}
	s.former = w.self
	if s.options.Shared {
		return nil
	}
	wait := fmt.Sprintf(`SET lock_timeout = %d`, max(1, s.options.ClaimWait.Milliseconds()))
	if _, err := w.conn.Exec(ctx, wait); err != nil {
		return err
	}
	// The read models are in one place of the database, whatever schema the events are in.
	for _, what := range []string{thisSchema, wholeDatabase} {
		_, err = w.conn.Exec(ctx, `SELECT pg_advisory_lock($1, `+what+`)`, lockGateway)
		if codeOf(err) == lockNotAvailable {
			s.former = before // this one will not write
			return s.inUse(ctx, w, before)
		}
		if err != nil {
			return err
		}
	}
	_, err = w.conn.Exec(ctx, `SET lock_timeout = 0`)
	return err
}

// inUse says who holds the claim.
func (s *Store) inUse(ctx context.Context, w *session, before former) error {
	const holder = `SELECT a.pid, a.application_name, coalesce(host(a.client_addr), 'this machine'), a.backend_start
		FROM pg_locks l JOIN pg_stat_activity a USING (pid)
		WHERE l.locktype = 'advisory' AND l.granted AND l.classid = $1::int4::oid AND l.objid IN (` + thisSchema + `::oid, ` + wholeDatabase + `)
		AND l.objsubid = 2 AND a.datname = current_database()`
	var pid int32
	var name, host string
	var since time.Time
	if err := w.conn.QueryRow(ctx, holder, lockGateway).Scan(&pid, &name, &host, &since); err != nil {
		return errors.Wrapf(ErrInUse, "waited %s", s.options.ClaimWait) // it may have left just now
	}
	if pid == before.pid && since.Equal(before.since) {
		return errors.Newf("the session before this one, server process %d, still waits for its commit, maybe for a synchronous standby", pid)
	}
	return errors.Wrapf(ErrInUse, "%q from %s, connected since %s, server process %d; waited %s",
		name, host, since.UTC().Format(time.RFC3339), pid, s.options.ClaimWait)
}

// dropSession closes the session; the next write opens another.
func (s *Store) dropSession() {
	if s.session != nil {
		drop(s.session.conn)
		s.session = nil
	}
}

// begin starts the transaction of an append: it takes the append lock and reads where the chain ends, in one round trip, and
// in another one, where there is need for it, asks what became of a commit in doubt, together with the questions of ask
// (may be nil). moved: somebody else has written since this store's last commit, or it was in doubt; what was
// remembered of streams is forgotten.
func (s *Store) begin(ctx context.Context, w *session, ask func(*pgx.Batch)) (moved bool, err error) {
	w.wire.reset()
	w.wire.plain(stmtBegin)
	w.wire.plain(stmtLock)
	w.wire.plain(stmtChain)
	var end chain
	err = w.wire.trip(ctx, func(v [][]byte) {
		if len(v) == 4 { // the lock has a row, too
			end = chainOf(v)
		}
	})
	if err != nil {
		return false, err
	}
	b := &pgx.Batch{}
	wentThrough := false
	if s.doubt != nil {
		b.Queue(`SELECT EXISTS (SELECT FROM commits WHERE first = $1 AND hash = $2)`, s.doubt.end.first, s.doubt.end.hash[:]).
			QueryRow(func(row pgx.Row) error { return row.Scan(&wentThrough) })
	}
	if ask != nil {
		ask(b)
	}
	if b.Len() > 0 {
		if err := w.conn.SendBatch(ctx, b).Close(); err != nil {
			return false, err
		}
	}
	if s.doubt != nil {
		s.decided(wentThrough)
	}
	if moved = end != s.chain; moved {
		clear(s.tails)
		s.chain = end
	}
	return moved, nil
}

// chainOf reads the binary form of first, n, hash and latest.
func chainOf(v [][]byte) (end chain) {
	be := binary.BigEndian
	end.first = int64(be.Uint64(v[0]))
	end.head = events.Position(end.first + int64(be.Uint64(v[1])) - 1)
	copy(end.hash[:], v[2])
	end.latest = int64(be.Uint64(v[3])) + epoch
	return end
}
