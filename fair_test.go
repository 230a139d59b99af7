package penstock_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/penstock/penstock/cmd/mockllm/simulator"
)

// board is what a test reads of `upstream status`.
type board struct {
	Held []struct {
		RequestID string `json:"request_id"`
		Attempt   int    `json:"attempt"`
		Recalled  string `json:"recalled"`
	}
	Waiting []struct {
		RequestID, Key string
		Class          string
		Position       int
		Ticket         uint64
		Expected       *int64 `json:"expected_wait_ms"`
	}
	Waits struct {
		Waiting    int
		Held       *int64 `json:"held_ms"`
		Expected   *int64 `json:"expected_wait_ms"`
		Discipline string
	}
	Shares []struct {
		Key           string
		Held, Waiting int
		Served        int
	}
	Totals struct {
		Queued, Granted, Aborted, Moved, Freed uint64
		TimedOut                               uint64 `json:"timed_out"`
	}
}

func (r *rig) board(upstream string) (b board) {
	r.t.Helper()
	status, body := r.admin("GET", "/api/v1/upstreams/"+upstream+"/status", nil)
	if err := json.Unmarshal(body, &b); status != 200 || err != nil {
		r.t.Fatalf("status: %d %s %v", status, body, err)
	}
	return b
}

// Four keys that always want more than there is share four slots by their weights, through the whole gateway (pain 45).
func TestFairSharesOfASaturatedUpstream(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	b := simulator.Healthy()
	b.TTFBMs, b.TTFBJitterMs = 8, 8
	up := r.upstream("a", b, map[string]any{"slots": 4, "queue": map[string]any{"enabled": true, "timeout": "60s", "discipline": "fair", "age_every": "60s"}})
	weights := map[string]int{"one": 1, "uno": 1, "two": 2, "four": 4}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for id, weight := range weights {
		secret := r.key(id, map[string]any{"weight": weight})
		for n := range 12 { // more at once than its share of slots
			wg.Add(1)
			go func() {
				defer wg.Done()
				for ctx.Err() == nil {
					req, _ := http.NewRequestWithContext(ctx, "POST", "http://"+r.gw.Addr()+"/v1/chat/completions", strings.NewReader(chatBody(fmt.Sprint(id, n))))
					req.Header.Set("X-Api-Key", secret)
					resp, err := http.DefaultClient.Do(req)
					if err != nil {
						continue // stopped
					}
					if resp.Body.Close(); resp.StatusCode != 200 {
						t.Errorf("%s: %d", id, resp.StatusCode)
						return
					}
				}
			}()
		}
	}
	served := func() map[string]int {
		m := map[string]int{}
		for _, s := range r.board("a").Shares {
			m[s.Key] = s.Served
		}
		return m
	}
	r.await("saturation", func() bool { return len(r.board("a").Waiting) > 30 })
	from := served()
	total := func(m map[string]int) (n int) {
		for k, v := range m {
			n += v - from[k]
		}
		return n
	}
	r.await("eight hundred grants", func() bool { return total(served()) >= 800 })
	to := served()
	now := r.board("a")
	stop()
	wg.Wait()
	n := total(to)
	for id, weight := range weights {
		got, want := float64(to[id]-from[id]), float64(n*weight)/8
		if got < 0.9*want || got > 1.1*want {
			t.Errorf("key %s of weight %d was served %.0f times of %d, its share is %.0f", id, weight, got, n, want)
		}
		t.Logf("weight %d: %.0f of %d, share %.1f", weight, got, n, want)
	}
	if m := up.Stats().All.MaxInFlight; m != 4 {
		t.Errorf("%d requests at once at the upstream, want 4", m)
	}
	q := now.Waits
	if q.Discipline != "fair" || q.Waiting < 20 || q.Held == nil || *q.Held < 5 || q.Expected == nil || *q.Expected < *q.Held {
		t.Errorf("the board says %+v", q)
	}
	for i, w := range now.Waiting {
		if w.Position != i+1 || w.Class != "normal" || w.Expected == nil {
			t.Errorf("place %d is %+v", i, w)
		}
	}
	r.await("nobody", func() bool { b := r.board("a"); return len(b.Held)+len(b.Waiting) == 0 })
	end := r.board("a").Totals
	if end.Queued > end.Granted+end.Aborted+end.TimedOut+end.Moved || end.TimedOut != 0 {
		t.Errorf("the waits do not sum up: %+v", end)
	}
}

// An urgent key waits behind nobody of a lower class.
func TestUrgentKeysAreServedFirst(t *testing.T) {
	t.Parallel()
	w := newWaitRig(t, "30s")
	secrets := []string{w.key, w.rig.key("low", map[string]any{"priority": "low"}), w.rig.key("high", map[string]any{"priority": "high"})}
	var calls []chan *heard
	for i, s := range secrets {
		w.key = s
		calls = append(calls, w.call(context.Background(), dialectCases[0]))
		w.waitFor(i + 1)
	}
	var order []string
	for _, p := range w.board("a").Waiting {
		order = append(order, p.Class)
	}
	if got := strings.Join(order, " "); got != "high normal low" {
		t.Errorf("they wait in the order %s", got)
	}
	w.free()
	for _, c := range calls {
		if h := <-c; h.status != 200 {
			t.Errorf("%d %s", h.status, h.body)
		}
	}
}

// fail_fast refuses who would wait in vain, and says when to come back.
func TestWhoseTurnComesTooLateIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	b := simulator.Healthy()
	b.TTFBMs = 150
	r.upstream("a", b, map[string]any{"slots": 1, "queue": map[string]any{"enabled": true, "timeout": "400ms", "fail_fast": true}})
	key := r.key("team", nil)
	for i := range 8 { // the pace is known after some
		if resp, body := r.post("/v1/chat/completions", chatBody(fmt.Sprint(i)), "X-Api-Key", key); resp.StatusCode != 200 {
			t.Fatalf("%d %s", resp.StatusCode, body)
		}
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	late, refused := 0, map[string]bool{}
	for i := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			resp, body := r.post("/v1/chat/completions", chatBody(fmt.Sprint("x", i)), "X-Api-Key", key)
			if resp.StatusCode == 200 {
				return
			}
			if !strings.Contains(body, "QUEUE_WAIT_TOO_LONG") {
				return // the pace is a mean: one may be let in and time out
			}
			mu.Lock()
			defer mu.Unlock()
			late++
			if resp.StatusCode != 504 || resp.Header.Get("Retry-After") == "" || !strings.Contains(body, `"code":"QUEUE_WAIT_TIMEOUT"`) {
				t.Errorf("%d, Retry-After %q: %s", resp.StatusCode, resp.Header.Get("Retry-After"), body)
			}
			refused[resp.Header.Get("X-Request-Id")] = true
		}()
	}
	wg.Wait()
	for _, e := range r.logs("") {
		if refused[e.RequestID] && e.Queue != nil {
			t.Errorf("it stood in the queue before it was refused: %+v", e)
		}
	}
	if late < 3 {
		t.Errorf("%d of 8 were refused at once", late)
	}
	r.nothingHeld("a")
}
