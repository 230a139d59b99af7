package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/penstock/penstock/cmd/mockllm/simulator"
)

// place is where a line of events stands.
type place struct {
	Position int64  `json:"position"`
	Type     string `json:"type"`
}

// arrivals are lines of JSON in the order in which they came.
type arrivals struct {
	mu   sync.Mutex
	list []place
	bad  string
}

func (a *arrivals) read(r io.Reader) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var p place
		err := json.Unmarshal(lines.Bytes(), &p)
		a.mu.Lock()
		a.list = append(a.list, p)
		if err != nil {
			a.bad = lines.Text()
		}
		a.mu.Unlock()
	}
}

// first are the positions by their first arrival, and how many came again.
func (a *arrivals) first() (positions []int64, again int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	seen := map[int64]bool{}
	for _, p := range a.list {
		if seen[p.Position] {
			again++
			continue
		}
		seen[p.Position] = true
		positions = append(positions, p.Position)
	}
	return positions, again
}

// The gateway is killed again and again under traffic. A webhook gets every settlement at least once, in order; a
// follower that ran all the while shows each exactly once.
func TestKilledGatewaysLoseNothingOnTheWayToWebhooksAndFollowers(t *testing.T) {
	up := simulated(t, simulator.Behavior{})
	i := newInstance(t)
	i.start()
	key := i.configure(up)
	var hook, follow arrivals
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			hook.read(bytes.NewReader(body))
		}
	}))
	defer receiver.Close()
	i.run(0, fmt.Sprintf("kind: webhook\nid: w\nurl: %s\nevents: [request.settled]\nsecret: whsec-0123456789abcdef\n", receiver.URL), "apply", "-f", "-")

	follower := i.command("events", "--follow", "--json", "--type", "request.settled", "--server", "http://"+i.adminListen)
	out, err := follower.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := follower.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = follower.Process.Kill() })
	followed := make(chan struct{})
	go func() { follow.read(out); close(followed) }()

	client := &http.Client{Timeout: 10 * time.Second}
	const kills, each = 3, 25
	for round := range kills + 1 {
		for n := range each {
			_, _, err := i.call(client, key, fmt.Sprintf("r%d-%d", round, n), false)
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			if round == 0 && n == 0 { // the follower begins with what comes after it has connected
				await(t, "the follower", func() bool {
					_, _, err := i.call(client, key, "more", false)
					positions, _ := follow.first()
					return err == nil && len(positions) > 0
				})
			}
		}
		if round < kills {
			client.CloseIdleConnections()
			i.signal(syscall.SIGKILL)
			i.start()
		}
	}
	var stored arrivals
	stored.read(strings.NewReader(i.run(0, "", "events", "--type", "request.settled", "--json", "--limit", "100000")))
	want, _ := stored.first()
	if len(want) < (kills+1)*each {
		t.Fatalf("%d settlements are stored", len(want))
	}
	await(t, "every settlement to arrive", func() bool { got, _ := hook.first(); return len(got) >= len(want) })
	got, again := hook.first()
	if !slices.Equal(got, want) || hook.bad != "" {
		t.Errorf("the webhook got %v\nwant %v\nbad line %q", got, want, hook.bad)
	}
	t.Logf("%d settlements, %d came again after %d kills", len(want), again, kills)

	last := want[len(want)-1]
	await(t, "the follower to catch up", func() bool { got, _ := follow.first(); return len(got) > 0 && got[len(got)-1] == last })
	got, again = follow.first()
	if from := slices.Index(want, got[0]); from < 0 || !slices.Equal(got, want[from:]) || again > 0 {
		t.Errorf("the follower shows %v (%d again)\nwant a tail of %v", got, again, want)
	}
	if err := follower.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	<-followed
	if err := follower.Wait(); err != nil {
		t.Errorf("the follower ends with %v", err)
	}
	if code := i.signal(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d\n%s", code, i.log)
	}
}

// await waits for something that must happen.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited for %s", what)
		}
	}
}
