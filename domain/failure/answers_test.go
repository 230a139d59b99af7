package failure

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/dialect"
)

var update = flag.Bool("update", false, "write the golden file anew")

const responses = dialect.OpenAIResponses

// refusals are error bodies as providers send them. The first is a recording; the others are written by hand in the form
// of recordings and of the providers' manuals.
var refusals = []struct {
	name string
	d    dialect.Dialect
	said
}{
	{"unsupported parameter", openAI, said{400, nil, `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","type":"invalid_request_error","param":"max_tokens","code":"unsupported_parameter"}}`}},
	{"context length", openAI, said{400, nil, `{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`}},
	{"context length", responses, said{400, nil, `{"error":{"message":"Your input exceeds the context window of this model.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}`}},
	{"context length", anthropic, said{400, nil, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 213462 tokens > 200000 maximum"},"request_id":"req_1"}`}},
	{"context length", google, said{400, nil, `{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048575).","status":"INVALID_ARGUMENT"}}`}},
	{"too large", anthropic, said{413, nil, `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`}},
	{"content policy", openAI, said{400, nil, `{"error":{"message":"Your request was rejected as a result of our safety system.","type":"invalid_request_error","param":null,"code":"content_policy_violation"}}`}},
	{"bad key", openAI, said{401, nil, `{"error":{"message":"Incorrect API key provided: sk-abc***xyz. You can find your API key at https://platform.openai.com/account/api-keys.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`}},
	{"bad key", anthropic, said{401, nil, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`}},
	{"bad key", google, said{400, nil, `{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com","metadata":{"service":"generativelanguage.googleapis.com"}}]}}`}},
	{"leaked key", google, said{403, nil, `{"error":{"code":403,"message":"Your API key was reported as leaked. Please use another API key.","status":"PERMISSION_DENIED"}}`}},
	{"suspended", google, said{403, nil, `{"error":{"code":403,"message":"Permission denied: Consumer 'api_key:AIza***' has been suspended.","status":"PERMISSION_DENIED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"CONSUMER_SUSPENDED","domain":"googleapis.com"}]}}`}},
	{"deactivated", openAI, said{401, nil, `{"error":{"message":"The OpenAI account associated with this API key has been deactivated. Please check your email for more information.","type":"invalid_request_error","param":null,"code":"account_deactivated"}}`}},
	{"disabled", anthropic, said{400, nil, `{"type":"error","error":{"type":"invalid_request_error","message":"This organization has been disabled."}}`}},
	{"no access to the model", openAI, said{403, nil, `{"error":{"message":"Project proj_1 does not have access to model gpt-5","type":"invalid_request_error","param":null,"code":"model_not_found"}}`}},
	{"no permission", anthropic, said{403, nil, `{"type":"error","error":{"type":"permission_error","message":"Your API key does not have permission to use the specified resource."}}`}},
	{"model not found", openAI, said{404, nil, `{"error":{"message":"The model 'gpt-9' does not exist or you do not have access to it.","type":"invalid_request_error","param":null,"code":"model_not_found"}}`}},
	{"model not found", anthropic, said{404, nil, `{"type":"error","error":{"type":"not_found_error","message":"model: claude-9"}}`}},
	{"model not found", google, said{404, nil, `{"error":{"code":404,"message":"models/gemini-9 is not found for API version v1beta","status":"NOT_FOUND"}}`}},
	{"country", openAI, said{403, nil, `{"error":{"code":"unsupported_country_region_territory","message":"Country, region, or territory not supported","param":null,"type":"request_forbidden"}}`}},
	{"edge", openAI, said{403, []string{"content-type", "text/html"}, "<!DOCTYPE html>\n<html lang=\"en-US\"><head><title>Just a moment...</title></head></html>"}},
	{"edge", anthropic, said{403, nil, `error code: 1020`}},
	{"edge is down", anthropic, said{520, nil, "<html><head><title>520: Web server is returning an unknown error</title></head></html>"}},
	{"overloaded", openAI, said{503, nil, `{"error":{"message":"The engine is currently overloaded, please try again later","type":"server_error","param":null,"code":null}}`}},
	{"overloaded in a 400 (pain 53)", responses, said{400, nil, `{"error":{"message":"Our servers are currently overloaded. Please try again later.","type":"service_unavailable_error","param":null,"code":"server_is_overloaded"}}`}},
	{"overloaded", anthropic, said{529, nil, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}`}},
	{"overloaded", google, said{503, nil, `{"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}`}},
	{"server error", openAI, said{500, nil, `{"error":{"message":"The server had an error while processing your request.","type":"server_error","param":null,"code":null}}`}},
	{"server error", anthropic, said{500, nil, `{"type":"error","error":{"type":"api_error","message":"Internal server error"}}`}},
	{"server error", google, said{500, nil, `{"error":{"code":500,"message":"An internal error has occurred.","status":"INTERNAL"}}`}},
	{"billing", anthropic, said{402, nil, `{"type":"error","error":{"type":"billing_error","message":"Your account has a billing issue."}}`}},
	{"billing is off", google, said{403, nil, `{"error":{"code":403,"message":"This API method requires billing to be enabled.","status":"PERMISSION_DENIED","details":[{"reason":"BILLING_DISABLED"}]}}`}},
	{"rate limit", anthropic, said{429, []string{"retry-after", "9"}, `{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed the rate limit for your organization of 40,000 input tokens per minute."}}`}},
	{"a framework's words", openAI, said{422, nil, `{"detail":"Field required: messages"}`}},
	{"garbage", openAI, said{500, nil, `{"error":`}},
	{"a proxy's words", openAI, said{502, nil, `upstream connect error or disconnect/reset before headers`}},
}

// streams are successes whose events say that they failed, before any content.
var streams = []struct {
	name string
	d    dialect.Dialect
	text string
}{
	{"server error", openAI, "data: {\"error\":{\"message\":\"The server had an error\",\"type\":\"server_error\",\"code\":null}}\n\n"},
	{"rate limit", openAI, "data: {\"error\":{\"message\":\"Rate limit reached for gpt-4o in organization o on tokens per min (TPM). Please try again in 3.5s.\",\"type\":\"tokens\",\"code\":\"rate_limit_exceeded\"}}\n\n"},
	{"failed", responses, "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"}}\n\nevent: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"id\":\"r\",\"status\":\"failed\",\"error\":{\"code\":\"server_error\",\"message\":\"An error occurred\"}}}\n\n"},
	{"no money", responses, "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"id\":\"r\",\"status\":\"failed\",\"error\":{\"code\":\"insufficient_quota\",\"message\":\"You exceeded your current quota\"}}}\n\n"},
	{"context length", responses, "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"id\":\"r\",\"status\":\"failed\",\"error\":{\"code\":\"context_length_exceeded\",\"message\":\"Your input exceeds the context window\"}}}\n\n"},
	{"overloaded", anthropic, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"},
	{"bad request", anthropic, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"messages: required\"}}\n\n"},
	{"overloaded", google, "data: {\"error\":{\"code\":503,\"message\":\"The model is overloaded.\",\"status\":\"UNAVAILABLE\"}}\n\n"},
	{"rate limit", google, "data: {\"error\":{\"code\":429,\"message\":\"You exceeded your current quota. Please retry in 21s.\",\"status\":\"RESOURCE_EXHAUSTED\"}}\n\n"},
}

// A71, B53, B55, D13-D16, E25; pains 53, 55, 57, 58: what providers say, and what follows.
func TestTheAnswersOfProvidersMeanWhatTheyAlwaysDid(t *testing.T) {
	p := Policy{FailoverOnAuth: true, SameAccountRetries: 1, SameAccountWait: 2 * time.Second}
	var b strings.Builder
	line := func(d dialect.Dialect, what string, v Verdict) {
		fmt.Fprintf(&b, "%-18s %-40s %s → %s", d, what, v.Class, v.Next)
		if v.Counts {
			b.WriteString(", counted")
		}
		if v.Dead {
			b.WriteString(", dead")
		}
		if k := v.Block; k.For > 0 {
			fmt.Fprintf(&b, ", blocked %v (%s, %s)", k.For, k.Reason, k.Source)
			if k.Model {
				b.WriteString(" for the model")
			}
		}
		fmt.Fprintf(&b, ", client %d %s\n", v.ClientStatus, v.ClientCode)
	}
	for _, r := range refusals {
		line(r.d, fmt.Sprint(r.status, " ", r.name), Classify(r.observed(r.d), p))
	}
	for _, s := range streams {
		var m dialect.Meter
		m.Reset(s.d, dialect.SSE)
		m.Feed([]byte(s.text))
		if !m.Failed() || m.Content() {
			t.Errorf("%v, %s: the stream does not say that it failed", s.d, s.name)
		}
		e := m.Failure()
		line(s.d, "200 and then "+s.name, Classify(Observation{
			Status: 200, StreamFailedBeforeContent: true, ErrorType: e.Type, ErrorCode: e.Code, ErrorMessage: e.Message, Now: t0,
		}, p))
	}
	path := filepath.Join("testdata", "answers.golden")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("go test ./domain/failure -run '%s' -update writes\n%s", t.Name(), b.String())
	}
}
