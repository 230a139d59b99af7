// Package sqlite keeps events and read models in SQLite files, on the native API of a cgo-free SQLite.
package sqlite

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/ncruces/go-sqlite3"

	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/migrations"
)

// StoreOptions of the event store; the zero value of a field means its default.
type StoreOptions struct {
	VFS         string        // registered virtual file system; "" is the operating system
	BusyTimeout time.Duration // how long a lock of another process is waited for; default 5 s
	Readers     int           // connections that read at once; default 4

	// Opening, when set, ends the opening when it ends itself; the next one goes on from there.
	Opening context.Context

	// Moving, when set, hears how far a file is whose rows are moved to pages (migration 0006), before the first part and after each
	// one: all up to at is moved, of what lies behind from and up to to. It holds up the opening.
	Moving func(from, at, to events.Position)
}

// Store is the event store in one SQLite file (events.Store). Commits are on disk when Append returns
// (synchronous=FULL). All methods may be called from any goroutine; writers take turns.
type Store struct {
	path    string
	options connOptions
	moving  func(from, at, to events.Position)
	readers *pool

	mu     sync.Mutex // guards all below: the writer
	closed bool
	writer *conn // nil after a fault that it may not have survived; the next write opens another
	chain  chain
	tails  map[string]tail // of streams that were appended to lately
	begun  begun
	hasher events.Hasher
	group  group // the commit under way
	sweep  sweep // the removal under way

	blocks  blocks // of the search index: the one under way
	thinned events.Thinned
}

// chain is the end of the chain of commits.
type chain struct {
	first  int64 // key of the last commit
	head   events.Position
	hash   [32]byte
	latest int64 // microseconds; see the column
}

var _ events.Store = (*Store)(nil)

var errClosed = errors.New("closed")

// OpenStore opens or creates the event store and brings its schema up to date. A file of a newer version is refused
// with an error that wraps ErrNewerSchema, one that cannot be read or written with events.ErrUnavailable.
func OpenStore(path string, o StoreOptions) (*Store, error) {
	s := &Store{
		path:    path,
		options: connOptions{VFS: o.VFS, BusyTimeout: o.BusyTimeout, CacheKiB: 16 << 10},
		readers: newPool(path, connOptions{VFS: o.VFS, BusyTimeout: o.BusyTimeout}, orElse(o.Readers, 4)),
		moving:  o.Moving,
		tails:   map[string]tail{},
	}
	if err := s.openWriter(orElse(o.Opening, context.Background())); err != nil {
		if errors.Is(err, ErrNewerSchema) {
			return nil, errors.Wrapf(err, "event store %s", path)
		}
		return nil, s.unavailable(err)
	}
	return s, nil
}

// openWriter opens the writing connection and reads where the chain ends.
func (s *Store) openWriter(ctx context.Context) error {
	c, err := openConn(s.path, s.options)
	if err != nil {
		return err
	}
	c.SetInterrupt(ctx)
	err = s.readyWriter(c)
	c.SetInterrupt(context.Background())
	if err == nil {
		s.writer = c
		return nil
	}
	if ended := ctx.Err(); ended != nil {
		err = ended // SQLite only says that it was interrupted
	}
	return errors.CombineErrors(err, c.close())
}

func (s *Store) readyWriter(c *conn) error {
	if err := migrate(c, migrations.FS, "sqlite"); err != nil {
		return err
	}
	if err := moveAppended(c, s.moving); err != nil {
		return err
	}
	end, err := readChain(c)
	if err != nil {
		return err
	}
	if err := s.forget(c, end); err != nil {
		return err
	}
	s.chain = end
	return nil
}

func readChain(c *conn) (end chain, err error) {
	err = c.each(`SELECT first, n, hash, latest FROM commits ORDER BY first DESC LIMIT 1`, nil, func(q *sqlite3.Stmt) bool {
		end.first = q.ColumnInt64(0)
		end.head = events.Position(end.first + q.ColumnInt64(1) - 1)
		copy(end.hash[:], q.ColumnRawBlob(2))
		end.latest = q.ColumnInt64(3)
		return false
	})
	return end, err
}

// write runs f in a transaction of the writer. Whatever goes wrong rolls back and wraps events.ErrUnavailable.
func (s *Store) write(ctx context.Context, f func(*conn) error) error {
	if s.closed {
		return s.unavailable(errClosed)
	}
	if s.writer == nil {
		if err := s.openWriter(context.Background()); err != nil {
			return s.unavailable(err)
		}
	}
	c := s.writer
	alive, err := c.writeWithin(ctx, func() error { return f(c) })
	if err == nil {
		return nil
	}
	clear(s.tails)
	if !alive {
		_ = c.close() // what matters is err
		s.writer = nil
	}
	return s.unavailable(err)
}

// unavailable says which store has failed. The standard library's verbs are used so that its errors.Is sees both.
func (s *Store) unavailable(err error) error {
	return fmt.Errorf("%w: %s: %w", events.ErrUnavailable, s.path, err)
}

// Probe commits a change to a row that nobody reads.
func (s *Store) Probe(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write(ctx, func(c *conn) error {
		return c.run(`INSERT INTO probe (id, n) VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET n = n + 1`)
	})
}

// Head is the position of the last stored fact.
func (s *Store) Head(ctx context.Context) (head events.Position, err error) {
	err = s.read(ctx, func(c *conn) error {
		end, err := readChain(c)
		head = end.head
		return err
	})
	return head, err
}

// LowWater is what the writer of the commit that holds a position had said.
func (s *Store) LowWater(ctx context.Context, at events.Position) (low events.Position, err error) {
	if at == 0 {
		at = 1<<63 - 1
	}
	err = s.read(ctx, func(c *conn) error {
		n, err := c.integer(`SELECT low_water FROM commits WHERE first <= ? ORDER BY first DESC LIMIT 1`, int64(at))
		low = events.Position(n)
		return err
	})
	return low, err
}

// read runs f in a read snapshot. Errors wrap events.ErrUnavailable, unless the context has ended.
func (s *Store) read(ctx context.Context, f func(*conn) error) error {
	err := s.readers.read(ctx, f)
	if err == nil || ctx.Err() != nil {
		return err
	}
	return s.unavailable(err)
}

// Close moves what is in the write-ahead log to the file and closes it. A page that is being read may hold it up for
// the busy timeout.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.readers.close()
	if s.writer == nil {
		return nil
	}
	_, _, err := s.writer.WALCheckpoint("main", sqlite3.CHECKPOINT_TRUNCATE)
	if errors.Is(err, sqlite3.BUSY) {
		err = nil // another process reads: it will do it
	}
	err = errors.CombineErrors(err, s.writer.close())
	s.writer = nil
	return errors.Wrapf(err, "close %s", s.path)
}
