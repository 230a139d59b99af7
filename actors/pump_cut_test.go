package actors_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
)

// frugal is a key with a strict budget.
func frugal(budget string) *catalog.Key {
	return key("k", func(k *catalog.Key) { k.Budget, k.Limits = "strict", &catalog.Limits{Budget: budget} })
}

// Pains 24, 73: an upstream that writes more than it was allowed to is cut off when its answer has certainly cost all that was set
// aside; the client is told in its dialect, what was used is settled, and no breaker counts it. Where the upstream tells its usage
// as it goes, that is at once; else when so many bytes have come that no tokens could be so long.
func TestAStreamIsCutAtWhatIsSetAsideForIt(t *testing.T) {
	text := strings.Repeat("x", 4000)
	many := func(event string, n int) []chunk {
		var list []chunk
		for range n {
			list = append(list, chunk{data: event})
		}
		return list
	}
	for name, c := range map[string]struct {
		path, body string
		start      string
		event      string
		header     map[string]string
		reads      [2]int // events that the client gets, at least and at most
		ends       string // of what the client gets
		source     pricing.Source
	}{
		"chat": {"/v1/chat/completions", `{"model":"m","max_tokens":10,"stream":true,"stream_options":{"include_usage":true},"messages":[]}`, "",
			`data: {"id":"c1","choices":[{"index":0,"delta":{"content":"` + text + `"}}]}` + "\n\n", sseHeader, [2]int{4, 9}, "\n\n", pricing.Estimated},
		"chat without max_tokens": {"/v1/chat/completions", `{"model":"limited","stream":true,"stream_options":{"include_usage":true},"messages":[]}`, "",
			`data: {"id":"c1","choices":[{"index":0,"delta":{"content":"` + text + `"}}]}` + "\n\n", sseHeader, [2]int{4, 9}, "\n\n", pricing.Estimated},
		"responses": {"/v1/responses", `{"model":"m","max_output_tokens":10,"stream":true,"input":"hi"}`, "",
			"event: response.output_text.delta\ndata: " + `{"type":"response.output_text.delta","delta":"` + text + `"}` + "\n\n", sseHeader, [2]int{3, 9}, "\n\n", pricing.Estimated},
		"messages": {"/v1/messages", `{"model":"m","max_tokens":10,"stream":true,"messages":[]}`,
			"event: message_start\ndata: " + `{"type":"message_start","message":{"id":"m1","usage":{"input_tokens":20,"output_tokens":1}}}` + "\n\n",
			"event: content_block_delta\ndata: " + `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + text + `"}}` + "\n\n", sseHeader, [2]int{2, 9}, "\n\n", pricing.Partial},
		"gemini": {"/v1beta/models/m:streamGenerateContent?alt=sse", `{"contents":[],"generationConfig":{"maxOutputTokens":10}}`, "",
			`data: {"candidates":[{"content":{"parts":[{"text":"hi"}]}}],"usageMetadata":{"promptTokenCount":20,"candidatesTokenCount":40}}` + "\n\n", sseHeader, [2]int{1, 2}, "\n\n", pricing.Partial},
		"gemini, as an array": {"/v1beta/models/m:streamGenerateContent", `{"contents":[],"generationConfig":{"maxOutputTokens":10}}`, "[",
			`{"candidates":[{"content":{"parts":[{"text":"hi"}]}}],"usageMetadata":{"promptTokenCount":20,"candidatesTokenCount":40}},`, jsonHeader, [2]int{1, 2}, "]", pricing.Partial},
	} {
		t.Run(name, func(t *testing.T) {
			limited := &catalog.Price{Model: "limited", Input: "1", Output: "2", MaxOutputTokens: 10}
			r := newRig(t, upstream("a", disconnect("drain")), account("a1", "a"), frugal("1"), limited)
			body := many(c.event, 20)
			body[0].data = c.start + body[0].data
			r.reply("a", reply{header: c.header, body: append(body, chunk{hold: make(chan struct{})})})
			call := r.call(c.path, c.body)
			x := r.run(call)
			event := strings.TrimSuffix(strings.TrimPrefix(c.event, "data: "), ",")
			if n := strings.Count(x.body(), strings.TrimSpace(event)); n < c.reads[0] || n > c.reads[1] {
				t.Errorf("%d events have come through", n)
			}
			last := x.body()[max(strings.Index(x.body(), "BUDGET_EXCEEDED"), 0):]
			if !strings.Contains(last, "RESERVATION_EXCEEDED") || !strings.Contains(last, `"did_send_upstream":true`) || !strings.HasSuffix(last, c.ends) || x.err != nil {
				t.Errorf("%v: %s", x.err, last)
			}
			r.expect(call.ID, "admitted dispatched(1 a1) | settled(failed 200 BUDGET_EXCEEDED cancelled "+string(c.source)+")")
			s := r.settlement(call.ID)
			if s.Reason != "RESERVATION_EXCEEDED" || s.Cost == 0 || s.Free || s.ClientGone {
				t.Errorf("%+v", s)
			}
			if f, _ := r.system.Board().Figures("a"); f.Failures != 0 {
				t.Errorf("the breaker counts it: %+v", f)
			}
			r.laws()
			if r.ups.open.Load() != 0 || r.ups.reused.Load() != 0 {
				t.Error("the upstream goes on")
			}
			st, ok := r.system.KeyStatus("k")
			if !ok || st.Running != 0 || len(st.Spending) != 1 || st.Spending[0].Reserved != 0 || st.Spending[0].Spent != s.Cost {
				t.Errorf("%+v", st)
			}
		})
	}
}

// An upstream that keeps to what it was asked for is never cut: the longest tokens, a prompt of its own, choices, an echo, and
// usage that is told only at the end. Nor is one whose caller has no strict limit, or whose answer had ended.
func TestAnUpstreamThatKeepsToItsLimitsIsNeverCut(t *testing.T) {
	long := strings.Repeat(" ", 128) // the longest tokens there are
	piece := func(text string) string {
		return `data: {"id":"c1","choices":[{"index":0,"delta":{"content":"` + text + `"}}]}` + "\n\n"
	}
	end := func(in, out int) string {
		return finish + fmt.Sprintf(`data: {"id":"c1","choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`, in, out) + "\n\n" + done
	}
	body := func(more string) string {
		return `{"model":"m","max_tokens":1000,"stream":true,"stream_options":{"include_usage":true},"messages":[]` + more + `}`
	}
	prompt := strings.Repeat("p", 50_000)
	for name, c := range map[string]struct {
		path, body string
		chunks     []string
		key        *catalog.Key
	}{
		"the longest tokens":              {"/v1/chat/completions", body(""), []string{piece(strings.Repeat(long, 500)), piece(strings.Repeat(long, 500)), end(9, 1000)}, frugal("1")},
		"three choices":                   {"/v1/chat/completions", body(`,"n":3`), []string{piece(strings.Repeat(long, 1500)), piece(strings.Repeat(long, 1500)), end(9, 3000)}, frugal("1")},
		"more than it should, at the end": {"/v1/chat/completions", body(""), []string{hello, piece(strings.Repeat(long, 5000)) + finish, end(9, 5000)}, frugal("1")},
		"no strict limit":                 {"/v1/chat/completions", body(""), []string{hello, piece(strings.Repeat(long, 5000)), hello, end(9, 5000)}, key("k", func(k *catalog.Key) { k.Limits = &catalog.Limits{Budget: "1"} })},
		"an echo of the prompt":           {"/v1/completions", `{"model":"old","max_tokens":1,"stream":true,"stream_options":{"include_usage":true},"echo":true,"prompt":["` + prompt + `"]}`, []string{`data: {"id":"c1","choices":[{"index":0,"text":"` + prompt + `"}]}` + "\n\n", hello, end(12_000, 1)}, frugal("1")},
		"a prompt of its own": {"/v1/messages", `{"model":"m","max_tokens":10,"stream":true,"messages":[]}`, []string{
			"event: message_start\ndata: " + `{"type":"message_start","message":{"id":"m1","usage":{"input_tokens":2000,"output_tokens":1}}}` + "\n\n",
			"event: content_block_delta\ndata: " + `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}` + "\n\n",
			"event: content_block_delta\ndata: " + `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}` + "\n\n",
			"event: message_delta\ndata: " + `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":10}}` + "\n\n" + "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
		}, frugal("1")},
		"sound": {"/v1/chat/completions", body(`,"modalities":["text","audio"]`), []string{piece(strings.Repeat(long, 5000)), hello, end(9, 900)}, frugal("1")},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, upstream("a", func(u *catalog.Upstream) { u.Capabilities = append(u.Capabilities, "openai_extended") }), account("a1", "a"), c.key,
				&catalog.Price{Model: "old", Input: "0", Output: "2", MaxInputTokens: 100_000})
			r.reply("a", streaming(c.chunks...))
			call := r.call(c.path, c.body)
			if x := r.run(call); x.err != nil || strings.Contains(x.body(), "BUDGET") {
				t.Errorf("%d %v %.300s", x.Status, x.err, x.body())
			}
			if s := r.settlement(call.ID); s.Outcome != request.Completed || s.UsageSource != pricing.Reported {
				t.Errorf("%+v", s)
			}
		})
	}
}

// What one answer, or one whose usage is told at its end only, has cost beyond what was set aside is owed all the same: the next
// request is refused.
func TestWhatCouldNotBeCutIsOwed(t *testing.T) {
	r := newRig(t, upstream("a"), account("a1", "a"), frugal("0.001"))
	r.reply("a", whole(`{"id":"c1","choices":[{"message":{"content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5000}}`))
	ask := func() (*client, string) {
		call := r.call("/v1/chat/completions", `{"model":"m","max_tokens":10,"messages":[]}`)
		return r.run(call), call.ID
	}
	x, id := ask()
	if s := r.settlement(id); x.Status != 200 || s.Cost != 10_010*money.USD/1_000_000 {
		t.Errorf("%d %+v", x.Status, s)
	}
	if x, _ := ask(); x.Status != 429 || !strings.Contains(x.body(), "API_KEY_QUOTA_EXCEEDED") {
		t.Errorf("%d %s", x.Status, x.body())
	}
}
