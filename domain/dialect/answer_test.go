package dialect

import (
	"strings"
	"testing"

	"github.com/penstock/penstock/domain/pricing"
)

func TestWholeAnswersAreRead_B60(t *testing.T) {
	for _, c := range []struct {
		name string
		d    Dialect
		body string
		want Answer
	}{
		{"chat", OpenAIChat, `{"id":"c1","object":"chat.completion","model":"gpt-5","choices":[{"index":0,"message":{"role":"assistant","content":"hi","refusal":null},"finish_reason":"length"}],"usage":{"prompt_tokens":1,"completion_tokens":2},"service_tier":"default"}` + "\n",
			Answer{Usage: pricing.Usage{Input: 1, Output: 2}, HasUsage: true, ServiceTier: "default", HasContent: true}},
		{"chat with a call", OpenAIChat, `{"choices":[{"message":{"content":null,"tool_calls":[{"function":{"name":"f","arguments":""}}]},"finish_reason":"tool_calls"}]}`,
			Answer{HasContent: true}},
		{"chat that is empty", OpenAIChat, `{"choices":[{"message":{"content":""},"finish_reason":"stop"}]}`, Answer{}},
		{"responses", OpenAIResponses, `{"id":"r","model":"m","status":"completed","error":null,"incomplete_details":null,"output":[{"type":"reasoning","summary":[]},{"type":"message","content":[{"type":"output_text","text":"hi"}]}],"usage":{"input_tokens":1,"output_tokens":2}}`,
			Answer{Usage: pricing.Usage{Input: 1, Output: 2}, HasUsage: true, ID: "r", HasContent: true}},
		{"responses cut short are billed, new-api 7241", OpenAIResponses, `{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"reasoning"}],"usage":{"input_tokens":1,"output_tokens":2}}`,
			Answer{Usage: pricing.Usage{Input: 1, Output: 2}, HasUsage: true}},
		{"responses that failed", OpenAIResponses, `{"status":"failed","error":{"code":"server_error","message":"sorry"},"output":[]}`,
			Answer{ErrorCode: "server_error", ErrorMessage: "sorry"}},
		{"messages", AnthropicMessages, `{"id":"m1","type":"message","model":"claude","content":[{"type":"thinking","thinking":""},{"type":"tool_use","name":"f","input":{}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":4,"service_tier":"priority"}}`,
			Answer{Usage: pricing.Usage{Input: 3, Output: 4}, HasUsage: true, ServiceTier: "priority", HasContent: true}},
		{"messages that are empty", AnthropicMessages, `{"content":[{"type":"text","text":""}],"stop_reason":"end_turn"}`, Answer{}},
		{"gemini", Gemini, `{"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":1},"modelVersion":"g","responseId":"r"}`,
			Answer{Usage: pricing.Usage{Input: 3, Output: 1}, HasUsage: true, HasContent: true}},
		{"gemini, blocked", Gemini, `{"promptFeedback":{"blockReason":"SAFETY"}}`, Answer{}},
		{"embeddings", OpenAIChat, `{"object":"list","data":[{"embedding":[0.1]}],"model":"e","usage":{"prompt_tokens":12,"total_tokens":12}}`,
			Answer{Usage: pricing.Usage{Input: 12}, HasUsage: true, HasContent: true}},
		{"a count", AnthropicMessages, `{"input_tokens":14}`, Answer{HasContent: true}},
		{"no data", OpenAIChat, `{"data":[ ]}`, Answer{}},
		{"OpenAI's error", OpenAIChat, `{"error":{"message":"Unsupported","type":"invalid_request_error","param":"max_tokens","code":"unsupported_parameter"}}`,
			Answer{ErrorType: "invalid_request_error", ErrorCode: "unsupported_parameter", ErrorMessage: "Unsupported"}},
		{"Anthropic's error", AnthropicMessages, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"r"}`, Answer{ErrorType: "overloaded_error", ErrorMessage: "Overloaded"}},
		{"Google's error", Gemini, `{"error":{"code":400,"message":"bad key","status":"INVALID_ARGUMENT","details":[{"@type":"t","reason":"API_KEY_INVALID"},{"retryDelay":"3s"}]}}`,
			Answer{ErrorType: "INVALID_ARGUMENT", ErrorCode: "API_KEY_INVALID", ErrorMessage: "bad key"}},
		{"Google's error in an array, as its OpenAI endpoint sends it", OpenAIChat, `[{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED"}}]`,
			Answer{ErrorType: "RESOURCE_EXHAUSTED", ErrorCode: "429", ErrorMessage: "quota"}},
		{"an error that is a text", OpenAIChat, `{"error":"Missing API key"}`, Answer{ErrorMessage: "Missing API key"}},
		{"a framework's error", OpenAIChat, `{"detail":"Not Found"}`, Answer{ErrorMessage: "Not Found"}},
	} {
		c.want.IsObject = true
		if got := ReadAnswer(c.d, []byte(c.body)); got != c.want {
			t.Errorf("%s\n got %+v\nwant %+v", c.name, got, c.want)
		}
	}
}

func TestWhatIsNoObjectIsNoAnswer(t *testing.T) {
	whole := `{"id":"c1","choices":[{"message":{"content":"hi \u00e9"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}`
	for cut := range whole {
		if got := ReadAnswer(OpenAIChat, []byte(whole[:cut])); got != (Answer{}) {
			t.Errorf("the first %d bytes are %+v", cut, got)
		}
	}
	for _, body := range []string{"  ", "<html>502</html>", "null", `"x"`, "12", "[]", "[1]", `[{"a":1}]`, whole + "x", "[" + whole, "\xff{}", `{"a":"` + "\xff" + `"}`} {
		if got := ReadAnswer(OpenAIChat, []byte(body)); got != (Answer{}) {
			t.Errorf("%q is %+v", body, got)
		}
	}
}

func TestLongErrorTextsAreCutAtACharacter(t *testing.T) {
	for _, text := range []string{strings.Repeat("é", 5000), strings.Repeat(`\u00e9`, 5000), strings.Repeat(`\\`, 9000), strings.Repeat("€", 9000)} {
		got := ReadAnswer(OpenAIChat, []byte(`{"error":{"message":"`+text+`"}}`)).ErrorMessage
		if len(got) > messageMax || strings.ToValidUTF8(got, "?") != got || len(got) < messageMax-3 && !strings.HasPrefix(text, `\\`) {
			t.Errorf("%.12s: %d bytes remain", text, len(got))
		}
	}
}
