package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/penstock/penstock/cmd/mockllm/simulator"
)

// With durability settled, kill -9 in the middle of answers: whoever has seen the end of one is in the log with its settlement.
func TestKillAfterTheEndOfAnAnswerFindsItSettled(t *testing.T) {
	b := simulator.Healthy()
	b.Chunks, b.ChunkMs = 3, 1
	up := simulated(t, b)
	i := newInstance(t, "PENSTOCK_DURABILITY=settled")
	i.start()
	key := i.configure(up)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}, Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	ended := map[string]bool{} // by x-client-request-id
	for round := range 3 {
		var wg sync.WaitGroup
		enough := make(chan struct{})
		for c := range 16 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for n := 0; ; n++ {
					rid := fmt.Sprintf("r%d-%d-%d", round, c, n)
					status, body, err := i.call(client, key, rid, n%2 == 0)
					if err != nil {
						return // the gateway is dead
					}
					if status != 200 || n%2 == 0 && !strings.HasSuffix(body, "data: [DONE]\n\n") {
						t.Errorf("%s: %d %s", rid, status, body)
					}
					mu.Lock()
					if ended[rid] = true; len(ended) == 150*(round+1) {
						close(enough)
					}
					mu.Unlock()
				}
			}()
		}
		select {
		case <-enough:
		case <-time.After(time.Minute):
			t.Fatal("too few answers")
		}
		i.signal(syscall.SIGKILL)
		wg.Wait()
		i.start()
	}
	outcomes := map[string]int{}
	for _, e := range i.logs() {
		if outcomes[e.Outcome]++; ended[e.ClientID] && e.Outcome != "completed" {
			t.Errorf("%s was answered to its end and is %s", e.ClientID, e.Outcome)
		}
		delete(ended, e.ClientID)
	}
	if len(ended) > 0 || outcomes["abandoned"] == 0 {
		t.Errorf("%d answers are not in the log, which has %v", len(ended), outcomes)
	}
	if code := i.signal(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: exit %d\n%s", code, i.log)
	}
}
