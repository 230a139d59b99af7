// Package postgres keeps events in PostgreSQL (15 or later), on pgx. One gateway at a time writes to a database; it
// needs a connection of its own for as long as it runs (no pooler that shares connections between transactions).
package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/jackc/pgx/v5"

	"github.com/penstock/penstock/events"
)

// StoreOptions of the event store; the zero value of a field means its default.
type StoreOptions struct {
	// Shared opens the store without claiming the database: for a command that reads beside a gateway. Its appends
	// are right too, but a gateway that owns the catalogue would not hear of them.
	Shared         bool
	Deadline       time.Duration // of each call, dialling included; default 5 s
	ConnectTimeout time.Duration // default 3 s, or connect_timeout of the connection string
	ClaimWait      time.Duration // how long another gateway, or the rest of one that was killed, is waited for; default 2 s, less than Deadline
	Readers        int           // connections that read at once; default 4
	Socket         Socket
}

// Store is the event store in one PostgreSQL database (events.Store). Commits are on disk when Append returns. All
// methods may be called from any goroutine; writers take turns. A lost connection is opened again by the next call.
type Store struct {
	options StoreOptions
	dialer  *dialer // of the session
	readers *pool
	kept    keptDays

	turn    chan struct{} // capacity 1; whoever is in it owns all below: the writer
	closed  bool
	session *session // nil after a fault that it may not have survived; the next write opens another
	former  former   // the session before
	chain   chain
	tails   map[string]int64 // versions of streams that were appended to lately
	hasher  events.Hasher
	doubt   *doubt             // a commit of which nobody knows yet whether it went through
	stored  map[string][]*past // appends of such commits that did, by the stream of their first row
	blocks  blocks             // of the search index: the one under way
	thinned events.Thinned
	spare   spare
}

// chain is the end of the chain of commits.
type chain struct {
	first  int64 // key of the last commit
	head   events.Position
	hash   [32]byte
	latest int64 // microseconds; see the column
}

var _ events.Store = (*Store)(nil)

var (
	// ErrInUse is wrapped by the error of opening a database that another gateway writes to, and of appending after
	// another one has taken it over. It comes with events.ErrUnavailable.
	ErrInUse = errors.New("another gateway is using this database")

	// ErrPooled is wrapped by the error of opening a database through a pooler. It comes with events.ErrUnavailable.
	ErrPooled = errors.New("a pooler answers in place of the server and does not take the settings of a session; " +
		"a gateway keeps its sessions for as long as it runs: give the address of the server itself")

	errClosed = errors.New("closed")
)

// OpenStore opens the event store in the database that dsn names (a URL or "key=value" pairs) and brings its schema
// up to date. It refuses a database of a newer version with an error that wraps ErrNewerSchema, one that another
// gateway uses with ErrInUse, one behind a pooler with ErrPooled, one that cannot be reached with events.ErrUnavailable.
func OpenStore(ctx context.Context, dsn string, o StoreOptions) (*Store, error) {
	o.Deadline = orElse(o.Deadline, 5*time.Second)
	o.ClaimWait = min(orElse(o.ClaimWait, 2*time.Second), o.Deadline*3/4)
	writes, err := newDialer(dsn, o, "penstock", map[string]string{settingOwn: rand.Text()})
	if err != nil {
		return nil, errors.Wrap(err, "event store")
	}
	reads, err := newDialer(dsn, o, "penstock reader", map[string]string{
		"default_transaction_read_only": "on",
		"plan_cache_mode":               "force_custom_plan", // a plan that knows the days opens no other partition
		"enable_sort":                   "off",               // pages come in the order of an index, whatever is thought of the table
	})
	if err != nil {
		return nil, errors.Wrap(err, "event store")
	}
	if !o.Shared {
		only(writes.config, writable)
		only(reads.config, primary)
	}
	s := &Store{
		options: o, dialer: writes, readers: newPool(reads, orElse(o.Readers, 4)),
		turn: make(chan struct{}, 1), tails: map[string]int64{}, stored: map[string][]*past{},
		spare: spare{tails: map[string]tail{}},
	}
	if err := s.openSession(ctx); err != nil {
		if errors.Is(err, ErrNewerSchema) {
			return nil, errors.Wrapf(err, "event store %s", writes.name())
		}
		return nil, s.unavailable(err)
	}
	return s, nil
}

