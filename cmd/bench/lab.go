package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
)

// Cores that a process may use. The gateway and the proxy that it is measured against get the same.
const (
	upstreamProcs = 1
	gatewayProcs  = 2
)

const model = "mock-model"

// lab is a folder with the programs and their data, the processes, and what is loaded.
type lab struct {
	settings settings
	progress io.Writer
	dir      string
	children []*child
	database *database // nil: none
	targets  []target
}

// stores are the gateways to be measured, by the value of -store.
var stores = map[string][]string{
	"sqlite": {gateway}, "postgres": {gatewayPostgres}, "both": {gateway, gatewayPostgres},
}

// openLab builds and starts everything. What is there in case of an error is returned with it, to be closed.
func openLab(ctx context.Context, s settings, progress io.Writer) (*lab, error) {
	dir, err := os.MkdirTemp("", "penstock-bench-")
	if err != nil {
		return nil, errors.Wrap(err, "temporary folder")
	}
	l := &lab{settings: s, progress: progress, dir: dir}
	for _, step := range []func(context.Context) error{l.build, l.start, l.try} {
		if err := step(ctx); err != nil {
			return l, err
		}
	}
	return l, nil
}

// close ends the processes and removes the folders. The database outlives those that use it.
func (l *lab) close() error {
	for _, c := range l.children {
		c.end()
	}
	for _, c := range l.children {
		c.wait()
	}
	err := errors.Wrap(os.RemoveAll(l.dir), "temporary folder")
	if l.database != nil {
		err = errors.CombineErrors(err, l.database.remove())
	}
	return err
}

func (l *lab) build(ctx context.Context) error {
	bin := filepath.Join(l.dir, "bin") + string(filepath.Separator)
	const cmd = "github.com/penstock/penstock/cmd/"
	b := exec.CommandContext(ctx, "go", "build", "-o", bin, cmd+"mockllm", cmd+"fastproxy")
	b.Cancel = func() error { return b.Process.Signal(os.Interrupt) } // it then ends its compilers
	b.WaitDelay = 5 * time.Second
	out, err := b.CombinedOutput()
	return errors.Wrapf(err, "go build: %s", bytes.TrimSpace(out))
}

// start starts the processes. They get next to nothing of the environment: no settings of a gateway, no credentials
// of providers, no tuning of the run time on one side only.
func (l *lab) start(ctx context.Context) error {
	up, err := l.program(ctx, "mockllm", "-procs", strconv.Itoa(upstreamProcs))
	if err != nil {
		return err
	}
	bare, err := l.program(ctx, "fastproxy", "-procs", strconv.Itoa(gatewayProcs), "-up", up.addr)
	if err != nil {
		return err
	}
	l.targets = []target{
		{direct, "http://" + up.addr, "sk-direct", up},
		{proxy, "http://" + bare.addr, "sk-bare", bare},
	}
	for _, name := range stores[l.settings.store] {
		if err := l.open(ctx, name, up); err != nil {
			return err
		}
	}
	return nil
}

// open starts a gateway, and the database that it needs, and makes it a target.
func (l *lab) open(ctx context.Context, name string, up *child) (err error) {
	store := ""
	if name == gatewayPostgres {
		if l.database, store, err = startPostgres(ctx); err != nil {
			return err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return errors.Wrap(err, "own program")
	}
	g, err := l.launch(name, self, "-serve", filepath.Join(l.dir, name), "-durability", l.settings.durability, "-store", store)
	if err != nil {
		return err
	}
	hello, err := g.reply(ctx)
	if err != nil {
		return err
	}
	g.addr = hello.Addr
	key, err := configure(ctx, hello, "http://"+up.addr)
	l.targets = append(l.targets, target{name, "http://" + g.addr, key, g})
	return err
}

// program starts one that was built; it tells its address in its first line.
func (l *lab) program(ctx context.Context, name string, args ...string) (*child, error) {
	c, err := l.launch(name, filepath.Join(l.dir, "bin", name), append(args, "-addr", "127.0.0.1:0")...)
	if err != nil {
		return nil, err
	}
	line, err := c.next(ctx, c.stderr)
	if err != nil {
		return nil, err
	}
	words := strings.Fields(line) // NAME on ADDRESS …
	if len(words) < 3 || words[1] != "on" {
		return nil, errors.Newf("%s: says %q instead of its address", name, line)
	}
	c.addr = words[2]
	return c, nil
}

func (l *lab) launch(name, path string, args ...string) (*child, error) {
	cmd := exec.Command(path, args...)
	cmd.Env = []string{"TMPDIR=" + l.dir}
	c, err := launch(name, cmd)
	if err == nil {
		l.children = append(l.children, c)
	}
	return c, err
}

// tell gives a gateway's process a command and waits until it has been done.
func (c *child) tell(ctx context.Context, command string) error {
	if _, err := fmt.Fprintln(c.stdin, command); err != nil {
		return errors.Wrap(err, c.name)
	}
	_, err := c.reply(ctx)
	return err
}

func (c *child) reply(ctx context.Context) (m message, err error) {
	line, err := c.next(ctx, c.stdout)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		return m, errors.Wrapf(err, "%s: says %q", c.name, line)
	}
	if m.Error != "" {
		return m, errors.Newf("%s: %s", c.name, m.Error)
	}
	return m, nil
}

// configure gives a new gateway one upstream without bounds, a price and a key, as an operator would, and returns
// the secret of the key.
func configure(ctx context.Context, at message, upstream string) (secret string, err error) {
	type object = map[string]any
	resources := []object{
		{"kind": "upstream", "id": "mock", "base_url": upstream, "capabilities": []string{"openai_chat_compatible"}},
		{"kind": "account", "id": "mock-1", "upstream": "mock", "api_key": "sk-upstream"},
		{"kind": "price", "model": model, "input": "2.5", "output": "15", "cached_input": "0.25"},
		{"kind": "user", "id": "bench"},
	}
	if err := administer(ctx, at, "/api/v1/apply", object{"resources": resources}, nil); err != nil {
		return "", err
	}
	var made struct{ Secret string }
	err = administer(ctx, at, "/api/v1/keys", object{"id": "bench-1", "user": "bench", "access": "unrestricted"}, &made)
	if err == nil && made.Secret == "" {
		err = errors.New("/api/v1/keys: no secret")
	}
	return made.Secret, err
}

// administer posts to the admin API.
func administer(ctx context.Context, at message, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return errors.Wrap(err, path)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+at.Admin+path, bytes.NewReader(body))
	if err != nil {
		return errors.Wrap(err, path)
	}
	req.Header.Set("Authorization", "Bearer "+at.Token)
	req.Header.Set("Content-Type", "application/json")
	req.Close = true
	resp, err := (&http.Transport{}).RoundTrip(req) // by no proxy of the environment
	if err != nil {
		return errors.Wrap(err, path)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return errors.Wrap(err, path)
	}
	if resp.StatusCode/100 != 2 {
		return errors.Newf("%s: %s: %s", path, resp.Status, answer)
	}
	if out == nil {
		return nil
	}
	return errors.Wrap(json.Unmarshal(answer, out), path)
}
