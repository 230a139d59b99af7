package dialect

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/penstock/penstock/domain/pricing"
)

// told is a usage as a provider means it: the whole and its parts. It is written down in every dialect.
type told struct {
	read, write5m, write1h, text, audio, image int64 // input
	thoughts, words, sound, pictures           int64 // output
	searches                                   int64
}

func (t told) input() int64  { return t.read + t.write5m + t.write1h + t.text + t.audio + t.image }
func (t told) output() int64 { return t.thoughts + t.words + t.sound + t.pictures }

func (t told) want() pricing.Usage {
	return pricing.Usage{
		Input: t.text, CachedInput: t.read, CacheWrite5m: t.write5m, CacheWrite1h: t.write1h, Output: t.words + t.thoughts, Reasoning: t.thoughts,
		AudioInput: t.audio, AudioOutput: t.sound, ImageInput: t.image, ImageOutput: t.pictures, WebSearches: t.searches,
	}
}

func random(r *rand.Rand) told {
	n := func() int64 {
		if r.IntN(3) == 0 {
			return 0
		}
		return r.Int64N(1 << (1 + r.IntN(22)))
	}
	return told{n(), n(), n(), n(), n(), n(), n(), n(), n(), n(), int64(r.IntN(4))}
}

type obj = map[string]any

// openAIUsage writes it as chat and Responses do.
func (t told) openAIUsage(in, out, inDetails, outDetails string) obj {
	return obj{
		in: t.input(), out: t.output(), "total_tokens": t.input() + t.output(), "num_search_queries": t.searches,
		inDetails: obj{"cached_tokens": t.read, "cache_write_tokens": t.write5m + t.write1h, "audio_tokens": t.audio, "image_tokens": t.image,
			"cache_write_tokens_details": obj{"ttl_30m_tokens": t.write5m, "ttl_12h_tokens": t.write1h}},
		outDetails: obj{"reasoning_tokens": t.thoughts, "audio_tokens": t.sound, "image_tokens": t.pictures},
	}
}

func (t told) anthropicUsage() obj {
	return obj{
		"input_tokens": t.text, "cache_read_input_tokens": t.read, "cache_creation_input_tokens": t.write5m + t.write1h,
		"cache_creation": obj{"ephemeral_5m_input_tokens": t.write5m, "ephemeral_1h_input_tokens": t.write1h},
		"output_tokens":  t.words + t.thoughts, "output_tokens_details": obj{"thinking_tokens": t.thoughts}, "server_tool_use": obj{"web_search_requests": t.searches},
	}
}

func (t told) geminiUsage() obj {
	return obj{
		"promptTokenCount": t.read + t.text + t.audio + t.image, "cachedContentTokenCount": t.read, "candidatesTokenCount": t.words + t.sound + t.pictures,
		"thoughtsTokenCount": t.thoughts, "trafficType": "ON_DEMAND_FLEX",
		"promptTokensDetails":     []obj{{"modality": "AUDIO", "tokenCount": t.audio}, {"modality": "TEXT", "tokenCount": t.text + t.read}, {"modality": "IMAGE", "tokenCount": t.image}},
		"candidatesTokensDetails": []obj{{"modality": "AUDIO", "tokenCount": t.sound}, {"modality": "IMAGE", "tokenCount": t.pictures}},
	}
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// shapes are the ways a report reaches us: the whole body and the stream of each dialect.
func (t told) shapes() []struct {
	name         string
	d            Dialect
	body, stream string
	want         pricing.Usage
} {
	plain := t // what Anthropic and Gemini do not report
	plain.audio, plain.image, plain.sound, plain.pictures = 0, 0, 0, 0
	unwritten := t
	unwritten.write5m, unwritten.write1h = 0, 0
	queries := make([]string, t.searches)
	grounded := obj{"finishReason": "STOP", "groundingMetadata": obj{"webSearchQueries": queries}}
	chat := t.openAIUsage("prompt_tokens", "completion_tokens", "prompt_tokens_details", "completion_tokens_details")
	responses := t.openAIUsage("input_tokens", "output_tokens", "input_tokens_details", "output_tokens_details")
	return []struct {
		name         string
		d            Dialect
		body, stream string
		want         pricing.Usage
	}{
		{"chat", OpenAIChat, text(obj{"usage": chat}), events(text(obj{"choices": []obj{}, "usage": chat}), "[DONE]"), t.want()},
		{"responses", OpenAIResponses, text(obj{"usage": responses}), events(text(obj{"type": "response.completed", "response": obj{"usage": responses}})), t.want()},
		{"messages", AnthropicMessages, text(obj{"usage": plain.anthropicUsage()}),
			events(text(obj{"type": "message_start", "message": obj{"usage": obj{"input_tokens": 1, "output_tokens": 1}}}),
				text(obj{"type": "message_delta", "delta": obj{"stop_reason": "end_turn"}, "usage": plain.anthropicUsage()})), plain.want()},
		{"gemini", Gemini, text(obj{"usageMetadata": t.geminiUsage(), "candidates": []obj{grounded}}),
			events(text(obj{"usageMetadata": obj{"promptTokenCount": 3}}), text(obj{"usageMetadata": t.geminiUsage(), "candidates": []obj{grounded}})), unwritten.want()},
	}
}

// B24, pains 1, 4, 64-66: what a provider means comes out class by class, whole or streamed, in every dialect.
func TestEveryDialectGivesTheClassesThatWereMeant_B24_Pain1_4_64to66(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 5))
	for range 400 {
		meant := random(r)
		for _, s := range meant.shapes() {
			if a := ReadAnswer(s.d, []byte(s.body)); a.Usage != s.want || a.Clamped {
				t.Fatalf("%s: %s\n got %+v, clamped %v\nwant %+v", s.name, s.body, a.Usage, a.Clamped, s.want)
			}
			var m Meter
			m.Reset(s.d, SSE)
			m.Feed([]byte(s.stream))
			u, source := m.Usage()
			if s.d == AnthropicMessages && s.want.InputTotal() == 0 {
				continue // a report without any input is a missing one: the start counts
			}
			if u != s.want || m.Clamped() || source != pricing.Reported {
				t.Fatalf("%s: %s\n got %+v, %s, clamped %v\nwant %+v", s.name, s.stream, u, source, m.Clamped(), s.want)
			}
		}
	}
}

