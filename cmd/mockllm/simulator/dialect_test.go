package simulator

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
)

// reading is what a client understands of an answer.
type reading struct {
	text     string
	terminal bool
	usage    map[string]float64
}

// flat keeps the numbers of a usage object, nested ones by dotted name.
func flat(v any) map[string]float64 {
	out := map[string]float64{}
	var walk func(prefix string, v any)
	walk = func(prefix string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, x := range v {
				walk(prefix+"."+k, x)
			}
		case float64:
			out[strings.TrimPrefix(prefix, ".")] = v
		}
	}
	walk("", v)
	return out
}

func readChat(t *testing.T, sh shape, b []byte) (r reading) {
	if !sh.sse {
		m := object(t, string(b))
		r.text, _ = at(m, "choices", 0, "message", "content").(string)
		return reading{r.text, at(m, "choices", 0, "finish_reason") == "stop", flat(m["usage"])}
	}
	for _, e := range events(t, b) {
		if e.data == "[DONE]" {
			r.terminal = true
			continue
		}
		m := object(t, e.data)
		s, _ := at(m, "choices", 0, "delta", "content").(string)
		r.text += s
		if m["usage"] != nil {
			r.usage = flat(m["usage"])
		}
	}
	return r
}

func readResponses(t *testing.T, sh shape, b []byte) (r reading) {
	if !sh.sse {
		m := object(t, string(b))
		r.text, _ = at(m, "output", 0, "content", 0, "text").(string)
		return reading{r.text, m["status"] == "completed", flat(m["usage"])}
	}
	for i, e := range events(t, b) {
		m := object(t, e.data)
		if m["type"] != e.name || m["sequence_number"] != float64(i) {
			t.Fatalf("event %d: name %q, type %v, sequence_number %v", i, e.name, m["type"], m["sequence_number"])
		}
		switch e.name {
		case "response.output_text.delta":
			r.text += m["delta"].(string)
		case "response.completed":
			r.terminal, r.usage = true, flat(at(m, "response", "usage"))
			if whole := at(m, "response", "output", 0, "content", 0, "text"); whole != r.text {
				t.Fatalf("completed text differs from the deltas")
			}
		}
	}
	return r
}

func readMessages(t *testing.T, sh shape, b []byte) (r reading) {
	if !sh.sse {
		m := object(t, string(b))
		r.text, _ = at(m, "content", 0, "text").(string)
		return reading{r.text, m["stop_reason"] == "end_turn", flat(m["usage"])}
	}
	for _, e := range events(t, b) {
		m := object(t, e.data)
		if m["type"] != e.name {
			t.Fatalf("event %q has type %v", e.name, m["type"])
		}
		switch e.name {
		case "message_start":
			r.usage = flat(at(m, "message", "usage"))
		case "content_block_delta":
			r.text += at(m, "delta", "text").(string)
		case "message_delta":
			maps.Copy(r.usage, flat(m["usage"]))
		case "message_stop":
			r.terminal = true
		}
	}
	return r
}

func readGemini(t *testing.T, sh shape, b []byte) (r reading) {
	var chunks []map[string]any
	switch {
	case sh.sse:
		for _, e := range events(t, b) {
			chunks = append(chunks, object(t, e.data))
		}
	case sh.stream():
		if err := json.Unmarshal(b, &chunks); err != nil {
			t.Fatal(err)
		}
	default:
		chunks = append(chunks, object(t, string(b)))
	}
	for _, m := range chunks {
		r.text += at(m, "candidates", 0, "content", "parts", 0, "text").(string)
		r.terminal = at(m, "candidates", 0, "finishReason") == "STOP"
		r.usage = flat(m["usageMetadata"])
	}
	return r
}

func readerOf(sh shape) func(*testing.T, shape, []byte) reading {
	return map[string]func(*testing.T, shape, []byte) reading{
		"chat": readChat, "responses": readResponses, "messages": readMessages, "gemini": readGemini,
	}[strings.Fields(sh.name)[0]]
}

// wantUsage is 100 in (40 cached, 10 written, 4 of them for an hour), 30 out (5 thought), in each dialect's words.
var wantUsage = map[string]map[string]float64{
	"chat": {"prompt_tokens": 100, "completion_tokens": 30, "total_tokens": 130, "prompt_tokens_details.cached_tokens": 40,
		"prompt_tokens_details.cache_write_tokens": 10, "completion_tokens_details.reasoning_tokens": 5},
	"responses": {"input_tokens": 100, "output_tokens": 30, "total_tokens": 130, "input_tokens_details.cached_tokens": 40,
		"input_tokens_details.cache_write_tokens": 10, "output_tokens_details.reasoning_tokens": 5},
	"messages": {"input_tokens": 50, "cache_read_input_tokens": 40, "cache_creation_input_tokens": 10, "output_tokens": 30,
		"cache_creation.ephemeral_5m_input_tokens": 6, "cache_creation.ephemeral_1h_input_tokens": 4, "output_tokens_details.thinking_tokens": 5},
	"gemini": {"promptTokenCount": 100, "cachedContentTokenCount": 40, "candidatesTokenCount": 25, "thoughtsTokenCount": 5, "totalTokenCount": 130},
}

