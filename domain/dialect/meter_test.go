package dialect

import (
	"bytes"
	"math/rand"
	"strings"
	"testing"

	"github.com/penstock/penstock/domain/pricing"
)

// state is everything that a meter tells.
type state struct {
	Content, Finished, Terminal, Complete, Failed, Boundary bool
	Failure                                                 StreamError
	Usage                                                   pricing.Usage
	Source                                                  pricing.Source
	Model, ID, Tier                                         string
	Output, Events                                          int64
}

func stateOf(m *Meter) state {
	u, s := m.Usage()
	return state{
		m.Content(), m.Finished(), m.Terminal(), m.Complete(), m.Failed(), m.AtBoundary(),
		m.Failure(), u, s, m.Model(), m.ID(), m.ServiceTier(), m.OutputBytes(), m.Events(),
	}
}

// events writes payloads as events; a payload that starts with "event:" or ":" is written as it is.
func events(payloads ...string) string {
	var b strings.Builder
	for _, p := range payloads {
		if !strings.HasPrefix(p, "event:") && !strings.HasPrefix(p, ":") {
			b.WriteString("data: ")
		}
		b.WriteString(p + "\n\n")
	}
	return b.String()
}

// feed passes a stream to a meter in pieces of the given size (0: all at once, negative: random) as a caller does that
// forwards whole events only, and says what was forwarded.
func feed(m *Meter, stream string, size int, rng *rand.Rand) (forwarded string) {
	rest := []byte(nil)
	for len(stream) > 0 {
		n := size
		if n == 0 {
			n = len(stream)
		} else if n < 0 {
			n = 1 + rng.Intn(-n)
		}
		p := []byte(stream[:min(n, len(stream))])
		stream = stream[len(p):]
		ready := m.Feed(p)
		if ready > 0 {
			forwarded += string(rest) + string(p[:ready])
			rest = append(rest[:0], p[ready:]...)
		} else {
			rest = append(rest, p...)
		}
		if !m.f.big && string(rest) != string(m.Held()) {
			panic("what the meter holds is not what the caller holds")
		}
		for i := range p {
			p[i] = 'X' // the meter must not keep p
		}
	}
	return forwarded
}

// meter feeds a stream whole, checks that every cut says the same, and gives what the stream says.
func meter(t *testing.T, d Dialect, format Format, stream string) state {
	t.Helper()
	var m Meter
	m.Reset(d, format)
	forwarded := feed(&m, stream, 0, nil)
	want := stateOf(&m)
	rng := rand.New(rand.NewSource(1))
	for _, size := range []int{1, 2, 3, 7, -5, -40, -400, -400} {
		m.Reset(d, format)
		got := feed(&m, stream, size, rng)
		if got != forwarded {
			t.Errorf("pieces of %d: forwarded %q, want %q", size, got, forwarded)
		}
		if s := stateOf(&m); s != want {
			t.Errorf("pieces of %d:\n got %+v\nwant %+v", size, s, want)
		}
	}
	for cut := range stream {
		if len(stream) > 3000 && cut%17 != 0 {
			continue
		}
		m.Reset(d, format)
		got := feed(&m, stream[:cut], 0, nil)
		if !strings.HasPrefix(stream, got) {
			t.Fatalf("cut at %d: forwarded %q", cut, got)
		}
		m.Feed([]byte(stream[cut:]))
		if s := stateOf(&m); s != want {
			t.Errorf("cut at %d:\n got %+v\nwant %+v", cut, s, want)
		}
	}
	return want
}

// ends are the line ends that a stream may have.
var ends = map[string]string{"LF": "\n", "CRLF": "\r\n", "CR": "\r"}

