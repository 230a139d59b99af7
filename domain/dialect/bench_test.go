package dialect

import "testing"

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
