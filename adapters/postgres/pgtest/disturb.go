package pgtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/jackc/pgx/v5"
)

// Stop ends the server. A paused one is continued first.
func (s *Server) Stop(t testing.TB, how Mode) {
	t.Helper()
	if err := s.end(how); err != nil {
		t.Fatal(err)
	}
}

// Restart starts a server that was stopped, or stops it (Fast) and starts it. It returns when it takes connections.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.end(Fast); err != nil {
		t.Fatal(err)
	}
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
}

// Demote makes the server a standby, as a failover does with the one that was the primary: its sessions end, and it takes no changes
// until Promote.
func (s *Server) Demote(t testing.TB) {
	t.Helper()
	if err := s.end(Fast); err != nil {
		t.Fatal(err)
	}
	if _, err := s.files.Write(filepath.Join("data", "standby.signal"), nil); err != nil {
		t.Fatal(err)
	}
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
}

// Promote makes a standby the primary. Its sessions go on.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	s.Exec(t, `SELECT pg_promote()`)
}

func (s *Server) running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process != nil
}

// end signals the server and waits for it.
func (s *Server) end(how Mode) error {
	s.mu.Lock()
	c, ended := s.process, s.ended
	s.process = nil
	s.mu.Unlock()
	if c == nil {
		return nil
	}
	select {
	case <-ended: // by itself
		return nil
	default:
	}
	if err := signalAll(c.Process.Pid, syscall.SIGCONT); err != nil {
		return err
	}
	if err := c.Process.Signal(syscall.Signal(how)); err != nil {
		return fmt.Errorf("stop the server: %w", err)
	}
	select {
	case <-ended:
		return nil
	case <-time.After(startMax):
		return fmt.Errorf("the server did not end in %s: %s", startMax, s.lastWords())
	}
}

// Pause stops every process of the server, as a hung machine would: connections stay, nothing answers.
func (s *Server) Pause(t testing.TB) { s.signal(t, syscall.SIGSTOP) }

// Continue ends a Pause.
func (s *Server) Continue(t testing.TB) { s.signal(t, syscall.SIGCONT) }

func (s *Server) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	s.mu.Lock()
	c := s.process
	s.mu.Unlock()
	if c == nil {
		t.Fatal("the server is stopped")
	}
	if err := signalAll(c.Process.Pid, sig); err != nil {
		t.Fatal(err)
	}
}

// signalAll signals the postmaster first, which makes no more children then, and then these.
func signalAll(postmaster int, sig syscall.Signal) error {
	if err := syscall.Kill(postmaster, sig); err != nil {
		return fmt.Errorf("signal the server: %w", err)
	}
	children, err := childrenOf(postmaster)
	if err != nil {
		return err
	}
	for _, pid := range children {
		if err := syscall.Kill(pid, sig); err != nil && err != syscall.ESRCH {
			return fmt.Errorf("signal a process of the server: %w", err)
		}
	}
	return nil
}

// childrenOf reads /proc: the processes whose parent is pid.
func childrenOf(parent int) (list []int, err error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no /proc to find the processes of the server in (%v)", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(b), ") ") // behind the name, which may hold anything
		fields := strings.Fields(rest)
		if len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				return nil, err
			}
			list = append(list, pid)
		}
	}
	return list, nil
}

// KillBackends ends all sessions of a database, given by its address, as an administrator would, all at once, and returns
// when the server knows none of them any more: a client may hear of the end of its session before that.
func (s *Server) KillBackends(t testing.TB, dsn string) {
	t.Helper()
	// The start tells a session from one that got the number of its process.
	const kill = `SELECT ROW(pid, backend_start)::text, pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()`
	const left = `SELECT count(*) FROM pg_stat_activity WHERE ROW(pid, backend_start)::text = ANY($1)`
	s.administer(t, func(ctx context.Context, c *pgx.Conn) error {
		rows, _ := c.Query(ctx, kill, databaseOf(dsn)) // an error is in the rows, too
		var killed []string
		var session string
		_, err := pgx.ForEachRow(rows, []any{&session, nil}, func() error {
			killed = append(killed, session)
			return nil
		})
		for n := len(killed); err == nil && n > 0; time.Sleep(time.Millisecond) {
			err = c.QueryRow(ctx, left, killed).Scan(&n)
		}
		return errors.Wrapf(err, "end the sessions of %s", dsn)
	})
}

// CrashBackend kills (SIGKILL) one process that serves a session of a database, given by its address. The server then ends
// all its sessions and recovers as from a crash, by itself.
func (s *Server) CrashBackend(t testing.TB, dsn string) {
	t.Helper()
	const one = `SELECT pid FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1`
	s.administer(t, func(ctx context.Context, c *pgx.Conn) error {
		var pid int
		if err := c.QueryRow(ctx, one, databaseOf(dsn)).Scan(&pid); err != nil {
			return errors.Wrapf(err, "find a session of %s", dsn)
		}
		return errors.Wrap(syscall.Kill(pid, syscall.SIGKILL), "kill a process of the server")
	})
}

func databaseOf(dsn string) string {
	database := dsn[strings.LastIndexByte(dsn, '/')+1:]
	database, _, _ = strings.Cut(database, "?")
	return database
}
