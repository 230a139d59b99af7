package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/cockroachdb/errors"
)

// cluster is a private PostgreSQL server with fsync on, in a folder of its own.
type cluster struct {
	dir, bin string
	owner    *syscall.Credential // nil: the one who runs the benchmark
	server   *child
}

// startPostgres makes a cluster and starts it. What is there in case of an error is returned with it, to be removed.
func startPostgres(ctx context.Context) (*cluster, string, error) {
	bin, err := postgresPrograms()
	if err != nil {
		return nil, "", err
	}
	p := &cluster{bin: bin}
	if p.owner, err = postgresOwner(); err != nil {
		return nil, "", err
	}
	if p.dir, err = os.MkdirTemp("", "penstock-bench-pg-"); err != nil {
		return nil, "", errors.Wrap(err, "folder of PostgreSQL")
	}
	if p.owner != nil {
		if err := os.Chown(p.dir, int(p.owner.Uid), int(p.owner.Gid)); err != nil {
			return p, "", errors.Wrap(err, "folder of PostgreSQL")
		}
	}
	out, err := p.command(ctx, filepath.Join(bin, "initdb"), "-D", p.data(), "--username=postgres", "--auth=trust",
		"--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions").CombinedOutput()
	if err != nil {
		return p, "", errors.Wrapf(err, "initdb: %s", out)
	}
	port, err := freePort(ctx)
	if err != nil {
		return p, "", err
	}
	// The shell ends the server with its own input, so that it does not outlive the benchmark.
	const script = `exec 3<&0; trap 'kill -INT $p' TERM
		"$0" -D "$1" -p "$2" -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c max_connections=100 -c logging_collector=off 3<&- & p=$!
		(read -r _ <&3; kill -INT $p) & wait $p; wait $p`
	p.server, err = launch("postgres", p.command(context.WithoutCancel(ctx), "/bin/sh", "-c", script,
		filepath.Join(bin, "postgres"), p.data(), strconv.Itoa(port)))
	if err != nil {
		return p, "", err
	}
	for line := ""; !strings.Contains(line, "ready to accept connections"); {
		if line, err = p.server.next(ctx, p.server.stderr); err != nil {
			return p, "", err
		}
	}
	return p, fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port), nil
}

func (p *cluster) data() string { return filepath.Join(p.dir, "data") }

func (p *cluster) command(ctx context.Context, path string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, path, args...)
	c.Dir = p.dir
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: p.owner} // ^C is for the benchmark
	return c
}

// remove ends the server and removes its folder.
func (p *cluster) remove() error {
	if p.server != nil {
		p.server.end()
		p.server.wait()
	}
	return errors.Wrap(os.RemoveAll(p.dir), "folder of PostgreSQL")
}

// postgresPrograms is the folder with initdb and postgres, the newest when there are several.
func postgresPrograms() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path), nil
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the pattern is well formed
	if len(found) == 0 {
		return "", errors.New("store: postgres: PostgreSQL is not installed: neither initdb in the PATH nor /usr/lib/postgresql/*/bin")
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(strings.Split(path, "/")[4]) // 0 for a name that is no number
		return n
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })), nil
}

// postgresOwner is the user that the server runs as: it refuses root.
func postgresOwner() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, errors.Wrap(err, "store: postgres: PostgreSQL does not run as root")
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, errors.Wrapf(err, "user %s", u.Username)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Wrapf(err, "user %s", u.Username)
}

// freePort is a port of this machine that nobody listens on.
func freePort(ctx context.Context) (int, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, errors.Wrap(err, "free port")
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