// whole is what a report says of its totals, within bounds, before any split.
func whole(d Dialect, r *report) (in, out int64) {
	switch d {
	case AnthropicMessages:
		return -1, r.output
	case Gemini:
		return r.input + r.toolPrompt, r.output + r.reasoning
	}
	return r.input, -1
}

// Pain 66, new-api 3259: whatever an upstream reports, no class is negative, no part exceeds its whole, and reports
// that had to be cut are flagged.
func TestNoReportBreaksTheInvariants_Pain66(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 3))
	n := func() int64 {
		switch r.IntN(8) {
		case 0:
			return 0
		case 1:
			return countMax
		}
		return r.Int64N(200)
	}
	cut := 0
	for range 50_000 {
		rep := report{
			input: n(), cached: n(), write: n(), write5m: n(), write1h: n(), output: n(), reasoning: n(), total: n(), toolPrompt: n(),
			in: media{n(), n()}, inCached: media{n(), n()}, out: media{n(), n()}, searches: n(), has: true, flatWrite: r.IntN(2) == 0, splitWrite: r.IntN(2) == 0,
		}
		for _, d := range []Dialect{OpenAIChat, OpenAIResponses, AnthropicMessages, Gemini} {
			u, clamped := rep.usage(d)
			if err := u.Check(); err != nil {
				t.Fatalf("%v %+v: %v", d, rep, err)
			}
			in, out := whole(d, &rep)
			if in >= 0 && u.InputTotal() != in || out >= 0 && u.OutputTotal() != out {
				t.Fatalf("%v %+v: totals %d and %d of %+v", d, rep, in, out, u)
			}
			if clamped {
				cut++
			} else if d == OpenAIChat && (u.CachedInput != rep.cached || u.Reasoning != rep.reasoning || u.CacheWrite1h != rep.write1h) {
				t.Fatalf("%v %+v was cut to %+v without a word", d, rep, u)
			}
		}
	}
	if cut == 0 {
		t.Fatal("no report had to be cut: the generator no longer covers that")
	}
}

