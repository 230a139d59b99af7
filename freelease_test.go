package penstock_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/penstock/penstock/cmd/mockllm/simulator"
)

// freed is the answer to a slot that was taken back.
type freed struct {
	RequestID string `json:"request_id"`
	Attempt   int
	Freed     bool
}

func (w *waitRig) take(id, query string) (int, freed) {
	w.t.Helper()
	status, body := w.admin("DELETE", "/api/v1/upstreams/a/leases/"+id+query, nil)
	var f freed
	if err := json.Unmarshal(body, &f); err != nil {
		w.t.Fatalf("%d %s", status, body)
	}
	return status, f
}

// A slot that is taken back by hand is free once its attempt has ended, exactly once; its client is told, nothing else is tried,
// and who waits is served (pains 34-36, 40).
func TestASlotIsTakenBackByHand(t *testing.T) {
	t.Parallel()
	stall := fixed()
	stall.StallRate, stall.FaultAfter = 1, 3
	for _, c := range []struct {
		name  string
		model string // of the request whose slot is taken back
		usage bool
	}{
		{"of an upstream that never answers", hangModel, false},
		{"of a stream that stands still", "stall", true},
	} {
		for _, d := range append(kept(c.model), dialectCases[0]) {
			if c.usage && !d.stream {
				continue
			}
			d.body = strings.Replace(d.body, aliveModel, c.model, 1)
			t.Run(c.name+", "+d.name, func(t *testing.T) {
				t.Parallel()
				w := newWaitRig(t, "30s", simulator.Rule{Model: "stall", Behavior: stall})
				w.upstream("b", fixed(), map[string]any{"priority": 1}) // could serve it
				w.free()
				w.await("the slot to be free", func() bool { return len(w.board("a").Held) == 0 })
				victim := w.call(context.Background(), d)
				w.await("the slot to be held", func() bool {
					h := w.board("a").Held
					return len(h) == 1 && w.up.Stats().All.InFlight == 1
				})
				if c.usage {
					w.await("content", func() bool {
						_, body := w.admin("GET", "/api/v1/upstreams/a/status", nil)
						return strings.Contains(string(body), `"streaming"`)
					})
				}
				w.apply(map[string]any{"kind": "upstream", "id": "b", "base_url": w.rig.up["b"].URL(), "active": false, "capabilities": []string{"openai_chat_compatible"}})
				waiter := w.call(context.Background(), dialectCases[0])
				w.waitFor(1)
				w.apply(map[string]any{"kind": "upstream", "id": "b", "base_url": w.rig.up["b"].URL(), "priority": 1,
					"capabilities": []string{"openai_chat_compatible", "openai_responses", "anthropic_messages", "gemini_native_generate"}})
				id := w.board("a").Held[0].RequestID
				if status, _ := w.admin("DELETE", "/api/v1/upstreams/a/leases/"+id+"?attempt=7", nil); status != 404 {
					t.Errorf("an attempt that there is not: %d", status)
				}
				if status, f := w.take(id, "?reason=stuck"); status != 200 || !f.Freed || f.RequestID != id || f.Attempt != 1 {
					t.Errorf("%d %+v", status, f)
				}
				h := <-victim
				if c.usage {
					if h.status != 200 || !strings.Contains(h.body, h.c.errorMark) || !strings.Contains(h.body, "CANCELLED_BY_OPERATOR") || strings.Contains(h.body, h.c.terminal) {
						t.Errorf("%d %q", h.status, h.body)
					}
				} else if h.status != http.StatusServiceUnavailable || !strings.Contains(h.body, "CANCELLED_BY_OPERATOR") {
					t.Errorf("%d %q", h.status, h.body)
				}
				if h := <-waiter; h.status != 200 {
					t.Errorf("who waited got %d %s", h.status, h.body)
				}
				if status, _ := w.admin("DELETE", "/api/v1/upstreams/a/leases/"+id, nil); status != 404 {
					t.Errorf("once more: %d", status)
				}
				e := w.entry(id)
				if e.Outcome != "failed" || e.Code != "CANCELLED_BY_OPERATOR" || len(e.Attempts) != 1 || e.ClientGone || c.usage && e.Usage.Output == 0 {
					t.Errorf("logged %+v", e)
				}
				if w.rig.up["b"].Stats().All.Requests != 0 {
					t.Error("another upstream was tried")
				}
				w.await("all slots to be free", func() bool { return len(w.board("a").Held) == 0 })
				if n := w.board("a").Totals; n.Freed != 1 || n.Granted != 3 {
					t.Errorf("totals %+v", n)
				}
			})
		}
	}
}
