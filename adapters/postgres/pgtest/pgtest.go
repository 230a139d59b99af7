// Package pgtest runs private PostgreSQL clusters for tests: each in a folder of its own, on a free port, with fsync on,
// and gone without a trace when the test is, also when the test program is killed.
package pgtest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/jackc/pgx/v5"

	"github.com/penstock/penstock/adapters/postgres/cluster"
)

// Required is the environment variable that turns "PostgreSQL is not installed" from a skipped test into a failed one.
const Required = "PENSTOCK_REQUIRE_POSTGRES"

// startMax bounds the start of a server, and its end.
const startMax = 60 * time.Second

// Server is a running cluster. Its methods fail the test that they are called for.
type Server struct {
	files *cluster.Cluster
	certificate
	port   int
	shared bool          // see Shared
	guard  io.Closer     // closing it, or the end of this process, removes all
	gone   chan struct{} // the guard has done its work

	mu      sync.Mutex
	process *exec.Cmd // nil: stopped
	ended   chan struct{}
	said    []string // last lines of the server's log
	names   int
}

// Mode says how a server is stopped.
type Mode syscall.Signal

// The modes of pg_ctl.
const (
	Fast      = Mode(syscall.SIGINT)  // sessions are ended, all is written
	Immediate = Mode(syscall.SIGQUIT) // a crash: the next start recovers
)

// Start runs a cluster of its own for one test, which may stop and disturb it.
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := start()
	if err != nil {
		missing(t, err)
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.remove(); err != nil {
			t.Error(err)
		}
	})
	return s
}

var shared struct {
	sync.Mutex
	server *Server
	err    error
}

// Shared is the cluster that all tests of a program use beside one another, each in a database of its own. Its
// TestMain must call Main.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil && shared.err == nil {
		if shared.server, shared.err = start(); shared.err == nil {
			shared.server.shared = true
		}
	}
	if shared.err != nil {
		missing(t, shared.err)
		t.Fatal(shared.err)
	}
	return shared.server
}

