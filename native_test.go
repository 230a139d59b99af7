package penstock_test

import (
	"encoding/json"
	"iter"
	"regexp"
	"strings"
	"testing"

	"github.com/penstock/penstock/cmd/mockllm/simulator"
)

// dialectCase is one way to ask for an answer.
type dialectCase struct {
	name, dialect, path, body string
	stream                    bool
	terminal                  string // what ends a whole stream
	errorMark                 string // what an error inside a stream looks like
}

var dialectCases = []dialectCase{
	{"chat", "openai-chat", "/v1/chat/completions", `{"model":"m-1","messages":[{"role":"user","content":"hi"}]}`, false, "", ""},
	{"chat stream", "openai-chat", "/v1/chat/completions", `{"model":"m-1","messages":[{"role":"user","content":"hi"}],"stream":true}`, true, "data: [DONE]", `data: {"error":`},
	{"chat stream with usage", "openai-chat", "/v1/chat/completions", `{"stream_options":{"include_usage":true},"model":"m-1","messages":[{"role":"user","content":"hi"}],"stream":true}`, true, "data: [DONE]", `data: {"error":`},
	{"responses", "openai-responses", "/v1/responses", `{"model":"m-1","input":"hi"}`, false, "", ""},
	{"responses stream", "openai-responses", "/v1/responses", `{"model":"m-1","input":"hi","stream":true}`, true, "event: response.completed", "event: response.failed"},
	{"messages", "anthropic-messages", "/v1/messages", `{"model":"m-1","max_tokens":99,"messages":[{"role":"user","content":"hi"}]}`, false, "", ""},
	{"messages stream", "anthropic-messages", "/v1/messages", `{"model":"m-1","max_tokens":99,"messages":[{"role":"user","content":"hi"}],"stream":true}`, true, "event: message_stop", "event: error"},
	{"gemini", "gemini", "/v1beta/models/m-1:generateContent", `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`, false, "", ""},
	{"gemini under v1", "gemini", "/v1/models/m-1:generateContent", `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`, false, "", ""},
	{"gemini stream", "gemini", "/v1beta/models/m-1:streamGenerateContent?alt=sse", `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`, true, `"finishReason":"STOP"`, `data: {"error":`},
	{"gemini array", "gemini", "/v1beta/models/m-1:streamGenerateContent", `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`, true, `"finishReason":"STOP"`, `{"error":`},
}

// fixed is an answer whose size and usage do not depend on the request.
func fixed() simulator.Behavior {
	b := simulator.Healthy()
	b.PromptTokens, b.OutTokens, b.CachedTokens, b.Chunks, b.RespBytes = 1000, 50, 200, 7, 300
	return b
}

// numbers are the ids and times of the simulator's answers, which count its requests.
var numbers = regexp.MustCompile(`(chatcmpl-|resp_|msg_|"responseId":")[0-9a-z]+|"(created|created_at)":\d+`)

func normal(body string) string { return numbers.ReplaceAllString(body, "$1#") }

// The body is what a direct call gets, byte for byte, in every dialect, stream or not, also under /api/proxy (A3, A84,
// A85, B24, B58, B60); the log's usage and cost match it.
func TestAnswersAreThoseOfADirectCall(t *testing.T) {
	r := newRig(t, nil)
	up := r.upstream("a", fixed(), nil)
	r.apply(map[string]any{"kind": "price", "model": "m-*", "input": "2", "output": "8", "cached_input": "0.5"})
	key := r.key("team", nil)
	for _, c := range dialectCases {
		for _, prefix := range []string{"", "/api/proxy"} {
			t.Run(c.name+prefix, func(t *testing.T) {
				direct, want := send(t, up.URL()+c.path, c.body, "Authorization", "Bearer x")
				resp, got := r.post(prefix+c.path, c.body, "Authorization", "Bearer "+key)
				if resp.StatusCode != 200 || normal(got) != normal(want) {
					t.Fatalf("status %d\n got %s\nwant %s", resp.StatusCode, got, want)
				}
				if a, b := resp.Header.Get("Content-Type"), direct.Header.Get("Content-Type"); a != b {
					t.Errorf("content type %q, directly %q", a, b)
				}
				if c.stream && !strings.Contains(got, c.terminal) {
					t.Errorf("no terminal marker in %q", got)
				}
				e := r.entry(resp.Header.Get("X-Request-Id"))
				if e.Outcome != "completed" || e.Dialect != c.dialect || e.Usage.Input != 800 || e.Usage.CachedInput != 200 || e.Usage.Output != 50 || e.UsageSource != "reported" {
					t.Errorf("logged %+v", e)
				}
				if e.Cost != "0.0021" { // 800 × 2 + 200 × 0.5 + 50 × 8 per million
					t.Errorf("cost %s", e.Cost)
				}
				if e.Model != "m-1" || e.Stream != c.stream || e.State != "done" || e.Status != 200 || !e.Sent {
					t.Errorf("logged %+v", e)
				}
			})
		}
	}
	r.nothingHeld("a")
}

