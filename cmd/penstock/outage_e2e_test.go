package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/penstock/penstock/adapters/postgres/pgtest"
	"github.com/penstock/penstock/cmd/mockllm/simulator"
)

// kill -9 in the middle of an outage, with streams in flight: what was sent is in the spool, whatever had been stored
// before, and after the next start in the log and on the bill, once (pains 1, 7, 15, 26, 27).
func TestKillInAnOutageLosesNothing(t *testing.T) {
	server := pgtest.Start(t)
	b := simulator.Healthy()
	b.PromptTokens, b.OutTokens, b.Chunks, b.ChunkMs = 100, 10, 1000, 200 // a stream takes longer than all that is waited for
	up := simulated(t, b)
	i := newInstance(t, "PENSTOCK_STORE="+server.NewDatabase(t))
	i.start()
	key := i.configure(up)
	rounds := 3
	for round := range rounds {
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 200}, Timeout: 5 * time.Minute}
		var wg sync.WaitGroup
		streams := func(kind string) {
			for n := range 50 {
				wg.Go(func() { _, _, _ = i.call(client, key, fmt.Sprintf("%s%d-%d", kind, round, n), true) })
			}
		}
		running := func(n int64) {
			t.Helper()
			for end := time.Now().Add(time.Minute); up.Stats().All.InFlight < n; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("only %d streams run", up.Stats().All.InFlight)
				}
			}
		}
		streams("before")
		running(50)
		server.Stop(t, pgtest.Immediate)
		streams("during")
		for n := range 50 {
			if status, body, err := i.call(client, key, fmt.Sprintf("plain%d-%d", round, n), false); err != nil || status != 200 {
				t.Errorf("during the outage: %d %s %v", status, body, err)
			}
		}
		running(100)
		if round == 1 { // some of it is drained when the process dies
			server.Restart(t)
		}
		i.signal(syscall.SIGKILL)
		wg.Wait()
		client.CloseIdleConnections()
		server.Restart(t)
		i.start()
	}
	sent, seen, onBill := up.Requests(), map[string]int{}, 0
	if len(sent) != rounds*150 {
		t.Errorf("%d requests reached the upstream, want %d", len(sent), rounds*150)
	}
	for _, e := range i.logs() {
		seen[e.ClientID]++
		if e.State != "done" {
			t.Errorf("request %s is %s", e.ClientID, e.State)
		}
		if e.Sent {
			onBill++
		}
	}
	for rid, r := range sent {
		if seen[rid] != 1 || r.Attempts != 1 {
			t.Errorf("request %s is %d times in the log and was sent %d times", rid, seen[rid], r.Attempts)
		}
	}
	if bill := i.run(0, "", "bill", "--json"); !strings.Contains(bill, fmt.Sprintf(`"requests":%d,"attempts":%d`, onBill, onBill)) {
		t.Errorf("%d requests were sent, the bill is %s", onBill, bill)
	}
	if out := i.run(0, "", "replay", "--verify", "--json"); !allEqual(out) {
		t.Errorf("replay: %s", out)
	}
	left, err := os.ReadDir(filepath.Join(i.dir, "spool"))
	if err != nil || len(left) > 0 {
		t.Errorf("left in the spool: %v %v", left, err)
	}
	if code := i.signal(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: exit %d\n%s", code, i.log)
	}
}
