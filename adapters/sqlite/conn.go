package sqlite

import (
	"context"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/ncruces/go-sqlite3"
)

// connOptions say how a database file is opened. The zero value is a connection that reads and writes, in WAL mode,
// with synchronous=FULL, on the files of the operating system.
type connOptions struct {
	VFS         string        // registered name; "" is the operating system
	Synchronous string        // FULL when empty; NORMAL may lose the last commits on a power cut, never the file
	QueryOnly   bool          // refuses every write
	BusyTimeout time.Duration // how long a lock of another process is waited for; 0 is 5 s
	CacheKiB    int           // page cache; 0 is 4 MiB
	Checkpoint  int           // pages of WAL after which a commit checkpoints; 0 is 2,000 (16 MiB)
}

// conn is one connection with its prepared statements. One goroutine at a time may use it.
type conn struct {
	*sqlite3.Conn
	stmts map[string]*sqlite3.Stmt
	rows  map[rowKind]*rowStmt // those that write rows of read models
}

// openConn opens or creates a database file. A new file, and the log beside it, can be read by its owner only.
func openConn(path string, o connOptions) (*conn, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, errors.Wrap(err, "open database")
	}
	if err := f.Close(); err != nil {
		return nil, errors.Wrap(err, "open database")
	}
	options := url.Values{"modeof": {path}} // the log takes the mode of the file
	switch {
	case o.Synchronous == "" && !o.QueryOnly:
		options.Set("vfs", gathering(o.VFS))
	case o.VFS != "":
		options.Set("vfs", o.VFS)
	}
	query := strings.ReplaceAll(options.Encode(), "+", "%20") // SQLite reads a plus as a plus
	name := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: query}
	db, err := sqlite3.Open(name.String())
	if err != nil {
		return nil, errors.Wrapf(err, "open %s", path)
	}
	c := &conn{Conn: db, stmts: map[string]*sqlite3.Stmt{}, rows: map[rowKind]*rowStmt{}}
	if err := c.setUp(o); err != nil {
		return nil, errors.CombineErrors(errors.Wrapf(err, "open %s", path), c.close())
	}
	return c, nil
}

// pageSize is that of a new file; an older one keeps its own. Rows of both files come in order, many at a time: larger pages
// than SQLite's 4096 bytes are split less often and written in fewer pieces.
const pageSize = 8192

// setUp applies the pragmas. The page size and the journal mode come first: they are kept in the file.
func (c *conn) setUp(o connOptions) error {
	busy := orElse(o.BusyTimeout, 5*time.Second)
	if err := c.BusyTimeout(busy); err != nil {
		return err
	}
	if err := c.Exec("PRAGMA page_size=" + strconv.Itoa(pageSize)); err != nil {
		return errors.Wrap(err, "pragma page_size")
	}
	mode, err := c.walMode(busy)
	if err != nil {
		return err
	}
	if mode != "wal" {
		return errors.Newf("the file system allows no write-ahead log (journal mode is %q)", mode)
	}
	for _, pragma := range []string{
		"synchronous=" + orElse(o.Synchronous, "FULL"),
		"foreign_keys=OFF",
		"temp_store=MEMORY",
		"cache_size=-" + strconv.Itoa(orElse(o.CacheKiB, 4<<10)),
		"wal_autocheckpoint=" + strconv.Itoa(orElse(o.Checkpoint, 2000)),
		"journal_size_limit=" + strconv.Itoa(64<<20), // a WAL that a slow reader let grow shrinks again
		"query_only=" + strconv.FormatBool(o.QueryOnly),
	} {
		if err := c.Exec("PRAGMA " + pragma); err != nil {
			return errors.Wrapf(err, "pragma %s", pragma)
		}
	}
	return nil
}

// walMode sets the journal mode, which a file keeps once it has it. Of several that open one without it at once SQLite refuses all
// but one immediately, whatever the busy timeout: they would wait for each other.
func (c *conn) walMode(busy time.Duration) (mode string, err error) {
	for end := time.Now().Add(busy); ; time.Sleep(5 * time.Millisecond) {
		mode, err = c.text(`PRAGMA journal_mode=WAL`)
		if !errors.Is(err, sqlite3.BUSY) || time.Now().After(end) {
			return mode, err
		}
	}
}

// write runs f inside BEGIN IMMEDIATE and commits, or rolls back when f or the commit fails.
func (c *conn) write(f func() error) error { return c.transact(`BEGIN IMMEDIATE`, f) }

// writeWithin is write, interrupted when the context ends; then the error is the context's. alive: the connection works on after the
// fault, once it has rolled back; else it is to be opened anew.
func (c *conn) writeWithin(ctx context.Context, f func() error) (alive bool, err error) {
	c.SetInterrupt(ctx)
	err = c.write(f)
	c.SetInterrupt(context.Background())
	if err == nil {
		return true, nil
	}
	alive = survivable(err) && c.GetAutocommit()
	if ended := ctx.Err(); ended != nil {
		err = ended // SQLite only says that it was interrupted
	}
	return alive, err
}

// survivable says that a fault leaves the connection as it was.
func survivable(err error) bool {
	for _, code := range []sqlite3.ErrorCode{sqlite3.FULL, sqlite3.IOERR, sqlite3.BUSY, sqlite3.INTERRUPT} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

// read runs f inside one read snapshot.
func (c *conn) read(f func() error) error { return c.transact(`BEGIN`, f) }

func (c *conn) transact(begin string, f func() error) (err error) {
	if err := c.run(begin); err != nil {
		return err
	}
	defer func() {
		if err == nil {
			return
		}
		defer c.drop()
		if c.GetAutocommit() { // SQLite has rolled back by itself, as after some faults (full disk, I/O error)
			return
		}
		ctx := c.SetInterrupt(context.Background()) // a cancelled context must not keep the transaction open
		err = errors.CombineErrors(err, c.run(`ROLLBACK`))
		c.SetInterrupt(ctx)
	}()
	if err := f(); err != nil {
		return err
	}
	return c.run(`COMMIT`)
}

// close finalizes the statements and closes the file.
func (c *conn) close() error {
	for sql, s := range c.stmts {
		_ = s.Close() // repeats the error of the last Step
		delete(c.stmts, sql)
	}
	return c.Close()
}

func orElse[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