func TestEveryShapeParsesWithTextTerminalMarkerAndUsage(t *testing.T) {
	s := start(t, like(func(b *Behavior) {
		b.Chunks, b.ChunkBytes, b.RespBytes = 7, 30, 210
		b.PromptTokens, b.CachedTokens, b.CacheWriteTokens, b.CacheWrite1hTokens, b.OutTokens, b.ReasoningTokens = 100, 40, 10, 4, 30, 5
	}))
	for _, sh := range shapes {
		t.Run(sh.name, func(t *testing.T) {
			res, body := fetch(t, s, sh)
			if res.StatusCode != 200 {
				t.Fatalf("status %d", res.StatusCode)
			}
			wantType := "application/json"
			if sh.sse {
				wantType = "text/event-stream"
			}
			if got := res.Header.Get("Content-Type"); got != wantType {
				t.Errorf("content type %q, want %q", got, wantType)
			}
			r := readerOf(sh)(t, sh, body)
			if len(r.text) != 210 || !strings.HasPrefix(r.text, "lorem ipsum") {
				t.Errorf("text has %d bytes: %.40q", len(r.text), r.text)
			}
			if !r.terminal {
				t.Error("no terminal marker")
			}
			if want := wantUsage[strings.Fields(sh.name)[0]]; !maps.Equal(r.usage, want) {
				t.Errorf("usage\n got %v\nwant %v", r.usage, want)
			}
			if !strings.Contains(string(body), `"m1"`) {
				t.Error("the model is not in the answer")
			}
		})
	}
}

func TestUsageIsDerivedFromSizesWhenNotGiven(t *testing.T) {
	s := start(t, like(func(b *Behavior) { b.Chunks, b.RespBytes = 9, 41 }))
	for _, c := range []struct {
		sh  shape
		out float64
	}{{shapes[0], 11}, {shapes[1], 9}} {
		_, body := fetch(t, s, c.sh)
		u := readChat(t, c.sh, body).usage
		if in := float64((len(c.sh.body) + 3) / 4); u["prompt_tokens"] != in || u["completion_tokens"] != c.out {
			t.Errorf("%s: %v, want %v in and %v out", c.sh.name, u, in, c.out)
		}
	}
}

func TestChatUsageChunkComesOnlyWhenAskedForOrAlways(t *testing.T) {
	plain := shape{"chat SSE", "/v1/chat/completions", `{"model":"m","stream":true}`, true}
	for _, always := range []bool{false, true} {
		s := start(t, like(func(b *Behavior) { b.AlwaysUsage = always }))
		_, body := fetch(t, s, plain)
		if got := readChat(t, plain, body).usage != nil; got != always {
			t.Errorf("always_usage %v: usage chunk %v", always, got)
		}
		if strings.Contains(string(body), `"usage":null`) != always {
			t.Errorf("always_usage %v: usage:null in the other chunks is wrong", always)
		}
	}
}

func TestAnswersCarryTheDialectsRequestIDHeader(t *testing.T) {
	s := start(t, Options{})
	for i, sh := range shapes {
		want, not := "X-Request-Id", "Request-Id"
		if strings.HasPrefix(sh.name, "messages") {
			want, not = not, want
		}
		res, _ := fetch(t, s, sh)
		if got := res.Header.Get(want); got != "req_"+string(rune('1'+i)) || res.Header.Get(not) != "" {
			t.Errorf("%s: %s is %q, %s is %q", sh.name, want, got, not, res.Header.Get(not))
		}
	}
}

func TestModelListsOfOpenAIAndGemini(t *testing.T) {
	s := start(t, Options{})
	for path, field := range map[string]string{"/v1/models": "data", "/v1beta/models": "models"} {
		res, err := client(t).Get(s.URL() + path)
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		err = json.NewDecoder(res.Body).Decode(&m)
		res.Body.Close()
		if l, _ := m[field].([]any); err != nil || len(l) == 0 {
			t.Errorf("%s: %v %v", path, m, err)
		}
	}
	if s.Stats().All.Requests != 0 {
		t.Error("model lists are counted as LLM requests")
	}
}
