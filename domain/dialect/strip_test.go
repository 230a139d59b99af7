package dialect

import (
	"math/rand"
	"strings"
	"testing"

	"github.com/penstock/penstock/domain/pricing"
)

// strip passes a stream through a stripping meter in pieces of the given size (0: at once, negative: random).
func strip(m *Meter, stream string, size int, rng *rand.Rand) string {
	var out []byte
	m.Reset(OpenAIChat, SSE)
	for len(stream) > 0 {
		n := size
		if n == 0 {
			n = len(stream)
		} else if n < 0 {
			n = 1 + rng.Intn(-n)
		}
		n = min(n, len(stream))
		out = m.Strip(out, []byte(stream[:n]))
		stream = stream[n:]
	}
	return string(m.Flush(out))
}

func TestStripHidesTheUsageThatTheClientDidNotAskFor(t *testing.T) {
	const text = `{"id":"c","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]`
	const usage = `"usage":{"prompt_tokens":3,"completion_tokens":2}`
	for _, c := range []struct{ name, in, out string }{
		{"OpenAI", events(text+`,"usage":null}`, text+`}`, `{"choices":[],`+usage+`}`, "[DONE]"), events(text+`}`, text+`}`, "[DONE]")},
		{"with more behind", events(text + ` , "usage" : null,"obfuscation":"xy"}`), events(text + ` ,"obfuscation":"xy"}`)},
		{"usage first", events(`{ "usage":null , "choices":[]}`), events(`{ "choices":[]}`)},
		{"usage alone", events(`{"usage":null}`), events(`{}`)},
		{"order of members does not matter", events(`{` + usage + `,"id":"c","choices": [ ] }`), ``},
		{"choices null", events(`{"choices":null,` + usage + `}`), ``},
		{"usage beside choices passes", events(text + `,` + usage + `}`), events(text + `,` + usage + `}`)},
		{"nested nulls pass", events(text + `,"x":{"usage":null}}`), events(text + `,"x":{"usage":null}}`)},
		{"text about usage passes", events(`{"choices":[{"delta":{"content":",\"usage\":null}"}}]}`), events(`{"choices":[{"delta":{"content":",\"usage\":null}"}}]}`)},
		{"an error passes", events(`{"error":{"message":"x"},"choices":[],` + usage + `}`), events(`{"error":{"message":"x"},"choices":[],` + usage + `}`)},
		{"keep-alives pass", ": a\n\n\n\n: b\n\n", ": a\n\n\n\n: b\n\n"},
		{"a keep-alive glued to the hidden chunk passes", ": a\n" + events(`{"choices":[],`+usage+`}`) + "\n: b\n\n", ": a\n\n\n: b\n\n"},
		{"blank lines behind the hidden chunk pass", events(`{"choices":[],`+usage+`}`) + "\n\n" + events("[DONE]"), "\n\n" + events("[DONE]")},
		{"no JSON passes", events(`{"usage":null`, `"usage"`, "[DONE]", ``), events(`{"usage":null`, `"usage"`, "[DONE]", ``)},
		{"other fields of an event pass", "id: 1\nevent: x\n" + events(text+`,"usage":null}`), "id: 1\nevent: x\n" + events(text+`}`)},
		{"the end of a cut stream passes", events(text+`,"usage":null}`) + `data: {"id`, events(text+`}`) + `data: {"id`},
		{"a last event without its blank line", events(text) + `data: {"choices":[],` + usage + `}`, events(text)},
	} {
		for name, end := range ends {
			in, want := strings.ReplaceAll(c.in, "\n", end), strings.ReplaceAll(c.out, "\n", end)
			var m Meter
			rng := rand.New(rand.NewSource(2))
			for _, size := range []int{0, 1, 2, 5, -9, -60, -60} {
				if got := strip(&m, in, size, rng); got != want {
					t.Errorf("%s, %s, pieces of %d\n got %q\nwant %q", c.name, name, size, got, want)
				}
			}
		}
	}
}

func TestStripMetersAsFeedDoes(t *testing.T) {
	stream := events(chatRole, `{"choices":[{"delta":{"content":"abc"},"finish_reason":null}],"usage":null}`,
		`{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":null}`, `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}`, "[DONE]")
	want := meter(t, OpenAIChat, SSE, stream)
	var m Meter
	strip(&m, stream, 0, nil)
	if got := stateOf(&m); got != want || got.Usage != (pricing.Usage{Input: 3, Output: 2}) {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
}

func TestStripPassesHugeEvents(t *testing.T) {
	stream := events(`{"choices":[{"delta":{"content":"`+strings.Repeat("x", heldMax+5000)+`"}}],"usage":null}`, `{"choices":[],"usage":{"prompt_tokens":1}}`, "[DONE]")
	want := stream[:strings.Index(stream, `data: {"choices":[],`)] + events("[DONE]")
	var m Meter
	if got := strip(&m, stream, 4096, nil); got != want {
		t.Errorf("%d bytes came out, want %d", len(got), len(want))
	}
}