func TestReportsThatCannotBeAreFlagged_Pain66(t *testing.T) {
	for _, c := range []struct {
		d       Dialect
		body    string
		clamped bool
	}{
		{OpenAIChat, `{"usage":{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":10},"completion_tokens_details":{"reasoning_tokens":5}}}`, false},
		{OpenAIChat, `{"usage":{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":11}}}`, true},
		{OpenAIChat, `{"usage":{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":6,"cache_write_tokens":5}}}`, true},
		{OpenAIChat, `{"usage":{"prompt_tokens":10,"prompt_tokens_details":{"audio_tokens":11}}}`, true},
		{OpenAIChat, `{"usage":{"prompt_tokens":-1,"completion_tokens":5}}`, true},
		{OpenAIChat, `{"usage":{"completion_tokens":5,"completion_tokens_details":{"reasoning_tokens":6}}}`, true},
		{OpenAIChat, `{"usage":{"completion_tokens":5,"completion_tokens_details":{"audio_tokens":6}}}`, true},
		{AnthropicMessages, `{"usage":{"input_tokens":1,"output_tokens":5,"output_tokens_details":{"thinking_tokens":6}}}`, true},
		{AnthropicMessages, `{"usage":{"cache_creation_input_tokens":5,"cache_creation":{"ephemeral_1h_input_tokens":6}}}`, true},
		{Gemini, `{"usageMetadata":{"promptTokenCount":5,"cachedContentTokenCount":6}}`, true},
		{Gemini, `{"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":6,"thoughtsTokenCount":7}}`, false},
	} {
		if a := ReadAnswer(c.d, []byte(c.body)); a.Clamped != c.clamped || a.Usage.Check() != nil {
			t.Errorf("%s: clamped %v, %+v", c.body, a.Clamped, a.Usage)
		}
	}
}

// What providers really said, as the numbers of recorded answers.
func TestRecordedUsagesKeepTheirTotals(t *testing.T) {
	for _, c := range []struct {
		d    Dialect
		said string
		want pricing.Usage
	}{
		{OpenAIChat, `{"prompt_tokens":339,"completion_tokens":83,"total_tokens":422,"prompt_tokens_details":{"cached_tokens":320},"completion_tokens_details":{"reasoning_tokens":39},"prompt_cache_hit_tokens":320,"prompt_cache_miss_tokens":19}`,
			pricing.Usage{Input: 19, CachedInput: 320, Output: 83, Reasoning: 39}},
		{OpenAIChat, `{"queue_time":0.041520249,"prompt_tokens":210,"prompt_time":0.010407901,"completion_tokens":15,"completion_time":0.046601227,"total_tokens":225,"total_time":0.057009128}`,
			pricing.Usage{Input: 210, Output: 15}},
		{OpenAIResponses, `{"input_tokens":7112,"input_tokens_details":{"cached_tokens":3072},"output_tokens":463,"output_tokens_details":{"reasoning_tokens":64},"total_tokens":7575}`,
			pricing.Usage{Input: 4040, CachedInput: 3072, Output: 463, Reasoning: 64}},
		{OpenAIResponses, `{"input_tokens":24,"input_tokens_details":{"cached_tokens":0},"output_tokens":0,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":24}`,
			pricing.Usage{Input: 24}},
		{AnthropicMessages, `{"input_tokens":6,"cache_creation_input_tokens":3337,"cache_read_input_tokens":6289,"output_tokens":198,"output_tokens_details":{"thinking_tokens":0},"server_tool_use":{"web_search_requests":0,"web_fetch_requests":0}}`,
			pricing.Usage{Input: 6, CachedInput: 6289, CacheWrite5m: 3337, Output: 198}},
		{AnthropicMessages, `{"input_tokens":2,"cache_creation_input_tokens":3068,"cache_read_input_tokens":0,"cache_creation":{"ephemeral_5m_input_tokens":3068,"ephemeral_1h_input_tokens":0},"output_tokens":69,"service_tier":"standard","inference_geo":"global"}`,
			pricing.Usage{Input: 2, CacheWrite5m: 3068, Output: 69}},
		{AnthropicMessages, `{"input_tokens":7172,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":144,"server_tool_use":{"web_search_requests":0,"web_fetch_requests":1}}`,
			pricing.Usage{Input: 7172, Output: 144}},
		{Gemini, `{"promptTokenCount":9,"candidatesTokenCount":29,"totalTokenCount":294,"promptTokensDetails":[{"modality":"TEXT","tokenCount":9}],"thoughtsTokenCount":256}`,
			pricing.Usage{Input: 9, Output: 285, Reasoning: 256}},
		{Gemini, `{"promptTokenCount":249,"candidatesTokenCount":58,"totalTokenCount":490,"trafficType":"PROVISIONED_THROUGHPUT","promptTokensDetails":[{"modality":"TEXT","tokenCount":249}],"candidatesTokensDetails":[{"modality":"TEXT","tokenCount":58}],"thoughtsTokenCount":183}`,
			pricing.Usage{Input: 249, Output: 241, Reasoning: 183}},
	} {
		member := "usage"
		if c.d == Gemini {
			member = "usageMetadata"
		}
		a := ReadAnswer(c.d, fmt.Appendf(nil, `{%q:%s}`, member, c.said))
		if a.Usage != c.want || a.Clamped {
			t.Errorf("%s\n got %+v, clamped %v\nwant %+v", c.said, a.Usage, a.Clamped, c.want)
		}
		var total struct {
			A int64 `json:"total_tokens"`
			B int64 `json:"totalTokenCount"`
		}
		if err := json.Unmarshal([]byte(c.said), &total); err != nil {
			t.Fatal(err)
		}
		if sum := total.A + total.B; sum > 0 && sum != a.Usage.Total() {
			t.Errorf("%s: %d tokens, the provider's own total is %d", c.said, a.Usage.Total(), sum)
		}
	}
}

