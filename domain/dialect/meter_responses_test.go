package dialect

import (
	"testing"

	"github.com/penstock/penstock/domain/pricing"
)

func TestResponsesStreamsAreMetered(t *testing.T) {
	const created = `{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","status":"in_progress","error":null,"model":"gpt-5","service_tier":"auto","tools":[{"type":"function","name":"usage"}],"usage":null}}`
	const added = `{"type":"response.output_item.added","item":{"id":"i","type":"message","content":[]}}`
	const part = `{"type":"response.content_part.added","part":{"type":"output_text","text":""}}`
	const delta = `{"type":"response.output_text.delta","item_id":"i","delta":"Hi\n","logprobs":[]}`
	const done = `{"type":"response.output_text.done","text":"Hi\n"}`
	const usage = `"usage":{"input_tokens":50,"input_tokens_details":{"cached_tokens":20,"cache_write_tokens":25,"cache_write_tokens_details":{"ttl_30m_tokens":15,"ttl_12h_tokens":10}},"output_tokens":9,"output_tokens_details":{"reasoning_tokens":4},"total_tokens":59}`
	const completed = `{"type":"response.completed","response":{"id":"resp_1","status":"completed","error":null,"model":"gpt-5","service_tier":"default","output":[{"type":"message","content":[{"type":"output_text","text":"Hi\n"}]}],` + usage + `}}`
	used := pricing.Usage{Input: 5, CachedInput: 20, CacheWrite5m: 15, CacheWrite1h: 10, Output: 9, Reasoning: 4}
	named := func(kind, data string) string { return "event: " + kind + "\ndata: " + data }
	for _, c := range []struct {
		name, stream string
		want         state
	}{
		{"a whole answer", events(named("response.created", created), added, part, delta, delta, done, named("response.completed", completed)),
			state{Content: true, Finished: true, Terminal: true, Complete: true, Usage: used, Source: pricing.Reported, Model: "gpt-5", ID: "resp_1", Tier: "default", Output: 6, Events: 7}},
		{"frames around content are no content", events(created, `{"type":"response.in_progress","response":{"id":"resp_1"}}`, added, part, `{"type":"response.reasoning_summary_part.added"}`,
			`{"type":"response.output_item.added","item":{"type":"reasoning","encrypted_content":"abc"}}`, `{"type":"response.output_text.delta","delta":""}`),
			state{Source: pricing.None, Model: "gpt-5", ID: "resp_1", Tier: "auto", Events: 7}},
		{"completed alone is no content", events(completed), state{Finished: true, Terminal: true, Complete: true, Usage: used, Source: pricing.Reported, Model: "gpt-5", ID: "resp_1", Tier: "default", Events: 1}},
		{"a call is content before its arguments", events(`{"type":"response.output_item.added","item":{"type":"function_call","name":"now","arguments":""}}`), state{Content: true, Source: pricing.None, Events: 1}},
		{"arguments are content", events(`{"type":"response.function_call_arguments.delta","delta":"{}"}`), state{Content: true, Source: pricing.None, Output: 2, Events: 1}},
		{"a thought is content", events(`{"type":"response.reasoning_summary_text.delta","delta":"hm"}`), state{Content: true, Source: pricing.None, Output: 2, Events: 1}},
		{"an item that comes whole is content", events(`{"type":"response.output_item.done","item":{"type":"message","content":[{"type":"output_text","text":"x"}]}}`), state{Content: true, Source: pricing.None, Events: 1}},
		{"type need not come first", events(delta, `{"delta":"ab","type":"response.output_text.delta"}`), state{Content: true, Source: pricing.None, Output: 5, Events: 2}},
		{"incomplete is billed, new-api 7241", events(`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},` + usage + `}}`),
			state{Finished: true, Terminal: true, Complete: true, Usage: used, Source: pricing.Reported, Events: 1}},
		{"failed is billed too", events(delta, `{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"sorry"},`+usage+`}}`),
			state{Content: true, Terminal: true, Failed: true, Failure: StreamError{Code: "server_error", Message: "sorry", Status: 500}, Usage: used, Source: pricing.Reported, Output: 3, Events: 2}},
		{"the nested error event, then failed: the first one counts", events(named("error", `{"type":"error","sequence_number":2,"error":{"type":"tokens","code":"rate_limit_exceeded","message":"slow"}}`),
			`{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"slow"}}}`),
			state{Terminal: true, Failed: true, Failure: StreamError{"tokens", "rate_limit_exceeded", "slow", 429}, Source: pricing.None, Events: 2}},
		{"the flat error event", events(`{"type":"error","code":"server_error","message":"sorry","param":null}`),
			state{Failed: true, Failure: StreamError{Code: "server_error", Message: "sorry", Status: 500}, Source: pricing.None, Events: 1}},
		{"an error without type", events(`{"error":{"message":"no"}}`), state{Failed: true, Failure: StreamError{Message: "no"}, Source: pricing.None, Events: 1}},
		{"an error by name only", "event: error\n" + events(`{"message":"no","code":"x"}`), state{Failed: true, Failure: StreamError{Code: "x", Message: "no"}, Source: pricing.None, Events: 1}},
		{"cut, pain 56", events(created, added, delta), state{Content: true, Source: pricing.None, Model: "gpt-5", ID: "resp_1", Tier: "auto", Output: 3, Events: 3}},
	} {
		c.want.Boundary = true
		if got := meter(t, OpenAIResponses, SSE, c.stream); got != c.want {
			t.Errorf("%s\n got %+v\nwant %+v", c.name, got, c.want)
		}
	}
}
