package penstock_test

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/ncruces/go-sqlite3"

	"github.com/penstock/penstock"
	"github.com/penstock/penstock/adapters/sqlite/faultfs"
	"github.com/penstock/penstock/cmd/mockllm/simulator"
)

// A full disk refuses what is new, shows in /health, loses nothing of what runs, and is over without a restart (B66).
func TestFullDisk(t *testing.T) {
	disk := faultfs.Register("full-disk-test")
	r := newRig(t, func(c *penstock.Config) { c.StoreVFS = "full-disk-test" })
	b := fixed()
	b.Chunks, b.ChunkMs = 20, 20
	up := r.upstream("a", b, nil)
	key := r.key("team", nil)
	running := make(chan string, 1)
	go func() {
		_, body := r.post("/v1/chat/completions", strings.Replace(chatBody("running"), "{", `{"stream":true,`, 1), "Authorization", key)
		running <- body
	}()
	r.await("a running stream", func() bool { return up.Stats().All.InFlight == 1 })
	disk.Fail(faultfs.Write, 0, sqlite3.FULL)

	resp, body := r.post("/v1/chat/completions", chatBody("refused"), "Authorization", key)
	if resp.StatusCode != 503 || !strings.Contains(body, "STORE_UNAVAILABLE") || resp.Header.Get("Retry-After") == "" {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	for _, url := range []string{"http://" + r.gw.Addr() + "/health", "http://" + r.gw.AdminAddr() + "/health"} {
		got, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		got.Body.Close()
		if got.StatusCode == 200 {
			t.Errorf("%s is healthy on a full disk", url)
		}
	}
	if body := <-running; !strings.Contains(body, "[DONE]") {
		t.Errorf("the running stream was hurt: %s", body)
	}
	if _, reached := up.Requests()["refused"]; reached {
		t.Error("a refused request reached the upstream")
	}
	disk.Heal()
	r.await("the store to be back", func() bool {
		resp, _ := r.post("/v1/chat/completions", chatBody("after"), "Authorization", key)
		return resp.StatusCode == 200
	})
	if n := len(r.logs("&outcome=completed")); n < 2 {
		t.Errorf("%d completed requests are in the log", n)
	}
	r.verify()
}

// verify checks that every projection is what a replay makes of the events (B37, E39).
func (r *rig) verify() {
	r.t.Helper()
	status, body := r.admin("POST", "/api/v1/replay", map[string]any{"verify": true})
	if status != 200 || strings.Contains(string(body), `"equal":false`) || strings.Count(string(body), `"equal":true`) < 3 {
		r.t.Errorf("replay: %d %s", status, body)
	}
}

// A gateway that stops finishes what runs, settles it, and leaves no goroutine of its own behind (pain 28).
func TestCloseDrainsAndLeavesNothing(t *testing.T) {
	before := goroutines()
	r := newRig(t, nil)
	b := fixed()
	b.Chunks, b.ChunkMs = 20, 15
	up := r.upstream("a", b, nil)
	key := r.key("team", nil)
	var wg sync.WaitGroup
	bodies := make(chan string, 20)
	for range 20 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			_, body := r.post("/v1/chat/completions", strings.Replace(chatBody("x"), "{", `{"stream":true,`, 1), "Authorization", key)
			bodies <- body
		}()
	}
	r.await("20 streams", func() bool { return up.Stats().All.InFlight == 20 })
	r.close()
	wg.Wait()
	close(bodies)
	for body := range bodies {
		if !strings.Contains(body, "[DONE]") {
			t.Errorf("a stream was cut by an orderly stop: %s", body)
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	up.Close()
	delete(r.up, "a")
	left := ""
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if left = newer(before, goroutines()); left == "" {
			break
		}
	}
	if left != "" {
		t.Errorf("goroutines left behind:\n%s", left)
	}
	r.open()
	if n := len(r.logs("&outcome=completed")); n != 20 {
		t.Errorf("%d of 20 streams are settled", n)
	}
	r.verify()
}

// A gateway that is closed as soon as it is open has no more use for its addresses.
func TestAGatewayThatIsClosedAtOnceListensNoMore(t *testing.T) {
	for range 3 { // it is a matter of which goroutine comes first
		r := newRig(t, nil)
		addresses := []string{r.gw.Addr(), r.gw.AdminAddr()}
		r.close()
		for _, a := range addresses {
			if c, err := net.Dial("tcp", a); err == nil {
				c.Close()
				t.Errorf("%s still takes connections", a)
			}
		}
	}
}

// fasthttpKeeps are the goroutines that fasthttp starts once per process and never ends: its clock for Date headers, and
// the one that cleans worker pools. They are not ours to stop.
var fasthttpKeeps = []string{"fasthttp.updateServerDate", "fasthttp.(*workerPool).Start", "fasthttp.init", "fasthttp/stackless."}

