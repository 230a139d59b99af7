package penstock_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/penstock/penstock/cmd/mockllm/simulator"
)

// A key that is moved to another group while its request waits: the group that it came with pays to the end, and nothing stays set
// aside at either of them (pain 73).
func TestAGroupPaysForWhatItsKeyBeganInIt(t *testing.T) {
	r := newRefusalRig(t, nil)
	b := fixed()
	b.PromptTokens, b.CachedTokens, b.OutTokens = 20, 0, 10 // 0.007, at most 0.013
	hang := fixed()
	hang.HangRate, hang.HangMs = 1, 600_000
	up := r.upstream("a", b, map[string]any{"slots": 1, "queue": map[string]any{"enabled": true, "timeout": "1h"}, "timeouts": map[string]any{"first_byte": "1h"}})
	if err := up.SetConfig(simulator.Config{Default: b, Rules: []simulator.Rule{{Model: "hang", Behavior: hang}}}); err != nil {
		t.Fatal(err)
	}
	r.apply(map[string]any{"kind": "price", "id": "p", "model": "m-*", "input": "100", "output": "500"})
	for _, id := range []string{"old", "new"} {
		r.apply(map[string]any{"kind": "group", "id": id, "upstreams": []string{"a"}, "budget": "strict", "limits": map[string]any{"budget": "0.025"}})
		r.by("of-"+id, map[string]any{"group": id})
	}
	moved := r.rig.key("moved", map[string]any{"group": "old"})
	r.occupy(r.rig.key("holder", nil), func() bool { return up.Stats().All.InFlight == 1 })
	done := make(chan *http.Response, 1)
	go func() {
		resp, _ := r.post("/v1/chat/completions", limitedChat, "Authorization", moved)
		done <- resp
	}()
	r.await("it to wait", func() bool { return r.waiting("a") == 1 })
	r.apply(map[string]any{"kind": "key", "id": "moved", "access": "unrestricted", "hash": r.hash("moved"), "group": "new"})
	r.hangs()
	if resp := <-done; resp.StatusCode != 200 {
		t.Fatal(resp.StatusCode)
	}
	for group, fits := range map[string]int{"old": 1, "new": 2} {
		n := 0
		for ; n < 5; n++ {
			if resp, _ := r.post("/v1/chat/completions", limitedChat, "Authorization", r.keys["of-"+group]); resp.StatusCode != 200 {
				break
			}
		}
		if n != fits {
			t.Errorf("group %s has paid for %d more requests, want %d", group, n, fits)
		}
	}
}

// A key that is moved to another user is bound to the addresses that it was bound to: each move would let as many others in (D52).
// A restart knows the same ones.
func TestAKeyThatMovesIsBoundToItsAddresses(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("a", fixed(), nil)
	r.apply(map[string]any{"kind": "setting", "name": "trusted_proxies", "value": "127.0.0.1"},
		map[string]any{"kind": "user", "id": "ann"}, map[string]any{"kind": "user", "id": "bob"})
	secret := r.key("bound", map[string]any{"max_ips": 1})
	hash := r.hash("bound")
	asks := func(when string) {
		t.Helper()
		for i, want := range []int{401, 200} { // the stranger first: who comes first to one that forgot is bound
			address := fmt.Sprintf("192.0.2.%d", 2-i)
			resp, body := r.post("/v1/chat/completions", limitedChat, "Authorization", secret, "X-Forwarded-For", address)
			if resp.StatusCode != want {
				t.Errorf("%s, %s: %d %s, want %d", when, address, resp.StatusCode, body, want)
			}
		}
	}
	if resp, body := r.post("/v1/chat/completions", limitedChat, "Authorization", secret, "X-Forwarded-For", "192.0.2.1"); resp.StatusCode != 200 {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	is := func(user string) map[string]any {
		k := map[string]any{"kind": "key", "id": "bound", "access": "unrestricted", "hash": hash, "max_ips": 1}
		if user != "" {
			k["user"] = user
		}
		return k
	}
	asks("of nobody")
	r.apply(is("ann"))
	asks("at ann")
	r.apply(is("bob"))
	asks("at bob")
	r.apply(is("ann"))
	asks("at ann again")
	r.apply(is(""))
	asks("of nobody again")
	r.close()
	r.open()
	asks("after a restart")
}