func TestActsOfTheProviderAreCounted(t *testing.T) {
	item := func(s string) string { return `{"type":"response.output_item.done","item":` + s + `}` }
	search, opened := `{"type":"web_search_call","action":{"type":"search","query":"a"}}`, `{"type":"web_search_call","action":{"type":"open_page","url":"u"}}`
	files, picture := `{"type":"file_search_call","queries":["q"]}`, `{"type":"image_generation_call","result":"AA"}`
	completed := `{"type":"response.completed","response":{"output":[` + search + `],"usage":{"input_tokens":1,"output_tokens":2}}}`
	want := pricing.Usage{Input: 1, Output: 2, WebSearches: 2, FileSearches: 1, Images: 1}
	var m Meter
	m.Reset(OpenAIResponses, SSE)
	m.Feed([]byte(events(item(search), item(opened), item(search), item(files), item(picture), completed)))
	if u, _ := m.Usage(); u != want {
		t.Errorf("stream: %+v", u)
	}
	large := strings.Replace(picture, "AA", strings.Repeat("QUJD", heldMax/3), 1) // an event that is not held
	m.Reset(OpenAIResponses, SSE)
	m.Feed([]byte(events(item(search), item(large))))
	if u := m.WithActs(pricing.Usage{Output: 1}); u != (pricing.Usage{Output: 1, WebSearches: 1, Images: 1}) {
		t.Errorf("a stream that breaks off: %+v", u)
	}
	m.Feed([]byte(events(completed)))
	if u, _ := m.Usage(); u != (pricing.Usage{Input: 1, Output: 2, WebSearches: 1, Images: 1}) {
		t.Errorf("with a large picture: %+v", u)
	}
	whole := `{"output":[` + search + "," + opened + "," + search + "," + files + "," + picture + `],"usage":{"input_tokens":1,"output_tokens":2}}`
	if a := ReadAnswer(OpenAIResponses, []byte(whole)); a.Usage != want {
		t.Errorf("whole: %+v", a.Usage)
	}
	for body, n := range map[string]int64{
		`{"created":1,"data":[{"url":"https://x/1"},{"b64_json":"QQ"}]}`: 2, `{"data":[{"embedding":[1]}],"usage":{"prompt_tokens":1}}`: 0, `{"data":[]}`: 0,
	} {
		if a := ReadAnswer(OpenAIChat, []byte(body)); a.Usage.Images != n || n > 0 && !a.HasUsage {
			t.Errorf("%s: %+v", body, a)
		}
	}
}

// Service tiers are priced by what the upstream reports, in each provider's own field.
func TestTheServedTierIsReadInEveryDialect(t *testing.T) {
	for _, c := range []struct {
		d    Dialect
		body string
		want string
	}{
		{OpenAIChat, `{"service_tier":"flex","usage":{"prompt_tokens":1}}`, "flex"},
		{OpenAIResponses, `{"service_tier":"priority","usage":{"input_tokens":1}}`, "priority"},
		{AnthropicMessages, `{"usage":{"input_tokens":1,"service_tier":"batch"}}`, "batch"},
		{AnthropicMessages, `{"usage":{"speed":"fast","input_tokens":1,"service_tier":"standard"}}`, "fast"},
		{AnthropicMessages, `{"usage":{"speed":"standard","input_tokens":1,"service_tier":"standard"}}`, "standard"},
		{Gemini, `{"usageMetadata":{"promptTokenCount":1,"trafficType":"ON_DEMAND_PRIORITY"}}`, "ON_DEMAND_PRIORITY"},
	} {
		if a := ReadAnswer(c.d, []byte(c.body)); a.ServiceTier != c.want {
			t.Errorf("%s: %q", c.body, a.ServiceTier)
		}
	}
}
