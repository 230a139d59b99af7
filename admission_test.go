package penstock_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/penstock/penstock/cmd/mockllm/simulator"
)

const chat = `{"model":"m-1","messages":[{"role":"user","content":"[rid:%]"}]}`

func chatBody(rid string) string { return strings.Replace(chat, "%", rid, 1) }

// Early refusals are bare strings, reach no upstream and are logged (A10-A19, A24, A48, D44, D45).
func TestEarlyRefusals(t *testing.T) {
	r := newRig(t, nil)
	up := r.upstream("a", simulator.Healthy(), nil)
	r.apply(map[string]any{"kind": "user", "id": "off", "disabled": true}, map[string]any{"kind": "user", "id": "on"})
	good := r.key("good", map[string]any{"user": "on"})
	expired := r.key("expired", map[string]any{"expires_at": "2020-01-01T00:00:00Z"})
	disabled := r.key("disabled", map[string]any{"user": "off"})
	revoked := r.key("revoked", nil)
	if resp, _ := r.post("/v1/chat/completions", chatBody("x"), "Authorization", "Bearer "+revoked); resp.StatusCode != 200 {
		t.Fatalf("the key does not work before it is revoked: %d", resp.StatusCode)
	}
	if status, body := r.admin("POST", "/api/v1/keys/revoked/revoke", nil); status/100 != 2 {
		t.Fatalf("revoke: %d %s", status, body)
	}
	r.apply(map[string]any{"kind": "key", "id": "revoked", "hash": fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(revoked))), "models": []string{"*"}})
	before := up.Stats().All.Requests
	for _, c := range []struct{ what, secret, want, code string }{
		{"no key (A14)", "", `{"error":"Missing API key"}`, "MISSING_API_KEY"},
		{"an unknown key (A15)", "Bearer sk-pen-nobody", `{"error":"Invalid API key"}`, "INVALID_API_KEY"},
		{"an expired key (A16)", "Bearer " + expired, `{"error":"API key has expired"}`, "API_KEY_EXPIRED"},
		{"a disabled user's key (A17)", disabled, `{"error":"API key is disabled"}`, "API_KEY_DISABLED"},
		{"a revoked key (A24)", "bearer " + revoked, `{"error":"Invalid API key"}`, "INVALID_API_KEY"},
	} {
		for _, path := range []string{"/v1/chat/completions", "/api/proxy/v1/messages", "/v1beta/models/m:generateContent", "/v1/models"} {
			headers := []string{}
			if c.secret != "" {
				headers = []string{"Authorization", c.secret}
			}
			resp, body := r.post(path, chatBody("x"), headers...)
			if path == "/v1/models" {
				req, _ := http.NewRequest("GET", "http://"+r.gw.Addr()+path, nil)
				if c.secret != "" {
					req.Header.Set("Authorization", c.secret)
				}
				got, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				got.Body.Close()
				if got.StatusCode != 401 {
					t.Errorf("%s on %s: %d", c.what, path, got.StatusCode)
				}
				continue
			}
			if resp.StatusCode != 401 || body != c.want {
				t.Errorf("%s on %s: %d %s, want 401 %s", c.what, path, resp.StatusCode, body, c.want)
			}
			if e := r.entry(resp.Header.Get("X-Request-Id")); e.Outcome != "rejected" || e.Code != c.code || e.Sent || e.Stage != "auth" {
				t.Errorf("%s is logged as %+v", c.what, e)
			}
		}
	}
	if n := up.Stats().All.Requests; n != before {
		t.Errorf("the upstream saw %d more requests", n-before)
	}
	for _, headers := range [][]string{ // A10-A12: the first header that is there counts
		{"Authorization", good}, {"X-Api-Key", good}, {"X-Goog-Api-Key", good},
		{"Authorization", "Bearer " + good, "X-Api-Key", "wrong"}, {"X-Api-Key", good, "X-Goog-Api-Key", "wrong"},
	} {
		if resp, body := r.post("/v1/chat/completions", chatBody("x"), headers...); resp.StatusCode != 200 {
			t.Errorf("%v: %d %s", headers, resp.StatusCode, body)
		}
	}
	if resp, _ := r.post("/v1/chat/completions", chatBody("x"), "Authorization", "wrong", "X-Api-Key", good); resp.StatusCode != 401 {
		t.Errorf("a wrong Authorization is not outweighed by x-api-key: %d", resp.StatusCode)
	}
	if resp, body := r.post("/v1/chat/completions?key="+good, chatBody("x")); resp.StatusCode != 200 {
		t.Errorf("?key= authenticates last: %d %s", resp.StatusCode, body)
	}
	last, _ := up.Last()
	for name, v := range last.Headers {
		if strings.Contains(v, good) {
			t.Errorf("the client's key went upstream in %s", name)
		}
	}
	if strings.Contains(last.Path, good) {
		t.Errorf("the client's key went upstream in %s", last.Path)
	}
}

