package penstock_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// Answers of one connection share memory in turn: each is whole, however long it and the one before are, whether the upstream
// says how long it is, and whether the client waited for the one before.
func TestAnswersOfOneConnectionAreEachTheirOwn(t *testing.T) {
	text := func(n int, letter string) string { // as long as it says
		head, tail := `{"choices":[{"message":{"content":"`, `"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`
		return head + strings.Repeat(letter, max(0, n-len(head)-len(tail))) + tail
	}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.Header.Get("X-Length"))
		body := text(n, r.Header.Get("X-Letter"))
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("X-Chunked") == "" {
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		}
		for ; body != ""; body = body[min(len(body), 1000):] {
			_, _ = io.WriteString(w, body[:min(len(body), 1000)])
			w.(http.Flusher).Flush()
		}
	}))
	defer upstream.Close()
	r := newRig(t, nil)
	r.apply(map[string]any{"kind": "upstream", "id": "a", "base_url": upstream.URL, "capabilities": []string{"openai_chat_compatible"}},
		map[string]any{"kind": "account", "id": "a-1", "upstream": "a", "api_key": "sk-a"})
	key := r.key("team", nil)
	client, err := net.Dial("tcp", r.gw.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	answers := bufio.NewReader(client)
	hear := func(want string) {
		t.Helper()
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != 200 || string(got) != want {
			t.Fatalf("status %d, %v:\n got %.80q (%d)\nwant %.80q (%d)", resp.StatusCode, err, got, len(got), want, len(want))
		}
	}
	lengths := []int{100, 101, 900, 1023, 1024, 1025, 5000, 300, 8191, 8192, 8193, 20_000, 100, 200_000, 4000, 100}
	for _, pipelined := range []bool{false, true} {
		for _, chunked := range []string{"", "X-Chunked: yes\r\n"} {
			var due []string
			for i, n := range lengths {
				letter := string(rune('a' + i))
				const body = `{"model":"m"}`
				if _, err := fmt.Fprintf(client, "POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer %s\r\nX-Length: %d\r\nX-Letter: %s\r\n%s"+
					"Content-Length: %d\r\n\r\n%s", key, n, letter, chunked, len(body), body); err != nil {
					t.Fatal(err)
				}
				if due = append(due, text(n, letter)); !pipelined {
					hear(due[0])
					due = nil
				}
			}
			for _, want := range due {
				hear(want)
			}
		}
	}
}
