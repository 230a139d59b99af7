package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/penstock/penstock/adapters/postgres/cluster"
	"github.com/penstock/penstock/cmd/loadgen/load"
	"github.com/penstock/penstock/cmd/mockllm/simulator"
)

func TestBadArgumentsAreRefusedByName(t *testing.T) {
	for args, word := range map[string]string{
		"stray": "stray", "-rounds 0": "rounds", "-seconds 0": "seconds", "-seconds NaN": "seconds", "-profile-at c9": "c1, c16, c64, sse200",
		"-points c64,c9":           "c1, c16, c64, sse200",
		"-profile /nowhere/at/all": "/nowhere/at/all",
	} {
		if err := run(t.Context(), strings.Fields(args)); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestAnswersThatAreNotWhole200sAreProblems(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*simulator.Behavior)
		stream bool
		want   string
	}{
		"another status":  {func(b *simulator.Behavior) { b.ErrRate, b.ErrStatus = 1, 503 }, false, "status 503"},
		"a reset":         {func(b *simulator.Behavior) { b.ResetRate = 1 }, false, "reset"},
		"a stream's half": {func(b *simulator.Behavior) { b.TruncRate = 1 }, true, "eof_mid_body"},
		"no content":      {func(b *simulator.Behavior) { b.NoContentRate = 1 }, true, "incomplete stream"},
	} {
		behavior := simulator.Healthy()
		c.change(&behavior)
		up := simulator.New(simulator.Options{Seed: 1, Config: simulator.Config{Default: behavior}})
		if err := up.Start("127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		res, err := load.Run(t.Context(), load.Options{URL: up.URL(), Total: 4, Stream: c.stream})
		up.Close()
		if err != nil {
			t.Fatal(err)
		}
		if found := problems(res); res.Failed() != 4 || len(found) != 1 || found[c.want] != 4 {
			t.Errorf("%s: %d failed, %v", name, res.Failed(), found)
		}
	}
}

// The gateway's process serves, takes a profile on demand, refuses what it does not know, and ends with its input.
func TestTheGatewayProcessDoesWhatItsInputSays(t *testing.T) {
	in, tell := io.Pipe()
	hear, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- serve(t.Context(), settings{serve: filepath.Join(t.TempDir(), "data"), durability: "relaxed"}, in, out)
		out.Close()
	}()
	replies := json.NewDecoder(hear)
	next := func() (m message) {
		t.Helper()
		if err := replies.Decode(&m); err != nil {
			t.Fatalf("no reply: %v, %v", err, <-ended)
		}
		return m
	}
	hello := next()
	secret, err := configure(t.Context(), hello, "http://127.0.0.1:9")
	if err != nil || secret == "" {
		t.Fatalf("configure: %q %v", secret, err)
	}
	resp, err := http.Get("http://" + hello.Addr + "/healthz")
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("health: %v %v", resp, err)
	}
	resp.Body.Close()

	file := filepath.Join(t.TempDir(), "cpu")
	for _, c := range []struct{ command, fault string }{
		{"profile " + file, ""}, {"profile " + file, "already"}, {"stop", ""}, {"stop", ""},
		{"profile /nowhere/at/all", "/nowhere/at/all"}, {"dance", "dance"},
	} {
		io.WriteString(tell, c.command+"\n")
		if m := next(); (m.Error == "") != (c.fault == "") || !strings.Contains(m.Error, c.fault) {
			t.Errorf("%s: %q", c.command, m.Error)
		}
	}
	if b, err := os.ReadFile(file); err != nil || !bytes.HasPrefix(b, []byte{0x1f, 0x8b}) {
		t.Errorf("profile: %d bytes, %v", len(b), err)
	}
	tell.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// program is this program, built and with a folder of its own for what it makes.
type program struct {
	path, temp string
	cmd        *exec.Cmd
	out, err   *record
}