// Anonymous traffic does not fill the journal: beyond ten of an address and minute, refusals are only counted.
func TestAnonymousRefusalsAreRecordedTenTimesAMinute(t *testing.T) {
	r := newRig(t, nil)
	for range 40 {
		if resp, body := r.post("/v1/chat/completions", "{}"); resp.StatusCode != 401 || body != `{"error":"Missing API key"}` {
			t.Fatalf("%d %s", resp.StatusCode, body)
		}
	}
	if n := len(r.logs("&outcome=rejected")); n < 10 || n > 20 { // twenty when a minute ends meanwhile
		t.Errorf("%d are recorded", n)
	}
	r.close()
	r.open()
	_, body := r.admin("GET", "/api/v1/events?type=auth.refused", nil)
	if !strings.Contains(string(body), `"count":30`) && len(r.logs("&outcome=rejected")) < 11 {
		t.Errorf("the rest is not counted: %s", body)
	}
}

// Imported bcrypt keys work, and a changed hash holds at once (A13, A20-A23).
func TestImportedKeys(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("a", simulator.Healthy(), nil)
	hash := func(s string) string {
		b, err := bcrypt.GenerateFromPassword([]byte(s), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	doc := map[string]any{"kind": "key", "id": "old", "access": "unrestricted", "hash": hash("sk-auto-first")}
	r.apply(doc)
	for range 3 {
		if resp, body := r.post("/v1/chat/completions", chatBody("x"), "X-Api-Key", "sk-auto-first"); resp.StatusCode != 200 {
			t.Fatalf("%d %s", resp.StatusCode, body)
		}
	}
	doc["hash"] = hash("sk-auto-second")
	r.apply(doc)
	if resp, _ := r.post("/v1/chat/completions", chatBody("x"), "X-Api-Key", "sk-auto-first"); resp.StatusCode != 401 {
		t.Errorf("the old secret still opens: %d", resp.StatusCode)
	}
	if resp, _ := r.post("/v1/chat/completions", chatBody("x"), "X-Api-Key", "sk-auto-second"); resp.StatusCode != 200 {
		t.Errorf("the new secret does not open: %d", resp.StatusCode)
	}
}

// 64 clients on 8 slots: never more than 8 at the upstream, all served, in the order of their tickets (A51, A56-A58,
// A62, C24, C25; pains 34-41).
func TestSlotsAreExactAndTheQueueIsFirstComeFirstServed(t *testing.T) {
	r := newRig(t, nil)
	b := simulator.Healthy()
	b.TTFBMs, b.TTFBJitterMs = 5, 10
	up := r.upstream("a", b, map[string]any{"slots": 8, "queue": map[string]any{"enabled": true, "timeout": "30s"}})
	key := r.key("team", nil)
	var wg sync.WaitGroup
	for c := range 64 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for n := range 4 {
				resp, body := r.post("/v1/chat/completions", chatBody(string(rune('A'+c%26))+string(rune('a'+c/26))+string(rune('0'+n))), "X-Api-Key", key)
				if resp.StatusCode != 200 {
					t.Errorf("%d %s", resp.StatusCode, body)
				}
			}
		}()
	}
	wg.Wait()
	if m := up.Stats().All.MaxInFlight; m != 8 {
		t.Errorf("%d requests at once at the upstream, want 8", m)
	}
	r.inTicketOrder()
	r.nothingHeld("a")
	for rid, x := range up.Requests() {
		if x.Attempts != 1 {
			t.Errorf("request %s reached the upstream %d times", rid, x.Attempts)
		}
	}
}

// inTicketOrder checks that the waits of one queue ended in the order of their tickets: by the positions of resumed.
func (r *rig) inTicketOrder() {
	r.t.Helper()
	tickets := map[string]uint64{}
	var order []uint64
	after := ""
	for {
		_, body := r.admin("GET", "/api/v1/events?limit=1000"+after, nil)
		var page struct {
			Items []struct {
				Stream, Type string
				Data         json.RawMessage
			}
			Next json.Number
		}
		if err := json.Unmarshal(body, &page); err != nil {
			r.t.Fatalf("events: %s", body)
		}
		for _, e := range page.Items {
			switch e.Type {
			case "request.queued":
				var q struct{ Ticket uint64 }
				if err := json.Unmarshal(e.Data, &q); err != nil {
					r.t.Fatal(err)
				}
				tickets[e.Stream] = q.Ticket
			case "request.resumed":
				order = append(order, tickets[e.Stream])
			}
		}
		if page.Next == "" || page.Next == "0" {
			break
		}
		after = "&after=" + page.Next.String()
	}
	if len(order) == 0 {
		r.t.Fatal("nobody waited")
	}
	late := 0
	for i := 1; i < len(order); i++ {
		if order[i] < order[i-1] {
			late++
		}
	}
	// Grants are in ticket order; their facts are appended by the requests themselves, so neighbours may swap.
	if late > len(order)/4 {
		r.t.Errorf("%d of %d waits ended out of order: %v", late, len(order), order)
	}
}

