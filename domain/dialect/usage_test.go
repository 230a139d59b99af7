package dialect

import (
	"testing"

	"github.com/penstock/penstock/domain/pricing"
)

func TestUsageIsSplitIntoDisjointClasses_pains64to66(t *testing.T) {
	for _, c := range []struct {
		name string
		d    Dialect
		body string
		want pricing.Usage
	}{
		{"chat", OpenAIChat, `{"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,"prompt_tokens_details":{"cached_tokens":60,"cache_write_tokens":30},"completion_tokens_details":{"reasoning_tokens":5}}}`,
			pricing.Usage{Input: 10, CachedInput: 60, CacheWrite5m: 30, Output: 20, Reasoning: 5}},
		{"chat without details", OpenAIChat, `{"usage":{"prompt_tokens":16,"completion_tokens":3,"total_tokens":19,"prompt_tokens_details":null}}`, pricing.Usage{Input: 16, Output: 3}},
		{"DeepSeek's own fields", OpenAIChat, `{"usage":{"prompt_tokens":339,"completion_tokens":83,"prompt_cache_hit_tokens":320}}`, pricing.Usage{Input: 19, CachedInput: 320, Output: 83}},
		{"Moonshot's own field", OpenAIChat, `{"usage":{"prompt_tokens":30,"completion_tokens":8,"cached_tokens":20}}`, pricing.Usage{Input: 10, CachedInput: 20, Output: 8}},
		{"thoughts beside the completion, litellm 14874, new-api 1014", OpenAIChat, `{"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":115,"completion_tokens_details":{"reasoning_tokens":100}}}`,
			pricing.Usage{Input: 10, Output: 105, Reasoning: 100}},
		{"cached above the whole, new-api 3259", OpenAIChat, `{"usage":{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":50,"cache_write_tokens":7},"completion_tokens_details":{"reasoning_tokens":9}}}`,
			pricing.Usage{CachedInput: 10, Output: 5, Reasoning: 5}},
		{"negative and absurd counts", OpenAIChat, `{"usage":{"prompt_tokens":-5,"completion_tokens":1e99,"prompt_tokens_details":{"cached_tokens":-1}}}`, pricing.Usage{Output: countMax}},
		{"fractions", OpenAIChat, `{"usage":{"prompt_tokens":12.0,"completion_tokens":3.9e0}}`, pricing.Usage{Input: 12, Output: 3}},
		{"responses with both kinds of writes", OpenAIResponses, `{"usage":{"input_tokens":50,"input_tokens_details":{"cached_tokens":20,"cache_write_tokens":25,"cache_write_tokens_details":{"ttl_30m_tokens":15,"ttl_12h_tokens":10}},"output_tokens":9,"output_tokens_details":{"reasoning_tokens":4}}}`,
			pricing.Usage{Input: 5, CachedInput: 20, CacheWrite5m: 15, CacheWrite1h: 10, Output: 9, Reasoning: 4}},
		{"responses with the details alone", OpenAIResponses, `{"usage":{"input_tokens":50,"input_tokens_details":{"cache_write_tokens_details":{"ttl_12h_tokens":10}},"output_tokens":9}}`,
			pricing.Usage{Input: 40, CacheWrite1h: 10, Output: 9}},
		{"messages exclude the cache already", AnthropicMessages, `{"usage":{"input_tokens":6,"cache_read_input_tokens":6289,"cache_creation_input_tokens":3337,"cache_creation":{"ephemeral_5m_input_tokens":3000,"ephemeral_1h_input_tokens":337},"output_tokens":198,"output_tokens_details":{"thinking_tokens":500}}}`,
			pricing.Usage{Input: 6, CachedInput: 6289, CacheWrite5m: 3000, CacheWrite1h: 337, Output: 198, Reasoning: 198}},
		{"only the flat write: five minutes, new-api 5756", AnthropicMessages, `{"usage":{"input_tokens":6,"cache_creation_input_tokens":3337,"output_tokens":1}}`, pricing.Usage{Input: 6, CacheWrite5m: 3337, Output: 1}},
		{"a split that explains nothing", AnthropicMessages, `{"usage":{"cache_creation_input_tokens":30,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0}}}`, pricing.Usage{CacheWrite5m: 30}},
		{"a split above its whole", AnthropicMessages, `{"usage":{"cache_creation_input_tokens":30,"cache_creation":{"ephemeral_5m_input_tokens":9,"ephemeral_1h_input_tokens":70}}}`, pricing.Usage{CacheWrite1h: 30}},
		{"only the split", AnthropicMessages, `{"usage":{"cache_creation":{"ephemeral_5m_input_tokens":9,"ephemeral_1h_input_tokens":7}}}`, pricing.Usage{CacheWrite5m: 9, CacheWrite1h: 7}},
		{"a compaction is billed beside the message (pain 7)", AnthropicMessages, `{"usage":{"input_tokens":23000,"output_tokens":1000,"cache_read_input_tokens":7,"iterations":[{"type":"compaction","input_tokens":180000,"output_tokens":3500,"cache_creation_input_tokens":50,"cache_creation":{"ephemeral_1h_input_tokens":20}},{"type":"message","input_tokens":23000,"output_tokens":1000,"cache_read_input_tokens":7}]}}`,
			pricing.Usage{Input: 203000, CachedInput: 7, CacheWrite5m: 30, CacheWrite1h: 20, Output: 4500}},
		{"so is an advisor's word", AnthropicMessages, `{"usage":{"iterations":[{"type":"message","input_tokens":5,"output_tokens":6},{"type":"advisor_message","model":"m","input_tokens":823,"output_tokens":1612,"output_tokens_details":{"thinking_tokens":12}},{"type":"message","input_tokens":7,"output_tokens":8},5,null],"input_tokens":12,"output_tokens":14}}`,
			pricing.Usage{Input: 835, Output: 1626, Reasoning: 12}},
		{"what is none of these is in the message's counts", AnthropicMessages, `{"usage":{"input_tokens":3,"output_tokens":4,"iterations":[{"type":"message","input_tokens":1,"output_tokens":2},{"type":"fallback_message","input_tokens":2,"output_tokens":2},{"input_tokens":9}]}}`,
			pricing.Usage{Input: 3, Output: 4}},
		{"gemini: cached tokens once, thoughts and tool prompts in, litellm 14849", Gemini, `{"usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":60,"candidatesTokenCount":7,"thoughtsTokenCount":30,"toolUsePromptTokenCount":5,"totalTokenCount":142}}`,
			pricing.Usage{Input: 45, CachedInput: 60, Output: 37, Reasoning: 30}},
		{"images", OpenAIChat, `{"data":[{"b64_json":"AA"}],"usage":{"input_tokens":50,"output_tokens":1000,"total_tokens":1050}}`, pricing.Usage{Input: 50, Output: 1000, Images: 1}},
	} {
		a := ReadAnswer(c.d, []byte(c.body))
		if !a.IsObject || !a.HasUsage || a.Usage != c.want {
			t.Errorf("%s\n got %+v\nwant %+v", c.name, a.Usage, c.want)
		}
	}
}