// Main runs the tests of a program and removes the shared cluster.
func Main(m *testing.M) {
	code := m.Run()
	shared.Lock()
	if s := shared.server; s != nil {
		if err := s.remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// missing skips a test that needs a server that is not installed, unless it is required.
func missing(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, cluster.ErrNotInstalled) && os.Getenv(Required) == "" {
		t.Skipf("%s; set %s=1 to make this an error", err, Required)
	}
}

// start makes a cluster and runs it.
func start() (*Server, error) {
	files, err := cluster.Create(context.Background(), "pg-") // short: the path of a socket may have 107 bytes
	if err != nil {
		return nil, err
	}
	s := &Server{files: files}
	if err := s.setGuard(); err != nil {
		return nil, fmt.Errorf("%w (%v)", err, files.Remove())
	}
	if s.certificate, err = newCertificate(files); err != nil {
		return nil, fmt.Errorf("%w (%v)", err, s.remove())
	}
	if err := s.run(); err != nil {
		return nil, fmt.Errorf("%w (%v)", err, s.remove())
	}
	return s, nil
}

// setGuard starts a shell that waits for the end of its input: it comes when the server is removed, and when the test
// program dies whatever way.
func (s *Server) setGuard() error {
	const script = `read -r _
		pid=$(head -n 1 "$0/data/postmaster.pid" 2>/dev/null)
		if [ -n "$pid" ]; then
			kill -CONT $pid $(ps -o pid= --ppid "$pid") 2>/dev/null
			kill -QUIT "$pid" 2>/dev/null
			n=0
			while kill -0 "$pid" 2>/dev/null && [ $n -lt 100 ]; do sleep 0.05; n=$((n+1)); done
			kill -KILL "$pid" 2>/dev/null
		fi
		rm -rf "$0"`
	c := exec.Command("/bin/sh", "-c", script, s.files.Folder)
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // ^C is for the test program
	in, err := c.StdinPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	s.guard, s.gone = in, make(chan struct{})
	go func() {
		_ = c.Wait() // remove looks whether the folder is gone
		close(s.gone)
	}()
	return nil
}

// run starts the server and returns when it takes connections. Its port stays the same from the first start on.
func (s *Server) run() error {
	var err error
	again := s.port > 0
	for end := time.Now().Add(startMax); time.Now().Before(end); time.Sleep(100 * time.Millisecond) { // somebody may take a free port before the server does
		if !again {
			if s.port, err = cluster.FreePort(context.Background()); err != nil {
				return err
			}
		}
		if err = s.launch(); err == nil {
			return nil
		}
		if !strings.Contains(err.Error(), "could not bind") {
			return err
		}
	}
	return err
}

func (s *Server) launch() error {
	c := s.files.Command(context.Background(), s.files.Program("postgres"), "-D", s.files.Data(), "-p", strconv.Itoa(s.port), "-k", s.files.Folder,
		"-c", "listen_addresses=127.0.0.1", "-c", "fsync=on", "-c", "synchronous_commit=on", "-c", "max_connections=200",
		"-c", "shared_buffers=64MB", "-c", "log_destination=stderr", "-c", "logging_collector=off", "-c", "max_prepared_transactions=0",
		"-c", "ssl=on", "-c", "ssl_cert_file="+s.public, "-c", "ssl_key_file="+s.private)
	log, err := c.StderrPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	ready, ended := make(chan struct{}), make(chan struct{})
	s.mu.Lock()
	s.process, s.ended, s.said = c, ended, nil
	s.mu.Unlock()
	go s.follow(c, log, ready, ended)
	select {
	case <-ready:
		return nil
	case <-ended:
		return fmt.Errorf("the server did not start: %s", s.lastWords())
	case <-time.After(startMax):
		return fmt.Errorf("the server did not start in %s: %s", startMax, s.lastWords())
	}
}

// follow reads the server's log until its end.
func (s *Server) follow(c *exec.Cmd, log io.Reader, ready, ended chan struct{}) {
	lines, up := bufio.NewScanner(log), false
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		s.mu.Lock()
		if s.said = append(s.said, line); len(s.said) > 50 {
			s.said = s.said[1:]
		}
		s.mu.Unlock()
		if !up && strings.Contains(line, "database system is ready to accept ") { // connections, or read-only ones
			up = true
			close(ready)
		}
	}
	_ = c.Wait() // the log says why
	close(ended)
}

func (s *Server) lastWords() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.said, "\n")
}

// remove ends the server and waits until the guard has removed its files.
func (s *Server) remove() error {
	err := s.end(Immediate)
	if s.guard != nil {
		_ = s.guard.Close() // its end has the same meaning
		select {
		case <-s.gone:
		case <-time.After(startMax):
		}
	}
	if _, left := os.Stat(s.files.Folder); left == nil && err == nil {
		err = fmt.Errorf("%s is still there", s.files.Folder)
	}
	return err
}

// DSN is the address of the database postgres.
func (s *Server) DSN() string { return s.dsn("postgres") }

func (s *Server) dsn(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", s.port, database)
}

// NewDatabase makes an empty database for one test and returns its address.
func (s *Server) NewDatabase(t testing.TB) string {
	t.Helper()
	s.mu.Lock()
	s.names++
	name := fmt.Sprintf("t%d", s.names)
	s.mu.Unlock()
	s.Exec(t, `CREATE DATABASE `+name)
	t.Cleanup(func() {
		if s.running() {
			s.Exec(t, `DROP DATABASE `+name+` WITH (FORCE)`)
		}
	})
	if s.shared { // nobody disturbs it: who connects waits for as long as the machine stands still
		return fmt.Sprintf("%s&connect_timeout=%d", s.dsn(name), int(startMax.Seconds()))
	}
	return s.dsn(name)
}

// Exec runs a statement in the database postgres.
func (s *Server) Exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	s.administer(t, func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, sql, args...)
		return errors.Wrap(err, sql)
	})
}

// administer does something over a connection to the database postgres.
func (s *Server) administer(t testing.TB, do func(context.Context, *pgx.Conn) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startMax)
	defer cancel()
	c, err := pgx.Connect(ctx, s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if err := do(ctx, c); err != nil {
		t.Fatal(err)
	}
}