func TestMeterReadsEveryLineEndAndEveryCut(t *testing.T) {
	stream := "\xef\xbb\xbf: hello\n" + events(`{"id":"c1","model":"m","choices":[{"delta":{"role":"assistant","content":""}}]}`) +
		": keep\n\n\n\n" +
		"data: {\"choices\":[{\"delta\":\ndata:{\"content\":\"hé\"}}]}\n\n" + // one event on two lines
		"id: 7\nretry: 10\nevent: message\ndata: {\"choices\":[{\"delta\":{\"content\":\"y\"}}]}\n\n" +
		"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\nevent: after\n\n" +
		events(`{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}`, "[DONE]")
	want := state{
		Content: true, Finished: true, Terminal: true, Complete: true, Boundary: true,
		Usage: pricing.Usage{Input: 3, Output: 2}, Source: pricing.Reported,
		Model: "m", ID: "c1", Output: 4, Events: 6,
	}
	for name, end := range ends {
		if got := meter(t, OpenAIChat, SSE, strings.ReplaceAll(stream, "\n", end)); got != want {
			t.Errorf("%s\n got %+v\nwant %+v", name, got, want)
		}
	}
}

func TestMeterForwardsWholeEventsOnly(t *testing.T) {
	var m Meter
	m.Reset(OpenAIChat, SSE)
	for _, c := range []struct {
		piece string
		ready int
		held  string
	}{
		{"data: {}\n\ndata: {", 10, "data: {"},
		{"}\n", 0, "data: {}\n"},
		{"\n", 1, ""},
		{": x\n\n", 5, ""},
		{"data: 1\r\n\r", 10, ""},
		{"\n", 1, ""},
		{"\n", 1, ""},
		{"data", 0, "data"},
	} {
		if got := m.Feed([]byte(c.piece)); got != c.ready || string(m.Held()) != c.held || m.AtBoundary() != (c.held == "") {
			t.Errorf("%q: %d bytes ready, %q held; want %d, %q", c.piece, got, m.Held(), c.ready, c.held)
		}
	}
}

func TestAnEventWithoutItsBlankLineIsReadAtTheEnd(t *testing.T) {
	for _, tail := range []string{"data: [DONE]", "data: [DONE]\n", "data: [DONE]\r\n", "data: [DONE]\r"} {
		var m Meter
		m.Reset(OpenAIChat, SSE)
		m.Feed([]byte(events(`{"choices":[{"delta":{"content":"x"}}]}`) + tail))
		if m.Terminal() {
			t.Fatal("the event is not complete yet")
		}
		if got := string(m.Flush(nil)); got != tail || !m.Terminal() || !m.Complete() || !m.AtBoundary() {
			t.Errorf("%q: flushed %q, terminal %v", tail, got, m.Terminal())
		}
		if got := m.Flush(nil); len(got) != 0 {
			t.Errorf("flushed twice: %q", got)
		}
	}
	var m Meter
	m.Reset(OpenAIChat, SSE)
	m.Feed([]byte(`data: {"choices":[{"delta":{"content":"x"},"finish_reason":"st`))
	if m.Flush(nil); m.Content() || m.Complete() {
		t.Error("half an event says nothing")
	}
}

func TestResetForgetsEverythingAndKeepsBuffers(t *testing.T) {
	var m, fresh Meter
	fresh.Reset(Gemini, JSONArray)
	m.Reset(OpenAIChat, SSE)
	m.Strip(nil, []byte(events(`{"id":"a","model":"m","service_tier":"flex","choices":[{"delta":{"content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}`,
		`{"error":{"message":"boom"}}`, "[DONE]")+"data: {\ndata: half"))
	m.Reset(Gemini, JSONArray)
	if got, want := stateOf(&m), stateOf(&fresh); got != want {
		t.Errorf("after Reset\n got %+v\nwant %+v", got, want)
	}
	if m.strips || m.withheld || m.f.lines != 0 || m.f.begun || m.f.scan != 0 || cap(m.held) == 0 {
		t.Errorf("after Reset: %+v", m.f)
	}
	m.Reset(OpenAIChat, SSE)
	m.Feed(bytes.Repeat([]byte("y"), 2*bufferMax))
	if m.Reset(OpenAIChat, SSE); cap(m.held) != 0 {
		t.Errorf("a buffer of %d bytes was kept", cap(m.held))
	}
}

