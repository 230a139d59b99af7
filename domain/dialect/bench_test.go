package dialect

import (
	"strings"
	"testing"
)

// usual is one ordinary event of each dialect, after the first content.
var usual = []struct {
	d     Dialect
	event string
}{
	{OpenAIChat, events(`{"id":"chatcmpl-1234567890","object":"chat.completion.chunk","created":1770000000,"model":"gpt-5","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"content":" hello"},"logprobs":null,"finish_reason":null}],"usage":null}`)},
	{OpenAIResponses, "event: response.output_text.delta\n" + events(`{"type":"response.output_text.delta","sequence_number":12,"item_id":"msg_1234567","output_index":0,"content_index":0,"delta":" hello","logprobs":[],"obfuscation":"abcdefgh"}`)},
	{AnthropicMessages, "event: content_block_delta\n" + events(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" some more words of an answer"}}`)},
	{Gemini, events(`{"candidates":[{"content":{"parts":[{"text":" some more words"}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":5,"totalTokenCount":14,"promptTokensDetails":[{"modality":"TEXT","tokenCount":9}]},"modelVersion":"gemini-3-pro","responseId":"abcdef"}`)},
}

func TestOrdinaryEventsAreMeteredWithoutAllocation(t *testing.T) {
	for _, u := range usual {
		var m Meter
		m.Reset(u.d, SSE)
		event := []byte(u.event)
		half := len(event) / 2
		m.Feed(event)
		if n := testing.AllocsPerRun(100, func() { m.Feed(event) }); n != 0 {
			t.Errorf("%v: %v allocations for an event", u.d, n)
		}
		m.Feed(event[:half])
		m.Feed(event[half:])
		if n := testing.AllocsPerRun(100, func() { m.Feed(event[:half]); m.Feed(event[half:]) }); n != 0 {
			t.Errorf("%v: %v allocations for an event in halves", u.d, n)
		}
	}
	var m Meter
	m.Reset(OpenAIChat, SSE)
	event := []byte(usual[0].event)
	dst := m.Strip(nil, event)
	if n := testing.AllocsPerRun(100, func() { dst = m.Strip(dst[:0], event) }); n != 0 {
		t.Errorf("%v allocations to strip an event", n)
	}
}

func TestErrorsAndSplicesAllocateOnlyTheirResult(t *testing.T) {
	body := []byte(`{"model":"m","stream":true}`)
	r, _ := ScanRequest(body, OpenAIChat)
	dst := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() {
		for _, d := range dialects {
			dst = AppendError(dst[:0], d, queueTimeout)
			dst = AppendStreamError(dst[:0], d, SSE, queueTimeout)
		}
		dst = SpliceBoth(dst[:0], body, r, "other")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkReadAnswer(b *testing.B) {
	const text = "Some words of an answer, which go on for a while and say very little. "
	for name, body := range map[string]string{
		"short": chatAnswer(text),
		"4KB":   chatAnswer(strings.Repeat(text, 56)),
		"code":  chatAnswer(strings.Repeat(`\tfmt.Println(\"hello\")\n`, 150)),
	} {
		b.Run(name, func(b *testing.B) {
			raw := []byte(body)
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if a := ReadAnswer(OpenAIChat, raw); a.Usage.Output != 20 {
					b.Fatal(a)
				}
			}
		})
	}
}

// chatAnswer is a whole answer of Chat Completions as its provider writes it, with a text that is escaped already.
func chatAnswer(text string) string {
	return `{"id":"chatcmpl-1234567890","object":"chat.completion","created":1790000000,"model":"gpt-5","choices":[{"index":0,"message":{` +
		`"role":"assistant","content":"` + text + `","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":200,` +
		`"completion_tokens":20,"total_tokens":220,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}},` +
		`"system_fingerprint":"fp_1"}`
}

func BenchmarkMeter(b *testing.B) {
	for _, u := range usual {
		b.Run(u.d.String(), func(b *testing.B) {
			var m Meter
			m.Reset(u.d, SSE)
			event := []byte(u.event)
			m.Feed(event)
			b.SetBytes(int64(len(event)))
			b.ReportAllocs()
			for b.Loop() {
				m.Feed(event)
			}
		})
	}
	b.Run("strip", func(b *testing.B) {
		var m Meter
		m.Reset(OpenAIChat, SSE)
		event := []byte(usual[0].event)
		dst := m.Strip(nil, event)
		b.SetBytes(int64(len(event)))
		b.ReportAllocs()
		for b.Loop() {
			dst = m.Strip(dst[:0], event)
		}
	})
}
