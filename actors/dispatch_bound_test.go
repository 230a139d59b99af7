package actors

import (
	"testing"

	"github.com/penstock/penstock/domain/dialect"
	"github.com/penstock/penstock/domain/pricing"
)

const unknown = pricing.Unknown

// What a strict limit sets aside is the most that any upstream may make of a body, however it is written (pains 23, 24, 73).
func TestTheBoundsOfARequestAreThoseOfAnyReader(t *testing.T) {
	const chat, completions, responses, messages = "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"
	const gemini, images = "/v1beta/models/g:generateContent", "/v1/images/generations"
	whole := int64(0) // the bytes of the body
	for _, c := range []struct {
		path, body             string
		input, output, choices int64 // input: 0 is whole
		images                 int64
	}{
		{chat, `{"max_tokens":5}`, whole, 5, 0, 0},
		{chat, `{"max_tokens":5,"max_completion_tokens":9,"n":3}`, whole, 9, 3, 0},
		{chat, `{"max_tokens":5,"max_completion_tokens":null,"n":null}`, whole, 5, 0, 0},
		{chat, `{"max_tokens":5,"max_completion_tokens":"9000"}`, whole, 0, 0, 0}, // some convert it, others pass over it
		{chat, `{"max_tokens":"9000","max_completion_tokens":5}`, whole, 0, 0, 0},
		{chat, `{"max_output_tokens":1}`, whole, 0, 0, 0}, // nobody obeys it here
		{chat, `{"generationConfig":{"maxOutputTokens":1,"candidateCount":1}}`, whole, 0, 0, 0},
		{messages, `{"max_tokens":6,"generation_config":{"max_output_tokens":"x","candidateCount":8}}`, whole, 6, 0, 0},
		{responses, `{"generationConfig":{"maxOutputTokens":1}}`, whole, 0, 0, 0},
		{responses, `{"max_tokens":1,"max_completion_tokens":1}`, whole, 0, 0, 0},
		{responses, `{"max_output_tokens":7,"n":3}`, whole, 7, 0, 0},
		{messages, `{"max_tokens":6,"max_output_tokens":90,"n":3}`, whole, 6, 0, 0},
		{gemini, `{"generationConfig":{"maxOutputTokens":9000,"maxOutputTokens":1}}`, whole, 9000, 0, 0},
		{gemini, `{"generationConfig":{"maxOutputTokens":1},"generation_config":{"max_output_tokens":9000}}`, whole, 9000, 0, 0},
		{gemini, `{"generationConfig":{"max_output_tokens":9000},"generation_config":{"max_output_tokens":1}}`, whole, 9000, 0, 0},
		{gemini, `{"generationConfig":{"maxOutputTokens":"9000","max_output_tokens":1}}`, whole, 0, 0, 0},
		{gemini, `{"generationConfig":{"maxOutputTokens":4,"candidateCount":8},"max_tokens":1}`, whole, 4, 8, 0},

		{chat, `{"max_tokens":5,"n":1e2}`, whole, 5, 100, 0},
		{chat, `{"max_tokens":5,"n":12345678}`, whole, 5, 12345678, 0},
		{chat, `{"max_tokens":5,"\u006e":7}`, whole, 5, 7, 0},
		{chat, `{"max_tokens":5,"n":"128"}`, whole, 5, unknown, 0},
		{chat, `{"max_tokens":5,"messages":[{"tool_calls":[{"n":5000}]}],"metadata":{"n":"x"}}`, whole, 5, 0, 0}, // not answers
		{completions, `{"max_tokens":5,"n":2,"best_of":4,"prompt":"a"}`, whole, 5, 4, 0},
		{completions, `{"max_tokens":5,"n":2,"prompt":["a","b","c"]}`, whole, 5, 6, 0},
		{completions, `{"max_tokens":5,"promp\u0074":[[1,2],[3]]}`, whole, 5, 2, 0},
		{completions, `{"max_tokens":5,"prompt":[1,2,3]}`, whole, 5, 0, 0},
		{completions, `{"max_completion_tokens":1,"prompt":"a"}`, whole, 0, 0, 0},
		{"/v1/embeddings", `{"max_tokens":1,"input":"a"}`, whole, 0, 0, 0},
		{completions, `{"max_tokens":5,"n":"2","prompt":["a","b"]}`, whole, 5, unknown, 0},
		{completions, `{"max_tokens":5,"n":1e300,"prompt":["a","b"]}`, whole, 5, 1 << 40, 0},

		{chat, `{"max_tokens":5,"messages":[{"content":[{"type":"image_url"}]}]}`, unknown, 5, 0, 0},
		{chat, `{"max_tokens":5,"messages":[{"content":[{"type":"im\u0061ge\u005Furl"}]}]}`, unknown, 5, 0, 0},
		{chat, `{"max_tokens":5,"messages":[{"content":"caf\u00e9 \u0007 \u003cimage"}]}`, whole, 5, 0, 0},
		{responses, `{"max_output_tokens":7,"prompt":{"id":"p"}}`, unknown, 7, 0, 0},
		{responses, `{"max_output_tokens":7,"tools":[{"type":"\u0069mage_generation"}]}`, toolsMax, 7, 0, unknown},
		{images, `{"prompt":"x","max_tokens":1}`, unknown, 0, 0, 1},
		{images, `{"prompt":"x","n":4}`, unknown, 0, 4, 4},
		{images, `{"prompt":"x","n":"4"}`, unknown, 0, unknown, unknown},
		{"/v1/images/edits", "--b\r\nname=\"n\"\r\n\r\n4", whole, 0, unknown, unknown},
	} {
		end, _ := dialect.Route("POST", c.path)
		call := &Call{Endpoint: end, Body: []byte(c.body)}
		if c.body[0] == '{' {
			var err error
			if call.Scan, err = dialect.ScanRequest(call.Body, end.Dialect); err != nil {
				t.Fatal(c.body, err)
			}
		}
		want := pricing.Ask{Input: c.input, MaxOutput: c.output, Choices: c.choices, Images: c.images}
		if want.Input >= 0 {
			want.Input += int64(len(c.body))
		}
		if got := bounds(call); got != want {
			t.Errorf("%s %s\n got %+v\nwant %+v", c.path, c.body, got, want)
		}
	}
}
