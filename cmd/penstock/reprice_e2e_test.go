package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/adapters/postgres/pgtest"
	"github.com/penstock/penstock/cmd/mockllm/simulator"
	"github.com/penstock/penstock/domain/money"
)

// kill -9 in the middle of a repricing: what was booked stays booked, the next run books the rest, each request once, and after it
// there is nothing to book (pain 80).
func TestAKilledRepricingIsGoneOnWith(t *testing.T) { killedWhileRepricing(t) }

func TestAKilledRepricingIsGoneOnWithOnPostgreSQL(t *testing.T) {
	killedWhileRepricing(t, "PENSTOCK_STORE="+pgtest.Shared(t).NewDatabase(t))
}

const repricedRequests = 900

func killedWhileRepricing(t *testing.T, env ...string) {
	const token = "token-of-the-test"
	i := newInstance(t, append(env, "PENSTOCK_ADMIN_TOKEN="+token)...)
	b := simulator.Healthy()
	b.PromptTokens, b.OutTokens, b.CachedTokens = 1000, 100, 0
	up := simulated(t, b)
	i.start()
	key := i.configure(up)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 50}, Timeout: 30 * time.Second}
	var load sync.WaitGroup
	for c := range 10 {
		load.Go(func() {
			for n := range repricedRequests / 10 {
				if status, body, err := i.call(client, key, fmt.Sprintf("r-%d-%d", c, n), false); err != nil || status != 200 {
					t.Errorf("%d %s %v", status, body, err)
					return
				}
			}
		})
	}
	load.Wait()
	i.run(0, "kind: price\nid: right\nmodel: \"m-*\"\neffective_from: 2026-01-01T00:00:00Z\ninput: \"3\"\noutput: \"9\"\n", "apply", "-f", "-")

	apply := i.command("reprice", "--apply")
	if err := apply.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); !i.anyRepriced(token); {
		if time.Now().After(end) {
			t.Fatal("nothing is booked")
		}
	}
	i.signal(syscall.SIGKILL)
	_ = apply.Wait() // its gateway has gone, or it was fast
	client.CloseIdleConnections()
	i.start()

	booked := i.countRepriced()
	t.Logf("%d of %d were booked before the end", booked, repricedRequests)
	if booked == 0 || booked > repricedRequests {
		t.Errorf("%d are booked", booked)
	}
	rest := i.repricing("reprice", "--apply", "--json")
	if rest.Requests != int64(repricedRequests-booked) || rest.Read != repricedRequests {
		t.Errorf("the rest are %d of %d", rest.Requests, rest.Read)
	}
	if n := i.countRepriced(); n != repricedRequests {
		t.Errorf("%d facts for %d requests", n, repricedRequests)
	}
	if again := i.repricing("reprice", "--json"); again.Requests != 0 || again.Difference != 0 {
		t.Errorf("a second run: %+v", again.RepriceSums)
	}
	var line struct{ Cost money.Amount }
	if err := json.Unmarshal([]byte(i.run(0, "", "bill", "--json")), &line); err != nil {
		t.Fatal(err)
	}
	if want := money.Amount(repricedRequests) * (1000*3 + 100*9) * 10_000; line.Cost != want {
		t.Errorf("the bill is %s, not %s", line.Cost, want)
	}
	i.run(0, "", "replay", "--verify")
	i.run(0, "", "audit", "verify")
	if code := i.signal(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
}

// anyRepriced says that a request has been repriced.
func (i *instance) anyRepriced(token string) bool {
	req, _ := http.NewRequest("GET", "http://"+i.adminListen+"/api/v1/events?type=request.repriced&limit=1", nil)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return strings.Contains(string(text), "request.repriced")
}

func (i *instance) countRepriced() int {
	i.t.Helper()
	return strings.Count(i.run(0, "", "events", "--type", "request.repriced", "--json", "--limit", "100000"), "\n")
}

func (i *instance) repricing(args ...string) (out actors.Repricing) {
	i.t.Helper()
	text := i.run(0, "", args...)
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		i.t.Fatalf("%v: %s", err, text)
	}
	return out
}
