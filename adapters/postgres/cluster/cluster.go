// Package cluster makes the files of private PostgreSQL clusters, for tests and measurements, and the commands that run
// their server. Who starts a server also sees to its end.
package cluster

import (
	"context"
	"math/rand/v2"
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

// ErrNotInstalled is the error on a machine without PostgreSQL.
var ErrNotInstalled = errors.New("PostgreSQL is not installed: neither initdb in the PATH nor /usr/lib/postgresql/*/bin")

// Cluster is the files of one cluster, in a folder of its own.
type Cluster struct {
	Folder string
	bin    string
	owner  *syscall.Credential // nil: the one who runs this program
}

// Create makes a cluster in a new folder for temporary files whose name begins with the prefix. Everybody is let in as
// postgres; the text is UTF-8. After an error nothing is left. It wraps ErrNotInstalled.
func Create(ctx context.Context, prefix string) (*Cluster, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	owner, err := whoRuns()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", prefix)
	if err != nil {
		return nil, errors.Wrap(err, "folder of PostgreSQL")
	}
	c := &Cluster{folder, bin, owner}
	if err := c.create(ctx); err != nil {
		return nil, errors.CombineErrors(err, c.Remove())
	}
	return c, nil
}

func (c *Cluster) create(ctx context.Context) error {
	if err := c.give(c.Folder); err != nil {
		return err
	}
	out, err := c.Command(ctx, c.Program("initdb"), "-D", c.Data(), "--username=postgres", "--auth=trust", "--encoding=UTF8",
		"--locale=C", "--no-sync", "--no-instructions").CombinedOutput()
	return errors.Wrapf(err, "initdb: %s", out)
}

// Installed is nil on a machine with PostgreSQL, else ErrNotInstalled.
func Installed() error {
	_, err := programs()
	return err
}

// Data is the folder that the server takes with -D.
func (c *Cluster) Data() string { return filepath.Join(c.Folder, "data") }

// Program is the path of one of PostgreSQL's programs.
func (c *Cluster) Program(name string) string { return filepath.Join(c.bin, name) }

// Command is a program that is run as the owner of the cluster, in its folder. ^C is not for it but for this program.
func (c *Cluster) Command(ctx context.Context, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = c.Folder
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: c.owner}
	return cmd
}

// Write makes a file of the cluster that only its owner reads, and returns its path.
func (c *Cluster) Write(name string, content []byte) (string, error) {
	path := filepath.Join(c.Folder, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return "", errors.Wrap(err, "file of PostgreSQL")
	}
	return path, c.give(path)
}

// give makes a file or folder the owner's.
func (c *Cluster) give(path string) error {
	if c.owner == nil {
		return nil
	}
	return errors.Wrap(os.Chown(path, int(c.owner.Uid), int(c.owner.Gid)), "files of PostgreSQL")
}

// Remove removes the files. The server must have ended.
func (c *Cluster) Remove() error { return errors.Wrap(os.RemoveAll(c.Folder), "folder of PostgreSQL") }

// programs is the folder with initdb and postgres, the newest when there are several.
func programs() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path), nil
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the pattern is well formed
	if len(found) == 0 {
		return "", ErrNotInstalled
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(strings.Split(path, "/")[4]) // 0 for a name that is no number
		return n
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })), nil
}

// whoRuns is the user that the server runs as: it refuses root.
func whoRuns() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, errors.Wrap(err, "PostgreSQL does not run as root")
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, errors.Wrapf(err, "user %s", u.Username)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Wrapf(err, "user %s", u.Username)
}

// FreePort is a port of this machine that nobody listens on. It is none of those that the kernel gives to whoever asks for any, or
// calls somebody, if there is another: a server that is started again later finds it free.
func FreePort(ctx context.Context) (int, error) {
	for range 100 {
		port := 20_000 + rand.IntN(12_000)
		if l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:"+strconv.Itoa(port)); err == nil {
			return port, errors.Wrap(l.Close(), "free port")
		}
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, errors.Wrap(err, "free port")
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
