package penstock_test

import (
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock/penstock"
)

// echoes is an upstream that answers each request with the bytes of its head in place of an answer.
func echoes(t *testing.T, before string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b := make([]byte, 4096)
			n, _ := c.Read(b)
			_, _ = io.WriteString(c, before+string(b[:n]))
			c.Close()
		}
	}()
	return "http://" + l.Addr().String()
}

// Whatever an upstream repeats and a client sends, neither credentials nor prompts and answers stand in a log, an event, an answer of the
// control plane or a file, and the upstream's credential in no answer (DESIGN 4 and 9; B44, A67).
func TestSecretsPromptsAndAnswersAreNowhere(t *testing.T) {
	const ours, prompt, answer = "sk-upstream-0123456789abcdef", "the-very-words-of-a-prompt", "the-very-words-of-an-answer"
	var log safeBuffer
	r := newRig(t, func(c *penstock.Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	repeats := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("X-Seen", fmt.Sprint(q.Header))
		w.WriteHeader(401)
		fmt.Fprintf(w, `{"error":{"message":"%s is no key","type":"invalid_request_error"}}`, q.Header.Get("Authorization"))
	}))
	t.Cleanup(repeats.Close)
	says := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(says.Close)
	bases := []string{says.URL, echoes(t, ""), echoes(t, "HTTP/1.1 200 OK\r\n"), echoes(t, "HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n"), repeats.URL}
	for i, base := range bases {
		id := fmt.Sprintf("u%d", i)
		r.apply(map[string]any{"kind": "upstream", "id": id, "base_url": base, "capabilities": []string{"openai_chat_compatible"}, "priority": i},
			map[string]any{"kind": "account", "id": id + "-1", "upstream": id, "api_key": ours})
	}
	key := r.key("team", nil)
	secrets := []string{ours, key, prompt, answer, "sk-pen-of-nobody"}
	body := `{"model":"m-1","messages":[{"role":"user","content":"` + prompt + `"}]}`
	for _, credential := range [][]string{{"Authorization", "Bearer " + key}, {"X-Api-Key", key}, {"Authorization", "sk-pen-of-nobody"}} {
		resp, got := r.post("/v1/chat/completions", body, credential...)
		if resp.StatusCode < 400 || strings.Contains(got+fmt.Sprint(resp.Header), ours) {
			t.Errorf("answer %d %v %s", resp.StatusCode, resp.Header, got)
		}
	}
	for _, path := range []string{"/v1/chat/completions?key=" + key, "/v1/nothing?key=" + key, "/v1/chat/completions?k%65y=sk-pen-of-nobody"} {
		r.post(path, body)
	}
	seen := map[string]string{}
	for _, path := range []string{"/api/v1/events?limit=1000", "/api/v1/requests", "/api/v1/accounts", "/api/v1/keys", "/api/v1/upstreams/u3/status", "/metrics"} {
		_, out := r.admin("GET", path, nil)
		seen[path] = string(out)
	}
	for _, e := range r.logs("") {
		_, out := r.admin("GET", "/api/v1/requests/"+e.RequestID, nil)
		seen["explain "+e.RequestID] = string(out)
	}
	if n := strings.Count(seen["/api/v1/events?limit=1000"], "attempt.failed"); n == 0 {
		t.Fatal("no attempt has failed: nothing was repeated")
	}
	r.close()
	seen["log"] = log.String()
	err := filepath.WalkDir(r.config.DataDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		seen[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for where, text := range seen {
		for _, s := range secrets {
			if i := strings.Index(text, s); i >= 0 {
				t.Errorf("%s has %s: …%s…", where, s, text[max(0, i-200):i+len(s)])
			}
		}
	}
}