// A queue refuses, times out and forgets clients that go (A52-A54, A59, A60, A64; C62, D50).
func TestQueueRefusals(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	b := simulator.Healthy()
	b.TTFBMs = 4000
	up := r.upstream("a", b, map[string]any{"slots": 1, "queue": map[string]any{"enabled": true, "timeout": "1s", "max_length": 1}})
	full := r.upstream("b", b, map[string]any{"slots": 1, "capabilities": []string{"anthropic_messages"}, "priority": 1})
	r.apply(map[string]any{"kind": "upstream", "id": "a", "base_url": up.URL(), "capabilities": []string{"openai_chat_compatible"},
		"slots": 1, "queue": map[string]any{"enabled": true, "timeout": "1s", "max_length": 1}})
	key := r.key("team", nil)
	type result struct {
		resp *http.Response
		body string
	}
	call := func(path, rid string) chan result {
		ch := make(chan result, 1)
		go func() {
			resp, body := r.post(path, chatBody(rid), "X-Api-Key", key)
			ch <- result{resp, body}
		}()
		return ch
	}
	first := call("/v1/chat/completions", "holder")
	r.await("a holder", func() bool { return up.Stats().All.InFlight == 1 })
	second := call("/v1/chat/completions", "waiter")
	r.await("a waiter", func() bool { return r.waiting("a") == 1 })
	third := <-call("/v1/chat/completions", "third")
	if e := r.expect(third.resp, third.body, 503, "ALL_UPSTREAMS_UNAVAILABLE", "QUEUE_FULL"); e.Sent || e.Outcome != "rejected" {
		t.Errorf("logged %+v", e)
	}
	timedOut := <-second
	if e := r.expect(timedOut.resp, timedOut.body, 504, "QUEUE_WAIT_TIMEOUT", ""); e.Outcome != "rejected" || e.Sent || e.Queue == nil || e.Queue.State != "timed_out" {
		t.Errorf("logged %+v", e)
	}
	if x := (<-first); x.resp.StatusCode != 200 {
		t.Errorf("the holder got %d", x.resp.StatusCode)
	}

	// A client that goes while it waits.
	first = call("/v1/chat/completions", "holder2")
	r.await("a holder", func() bool { return up.Stats().All.InFlight == 1 })
	r.leave("a", "/v1/chat/completions", chatBody("gone"), key)
	r.await("the waiter to be forgotten", func() bool { return r.waiting("a") == 0 })
	<-first
	var gone *logged
	for _, e := range r.logs("&outcome=cancelled") {
		gone = &e
	}
	if gone == nil || gone.Status != 499 || gone.Code != "CLIENT_DISCONNECTED" || gone.Sent || gone.Queue == nil || gone.Queue.State != "aborted" {
		t.Errorf("logged %+v", gone)
	}
	if _, reached := up.Requests()["gone"]; reached {
		t.Error("the request of a client that had gone reached the upstream")
	}

	// No queue: full is full (A51).
	held := call("/v1/messages", "m1")
	r.await("a holder", func() bool { return full.Stats().All.InFlight == 1 })
	refused := <-call("/v1/messages", "m2")
	if refused.resp.StatusCode != 503 || !strings.Contains(refused.body, `"type":"error"`) || !strings.Contains(refused.body, "CONCURRENCY_FULL") {
		t.Errorf("%d %s", refused.resp.StatusCode, refused.body)
	}
	<-held
	r.nothingHeld("a")
	r.nothingHeld("b")
}

func (r *rig) waiting(upstream string) int {
	_, body := r.admin("GET", "/api/v1/upstreams/"+upstream+"/status", nil)
	var s struct{ Waiting []any }
	_ = json.Unmarshal(body, &s)
	return len(s.Waiting)
}

// leave sends a request and goes away without an answer as soon as it waits for a slot of the upstream.
func (r *rig) leave(upstream, path, body, secret string) {
	r.t.Helper()
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	req, err := http.NewRequestWithContext(ctx, "POST", "http://"+r.gw.Addr()+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", secret)
	left := make(chan error, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		left <- err
	}()
	r.await("it to wait", func() bool { return r.waiting(upstream) == 1 })
	leave()
	if <-left == nil {
		r.t.Error("the client that went got an answer")
	}
}

// await polls until ok.
func (r *rig) await(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// expect checks a refusal and its log entry.
func (r *rig) expect(resp *http.Response, body string, status int, code, reason string) logged {
	r.t.Helper()
	var shape struct {
		Error struct {
			Code, Message, Reason, RequestID, UserHint string
			DidSend                                    *bool  `json:"did_send_upstream"`
			Request                                    string `json:"request_id"`
			Hint                                       string `json:"user_hint"`
		}
	}
	if err := json.Unmarshal([]byte(body), &shape); err != nil || resp.StatusCode != status || shape.Error.Code != code {
		r.t.Errorf("%d %s, want %d %s", resp.StatusCode, body, status, code)
	}
	if reason != "" && shape.Error.Reason != reason {
		r.t.Errorf("reason %q, want %q", shape.Error.Reason, reason)
	}
	if shape.Error.DidSend == nil || shape.Error.Request != resp.Header.Get("X-Request-Id") || shape.Error.Hint == "" {
		r.t.Errorf("the refusal lacks shared fields: %s", body)
	}
	e := r.entry(resp.Header.Get("X-Request-Id"))
	if e.Code != code || e.Status != status {
		r.t.Errorf("logged %+v", e)
	}
	return e
}
