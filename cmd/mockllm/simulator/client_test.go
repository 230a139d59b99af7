package simulator

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// start runs a server for one test.
func start(t *testing.T, o Options) *Server {
	t.Helper()
	s := New(o)
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// like is Healthy() with changes.
func like(change func(*Behavior)) Options {
	b := Healthy()
	change(&b)
	return Options{Seed: 1, TrackRequests: true, Config: Config{Default: b}}
}

// client is a plain HTTP client without proxies, connection reuse across tests or transparent decompression.
func client(t *testing.T) *http.Client {
	tr := &http.Transport{DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// shape is one way to ask.
type shape struct {
	name, path, body string
	sse              bool
}

var shapes = []shape{
	{"chat JSON", "/v1/chat/completions", `{"model":"m1","messages":[{"role":"user","content":"hi"}]}`, false},
	{"chat SSE", "/openai/v1/chat/completions", `{"model":"m1","stream":true,"stream_options":{"include_usage":true},"messages":[]}`, true},
	{"responses JSON", "/v1/responses", `{"model":"m1","input":"hi"}`, false},
	{"responses SSE", "/v1/responses", `{"model":"m1","stream": true,"input":"hi"}`, true},
	{"messages JSON", "/v1/messages", `{"model":"m1","max_tokens":9,"messages":[]}`, false},
	{"messages SSE", "/v1/messages", `{"model":"m1","max_tokens":9,"stream":true,"messages":[]}`, true},
	{"gemini JSON", "/v1beta/models/m1:generateContent", `{"contents":[]}`, false},
	{"gemini SSE", "/v1beta/models/m1:streamGenerateContent?alt=sse", `{"contents":[]}`, true},
	{"gemini array", "/v1beta/models/m1:streamGenerateContent", `{"contents":[]}`, false},
}

func (s shape) stream() bool { return s.sse || s.name == "gemini array" }

func send(t *testing.T, c *http.Client, s *Server, sh shape) (*http.Response, error) {
	t.Helper()
	return sendAs(t.Context(), c, s, sh, "sk-1")
}

func sendAs(ctx context.Context, c *http.Client, s *Server, sh shape, key string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, "POST", s.URL()+sh.path, strings.NewReader(sh.body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	return c.Do(req)
}

// fetch reads a whole answer that must not fail.
func fetch(t *testing.T, s *Server, sh shape) (*http.Response, []byte) {
	t.Helper()
	res, err := send(t, client(t), s, sh)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("after %d bytes: %v", len(b), err)
	}
	return res, b
}

type event struct{ name, data string }

// events reads SSE.
func events(t *testing.T, b []byte) (out []event) {
	t.Helper()
	var e event
	sc := bufio.NewScanner(bytes.NewReader(b))
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		switch line := sc.Text(); {
		case line == "":
			if e.data != "" {
				out = append(out, e)
			}
			e = event{}
		case strings.HasPrefix(line, "event: "):
			e.name = line[7:]
		case strings.HasPrefix(line, "data: "):
			e.data = line[6:]
		case !strings.HasPrefix(line, ":"):
			t.Fatalf("not an SSE line: %q", line)
		}
	}
	return out
}

// object reads JSON into generic values.
func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("%v in %.300s", err, text)
	}
	return m
}

// at walks into generic JSON: strings are keys, ints indexes. nil if the way ends early.
func at(v any, way ...any) any {
	for _, w := range way {
		switch w := w.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[w]
		case int:
			l, _ := v.([]any)
			if w >= len(l) {
				return nil
			}
			v = l[w]
		}
	}
	return v
}