func TestMessageUsageIsCumulativeAndNeverAdded_wireList3_20_21(t *testing.T) {
	start := func(usage string) string { return `{"type":"message_start","message":{"usage":` + usage + `}}` }
	delta := func(usage string) string { return `{"type":"message_delta","delta":{},"usage":` + usage + `}` }
	for _, c := range []struct {
		name, start, delta string
		want               pricing.Usage
	}{
		{"what the delta leaves out stays", `{"input_tokens":17,"cache_read_input_tokens":5,"output_tokens":1}`, `{"output_tokens":227}`, pricing.Usage{Input: 17, CachedInput: 5, Output: 227}},
		{"what it says wins", `{"input_tokens":43,"output_tokens":1}`, `{"input_tokens":61,"output_tokens":5}`, pricing.Usage{Input: 61, Output: 5}},
		{"no input at all is no report of it", `{"input_tokens":43,"cache_read_input_tokens":2,"output_tokens":1}`, `{"input_tokens":0,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"output_tokens":5}`, pricing.Usage{Input: 43, CachedInput: 2, Output: 5}},
		{"a compaction counts once, as last told", `{"input_tokens":43,"output_tokens":1,"iterations":[{"type":"compaction","input_tokens":900,"output_tokens":1}]}`, `{"input_tokens":43,"output_tokens":5,"iterations":[{"type":"compaction","input_tokens":900,"output_tokens":70},{"type":"message","input_tokens":43,"output_tokens":5}]}`, pricing.Usage{Input: 943, Output: 75}},
		{"a compaction stays when it is not told again", `{"input_tokens":43,"output_tokens":1,"iterations":[{"type":"compaction","input_tokens":900,"output_tokens":70}]}`, `{"output_tokens":5}`, pricing.Usage{Input: 943, Output: 75}},
		{"all of it may turn out cached", `{"input_tokens":43,"output_tokens":1}`, `{"input_tokens":0,"cache_read_input_tokens":43,"output_tokens":5}`, pricing.Usage{CachedInput: 43, Output: 5}},
		{"the split of the start holds for the same whole", `{"cache_creation_input_tokens":100,"cache_creation":{"ephemeral_5m_input_tokens":60,"ephemeral_1h_input_tokens":40}}`, `{"cache_creation_input_tokens":100,"output_tokens":5}`, pricing.Usage{CacheWrite5m: 60, CacheWrite1h: 40, Output: 5}},
		{"a larger whole is of the short kind", `{"cache_creation_input_tokens":0,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"input_tokens":6}`, `{"cache_creation_input_tokens":3337,"output_tokens":5}`, pricing.Usage{Input: 6, CacheWrite5m: 3337, Output: 5}},
		{"an empty report changes nothing", `{"input_tokens":43,"output_tokens":1}`, `{}`, pricing.Usage{Input: 43, Output: 1}},
		{"a start of zeros, as translated streams have", `{"input_tokens":0,"output_tokens":0}`, `{"input_tokens":9,"output_tokens":5}`, pricing.Usage{Input: 9, Output: 5}},
	} {
		got := meter(t, AnthropicMessages, SSE, events(start(c.start), delta(c.delta)))
		if got.Usage != c.want {
			t.Errorf("%s\n got %+v\nwant %+v", c.name, got.Usage, c.want)
		}
		if partial := c.delta == `{}`; (got.Source == pricing.Partial) != partial {
			t.Errorf("%s: source %s", c.name, got.Source)
		}
	}
}

