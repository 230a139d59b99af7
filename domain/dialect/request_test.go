package dialect

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestRequestIsReadFromTheBody_A26_A28(t *testing.T) {
	for _, c := range []struct {
		name string
		d    Dialect
		body string
		want Request // without spans
	}{
		{"chat", OpenAIChat, `{"model":"gpt-5","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true},
			"max_tokens":10,"max_completion_tokens":20,"service_tier":"flex","reasoning_effort":"high","prompt_cache_key":"k1","metadata":{"session_id":"s1"}}`,
			Request{Model: "gpt-5", Stream: true, IncludeUsage: true, MaxOutput: 20, ServiceTier: "flex", ReasoningEffort: "high", Session: "k1"}},
		{"chat with nulls", OpenAIChat, `{"model":"m","stream":null,"stream_options":null,"max_tokens":null,"service_tier":null}`, Request{Model: "m"}},
		{"responses", OpenAIResponses, `{"model":"gpt-5-codex","input":"x","stream":true,"max_output_tokens":7,"reasoning":{"effort":"xhigh","summary":"auto"},
			"stream_options":"not ours to judge","previous_response_id":"resp_1","metadata":{"session_id":"s2"}}`,
			Request{Model: "gpt-5-codex", Stream: true, MaxOutput: 7, ReasoningEffort: "xhigh", Session: "s2", Continuation: "resp_1"}},
		{"responses for later", OpenAIResponses, `{"model":"m","background":true}`, Request{Model: "m", Background: true}},
		{"responses for now", OpenAIResponses, `{"model":"m","background":false}`, Request{Model: "m"}},
		{"responses for now, null", OpenAIResponses, `{"model":"m","background":null}`, Request{Model: "m"}},
		{"backgrounds elsewhere", OpenAIChat, `{"model":"m","background":true}`, Request{Model: "m"}},
		{"responses that go on", OpenAIResponses, `{"previous_response_id":"resp_1"}`, Request{Session: "resp_1", Continuation: "resp_1"}},
		{"messages of Claude Code", AnthropicMessages, `{"model":"claude-sonnet-5","max_tokens":128000,"stream":true,"output_config":{"effort":"medium"},
			"metadata":{"user_id":"{\"device_id\":\"d\",\"account_uuid\":\"\",\"session_id\":\"5e0f1c2a-0000-4000-8000-000000000001\"}"}}`,
			Request{Model: "claude-sonnet-5", Stream: true, MaxOutput: 128000, ReasoningEffort: "medium", Session: "5e0f1c2a-0000-4000-8000-000000000001"}},
		{"messages of older clients", AnthropicMessages, `{"metadata":{"user_id":"user_ab12_account__session_9b1d"},"service_tier":"standard_only"}`,
			Request{Session: "9b1d", ServiceTier: "standard_only"}},
		{"a user without session", AnthropicMessages, `{"metadata":{"user_id":"alice"}}`, Request{}},
		{"a broken user id", AnthropicMessages, `{"metadata":{"user_id":"{\"session_id\":\"x\""}}`, Request{}},
		{"gemini", Gemini, `{"contents":[],"stream":"no matter","generationConfig":{"maxOutputTokens":99,"thinkingConfig":{"thinkingLevel":"LOW","includeThoughts":true}},"serviceTier":"priority"}`,
			Request{MaxOutput: 99, ReasoningEffort: "LOW", ServiceTier: "priority"}},
		{"escapes", OpenAIChat, `{"\u006dodel":"g\u0070t\/5\ud83d\ude00"}`, Request{Model: "gpt/5😀"}},
		{"no model is no error, A31", OpenAIChat, ` { } `, Request{}},
		{"nested twins are the client's business", OpenAIChat, `{"tools":[{"a":1,"a":2}],"model":"m"}`, Request{Model: "m"}},
		{"model elsewhere is not the model", OpenAIChat, `{"metadata":{"model":"x"}}`, Request{}},
		{"long sessions are none", OpenAIChat, `{"prompt_cache_key":"` + strings.Repeat("k", 129) + `","previous_response_id":"` + strings.Repeat("é", 128) + `"}`,
			Request{Session: strings.Repeat("é", 128)}},
		{"absurd bounds are bounded", OpenAIChat, `{"max_tokens":1e300}`, Request{MaxOutput: countMax}},
	} {
		got, err := ScanRequest([]byte(c.body), c.d)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if c.body[got.ObjectEnd] != '}' || strings.TrimSpace(c.body[got.ObjectEnd+1:]) != "" {
			t.Errorf("%s: the object does not end at %d", c.name, got.ObjectEnd)
		}
		got.ModelSpan, got.StreamOptions, got.includeUsage, got.ObjectEnd = Span{}, Span{}, Span{}, 0
		got.Instructions, got.Lead = Span{}, Span{}
		if got != c.want {
			t.Errorf("%s\n got %+v\nwant %+v", c.name, got, c.want)
		}
	}
}