// record keeps all that is written and tells when a text has come.
type record struct {
	mu    sync.Mutex
	text  bytes.Buffer
	await string
	came  chan struct{}
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text.Write(p)
	if r.await != "" && bytes.Contains(r.text.Bytes(), []byte(r.await)) {
		r.await = ""
		close(r.came)
	}
	return len(p), nil
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

func build(t *testing.T) *program {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes and loads them")
	}
	p := &program{path: filepath.Join(t.TempDir(), "bench"), temp: t.TempDir(), out: &record{}, err: &record{came: make(chan struct{})}}
	if out, err := exec.Command("go", "build", "-o", p.path, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return p
}

func (p *program) start(t *testing.T, args ...string) {
	t.Helper()
	p.cmd = exec.CommandContext(t.Context(), p.path, args...)
	// A credential and a setting that the gateway must not see: the first would register a real provider.
	p.cmd.Env = append(os.Environ(), "TMPDIR="+p.temp, "OPENAI_API_KEY=sk-not-for-the-gateway", "PENSTOCK_LISTEN=127.0.0.1:1")
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.err
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

// tidy checks that no process and no folder is left.
func (p *program) tidy(t *testing.T) {
	t.Helper()
	left, err := os.ReadDir(p.temp)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		if !strings.HasPrefix(e.Name(), "go-build") { // an interrupted compiler's own
			t.Errorf("left behind: %s", e.Name())
		}
	}
	if pids := p.processes(t); len(pids) > 0 {
		t.Errorf("still running: %v", pids)
	}
}

// processes are those that run this program or one that it built.
func (p *program) processes(t *testing.T) (found []string) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil || len(links) == 0 {
		t.Fatalf("no process is seen: %v", err)
	}
	for _, link := range links {
		exe, err := os.Readlink(link)
		if err == nil && (strings.HasPrefix(exe, p.temp) || strings.HasPrefix(exe, p.path)) {
			found = append(found, link+" "+exe)
		}
	}
	return found
}

// Both stores are measured in the same rounds; the database is gone afterwards.
func TestEachStoreGetsAGatewayAndRatiosOfItsOwn(t *testing.T) {
	if err := cluster.Installed(); err != nil && os.Getenv("PENSTOCK_REQUIRE_POSTGRES") == "" {
		t.Skip(err)
	}
	p := build(t)
	for _, dir := range []string{p.temp, filepath.Dir(p.temp)} { // the database may run as another user
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.start(t, "-rounds", "1", "-seconds", "0.2", "-store", "both")
	if err := p.cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, p.err)
	}
	p.tidy(t)
	var r Report
	if err := json.Unmarshal([]byte(p.out.String()), &r); err != nil {
		t.Fatal(err)
	}
	for _, g := range []string{gateway, gatewayPostgres} {
		if x := r.Ratios["c64"][g]; x.RPS <= 0 {
			t.Errorf("%s: ratios %+v", g, x)
		}
		if f := r.Points["c64"][g]; f.RPS <= 0 {
			t.Errorf("%s: figures %+v", g, f)
		}
		if table := p.err.String(); !strings.Contains(table, "\n"+g+" ÷ "+proxy) {
			t.Errorf("no ratios of %s:\n%s", g, table)
		}
	}
}

func TestOneRunYieldsOneLineWithAllFieldsAndLeavesNothing(t *testing.T) {
	p := build(t)
	profile := filepath.Join(t.TempDir(), "cpu")
	p.start(t, "-rounds", "1", "-seconds", "0.3", "-durability", "relaxed", "-profile", profile)
	if err := p.cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, p.err)
	}
	p.tidy(t)
	if b, err := os.ReadFile(profile); err != nil || !bytes.HasPrefix(b, []byte{0x1f, 0x8b}) {
		t.Errorf("profile: %d bytes, %v", len(b), err)
	}

	text := p.out.String()
	if strings.Count(text, "\n") != 1 {
		t.Fatalf("not one line: %q", text)
	}
	var r Report
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil {
		t.Fatal(err)
	}
	if r.Rounds != 1 || r.Seconds != 0.3 || r.Durability != "relaxed" || r.CPUs < 1 || r.Go == "" {
		t.Errorf("head %+v", r)
	}
	if want := map[string]int64{direct: 0, proxy: 0, gateway: 0}; !maps.Equal(r.Failed, want) {
		t.Errorf("failed %v", r.Failed)
	}
	for _, point := range points {
		for _, target := range []string{direct, proxy, gateway} {
			f := r.Points[point.name][target]
			if f.RPS < 0 || f.CPUPerReq < 0 || f.P50 > f.P99 || point.stream != (f.EventsPerSecond > 0) || !point.stream && !(f.RPS > 0 && f.P50 > 0) {
				t.Errorf("%s %s: %+v", point.name, target, f)
			}
			if row := strings.Contains(p.err.String(), point.name+strings.Repeat(" ", 8-len(point.name))+target); !row {
				t.Errorf("the table has no row for %s %s:\n%s", point.name, target, p.err)
			}
		}
		if x, ok := r.Ratios[point.name][gateway]; !ok || x.RPS < 0 || !point.stream && x.RPS == 0 {
			t.Errorf("%s: ratios %+v", point.name, x)
		}
	}
	// Nothing is omitted where it stands for something.
	for _, field := range []string{
		`"cpu_us_per_req":`, `"cpu_us_per_event":`, `"p50_us":`, `"p99_us":`, `"added_p50_us":`, `"cpu_per_req":`, `"rps":`,
		`"added_p50":`, `"foreign_cpu_frac":`, `"foreign_cpu_frac_max":`, `"failed":`,
	} {
		if !strings.Contains(text, field) {
			t.Errorf("no %s in %s", field, text)
		}
	}
}

