package dialect

import (
	"testing"

	"github.com/penstock/penstock/domain/pricing"
)

const chatRole = `{"id":"c1","object":"chat.completion.chunk","model":"gpt-5-2026","service_tier":"flex","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"finish_reason":null}],"usage":null}`

func TestChatStreamsAreMetered(t *testing.T) {
	const text = `{"choices":[{"index":0,"delta":{"content":"Hello \"you\" \u00e9"},"finish_reason":null}],"usage":null}`
	const stop = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}`
	const usage = `{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,"prompt_tokens_details":{"cached_tokens":60,"cache_write_tokens":30},"completion_tokens_details":{"reasoning_tokens":5}}}`
	used := pricing.Usage{Input: 10, CachedInput: 60, CacheWrite5m: 30, Output: 20, Reasoning: 5}
	for _, c := range []struct {
		name, stream string
		want         state
	}{
		{"a whole answer", events(chatRole, text, text, stop, usage, "[DONE]"),
			state{Content: true, Finished: true, Terminal: true, Complete: true, Usage: used, Source: pricing.Reported, Model: "gpt-5-2026", ID: "c1", Tier: "flex", Output: 28, Events: 6}},
		{"a role is no content", events(chatRole), state{Source: pricing.None, Model: "gpt-5-2026", ID: "c1", Tier: "flex", Events: 1}},
		{"Azure's first chunk is no content", events(`{"choices":[],"id":"","object":"","prompt_filter_results":[{"prompt_index":0}]}`), state{Source: pricing.None, Events: 1}},
		{"a finish reason is no content", events(stop), state{Finished: true, Complete: true, Source: pricing.None, Events: 1}},
		{"usage is no content", events(usage), state{Usage: used, Source: pricing.Reported, Events: 1}},
		{"cut after text is not complete, pain 56", events(chatRole, text), state{Content: true, Source: pricing.None, Model: "gpt-5-2026", ID: "c1", Tier: "flex", Output: 14, Events: 2}},
		{"some never send [DONE]", events(text, stop), state{Content: true, Finished: true, Complete: true, Source: pricing.None, Output: 14, Events: 2}},
		{"reasoning is content", events(`{"choices":[{"delta":{"reasoning_content":"hm"}}]}`), state{Content: true, Source: pricing.None, Output: 2, Events: 1}},
		{"a refusal is content", events(`{"choices":[{"delta":{"refusal":"no"}}]}`), state{Content: true, Source: pricing.None, Output: 2, Events: 1}},
		{"parts are content", events(`{"choices":[{"delta":{"content":[{"type":"text","text":"x"}]}}]}`), state{Content: true, Source: pricing.None, Output: 28, Events: 1}},
		{"a tool's name is content, litellm 25321", events(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"t","type":"function","function":{"name":"now","arguments":""}}]}}]}`),
			state{Content: true, Source: pricing.None, Events: 1}},
		{"a custom tool's input is content", events(`{"choices":[{"delta":{"tool_calls":[{"index":0,"custom":{"input":"ab"}}]}}]}`), state{Content: true, Source: pricing.None, Output: 2, Events: 1}},
		{"no tool calls are no content, litellm 29286", events(`{"choices":[{"delta":{"tool_calls":[],"content":null}}]}`), state{Source: pricing.None, Events: 1}},
		{"oddities of compatibles", events(`{"choices":null}`, `null`, `{"choices":[{"delta":{"content":null},"finish_reason":""}]}`, `[1]`, `nonsense`, `{"choices":[{"delta":`),
			state{Source: pricing.None, Events: 6}},
		{"old completions", events(`{"choices":[{"text":"ab","finish_reason":null}]}`, `{"choices":[{"text":"c","finish_reason":"stop"}]}`),
			state{Content: true, Finished: true, Complete: true, Source: pricing.None, Output: 3, Events: 2}},
		{"two choices", events(text, `{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null},{"index":1,"delta":{"content":"bc"},"finish_reason":null}]}`,
			`{"choices":[{"index":0,"delta":{"content":"d"},"finish_reason":null},{"index":1,"delta":{},"finish_reason":"length"}]}`),
			state{Content: true, Finished: true, Complete: true, Source: pricing.None, Output: 18, Events: 3}},
		{"text about usage is text", events(text, `{"choices":[{"delta":{"content":"\"usage\":{\"prompt_tokens\":9} \"error\": \"finish_reason\":\"stop\""}}]}`),
			state{Content: true, Source: pricing.None, Output: 14 + 59, Events: 2}},
		{"usage in every chunk: the last one wins, the early ones are partial", events(`{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":4,"completion_tokens":1}}`,
			`{"choices":[{"delta":{"content":"b"}}], "usage" : {"prompt_tokens":4,"completion_tokens":2}}`),
			state{Content: true, Usage: pricing.Usage{Input: 4, Output: 2}, Source: pricing.Partial, Output: 2, Events: 2}},
		{"usage beside the finish reason", events(text, `{"choices":[{"delta":{"content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":4,"completion_tokens":2}}`),
			state{Content: true, Finished: true, Complete: true, Usage: pricing.Usage{Input: 4, Output: 2}, Source: pricing.Reported, Output: 14, Events: 2}},
		{"usage within the last choice, as Moonshot has it", events(text, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":19,"completion_tokens":13,"total_tokens":32}}]}`, "[DONE]"),
			state{Content: true, Finished: true, Terminal: true, Complete: true, Usage: pricing.Usage{Input: 19, Output: 13}, Source: pricing.Reported, Output: 14, Events: 3}},
		{"usage of the chunk and of a choice", events(text, `{"usage":{"prompt_tokens":4,"completion_tokens":2},"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":19,"completion_tokens":13}}]}`),
			state{Content: true, Finished: true, Complete: true, Usage: pricing.Usage{Input: 4, Output: 2}, Source: pricing.Reported, Output: 14, Events: 2}},
		{"usage after [DONE]", events(text, stop, "[DONE]", usage),
			state{Content: true, Finished: true, Terminal: true, Complete: true, Usage: used, Source: pricing.Reported, Output: 14, Events: 4}},
		{"an error in the stream", events(text, `{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded","param":null}}`),
			state{Content: true, Failed: true, Failure: StreamError{"requests", "rate_limit_exceeded", "slow down", 429}, Source: pricing.None, Output: 14, Events: 2}},
		{"an error then [DONE] is no completion", events(`{"error":"boom"}`, "[DONE]"), state{Terminal: true, Failed: true, Failure: StreamError{Message: "boom"}, Source: pricing.None, Events: 2}},
		{"error null is no error", events(`{"error":null,"choices":[]}`), state{Source: pricing.None, Events: 1}},
		{"a router's error with a status", events(text, `{"id":"c1","error":{"code":502,"message":"Provider disconnected"},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}`),
			state{Content: true, Failed: true, Failure: StreamError{"error", "502", "Provider disconnected", 502}, Source: pricing.None, ID: "c1", Output: 14, Events: 2}},
		{"an event named error", "event: error\n" + events(`{"message":"bad","code":"server_error"}`), state{Failed: true, Failure: StreamError{Code: "server_error", Message: "bad", Status: 500}, Source: pricing.None, Events: 1}},
		{"keep-alives are no events", ": OPENROUTER PROCESSING\n\n\n\n", state{Source: pricing.None}},
	} {
		c.want.Boundary = true
		if got := meter(t, OpenAIChat, SSE, c.stream); got != c.want {
			t.Errorf("%s\n got %+v\nwant %+v", c.name, got, c.want)
		}
	}
}