// moved is what changes in the stack of a goroutine that stands still: a collection of garbage may move it.
var moved = regexp.MustCompile(`(?m)(\([^()]*\)| in goroutine [0-9]+)$`)

// goroutines counts the goroutines of the process by their stacks, without those of the test runner and fasthttp's own.
func goroutines() map[string]int {
	buf := make([]byte, 4<<20)
	found := map[string]int{}
next:
	for _, s := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		for _, own := range append(fasthttpKeeps, "testing.", "runtime.ReadTrace", "os/signal.") {
			if strings.Contains(s, own) {
				continue next
			}
		}
		_, stack, _ := strings.Cut(s, "\n")
		found[moved.ReplaceAllString(stack, "")]++
	}
	return found
}

func newer(before, after map[string]int) string {
	var b strings.Builder
	for s, n := range after {
		if n > before[s] && !strings.Contains(s, "goroutines(") {
			b.WriteString(s + "\n\n")
		}
	}
	return b.String()
}

// What an operator gets wrong at the start is named.
func TestOpenNamesWhatIsWrong(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("a", simulator.Healthy(), nil)
	if _, err := penstock.Open(r.config); !errors.Is(err, penstock.ErrLocked) {
		t.Errorf("a second gateway on the folder: %v", err)
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	c := r.config
	c.DataDir, c.Listen = t.TempDir(), busy.Addr().String()
	if _, err := penstock.Open(c); err == nil || !strings.Contains(err.Error(), busy.Addr().String()) {
		t.Errorf("a busy address: %v", err)
	}
	r.close()
	c = r.config
	c.SecretKey = strings.Repeat("ab", 32)
	if _, err := penstock.Open(c); err == nil || !strings.Contains(err.Error(), "a-1") {
		t.Errorf("a wrong secret key: %v", err)
	}
	for field, change := range map[string]func(*penstock.Config){
		"store": func(c *penstock.Config) { c.Store = "mysql://x" }, "profile": func(c *penstock.Config) { c.Profile = "strict" },
		"durability": func(c *penstock.Config) { c.Durability = "paranoid" }, "data folder": func(c *penstock.Config) { c.DataDir = "" },
	} {
		c := r.config
		change(&c)
		if _, err := penstock.Open(c); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	r.open()
}

// Every durability level answers, settles and rebuilds alike.
func TestDurabilityLevels(t *testing.T) {
	for _, level := range []string{"settled", "dispatched", "overlapped", "relaxed"} {
		t.Run(level, func(t *testing.T) {
			r := newRig(t, func(c *penstock.Config) { c.Durability = level })
			b := fixed()
			b.ErrRate, b.ErrStatus = 0.3, 500
			r.upstream("a", b, map[string]any{"breaker": map[string]any{"failures": 1000}, "slots": 4, "queue": map[string]any{"enabled": true}})
			r.upstream("b", fixed(), map[string]any{"priority": 1})
			key := r.key("team", nil)
			var wg sync.WaitGroup
			for range 16 {
				wg.Add(1)
				go func() {
					defer wg.Done()
					for _, c := range dialectCases {
						if resp, body := r.post(c.path, c.body, "Authorization", key); resp.StatusCode != 200 {
							t.Errorf("%s: %d %s", c.name, resp.StatusCode, body)
						}
					}
				}()
			}
			wg.Wait()
			if n := len(r.logs("&outcome=completed")); n != 16*len(dialectCases) {
				t.Errorf("%d requests are settled", n)
			}
			r.verify()
			r.nothingHeld("a")
		})
	}
}

var _ = context.Background

// On a full disk operators still see what is there: neither file takes a write, and both can be read.
func TestOnAFullDiskTheLogIsShownAsItIs(t *testing.T) {
	disk := faultfs.Register("full-disk-log-test")
	r := newRig(t, func(c *penstock.Config) { c.StoreVFS = "full-disk-log-test" })
	r.upstream("a", fixed(), nil)
	key := r.key("team", nil)
	r.post("/v1/chat/completions", chatBody("before"), "Authorization", key)
	if n := len(r.logs("")); n != 1 {
		t.Fatalf("%d requests are in the log", n)
	}
	rows, err := sqlite3.Open(filepath.Join(r.config.DataDir, "read.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	if err := rows.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	r.post("/v1/chat/completions", chatBody("stored, and not in the log"), "Authorization", key)
	disk.Fail(faultfs.Write, 0, sqlite3.FULL)
	r.post("/v1/chat/completions", chatBody("refused"), "Authorization", key)
	for _, path := range []string{"/api/v1/requests", "/api/v1/billing", "/api/v1/stats/overview"} {
		if status, body := r.admin("GET", path, nil); status != 200 {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if n := len(r.logs("")); n != 1 {
		t.Errorf("%d requests are in the log", n)
	}
	disk.Heal()
	if err := rows.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	r.await("the rest of the log", func() bool { return len(r.logs("&outcome=completed")) == 2 })
}
