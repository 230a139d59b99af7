package postgres

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// dialer opens connections. After a failure it waits before it tries again, a little longer each time, and meanwhile
// answers with what went wrong: a server that is down is not stormed.
type dialer struct {
	config *pgx.ConnConfig

	mu       sync.Mutex
	failures int
	closed   time.Time // no dialling before it
	last     error
}

const (
	backoffMin = 20 * time.Millisecond
	backoffMax = time.Second
)

// settingOwn is a setting that only the writer's session has: read again, it says that its settings are those of the session.
const settingOwn = "penstock.session"

// The settings of every session, whatever the server, the database, the role or the address say.
var settingsAlways = map[string]string{
	"client_encoding":               "UTF8",           // what texts are in
	"default_transaction_isolation": "read committed", // who has waited for a lock sees what was written meanwhile
	"idle_session_timeout":          "0",              // sessions that rest hold locks, the claim to the database among them
}

// settingsOfNetwork are those of every session, unless the address says otherwise: a gateway that has lost its power holds its locks
// for half a minute. Probes are for a connection that rests; the last one is for an answer on its way.
var settingsOfNetwork = map[string]string{
	"tcp_keepalives_idle":     "10",
	"tcp_keepalives_interval": "5",
	"tcp_keepalives_count":    "4",
	"tcp_user_timeout":        "30000",
}

// newDialer reads a connection string: a URL or "key=value" pairs. What it sets wins over the settings below.
func newDialer(dsn string, o StoreOptions, application string, settings map[string]string) (*dialer, error) {
	c, err := pgx.ParseConfig(dsn)
	if err == nil {
		err = splitPassword(c)
	}
	if err != nil {
		return nil, err // it hides the password
	}
	if o.ConnectTimeout > 0 {
		c.ConnectTimeout = o.ConnectTimeout
	}
	c.ConnectTimeout = orElse(c.ConnectTimeout, 3*time.Second)
	c.DialFunc = o.Socket.over(c.DialFunc)
	wait := strconv.FormatInt(o.Deadline.Milliseconds(), 10)
	for name, value := range map[string]string{
		"application_name":                    application,
		"statement_timeout":                   wait, // a statement that nobody waits for ends
		"idle_in_transaction_session_timeout": strconv.FormatInt(4*o.Deadline.Milliseconds(), 10),
		"jit":                                 "off",
		// There is an index for each question. What is believed of a table that nobody has analysed yet must not matter.
		"enable_seqscan":    "off",
		"enable_bitmapscan": "off",
	} {
		setDefault(c.RuntimeParams, name, value)
	}
	for _, more := range []map[string]string{settings, settingsOfNetwork} {
		for name, value := range more {
			setDefault(c.RuntimeParams, name, value)
		}
	}
	maps.Copy(c.RuntimeParams, settingsAlways)
	return &dialer{config: c}, nil
}

// splitPassword refuses an address whose password has an @ that is written as it is: what comes behind it would be the name of a host,
// which every error names and name servers are asked for.
func splitPassword(c *pgx.ConnConfig) error {
	hosts := []string{c.Host}
	for _, f := range c.Fallbacks {
		hosts = append(hosts, f.Host)
	}
	for _, host := range hosts {
		if strings.LastIndexByte(host, '@') > 0 { // at the beginning it is a socket that has no file
			return errors.New("the name of the host has an @: write %40 for one in the name or the password of the user")
		}
	}
	return nil
}

func setDefault(m map[string]string, name, value string) {
	if m[name] == "" {
		m[name] = value
	}
}

// name is the server and the database, for messages.
func (d *dialer) name() string {
	host := d.config.Host
	if !strings.HasPrefix(host, "/") {
		host = fmt.Sprintf("%s:%d", host, d.config.Port)
	}
	return "PostgreSQL " + host + "/" + d.config.Database
}

// connect opens a connection, unless the last failure was a moment ago.
func (d *dialer) connect(ctx context.Context) (*pgx.Conn, error) {
	d.mu.Lock()
	if wait := time.Until(d.closed); wait > 0 {
		err := d.last
		d.mu.Unlock()
		return nil, errors.Wrapf(err, "next try to connect in %s, the last one failed", wait.Round(time.Millisecond))
	}
	d.mu.Unlock()
	c, err := pgx.ConnectConfig(ctx, d.config.Copy())
	err = pooled(err)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err == nil:
		d.failures, d.last = 0, nil
	case ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded): // a caller that gave up says nothing about the server
		d.closed = time.Now().Add(min(backoffMax, backoffMin<<min(d.failures, 10)))
		d.failures, d.last = d.failures+1, err
	}
	return c, err
}

// pooled says of an error of connecting that it is a pooler's.
func pooled(err error) error {
	if codeOf(err) == protocolViolation && strings.Contains(err.Error(), "startup parameter") {
		return fmt.Errorf("%w (%w)", ErrPooled, err)
	}
	return err
}

// only has a connection refused that is to another kind of server than this, unless the address says which kind it wants.
// With an address of several servers the next one is tried then.
func only(c *pgx.ConnConfig, kind pgconn.ValidateConnectFunc) {
	if c.ValidateConnect == nil {
		c.ValidateConnect = kind
	}
}

// What a gateway needs: a server that takes what is written; and one that has all that was written.
var (
	writable = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	primary  = pgconn.ValidateConnectTargetSessionAttrsPrimary
)

// drop closes a connection that may be broken; nobody waits for it for long.
func drop(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_ = c.Close(ctx) // what was wrong with it is known already
}

// codeOf is the SQLSTATE of an error of the server, "" for any other error.
func codeOf(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// refused says that the server has answered with an error and works on: the transaction is rolled back. For any other
// error nobody knows what became of it.
func refused(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.SeverityUnlocalized == "ERROR"
}

const (
	uniqueViolation  = "23505"
	undefinedTable   = "42P01"
	lockNotAvailable = "55P03"
	deadlockDetected = "40P01"
	invalidText      = "22P02"
	invalidBytes     = "22021"
	outOfMemory      = "53200"

	protocolViolation = "08P01"
	readOnly          = "25006"
)