func TestAnInterruptEndsItWithoutAReportAndLeavesNothing(t *testing.T) {
	p := build(t)
	p.err.await = heading + "\n" // the first measurement runs
	p.start(t, "-seconds", "60")
	select {
	case <-p.err.came:
	case <-time.After(2 * time.Minute):
		t.Fatalf("no measurement began:\n%s", p.err)
	}
	if n := len(p.processes(t)); n != 4 {
		t.Errorf("%d processes instead of 4, so that their end proves nothing", n)
	}
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("ended with %v", err)
	}
	if !strings.HasSuffix(p.err.String(), "bench: interrupted\n") || p.out.String() != "" {
		t.Errorf("says %q and %q", p.err, p.out)
	}
	p.tidy(t)
}

func TestAGatewayThatDoesNotStartIsToldInItsOwnWordsAndLeavesNothing(t *testing.T) {
	p := build(t)
	p.start(t, "-durability", "sometimes")
	if err := p.cmd.Wait(); err == nil || !strings.Contains(p.err.String(), `durability: "sometimes" is none of`) {
		t.Errorf("%v: %s", err, p.err)
	}
	p.tidy(t)
}

func TestAChildThatDiesIsNoticedWithItsLastWords(t *testing.T) {
	c, err := launch("shell", exec.Command("sh", "-c", "echo ready; read line; echo lost >&2; exit 3"))
	if err != nil {
		t.Fatal(err)
	}
	if line, err := c.next(t.Context(), c.stdout); err != nil || line != "ready" {
		t.Fatalf("%q %v", line, err)
	}
	if _, err := c.cpu(); err != nil {
		t.Errorf("alive, but: %v", err)
	}
	io.WriteString(c.stdin, "go\n")
	_, err = c.next(t.Context(), c.stdout)
	_, gone := c.cpu()
	for _, err := range []error{err, gone} {
		if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "lost") {
			t.Errorf("dead, but: %v", err)
		}
	}
}

func TestAChildIsNotWaitedForOnceTheContextEnds(t *testing.T) {
	c, err := launch("shell", exec.Command("sh", "-c", "read line"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.next(ctx, c.stdout); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	c.end()
	c.wait()
	if s := c.cmd.ProcessState.Sys().(syscall.WaitStatus); !s.Signaled() && s.ExitStatus() != 1 {
		t.Errorf("ended as %v", c.cmd.ProcessState)
	}
}

func TestLinesComeWholeAndTheLastWordsAreKept(t *testing.T) {
	o := newOutput()
	for _, piece := range []string{"on", "e\ntwo\n\nfo", "ur"} {
		io.WriteString(o, piece)
	}
	var lines []string
	for len(o.lines) > 0 {
		lines = append(lines, <-o.lines)
	}
	if !slices.Equal(lines, []string{"one", "two", ""}) || o.last() != "one\ntwo\n\nfour" {
		t.Errorf("%q, %q", lines, o.last())
	}
	for range 3 * linesMax { // nobody reads, and yet the writer goes on
		io.WriteString(o, strings.Repeat("x", 1000)+"\n")
	}
	if n := len(o.last()); n > tailMax || n < tailMax-1 {
		t.Errorf("%d bytes are kept", n)
	}
}