func TestHugeEventsPassAndAreStillBilled(t *testing.T) {
	blob := strings.Repeat("QUJD", heldMax/2) // 2 MiB
	for _, c := range []struct {
		name, stream string
		d            Dialect
		format       Format
		want         state
	}{
		{"a response that ends its stream",
			"event: response.completed\n" + events(`{"type":"response.completed","response":{"id":"r","output":[{"type":"message","content":[{"type":"output_text","text":"`+blob+`"}]}],"usage":{"input_tokens":5,"output_tokens":6},"metadata":{}}}`),
			OpenAIResponses, SSE, state{Finished: true, Terminal: true, Complete: true, Usage: pricing.Usage{Input: 5, Output: 6}, Source: pricing.Reported}},
		{"a picture", events(`{"candidates":[{"content":{"parts":[{"inlineData":{"data":"` + blob + `"}}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":1290}}`),
			Gemini, SSE, state{Content: true, Finished: true, Terminal: true, Complete: true, Usage: pricing.Usage{Input: 7, Output: 1290}, Source: pricing.Reported}},
		{"a picture in an array", `[{"candidates":[{"content":{"parts":[{"inlineData":{"data":"` + blob + `"}}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":1290}}]`,
			Gemini, JSONArray, state{Content: true, Finished: true, Terminal: true, Complete: true, Usage: pricing.Usage{Input: 7, Output: 1290}, Source: pricing.Reported}},
		{"a chat chunk", events(`{"choices":[{"delta":{"content":"` + blob + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":9}}`),
			OpenAIChat, SSE, state{Content: true, Finished: true, Complete: true, Usage: pricing.Usage{Input: 7, Output: 9}, Source: pricing.Reported, Output: heldMax}},
		{"a tool result", events(`{"type":"content_block_start","content_block":{"type":"web_fetch_tool_result","content":"` + blob + `"}}`),
			AnthropicMessages, SSE, state{Content: true, Source: pricing.None, Output: heldMax}},
		{"a picture of a tool, which is no text", "event: response.output_item.done\n" + events(`{"type":"response.output_item.done","output_index":0,"item":{"id":"ig","type":"image_generation_call","status":"completed","result":"`+blob+`","size":"1024x1536"}}`),
			OpenAIResponses, SSE, state{Content: true, Source: pricing.None}},
		{"a picture that is not done", events(`{"type":"response.image_generation_call.partial_image","partial_image_b64":"` + blob + `","partial_image_index":0}`),
			OpenAIResponses, SSE, state{Content: true, Source: pricing.None}},
		{"sound", events(`{"choices":[{"delta":{"audio":{"data":"` + blob + `"}}}]}`), OpenAIChat, SSE, state{Content: true, Source: pricing.None}},
	} {
		for _, end := range []string{"\n", "\r\n"} {
			var m Meter
			m.Reset(c.d, c.format)
			stream := []byte(strings.ReplaceAll(c.stream, "\n", end))
			forwarded, most := 0, 0
			for from := 0; from < len(stream); from += 8192 {
				forwarded += m.Feed(stream[from:min(from+8192, len(stream))])
				most = max(most, cap(m.held)+cap(m.tail))
			}
			got := stateOf(&m)
			c.want.Boundary, c.want.Events = true, 1
			if got != c.want {
				t.Errorf("%s\n got %+v\nwant %+v", c.name, got, c.want)
			}
			if forwarded < len(stream)-heldMax-8192 || most > 3*heldMax {
				t.Errorf("%s: %d of %d forwarded, %d bytes of buffers", c.name, forwarded, len(stream), most)
			}
			m.Feed([]byte("data: {")) // what follows is read as ever
			if c.format == SSE && string(m.Held()) != "data: {" {
				t.Errorf("%s: held %q", c.name, m.Held())
			}
		}
	}
}
