package dialect

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/penstock/penstock/domain/pricing"
)

// reference says with encoding/json whether a body is one that ScanRequest takes for a dialect that wants no types,
// and what its model is.
func reference(body []byte) (model string, ok bool) {
	if !json.Valid(body) || !utf8.Valid(body) || bytes.TrimLeft(body, " \t\r\n")[0] != '{' {
		return "", false
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	seen := map[string]bool{}
	depth, key := 0, true
	name := ""
	for {
		token, err := d.Token()
		if err != nil {
			return model, true
		}
		switch v := token.(type) {
		case json.Delim:
			if v == '{' || v == '[' {
				if depth++; depth > depthMax {
					return "", false
				}
				if depth == 2 && (name == "model" || name == "stream") {
					return "", false
				}
			} else if depth--; depth == 1 {
				key = true
			}
			continue
		case string:
			if depth == 1 && key {
				if name = v; seen[v] {
					return "", false
				}
				for _, n := range weighty { // nor one that only some readers take for it
					if v != n && strings.EqualFold(v, n) {
						return "", false
					}
				}
				seen[v], key = true, false
				continue
			}
			if depth == 1 && name == "model" {
				model = v
			} else if depth == 1 && name == "stream" {
				return "", false
			}
		case nil:
			if depth == 1 && name == "model" {
				return "", false
			}
		case bool:
			if depth == 1 && name == "model" {
				return "", false
			}
		default:
			if depth == 1 && (name == "model" || name == "stream") {
				return "", false
			}
		}
		if depth == 1 {
			key = true
		}
	}
}

func FuzzScanRequest(f *testing.F) {
	for _, seed := range []string{
		`{"model":"m","stream":true,"messages":[{"role":"user","content":"hi \u00e9 \ud83d\ude00"}],"n":-1.5e+3}`,
		`{"model":"a","\u006dodel":"b"}`, `{"a":{"a":1,"a":2},"b":[[],{}],"c":null}`, `{"a":"\ud800","a":1}`,
		`{"stream_options":{"include_usage":false},"metadata":{"user_id":"{\"session_id\":\"x\"}"}}`,
		` {} `, `{"a":1,}`, `{"a":01}`, "{\"a\":\"\xff\"}", `[1]`, `{"model":1}`, `{"stream":null}`, strings.Repeat(`{"a":`, 600),
		`{"aaaaaaaaaaaaaaa\"aaaaaaa":"bbbbbbbbbbbbbbbbb\\"}`, `{"model":"x"}x`, `{"Model":"x"}`, `{"max_to\u212aens":1,"generationconfig":{}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		model, want := reference(body)
		r, err := ScanRequest(body, OpenAIResponses)
		var e *BodyError
		switch {
		case want != (err == nil):
			t.Fatalf("%q: accepted %v, want %v (%v)", body, err == nil, want, err)
		case err != nil:
			if !errors.As(err, &e) || e.Reason == "" || e.Offset < 0 || e.Offset > len(body) {
				t.Fatalf("%q: %#v", body, err)
			}
			return
		case r.Model != model:
			t.Fatalf("%q: model %q, want %q", body, r.Model, model)
		case body[r.ObjectEnd] != '}':
			t.Fatalf("%q: the object does not end at %d", body, r.ObjectEnd)
		}
		ReadAnswer(OpenAIChat, body)
		chat, err := ScanRequest(body, OpenAIChat)
		if err != nil {
			return
		}
		spliced := SpliceBoth(nil, body, chat, "other")
		again, err := ScanRequest(spliced, OpenAIChat)
		if err != nil || !again.IncludeUsage || !chat.ModelSpan.Empty() && again.Model != "other" {
			t.Fatalf("%q spliced is %q: %+v, %v", body, spliced, again, err)
		}
		if !bytes.Equal(SpliceBoth(nil, body, chat, "other"), SpliceModel(nil, SpliceUsage(nil, body, chat), rescan(t, SpliceUsage(nil, body, chat)), "other")) {
			t.Fatalf("%q: one splice and two differ", body)
		}
	})
}

func rescan(t *testing.T, body []byte) Request {
	r, err := ScanRequest(body, OpenAIChat)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func FuzzMeterCuts(f *testing.F) {
	for _, seed := range []string{
		events(chatRole, `{"choices":[{"delta":{"content":"a"}}],"usage":null}`, `{"choices":[{"delta":{},"finish_reason":"stop"}]}`, `{"choices":[],"usage":{"prompt_tokens":1}}`, "[DONE]"),
		"event: message_start\r\n" + events(`{"type":"message_start","message":{"id":"m","usage":{"input_tokens":3}}}`) + ": x\r\r\n\n",
		events(`{"type":"response.output_text.delta","delta":"x"}`, `{"type":"response.completed","response":{"usage":{"input_tokens":1}}}`),
		`[{"candidates":[{"content":{"parts":[{"text":"a]}\""}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":2}}` + "\r\n,{}]",
		"data: {\ndata: }\n\ndata\n\n\xef\xbb\xbfdata: [DONE]", "\xef\xbb\xbfdata: null\r\rdata:x\r\n\r", "]}{[,", `{"error":{"code":429}}`,
	} {
		for d := range dialects {
			f.Add([]byte(seed), uint8(d), int64(d))
		}
	}
	f.Fuzz(func(t *testing.T, stream []byte, kind uint8, seed int64) {
		d, format := Dialect(kind%5), SSE
		if d == Gemini && kind >= 128 {
			format = JSONArray
		}
		rng := rand.New(rand.NewSource(seed))
		var whole, cut, bytewise Meter
		for _, m := range []*Meter{&whole, &cut, &bytewise} {
			m.Reset(d, format)
		}
		all := feed(&whole, string(stream), 0, rng)
		if got := feed(&cut, string(stream), -20, rng); got != all {
			t.Fatalf("forwarded %q, want %q", got, all)
		}
		if got := feed(&bytewise, string(stream), 1, rng); got != all {
			t.Fatalf("bytewise: forwarded %q, want %q", got, all)
		}
		want := stateOf(&whole)
		if got := stateOf(&cut); got != want {
			t.Fatalf("\n got %+v\nwant %+v", got, want)
		}
		if got := stateOf(&bytewise); got != want {
			t.Fatalf("bytewise\n got %+v\nwant %+v", got, want)
		}
		if all+string(whole.Held()) != string(stream) {
			t.Fatalf("%q and %q are not the stream", all, whole.Held())
		}
		u := want.Usage
		if u.Input < 0 || u.CachedInput < 0 || u.CacheWrite5m < 0 || u.CacheWrite1h < 0 || u.Reasoning < 0 || u.Reasoning > u.Output {
			t.Fatalf("usage %+v", u)
		}
		if want.Source == pricing.None && !u.IsZero() || want.Failed && want.Complete || utf8.Valid(stream) && !utf8.ValidString(want.Failure.Message) {
			t.Fatalf("%+v", want)
		}
		a, b := strip(&whole, string(stream), 0, rng), strip(&cut, string(stream), -20, rng)
		if a != b {
			t.Fatalf("stripped %q, want %q", b, a)
		}
		whole.Flush(nil)
	})
}

// FuzzSkim: what is skimmed instead of read has neither a usage nor a reason to stop nor an error, and its text is
// counted alike.
func FuzzSkim(f *testing.F) {
	for _, seed := range []string{
		`{"choices":[{"delta":{"content":"a: b"},"finish_reason":null}],"usage":null}`,
		`{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`, `{"choices":[{"delta":{"content":"a"}}],"usage" : {"prompt_tokens":1}}`,
		`{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"x"}}]}},{"delta":{"content":"b"}}]}`, `{"error" :1,"choices":[{"delta":{}}]}`,
		`{"choices":[{"index":0,"delta":{"content":"x","a":{"b":[":"]}}}],"error":{"message":"m"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) || !utf8.Valid(data) || data[0] != '{' || bytes.IndexByte(data, '\\') >= 0 {
			return // an escaped name hides from the skimmer, which no provider writes
		}
		var y yield
		if !y.chat(data) {
			return
		}
		var m Meter
		m.Reset(OpenAIChat, SSE)
		m.readChunk(nil, data)
		if m.finished || m.failed || m.report.has {
			t.Fatalf("%s was skimmed", data)
		}
		if bytes.Count(data, []byte("delta")) == 1 && bytes.HasPrefix(data, []byte(`{"choices":[{"delta":{`)) && bytes.Count(data, []byte("choices")) == 1 && y.output != m.output && !bytes.Contains(data, []byte(`"text"`)) && !bytes.Contains(data, []byte(`"message"`)) {
			t.Fatalf("%s: %d bytes skimmed, %d read", data, y.output, m.output)
		}
	})
}
