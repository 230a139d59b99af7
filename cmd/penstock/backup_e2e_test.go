package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/penstock/penstock/adapters/postgres/pgtest"
	"github.com/penstock/penstock/cmd/mockllm/simulator"
)

// A gateway is backed up under traffic and comes back from the file elsewhere, in either kind of store: the same clients, the same
// credentials of upstreams, the same bill to the digit, the same chain, and webhooks that go on where they were.
func TestABackupUnderTrafficComesBackInEitherStore(t *testing.T) {
	up := simulated(t, simulator.Behavior{})
	hook := &hookEnd{}
	receiver := httptest.NewServer(hook)
	defer receiver.Close()
	old := newInstance(t)
	old.start()
	key := old.configure(up)
	old.run(0, fmt.Sprintf("kind: user\nid: ann\n---\nkind: webhook\nid: w\nurl: %s\nevents: [request.settled]\nsecret: whsec-0123456789abcdef\n", receiver.URL),
		"apply", "-f", "-")
	paying := strings.TrimSpace(old.run(0, "", "key", "create", "--id", "paying", "--user", "ann"))
	old.run(0, "", "credit", "ann", "50")
	client := &http.Client{Timeout: 30 * time.Second}
	for n := range 20 {
		if status, body, err := old.call(client, paying, fmt.Sprintf("before-%d", n), false); err != nil || status != 200 {
			t.Fatalf("%d %s %v", status, body, err)
		}
	}
	await(t, "the webhook", func() bool { return len(hook.positions()) >= 20 })
	early := strings.TrimSpace(old.run(0, "", "audit", "head"))

	stop := make(chan struct{})
	var load sync.WaitGroup
	for c := range 4 {
		load.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
					_, _, _ = old.call(client, key, fmt.Sprintf("during-%d-%d", c, n), n%2 == 0)
				}
			}
		})
	}
	file := filepath.Join(t.TempDir(), "store.jsonl.gz")
	old.run(0, "", "backup", "--out", file)
	close(stop)
	load.Wait()
	plain, head, group := readBackup(t, file)
	bill := old.run(0, "", "bill", "--by", "key,user,model,upstream", "--as-of", head, "--json")
	sealing, err := os.ReadFile(filepath.Join(old.dir, "secret.key"))
	if err != nil {
		t.Fatal(err)
	}
	if code := old.signal(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
	if bytes.Contains(plain, []byte("sk-simulated")) || bytes.Contains(plain, bytes.TrimSpace(sealing)) || bytes.Contains(plain, []byte("whsec-")) || bytes.Contains(plain, []byte(key)) {
		t.Error("a secret is in the file")
	}

	for name, env := range map[string][]string{"sqlite": nil, "postgres": {"PENSTOCK_STORE=" + pgtest.Shared(t).NewDatabase(t)}} {
		t.Run(name, func(t *testing.T) {
			i := newInstance(t, env...)
			i.run(1, "", "restore", file) // there is no key
			i.more = append(i.more, "PENSTOCK_SECRET_KEY=another phrase that is long enough")
			i.run(1, "", "restore", file)
			i.more = env
			if err := os.WriteFile(filepath.Join(i.dir, "secret.key"), sealing, 0o600); err != nil {
				t.Fatal(err)
			}
			i.killedWhileRestoring(plain)
			i.run(0, "", "restore", file, "--head", early)
			i.run(1, "", "restore", file)

			hook.forget()
			i.start()
			i.run(1, "", "restore", file) // a gateway runs
			for _, k := range []string{key, paying} {
				if status, body, err := i.call(client, k, "after-"+name, false); err != nil || status != 200 {
					t.Fatalf("%d %s %v", status, body, err)
				}
			}
			if r := up.Requests()["after-"+name]; r.Key != "sk-simulated" || r.Attempts != 2 {
				t.Errorf("the upstream saw %+v", r)
			}
			if again := i.run(0, "", "bill", "--by", "key,user,model,upstream", "--as-of", head, "--json"); again != bill {
				t.Errorf("the bill is\n%s, it was\n%s", again, bill)
			}
			i.run(0, "", "audit", "verify", "--head", early)
			if out := i.run(0, "", "replay", "--verify", "--json"); !allEqual(out) {
				t.Errorf("replay: %s", out)
			}
			var stored arrivals
			stored.read(strings.NewReader(i.run(0, "", "events", "--type", "request.settled", "--json", "--limit", "100000")))
			settled, _ := stored.first()
			want := slices.DeleteFunc(settled, func(at int64) bool { return at <= group })
			await(t, "the webhook to catch up", func() bool { return len(hook.positions()) >= len(want) })
			if got := hook.positions(); !slices.Equal(got, want) {
				t.Errorf("the webhook got %v\nwant %v, from %d on", got, want, group)
			}
			if code := i.signal(syscall.SIGTERM); code != 0 {
				t.Errorf("exit %d\n%s", code, i.log)
			}
			i.run(0, "", "audit", "verify", "--head", early)
			i.run(0, "", "backup", "--out", filepath.Join(t.TempDir(), "stopped"))
		})
	}
}

// killedWhileRestoring ends a restore with kill -9 in the middle, and wants a gateway to find an empty store.
func (i *instance) killedWhileRestoring(file []byte) {
	i.t.Helper()
	cmd := i.command("restore", "-")
	in, err := cmd.StdinPipe()
	if err != nil {
		i.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		i.t.Fatal(err)
	}
	if _, err := in.Write(file[:len(file)*9/10]); err != nil { // all but what a pipe holds is read then
		i.t.Fatal(err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// readBackup is the text of a backup, the position of its head and that of its webhook.
func readBackup(t *testing.T, path string) (plain []byte, head string, group int64) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if plain, err = io.ReadAll(zip); err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(plain) {
		var x struct {
			Head  *struct{ Position int64 }
			Group *struct {
				Name     string
				Position int64
			}
		}
		if err := json.Unmarshal(line, &x); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if x.Head != nil {
			head = strconv.FormatInt(x.Head.Position, 10)
		}
		if x.Group != nil {
			group = x.Group.Position
		}
	}
	if group == 0 || head == "" {
		t.Fatalf("the backup has the group at %d, the head at %q", group, head)
	}
	return plain, head, group
}

// hookEnd is what a webhook posts to.
type hookEnd struct {
	mu sync.Mutex
	a  *arrivals
}

func (h *hookEnd) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	if body, err := io.ReadAll(r.Body); err == nil {
		h.arrivals().read(bytes.NewReader(body))
	}
}

func (h *hookEnd) arrivals() *arrivals {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.a == nil {
		h.a = &arrivals{}
	}
	return h.a
}

func (h *hookEnd) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.a = nil
}

func (h *hookEnd) positions() []int64 {
	positions, _ := h.arrivals().first()
	return positions
}
