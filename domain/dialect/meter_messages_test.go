package dialect

import (
	"testing"

	"github.com/penstock/penstock/domain/pricing"
)

func TestMessagesStreamsAreMetered(t *testing.T) {
	const start = `{"type":"message_start","message":{"id":"msg_1","model":"claude-sonnet-5","content":[],"usage":{"input_tokens":43,"cache_creation_input_tokens":100,"cache_read_input_tokens":7,"cache_creation":{"ephemeral_5m_input_tokens":60,"ephemeral_1h_input_tokens":40},"output_tokens":1,"service_tier":"standard"}}}`
	const block = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	const text = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hé"}}`
	const stop = `{"type":"content_block_stop","index":0}`
	const delta = `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"input_tokens":61,"output_tokens":30,"output_tokens_details":{"thinking_tokens":12}}}`
	const end = `{"type":"message_stop"}`
	early := pricing.Usage{Input: 43, CachedInput: 7, CacheWrite5m: 60, CacheWrite1h: 40, Output: 1}
	used := pricing.Usage{Input: 61, CachedInput: 7, CacheWrite5m: 60, CacheWrite1h: 40, Output: 30, Reasoning: 12}
	started := state{Usage: early, Source: pricing.Partial, Model: "claude-sonnet-5", ID: "msg_1", Tier: "standard"}
	with := func(s state, change func(*state)) state { change(&s); return s }
	for _, c := range []struct {
		name, stream string
		want         state
	}{
		{"a whole answer", events("event: message_start\ndata: "+start, block, `{"type":"ping"}`, text, text, stop, delta, end), with(started, func(s *state) {
			s.Content, s.Finished, s.Terminal, s.Complete, s.Usage, s.Source, s.Output, s.Events = true, true, true, true, used, pricing.Reported, 6, 8
		})},
		{"frames around content are no content", events(start, block, `{"type":"ping"}`, stop, `{"type":"content_block_start","content_block":{"type":"thinking","thinking":"","signature":""}}`,
			`{"type":"content_block_delta","delta":{"type":"signature_delta","signature":"abc"}}`), with(started, func(s *state) { s.Events = 6 })},
		{"the end alone is no content", events(start, delta, end), with(started, func(s *state) {
			s.Finished, s.Terminal, s.Complete, s.Usage, s.Source, s.Events = true, true, true, used, pricing.Reported, 3
		})},
		{"cut is not complete although it stopped, pain 56", events(start, block, text, delta), with(started, func(s *state) {
			s.Content, s.Finished, s.Usage, s.Source, s.Output, s.Events = true, true, used, pricing.Reported, 3, 4
		})},
		{"a tool without arguments is content", events(`{"type":"content_block_start","content_block":{"type":"tool_use","name":"now","input":{}}}`), state{Content: true, Source: pricing.None, Events: 1}},
		{"arguments are content", events(`{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{\"a"}}`), state{Content: true, Source: pricing.None, Output: 3, Events: 1}},
		{"a thought is content", events(`{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"hm"}}`), state{Content: true, Source: pricing.None, Output: 2, Events: 1}},
		{"a redacted thought is content", events(`{"type":"content_block_start","content_block":{"type":"redacted_thinking","data":"x"}}`), state{Content: true, Source: pricing.None, Events: 1}},
		{"a citation is content", events(`{"type":"content_block_delta","delta":{"type":"citations_delta","citation":{"url":"u"}}}`), state{Content: true, Source: pricing.None, Events: 1}},
		{"message_start twice counts once, pain 62", events(start, start, text), with(started, func(s *state) { s.Content, s.Output, s.Events = true, 3, 3 })},
		{"the event's name helps where the data has no type", "event: message_stop\n" + events(`{}`), state{Terminal: true, Complete: true, Source: pricing.None, Events: 1}},
		{"an error", events(start, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\",\"details\":{\"error_code\":\"busy\"}},\"request_id\":\"r\"}"), with(started, func(s *state) {
			s.Failed, s.Failure, s.Events = true, StreamError{"overloaded_error", "busy", "Overloaded", 529}, 2
		})},
		{"an error by name only", "event: error\n" + events(`{"message":"broken"}`), state{Failed: true, Failure: StreamError{Message: "broken"}, Source: pricing.None, Events: 1}},
		{"an error is no completion", events(`{"type":"error","error":{"type":"api_error","message":"x"}}`, end), state{Terminal: true, Failed: true, Failure: StreamError{"api_error", "", "x", 500}, Source: pricing.None, Events: 2}},
	} {
		c.want.Boundary = true
		if got := meter(t, AnthropicMessages, SSE, c.stream); got != c.want {
			t.Errorf("%s\n got %+v\nwant %+v", c.name, got, c.want)
		}
	}
}