// logged is what a test reads of a log entry.
type logged struct {
	RequestID string `json:"request_id"`
	Dialect   string `json:"dialect"`
	Model     string `json:"model"`
	Stream    bool   `json:"stream"`
	State     string `json:"state"`
	Outcome   string `json:"outcome"`
	Status    int    `json:"status"`
	Code      string `json:"code"`
	Reason    string `json:"reason"`
	Stage     string `json:"failure_stage"`
	Sent      bool   `json:"did_send_upstream"`
	Upstream  string `json:"upstream"`
	Key       string `json:"key"`
	Usage     struct {
		Input       int64 `json:"input"`
		CachedInput int64 `json:"cached_input"`
		Output      int64 `json:"output"`
	} `json:"usage"`
	UsageSource string `json:"usage_source"`
	Cost        string `json:"cost"`
	ClientGone  bool   `json:"client_gone"`
	Unpriced    bool   `json:"unpriced"`
	Attempts    []struct {
		N        int    `json:"n"`
		Upstream string `json:"upstream"`
		Account  string `json:"account"`
		Status   int    `json:"status"`
		Class    string `json:"class"`
	} `json:"attempts"`
	Queue *struct {
		State    string `json:"state"`
		Upstream string `json:"upstream"`
		Position int    `json:"position"`
		Ticket   uint64 `json:"ticket"`
		WaitedMS int64  `json:"waited_ms"`
	} `json:"queue"`
	Excluded []struct{ Upstream, Reason string } `json:"excluded"`
}

// everyLine reads the whole request log, page by page, newest first.
func everyLine[T any](r *rig) iter.Seq[T] {
	return func(yield func(T) bool) {
		for query := "?limit=1000"; query != ""; {
			var page struct {
				Items []T
				Next  string
			}
			status, body := r.admin("GET", "/api/v1/requests"+query, nil)
			if err := json.Unmarshal(body, &page); status != 200 || err != nil {
				r.t.Fatalf("%d %v", status, err)
			}
			for _, l := range page.Items {
				if !yield(l) {
					return
				}
			}
			if query = ""; page.Next != "" {
				query = "?limit=1000&before=" + page.Next
			}
		}
	}
}

// entry is the log entry of a request.
func (r *rig) entry(id string) logged {
	r.t.Helper()
	for _, e := range r.logs("") {
		if e.RequestID == id {
			return e
		}
	}
	r.t.Fatalf("request %s is not in the log", id)
	return logged{}
}

func (r *rig) logs(query string) []logged {
	r.t.Helper()
	status, body := r.admin("GET", "/api/v1/requests?limit=1000"+query, nil)
	var page struct{ Items []logged }
	if err := json.Unmarshal(body, &page); status != 200 || err != nil {
		r.t.Fatalf("logs: %d %s", status, body)
	}
	return page.Items
}

// nothingHeld checks that an upstream has no holder and no waiter.
func (r *rig) nothingHeld(id string) {
	r.t.Helper()
	status, body := r.admin("GET", "/api/v1/upstreams/"+id+"/status", nil)
	var s struct {
		Held, Waiting []any
		Accounts      []struct{ Held int }
	}
	if err := json.Unmarshal(body, &s); status != 200 || err != nil {
		r.t.Fatalf("status: %d %s", status, body)
	}
	if len(s.Held) != 0 || len(s.Waiting) != 0 {
		r.t.Errorf("upstream %s still holds: %s", id, body)
	}
	for _, a := range s.Accounts {
		if a.Held != 0 {
			r.t.Errorf("upstream %s still holds: %s", id, body)
		}
	}
}