func TestAbsurdReportsCannotOverflow(t *testing.T) {
	const huge = `99999999999999999999999999`
	for d, body := range map[Dialect]string{
		OpenAIChat:        `{"usage":{"prompt_tokens":` + huge + `,"completion_tokens":` + huge + `,"prompt_tokens_details":{"cached_tokens":` + huge + `}}}`,
		AnthropicMessages: `{"usage":{"input_tokens":` + huge + `,"cache_read_input_tokens":` + huge + `,"cache_creation_input_tokens":` + huge + `,"output_tokens":` + huge + `}}`,
		Gemini:            `{"usageMetadata":{"promptTokenCount":` + huge + `,"toolUsePromptTokenCount":` + huge + `,"candidatesTokenCount":` + huge + `,"thoughtsTokenCount":` + huge + `}}`,
	} {
		if u := ReadAnswer(d, []byte(body)).Usage; u.Total() <= 0 || u.Input < 0 || u.Output <= 0 {
			t.Errorf("%v: %+v", d, u)
		}
	}
}

// Some upstreams that do not count say zero. No answer has cost nothing (pains 1, 68); what has no content may have.
func TestAReportOfNothingIsNone_Pain1_68(t *testing.T) {
	for _, c := range []struct {
		d                   Dialect
		body, stream, empty string
	}{
		{OpenAIChat, `{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0,"prompt_tokens_details":{"cached_tokens":0}}}`,
			`{"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`,
			`{"choices":[{"message":{"content":""}}],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`},
		{OpenAIResponses, `{"output":[{"type":"message","content":[{"type":"output_text","text":"hi"}]}],"usage":{"input_tokens":0,"output_tokens":0,"total_tokens":0}}`,
			`{"type":"response.output_text.delta","delta":"hi"}` + "\n\ndata: " + `{"type":"response.completed","response":{"usage":{"input_tokens":0,"output_tokens":0,"total_tokens":0}}}`,
			`{"output":[],"usage":{"input_tokens":0,"output_tokens":0,"total_tokens":0}}`},
		{AnthropicMessages, `{"content":[{"type":"text","text":"hi"}],"usage":{"input_tokens":0,"output_tokens":0,"cache_creation":{"ephemeral_5m_input_tokens":0}}}`,
			`{"type":"content_block_delta","delta":{"text":"hi"}}` + "\n\ndata: " + `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":0,"output_tokens":0}}`,
			`{"content":[],"usage":{"input_tokens":0,"output_tokens":0}}`},
		{Gemini, `{"candidates":[{"content":{"parts":[{"text":"hi"}]}}],"usageMetadata":{"promptTokenCount":0,"totalTokenCount":0}}`,
			`{"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":0,"totalTokenCount":0}}`,
			`{"candidates":[],"usageMetadata":{"promptTokenCount":0}}`},
	} {
		if a := ReadAnswer(c.d, []byte(c.body)); a.HasUsage || !a.HasContent {
			t.Errorf("%v: %+v", c.d, a)
		}
		if a := ReadAnswer(c.d, []byte(c.empty)); !a.HasUsage {
			t.Errorf("%v, no content: %+v", c.d, a)
		}
		var m Meter
		m.Reset(c.d, SSE)
		m.Feed([]byte(events(c.stream)))
		if u, source := m.Usage(); source != pricing.None || !u.IsZero() || !m.Content() || m.OutputBytes() != 2 {
			t.Errorf("%v, streamed: %+v, %s", c.d, u, source)
		}
	}
}
