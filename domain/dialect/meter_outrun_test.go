package dialect

import (
	"testing"

	"github.com/penstock/penstock/domain/pricing"
)

// A report is the last one until content comes behind it. Anthropic may send more than one message_delta, and some relays say what a
// prompt has used before the first word: what breaks off then has cost more than that (pains 7, 9).
func TestAReportThatContentFollowsIsPartial_Pain7_9(t *testing.T) {
	const (
		text  = `{"choices":[{"index":0,"delta":{"content":"hello"},"finish_reason":null}]}`
		empty = `{"choices":[{"index":0,"delta":{"content":""},"finish_reason":null}]}`
		stop  = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
		asked = `{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":0}}`
		used  = `{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5}}`
		begin = `{"type":"message_start","message":{"usage":{"input_tokens":10,"output_tokens":1}}}`
		block = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello"}}`
		call  = `{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","name":"f","input":{}}}`
		on    = `{"type":"message_delta","delta":{"stop_reason":null},"usage":{"output_tokens":2}}`
		over  = `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}`
		part  = `{"candidates":[{"content":{"parts":[{"text":"hello"}]},"finishReason":"STOP"}]}`
		fresh = `{"candidates":[{"content":{"parts":[{"text":"hello"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":5}}`
	)
	for _, c := range []struct {
		name   string
		d      Dialect
		stream []string
		output int64
		want   pricing.Source
	}{
		{"chat: before the first word", OpenAIChat, []string{asked, text}, 0, pricing.Partial},
		{"chat: before the next word", OpenAIChat, []string{text, asked, text}, 0, pricing.Partial},
		{"chat: and once more at the end", OpenAIChat, []string{asked, text, stop, used}, 5, pricing.Reported},
		{"chat: nothing but an empty word follows", OpenAIChat, []string{text, stop, used, empty, stop, "[DONE]"}, 5, pricing.Reported},
		{"messages: while it goes on", AnthropicMessages, []string{begin, block, on, block}, 2, pricing.Partial},
		{"messages: while it goes on with a call", AnthropicMessages, []string{begin, block, on, call}, 2, pricing.Partial},
		{"messages: and once more at the end", AnthropicMessages, []string{begin, block, on, block, over}, 5, pricing.Reported},
		{"gemini: a reason with every chunk", Gemini, []string{fresh, part}, 5, pricing.Partial},
		{"gemini: a report with every chunk", Gemini, []string{part, fresh, fresh}, 5, pricing.Reported},
	} {
		var m Meter
		m.Reset(c.d, SSE)
		m.Feed([]byte(events(c.stream...)))
		if u, source := m.Usage(); source != c.want || u.Input != 10 || u.Output != c.output {
			t.Errorf("%s: %+v, %s", c.name, u, source)
		}
	}
}