func TestSpansCoverTheValues(t *testing.T) {
	body := []byte(`{ "stream_options" : {"include_usage" : false } , "model" : "m\u0031" }`)
	r, err := ScanRequest(body, OpenAIChat)
	if err != nil {
		t.Fatal(err)
	}
	for want, span := range map[string]Span{`"m\u0031"`: r.ModelSpan, `{"include_usage" : false }`: r.StreamOptions, `false`: r.includeUsage} {
		if got := string(span.Of(body)); got != want {
			t.Errorf("span is %q, want %q", got, want)
		}
	}
}

func TestBadBodiesAreRefusedAndTheFieldIsNamed(t *testing.T) {
	deep := strings.Repeat("[", depthMax) + strings.Repeat("]", depthMax)
	long := strings.Repeat("é", 1<<19) // a megabyte
	for _, c := range []struct {
		name, body, field, reason string
		offset                    int
	}{
		{"twin", `{"model":"a","model":"b"}`, "model", "the member occurs twice", 13},
		{"twin in disguise", `{"model":"a","\u006dodel":"b"}`, "model", "the member occurs twice", 13},
		{"any twin", `{"x":1,"y":2,"x":3}`, "x", "the member occurs twice", 13},
		{"a twin with a long name", `{"` + long + `":1,"` + long + `":2}`, long[:60] + "…", "the member occurs twice", 1<<20 + 6},
		{"a fault below a long name", `{"` + long + `":01}`, long[:60] + "…", badNumber, 1<<20 + 4},
		{"model in capitals", `{"model":"a","MODEL":"b"}`, "MODEL", "some readers take it for model", 21},
		{"model in capitals alone", `{"Model":"b"}`, "Model", "some readers take it for model", 9},
		{"model in capitals and escapes", `{"\u004dodel":"b"}`, "Model", "some readers take it for model", 14},
		{"stream in capitals", `{"Stream":true}`, "Stream", "some readers take it for stream", 10},
		{"a bound with a sign for k", `{"max_tokens":1,"max_to\u212aens":9}`, "max_to\u212aens", "some readers take it for max_tokens", 34},
		{"a bound with a long s", `{"max_tokenſ":9}`, "max_tokenſ", "some readers take it for max_tokens", 15},
		{"number as model", `{"model":5}`, "model", "must be a string", 9},
		{"null as model", `{"model": null}`, "model", "must be a string", 10},
		{"object as model", `{"model":{"a":"b"}}`, "model", "must be a string", 9},
		{"string as stream", `{"stream":"true"}`, "stream", "must be true or false", 10},
		{"number as stream", `{"stream":1}`, "stream", "must be true or false", 10},
		{"string as options", `{"stream_options":"x"}`, "stream_options", "must be an object", 18},
		{"string as include_usage", `{"stream_options":{"include_usage":"yes"}}`, "stream_options.include_usage", "must be true or false", 35},
		{"array", `[{"model":"a"}]`, "", "a JSON object was expected", 0},
		{"empty", ``, "", "a JSON object was expected", 0},
		{"text", `model=a`, "", "a JSON object was expected", 0},
		{"cut", `{"model":"a`, "model", badString, 11},
		{"cut after a value", `{"model":"a"`, "model", badEnd, 12},
		{"cut after a comma", `{"model":"a",`, "model", badEnd, 13},
		{"trailing comma", `{"model":"a",}`, "model", badKey, 13},
		{"leading comma", `{,"model":"a"}`, "", badKey, 1},
		{"no comma", `{"a":1 "b":2}`, "a", badComma, 7},
		{"no colon", `{"a" 1}`, "", badColon, 5},
		{"trailing data", `{"model":"a"} {}`, "", badTrailing, 14},
		{"bad number", `{"a":01}`, "a", badNumber, 5},
		{"bad literal", `{"a":nul}`, "a", badValue, 5},
		{"bad escape", `{"a":"\x"}`, "a", badEscape, 6},
		{"half a unicode escape", `{"a":"\u12"}`, "a", badEscape, 6},
		{"raw control character", "{\"a\":\"x\ny\"}", "a", badControl, 7},
		{"invalid UTF-8", "{\"a\":\"long enough for a word \xff\"}", "a", badUTF8, 6},
		{"invalid UTF-8 in a name", "{\"a\xc3\":1}", "", badUTF8, 2},
		{"mismatched brackets", `{"a":[1}`, "a", badComma, 7},
		{"comma in an empty array", `{"a":[,]}`, "a", badValue, 6},
		{"too deep", `{"a":` + deep + `}`, "a", badDepth, 5 + depthMax - 1},
		{"byte order mark", "\xef\xbb\xbf{}", "", "a JSON object was expected", 0},
	} {
		_, err := ScanRequest([]byte(c.body), OpenAIChat)
		var e *BodyError
		if !errors.As(err, &e) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if *e != (BodyError{c.field, c.reason, c.offset}) {
			t.Errorf("%s\n got %+v\nwant %+v", c.name, *e, BodyError{c.field, c.reason, c.offset})
		}
		if !strings.Contains(e.Error(), c.field) || !strings.Contains(e.Error(), c.reason) {
			t.Errorf("%s: the message %q does not say it", c.name, e)
		}
	}
}

