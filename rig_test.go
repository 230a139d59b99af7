package penstock_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock"
	"github.com/penstock/penstock/cmd/mockllm/simulator"
	"github.com/penstock/penstock/events"
)

// rig is a gateway over simulated upstreams.
type rig struct {
	t  *testing.T
	gw *penstock.Gateway
	up map[string]*simulator.Server
	// Secrets of keys by id.
	secret map[string]string
	config penstock.Config
}

// storeOf makes the store of a rig, when it is not the embedded one: see TestOnPostgreSQL.
var storeOf func(*testing.T) string

func newRig(t *testing.T, change func(*penstock.Config)) *rig {
	t.Helper()
	r := &rig{t: t, up: map[string]*simulator.Server{}, secret: map[string]string{}}
	r.config = penstock.Config{
		DataDir: t.TempDir(), Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0", Version: "test",
		Logger: slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if storeOf != nil {
		r.config.Store = storeOf(t)
	}
	if change != nil {
		change(&r.config)
	}
	r.open()
	t.Cleanup(func() {
		r.close()
		for _, u := range r.up {
			u.Close()
		}
	})
	return r
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

func (r *rig) open() {
	r.t.Helper()
	var err error
	for range 3 { // a machine may stand still for as long as a connection to the store may take
		ctx, end := context.WithCancel(context.Background())
		r.gw, err = penstock.OpenContext(ctx, r.config)
		end() // the context is that of the opening only
		if !errors.Is(err, events.ErrUnavailable) {
			break
		}
	}
	if err != nil {
		r.t.Fatalf("open: %v", err)
	}
}

func (r *rig) close() {
	r.t.Helper()
	if r.gw == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := r.gw.Close(ctx); err != nil {
		r.t.Errorf("close: %v", err)
	}
	r.gw = nil
}

// upstream starts a simulated upstream with one account.
func (r *rig) upstream(id string, b simulator.Behavior, spec map[string]any) *simulator.Server {
	r.t.Helper()
	s := simulator.New(simulator.Options{Seed: 1, Exact: true, TrackRequests: true, Config: simulator.Config{Default: b}})
	if err := s.Start("127.0.0.1:0"); err != nil {
		r.t.Fatal(err)
	}
	r.up[id] = s
	u := map[string]any{
		"kind": "upstream", "id": id, "base_url": s.URL(),
		"capabilities": []string{"openai_chat_compatible", "openai_responses", "anthropic_messages", "gemini_native_generate"},
	}
	for k, v := range spec {
		u[k] = v
	}
	r.apply(u, map[string]any{"kind": "account", "id": id + "-1", "upstream": id, "api_key": "sk-" + id})
	return s
}

func (r *rig) apply(docs ...map[string]any) {
	r.t.Helper()
	status, body := r.admin("POST", "/api/v1/apply", map[string]any{"resources": docs})
	if status != 200 {
		r.t.Fatalf("apply: %d %s", status, body)
	}
}

func (r *rig) key(id string, more map[string]any) string {
	r.t.Helper()
	doc := map[string]any{"id": id, "access": "unrestricted"}
	for k, v := range more {
		doc[k] = v
	}
	status, body := r.admin("POST", "/api/v1/keys", doc)
	if status/100 != 2 {
		r.t.Fatalf("key: %d %s", status, body)
	}
	var out struct {
		Secret string `json:"secret"`
	}
	if err := json.Unmarshal(body, &out); err != nil || out.Secret == "" {
		r.t.Fatalf("key: %s", body)
	}
	r.secret[id] = out.Secret
	return out.Secret
}

func (r *rig) admin(method, path string, body any) (int, []byte) {
	r.t.Helper()
	var rd io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			r.t.Fatal(err)
		}
		rd = bytes.NewReader(b)
	}
	req, err := http.NewRequest(method, "http://"+r.gw.AdminAddr()+path, rd)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.gw.AdminToken())
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, b
}

func (r *rig) post(path, body string, headers ...string) (*http.Response, string) {
	r.t.Helper()
	return send(r.t, "http://"+r.gw.Addr()+path, body, headers...)
}

func send(t *testing.T, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest("POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("read answer: %v (so far %q)", err, b)
	}
	return resp, string(b)
}