// write runs f with the session, in this caller's turn. Whatever goes wrong wraps events.ErrUnavailable. When the
// session turns out to have died, f runs once more with a new one.
func (s *Store) write(ctx context.Context, f func(context.Context, *session) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.Deadline)
	defer cancel()
	if err := s.begins(ctx); err != nil {
		return err
	}
	defer s.ends()
	used, before := s.session != nil, s.doubt
	err := s.tryWrite(ctx, f)
	if err != nil && used && s.session == nil && ctx.Err() == nil {
		err = s.tryWrite(ctx, f)
	}
	switch {
	case err == nil:
		return nil
	case s.doubt != nil && s.doubt != before: // this call's own commit
		return s.unavailable(fmt.Errorf("%w: %w", events.ErrInDoubt, err))
	}
	return s.unavailable(err)
}

// begins waits for the caller's turn to write, which ends does end. After an error it is nobody's.
func (s *Store) begins(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return s.unavailable(ctx.Err())
	}
	if s.closed {
		s.ends()
		return s.unavailable(errClosed)
	}
	return nil
}

func (s *Store) ends() { <-s.turn }

func (s *Store) tryWrite(ctx context.Context, f func(context.Context, *session) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.session == nil {
		if err := s.openSession(ctx); err != nil {
			return err
		}
	}
	w := s.session
	err := f(ctx, w)
	if err == nil {
		return nil
	}
	clear(s.tails)
	if refused(err) && codeOf(err) != readOnly { // another session may reach the server that has taken this one's place
		if _, failed := w.conn.Exec(ctx, `ROLLBACK`); failed == nil {
			return err
		}
	}
	s.dropSession()
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		err = fmt.Errorf("%w: %w", ended, err) // pgx may only say that the network timed out
	}
	return err
}

// unavailable says which store has failed. The standard library's verbs are used so that its errors.Is sees both.
func (s *Store) unavailable(err error) error {
	return fmt.Errorf("%w: %s: %w", events.ErrUnavailable, s.dialer.name(), err)
}

// Probe commits a change of a row that nobody reads.
func (s *Store) Probe(ctx context.Context) error {
	return s.write(ctx, func(ctx context.Context, w *session) error {
		if _, err := s.begin(ctx, w, nil); err != nil {
			return err
		}
		b := &pgx.Batch{}
		b.Queue(`INSERT INTO probe (id, n) VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET n = probe.n + 1`)
		b.Queue(`COMMIT`)
		return w.conn.SendBatch(ctx, b).Close()
	})
}

// Head is the position of the last stored fact.
func (s *Store) Head(ctx context.Context) (head events.Position, err error) {
	err = s.read(ctx, func(ctx context.Context, c *pgx.Conn) error {
		head, err = readHead(ctx, c)
		return err
	})
	return head, err
}

func readHead(ctx context.Context, c *pgx.Conn) (head events.Position, err error) {
	err = c.QueryRow(ctx, `SELECT coalesce((SELECT first + n - 1 FROM commits ORDER BY first DESC LIMIT 1), 0)`).Scan(&head)
	return head, err
}

// LowWater is what the writer of the commit that holds a position had said.
func (s *Store) LowWater(ctx context.Context, at events.Position) (low events.Position, err error) {
	if at == 0 {
		at = 1<<63 - 1
	}
	err = s.read(ctx, func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT coalesce((SELECT low_water FROM commits WHERE first <= $1 ORDER BY first DESC LIMIT 1), 0)`, at).Scan(&low)
	})
	return low, err
}

// read runs f, which only reads, on a connection of the pool. Errors wrap events.ErrUnavailable, unless the context
// has ended.
func (s *Store) read(ctx context.Context, f func(context.Context, *pgx.Conn) error) error {
	limited, cancel := context.WithTimeout(ctx, s.options.Deadline)
	defer cancel()
	err := s.readers.read(limited, func(c *pgx.Conn) error { return f(limited, c) })
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return s.unavailable(err)
}

// Close gives the database back. It waits for the append under way.
func (s *Store) Close() error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if s.closed {
		return nil
	}
	s.closed = true
	s.readers.close()
	s.dropSession()
	return nil
}

func orElse[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
