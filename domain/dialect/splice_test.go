package dialect

import "testing"

func TestSpliceChangesNothingElse(t *testing.T) {
	for _, c := range []struct{ name, body, usage, model, both string }{
		{"no options", `{ "model":"a", "stream":true }`,
			`{ "model":"a", "stream":true ,"stream_options":{"include_usage":true}}`,
			`{ "model":"n\"m", "stream":true }`,
			`{ "model":"n\"m", "stream":true ,"stream_options":{"include_usage":true}}`},
		{"options without it", `{"stream_options": { "include_obfuscation":false},"model":"a"}`,
			`{"stream_options": {"include_usage":true, "include_obfuscation":false},"model":"a"}`,
			`{"stream_options": { "include_obfuscation":false},"model":"n\"m"}`,
			`{"stream_options": {"include_usage":true, "include_obfuscation":false},"model":"n\"m"}`},
		{"empty options", `{"model":"a","stream_options":{ }}`,
			`{"model":"a","stream_options":{"include_usage":true }}`,
			`{"model":"n\"m","stream_options":{ }}`,
			`{"model":"n\"m","stream_options":{"include_usage":true }}`},
		{"options null", `{"stream_options":null,"model":"a"}`,
			`{"stream_options":{"include_usage":true},"model":"a"}`,
			`{"stream_options":null,"model":"n\"m"}`,
			`{"stream_options":{"include_usage":true},"model":"n\"m"}`},
		{"false", `{"model":"a","stream_options":{"include_usage": false ,"x":1}} `,
			`{"model":"a","stream_options":{"include_usage": true ,"x":1}} `,
			`{"model":"n\"m","stream_options":{"include_usage": false ,"x":1}} `,
			`{"model":"n\"m","stream_options":{"include_usage": true ,"x":1}} `},
		{"null", `{"stream_options":{"include_usage":null}}`,
			`{"stream_options":{"include_usage":true}}`, `{"stream_options":{"include_usage":null}}`, `{"stream_options":{"include_usage":true}}`},
		{"already true", `{"stream_options":{"include_usage":true},"model":"a"}`,
			`{"stream_options":{"include_usage":true},"model":"a"}`,
			`{"stream_options":{"include_usage":true},"model":"n\"m"}`,
			`{"stream_options":{"include_usage":true},"model":"n\"m"}`},
		{"empty body", `{ }`, `{ "stream_options":{"include_usage":true}}`, `{ }`, `{ "stream_options":{"include_usage":true}}`},
	} {
		body := []byte(c.body)
		r, err := ScanRequest(body, OpenAIChat)
		if err != nil {
			t.Fatal(err)
		}
		for what, got := range map[string]string{
			c.usage: string(SpliceUsage([]byte(">"), body, r)),
			c.model: string(SpliceModel([]byte(">"), body, r, `n"m`)),
			c.both:  string(SpliceBoth([]byte(">"), body, r, `n"m`)),
		} {
			if got != ">"+what {
				t.Errorf("%s\n got %s\nwant >%s", c.name, got, what)
			}
		}
		again, err := ScanRequest(SpliceUsage(nil, body, r), OpenAIChat)
		if err != nil || !again.IncludeUsage || again.Model != r.Model {
			t.Errorf("%s: the spliced body reads as %+v, %v", c.name, again, err)
		}
	}
}