// What our scan lets pass means to Go's reader, which does not care for the case of a name, what it means to us.
func TestGosReaderFindsTheSameModel(t *testing.T) {
	for _, body := range []string{
		`{"model":"a","Model":"b"}`, `{"MODEL":"b","model":"a"}`, `{"Model":"b"}`, `{"mo\u0044el":"b"}`, `{"model":"a","models":["b"],"mode":"c"}`, `{"x":{"Model":"b"},"model":"a"}`,
	} {
		var read struct {
			Model string `json:"model"`
		}
		if err := json.Unmarshal([]byte(body), &read); err != nil {
			t.Fatal(err)
		}
		if r, err := ScanRequest([]byte(body), OpenAIChat); err == nil && r.Model != read.Model {
			t.Errorf("%s: the model is %q, to Go it is %q", body, r.Model, read.Model)
		}
	}
	for _, name := range []string{"maxoutputtokens", "CandidateCount"} {
		if _, err := ScanRequest([]byte(`{"generationConfig":{"`+name+`":9}}`), Gemini); err == nil {
			t.Errorf("%s passes", name)
		}
	}
}

func TestDepthOf512IsAccepted(t *testing.T) {
	n := depthMax - 1 // inside the top-level object
	body := `{"a":` + strings.Repeat(`{"b":`, n) + `1` + strings.Repeat(`}`, n) + `}`
	if _, err := ScanRequest([]byte(body), OpenAIChat); err != nil {
		t.Error(err)
	}
}

func TestManyMembersAreCheckedForTwinsToo(t *testing.T) {
	var b strings.Builder
	b.WriteByte('{')
	for i := range 5000 {
		b.WriteString(`"k` + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + `_` + strings.Repeat("0", i/26%50) + `_` + string(rune(0x4e00+i)) + `":1,`)
	}
	if _, err := ScanRequest([]byte(b.String()+`"last":0}`), OpenAIChat); err != nil {
		t.Fatal(err)
	}
	_, err := ScanRequest([]byte(b.String()+`"last":0,"l\u0061st":0}`), OpenAIChat)
	var e *BodyError
	if !errors.As(err, &e) || e.Field != "last" {
		t.Errorf("twin among many: %v", err)
	}
}

func TestScanAllocatesOnlyTheModelAndTheSession(t *testing.T) {
	body := []byte(`{"model":"gpt-5","messages":[{"role":"user","content":"` + strings.Repeat("hello world ", 80) + `"}],"stream":true,"service_tier":"flex","prompt_cache_key":"k"}`)
	if n := testing.AllocsPerRun(100, func() { ScanRequest(body, OpenAIChat) }); n > 2 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkScanRequest(b *testing.B) {
	for name, text := range map[string]string{
		"ascii":   strings.Repeat("The quick brown fox jumps over the lazy dog, again and again.\\n", 14),
		"chinese": strings.Repeat("快速的棕色狐狸跳过懒狗。", 28),
		"100KB":   strings.Repeat("The quick brown fox jumps over the lazy dog, again and again.\\n", 1400),
	} {
		body := []byte(`{"model":"gpt-4.1","messages":[{"role":"system","content":"You are helpful."},{"role":"user","content":"` + text + `"}],"stream":true,"max_tokens":1000,"prompt_cache_key":"a-b-c"}`)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ScanRequest(body, OpenAIChat); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
