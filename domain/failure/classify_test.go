package failure

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/account"
	"github.com/penstock/penstock/domain/catalog"
)

var (
	usual = Policy{FailoverOnAuth: true}
	web   = "<html><body>403 Forbidden</body></html>"
)

// headers is a response's headers from names and values.
func headers(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if strings.EqualFold(pairs[i], name) {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestWhatHappenedMeansWhatFollows(t *testing.T) {
	const (
		yes = true
		no  = false
	)
	block := func(d time.Duration, reason, source string) Block {
		return Block{For: d, Reason: reason, Source: source, Probe: reason == "quota" || reason == "dead" || d == 5*time.Minute}
	}
	none := Block{}
	for _, c := range []struct {
		name   string
		o      Observation
		class  Class
		next   Next
		counts bool
		block  Block
		status int
		code   string // "" passes the upstream's answer
	}{
		// The network. A71, D15, B53.
		{"connection refused", Observation{Event: ConnectFailed}, Network, NextUpstream, yes, none, 503, UpstreamNetwork},
		{"connect timeout", Observation{Event: ConnectTimedOut}, ConnectTimeout, NextUpstream, yes, none, 503, UpstreamNetwork},
		{"request not sent whole", Observation{Event: WriteFailed}, Network, NextUpstream, yes, none, 503, UpstreamNetwork},
		{"no headers in time", Observation{Event: FirstByteTimeOut}, FirstByteTimeout, NextUpstream, yes, none, 504, RequestTimeout},
		{"body stands still before content", Observation{Event: IdleTimeOut, Status: 200}, IdleTimeout, NextUpstream, yes, none, 504, RequestTimeout},
		{"reset before content", Observation{Event: Reset, Status: 200}, Network, NextUpstream, yes, none, 503, UpstreamNetwork},
		{"closed without an answer", Observation{Event: EOFBeforeHeaders}, Network, NextUpstream, yes, none, 503, UpstreamNetwork},
		{"a dead pooled connection is tried anew and harms nobody", Observation{Event: EOFBeforeHeaders, ReusedConn: true}, Network, SameAccount, no, none, 503, UpstreamNetwork},
		{"a pooled connection that dies while writing", Observation{Event: WriteFailed, ReusedConn: true}, Network, SameAccount, no, none, 503, UpstreamNetwork},
		{"a slow answer on a pooled connection is no dead connection", Observation{Event: FirstByteTimeOut, ReusedConn: true}, FirstByteTimeout, NextUpstream, yes, none, 504, RequestTimeout},

		// Answers by status. A71, D13, D14, B53, B54.
		{"500", Observation{Status: 500}, HTTP5xx, NextUpstream, yes, none, 503, UpstreamHTTPError},
		{"502", Observation{Status: 502}, HTTP5xx, NextUpstream, yes, none, 503, UpstreamHTTPError},
		{"503", Observation{Status: 503}, HTTP5xx, NextUpstream, yes, none, 503, UpstreamHTTPError},
		{"529", Observation{Status: 529}, Overloaded, NextUpstream, yes, none, 503, UpstreamHTTPError},
		{"429 without a hint blocks the account", Observation{Status: 429}, HTTP429, NextAccount, no, block(30*time.Second, "http_429", "default"), 503, UpstreamHTTPError},
		{"429 with Retry-After", Observation{Status: 429, RetryAfter: 7 * time.Second}, HTTP429, NextAccount, no, block(7*time.Second, "http_429", "retry-after"), 503, UpstreamHTTPError},
		{"429 of days is capped (pain 50)", Observation{Status: 429, RetryAfter: 72 * time.Hour}, HTTP429, NextAccount, no, Block{For: 5 * time.Minute, Resets: 72 * time.Hour, Probe: true, Reason: "http_429", Source: "retry-after"}, 503, UpstreamHTTPError},
		{"429 of an instant is a second", Observation{Status: 429, RetryAfter: time.Millisecond}, HTTP429, NextAccount, no, block(time.Second, "http_429", "retry-after"), 503, UpstreamHTTPError},
		{"429 because the money is gone", Observation{Status: 429, ErrorCode: "insufficient_quota"}, Quota, NextAccount, no, block(5*time.Minute, "quota", "default"), 503, UpstreamHTTPError},
		{"429 of tokens per minute is not the caller's fault", Observation{Status: 429, ErrorMessage: "Rate limit reached: maximum context tokens per min"}, HTTP429, NextAccount, no, block(30*time.Second, "http_429", "default"), 503, UpstreamHTTPError},
		{"401", Observation{Status: 401}, Auth, NextAccount, no, block(5*time.Minute, "auth", "default"), 503, UpstreamHTTPError},
		{"403", Observation{Status: 403}, Auth, NextAccount, no, block(30*time.Second, "auth", "default"), 503, UpstreamHTTPError},
		{"403 for one model is no block", Observation{Status: 403, ErrorMessage: "Project does not have access to model o9"}, Auth, NextAccount, no, none, 503, UpstreamHTTPError},
		{"403 of a disabled account", Observation{Status: 403, ErrorMessage: "This organization has been disabled."}, Auth, NextAccount, no, block(5*time.Minute, "dead", "default"), 503, UpstreamHTTPError},
		{"403 as a web page is an edge, not a dead credential", Observation{Status: 403, HTML: true, Body: []byte(web)}, HTTP4xx, NextUpstream, no, none, 503, UpstreamHTTPError},
		{"403 for flagged input", Observation{Status: 403, ErrorMessage: "model requires moderation and your input was flagged"}, CallerFault, Stop, no, none, 403, ""},
		{"402", Observation{Status: 402}, Quota, NextAccount, no, block(5*time.Minute, "quota", "default"), 503, UpstreamHTTPError},
		{"400", Observation{Status: 400, ErrorType: "invalid_request_error", ErrorMessage: "max_tokens: required"}, CallerFault, Stop, no, none, 400, ""},
		{"404 neither fails over nor blocks", Observation{Status: 404, ErrorCode: "model_not_found"}, HTTP4xx, Stop, no, none, 404, ""},
		{"408", Observation{Status: 408}, HTTP4xx, NextUpstream, no, none, 503, UpstreamHTTPError},
		{"409", Observation{Status: 409}, HTTP4xx, Stop, no, none, 409, ""},
		{"413", Observation{Status: 413}, CallerFault, Stop, no, none, 413, ""},
		{"422", Observation{Status: 422}, CallerFault, Stop, no, none, 422, ""},
		{"425", Observation{Status: 425}, HTTP4xx, NextUpstream, no, none, 503, UpstreamHTTPError},
		{"407 is the egress proxy's", Observation{Status: 407}, Network, NextUpstream, yes, none, 503, UpstreamNetwork},
		{"401 as a web page", Observation{Status: 401, HTML: true}, HTTP4xx, NextUpstream, no, none, 503, UpstreamHTTPError},
		{"403 of Cloudflare without its page", Observation{Status: 403, Body: []byte("error code: 1020\n")}, HTTP4xx, NextUpstream, no, none, 503, UpstreamHTTPError},
		{"403 with a challenge", Observation{Status: 403, Header: headers("Cf-Mitigated", "challenge")}, HTTP4xx, NextUpstream, no, none, 503, UpstreamHTTPError},
		{"404 as a web page: no API is there", Observation{Status: 404, Body: []byte("\n<!DOCTYPE html><title>404")}, HTTP4xx, NextUpstream, no, none, 503, UpstreamHTTPError},
		{"429 of an edge limits our address", Observation{Status: 429, HTML: true}, HTTP429, NextUpstream, no, block(30*time.Second, "http_429", "default"), 503, UpstreamHTTPError},
		{"413 of an edge is still too large", Observation{Status: 413, HTML: true}, CallerFault, Stop, no, none, 413, ""},
		{"502 as a web page", Observation{Status: 502, HTML: true}, HTTP5xx, NextUpstream, yes, none, 503, UpstreamHTTPError},
		{"a redirect to a page", Observation{Status: 302, HTML: true}, InvalidAnswer, NextUpstream, yes, none, 503, UpstreamHTTPError},
		{"a redirect", Observation{Status: 302}, InvalidAnswer, NextUpstream, yes, none, 503, UpstreamHTTPError},

		// Answers by meaning. Pains 53, 55, 58.
		{"context length in a 400", Observation{Status: 400, ErrorCode: "context_length_exceeded"}, CallerFault, Stop, no, none, 400, ""},
		{"context length in a 500 (pain 55)", Observation{Status: 500, ErrorMessage: "This model's maximum context length is 8192 tokens"}, CallerFault, Stop, no, none, 500, ""},
		{"prompt is too long", Observation{Status: 400, ErrorMessage: "prompt is too long: 300000 tokens"}, CallerFault, Stop, no, none, 400, ""},
		{"400 that says overloaded by its type (pain 53)", Observation{Status: 400, ErrorType: "overloaded_error"}, Overloaded, NextUpstream, yes, none, 503, UpstreamHTTPError},
		{"400 that says overloaded in words (pain 53)", Observation{Status: 400, ErrorMessage: "Our servers are currently overloaded"}, Overloaded, NextUpstream, no, none, 503, UpstreamHTTPError},
		{"a caller's word harms no upstream (pain 58)", Observation{Status: 404, ErrorMessage: "The model `overloaded` does not exist"}, Overloaded, NextUpstream, no, none, 503, UpstreamHTTPError},
		{"503 overloaded", Observation{Status: 503, ErrorMessage: "The engine is overloaded"}, Overloaded, NextUpstream, yes, none, 503, UpstreamHTTPError},
		{"400 without credit", Observation{Status: 400, ErrorType: "invalid_request_error", ErrorMessage: "Your credit balance is too low to access the API"}, Quota, NextAccount, no, block(5*time.Minute, "quota", "default"), 503, UpstreamHTTPError},
		{"a caller who quotes that blocks nothing", Observation{Status: 400, ErrorMessage: "Invalid value: 'your credit balance is too low'"}, CallerFault, Stop, no, none, 400, ""},
		{"400 with a bad key (Gemini)", Observation{Status: 400, ErrorMessage: "API key not valid. Please pass a valid API key."}, Auth, NextAccount, no, block(5*time.Minute, "dead", "default"), 503, UpstreamHTTPError},

		{"400 with a bad key by its reason (Gemini)", Observation{Status: 400, ErrorType: "INVALID_ARGUMENT", ErrorCode: "API_KEY_INVALID"}, Auth, NextAccount, no, block(5*time.Minute, "dead", "default"), 503, UpstreamHTTPError},
		{"401 of a deactivated account", Observation{Status: 401, ErrorCode: "account_deactivated"}, Auth, NextAccount, no, block(5*time.Minute, "dead", "default"), 503, UpstreamHTTPError},
		{"403 for the place we call from", Observation{Status: 403, ErrorCode: "unsupported_country_region_territory"}, HTTP4xx, NextUpstream, no, none, 503, UpstreamHTTPError},
		{"400 for the place we call from (Gemini)", Observation{Status: 400, ErrorType: "FAILED_PRECONDITION", ErrorMessage: "User location is not supported for the API use."}, HTTP4xx, NextUpstream, no, none, 503, UpstreamHTTPError},
		{"content policy", Observation{Status: 400, ErrorCode: "content_policy_violation"}, CallerFault, Stop, no, none, 400, ""},
		{"content filter of Azure", Observation{Status: 400, ErrorCode: "content_filter", ErrorMessage: "The response was filtered due to the prompt triggering Azure OpenAI's content management policy."}, CallerFault, Stop, no, none, 400, ""},
		{"billing hard limit in a 400", Observation{Status: 400, ErrorCode: "billing_hard_limit_reached"}, Quota, NextAccount, no, block(5*time.Minute, "quota", "default"), 503, UpstreamHTTPError},

		// Successes that are none.
		{"200", Observation{Status: 200}, OK, Stop, no, none, 200, ""},
		{"201", Observation{Status: 201}, OK, Stop, no, none, 201, ""},
		{"empty 200", Observation{Status: 200, BodyEmpty: true}, EmptyResponse, NextUpstream, yes, none, 503, UpstreamHTTPError},
		{"stream closed before content", Observation{Status: 200, StreamClosedBeforeContent: true}, NoContentStream, NextUpstream, yes, none, 503, UpstreamHTTPError},
		{"200 that the dialect cannot read", Observation{Status: 200, InvalidAnswer: true}, InvalidAnswer, NextUpstream, yes, none, 503, UpstreamHTTPError},
		{"200 with a web page", Observation{Status: 200, HTML: true}, InvalidAnswer, NextUpstream, yes, none, 503, UpstreamHTTPError},
		{"stream failed before content", Observation{Status: 200, StreamFailedBeforeContent: true, ErrorType: "server_error"}, HTTP5xx, NextUpstream, yes, none, 503, UpstreamHTTPError},
		{"stream failed as overloaded", Observation{Status: 200, StreamFailedBeforeContent: true, ErrorType: "overloaded_error"}, Overloaded, NextUpstream, yes, none, 503, UpstreamHTTPError},
		{"stream failed by the rate limit", Observation{Status: 200, StreamFailedBeforeContent: true, ErrorCode: "rate_limit_exceeded"}, HTTP429, NextAccount, no, block(30*time.Second, "http_429", "default"), 503, UpstreamHTTPError},
		{"stream failed without money", Observation{Status: 200, StreamFailedBeforeContent: true, ErrorCode: "insufficient_quota"}, Quota, NextAccount, no, block(5*time.Minute, "quota", "default"), 503, UpstreamHTTPError},
		{"stream failed for a model that is not there", Observation{Status: 200, StreamFailedBeforeContent: true, ErrorType: "not_found_error"}, HTTP4xx, Stop, no, none, 404, ""},
		{"stream failed by an argument (Gemini)", Observation{Status: 200, StreamFailedBeforeContent: true, ErrorType: "INVALID_ARGUMENT"}, CallerFault, Stop, no, none, 400, ""},
		{"stream failed by an image", Observation{Status: 200, StreamFailedBeforeContent: true, ErrorCode: "invalid_image_url"}, CallerFault, Stop, no, none, 400, ""},
		{"stream failed by a dead credential", Observation{Status: 200, StreamFailedBeforeContent: true, ErrorCode: "account_deactivated"}, Auth, NextAccount, no, block(5*time.Minute, "dead", "default"), 503, UpstreamHTTPError},
		{"stream failed with a status for its code: 429", Observation{Status: 200, StreamFailedBeforeContent: true, ErrorCode: "429"}, HTTP429, NextAccount, no, block(30*time.Second, "http_429", "default"), 503, UpstreamHTTPError},
		{"stream failed with a status for its code: 401", Observation{Status: 200, StreamFailedBeforeContent: true, ErrorCode: "401"}, Auth, NextAccount, no, block(5*time.Minute, "auth", "default"), 503, UpstreamHTTPError},
		{"stream failed with a status for its code: 502", Observation{Status: 200, StreamFailedBeforeContent: true, ErrorCode: "502"}, HTTP5xx, NextUpstream, yes, none, 503, UpstreamHTTPError},
		{"stream failed with a status for its code: 404", Observation{Status: 200, StreamFailedBeforeContent: true, ErrorCode: "404"}, HTTP4xx, Stop, no, none, 404, ""},
		{"stream failed with a number that is no status", Observation{Status: 200, StreamFailedBeforeContent: true, ErrorCode: "1301"}, HTTP5xx, NextUpstream, yes, none, 503, UpstreamHTTPError},
		{"rate limit by its number mid-stream", Observation{Status: 200, CutMidStream: true, ErrorCode: "429"}, HTTP429, Stop, no, block(30*time.Second, "http_429", "default"), 502, StreamError},
		{"stream failed by the caller's fault", Observation{Status: 200, StreamFailedBeforeContent: true, ErrorType: "invalid_request_error"}, CallerFault, Stop, no, none, 400, ""},

		// After content: the end, whatever it is. A65, A73, B54, B59, pain 56.
		{"cut mid-stream", Observation{Event: Reset, Status: 200, CutMidStream: true}, StreamCut, Stop, yes, none, 502, StreamError},
		{"still mid-stream", Observation{Event: IdleTimeOut, Status: 200, CutMidStream: true}, IdleTimeout, Stop, yes, none, 504, RequestTimeout},
		{"error event mid-stream", Observation{Status: 200, CutMidStream: true, ErrorType: "overloaded_error"}, StreamCut, Stop, yes, none, 502, StreamError},
		{"rate limit mid-stream", Observation{Status: 200, CutMidStream: true, ErrorType: "rate_limit_error"}, HTTP429, Stop, no, block(30*time.Second, "http_429", "default"), 502, StreamError},
		{"a reused connection mid-stream is not tried again", Observation{Event: Reset, CutMidStream: true, ReusedConn: true}, StreamCut, Stop, yes, none, 502, StreamError},

		// Not the upstream's doing. A64, A74, B54, pain 18.
		{"the client has gone", Observation{Event: ClientGone}, Cancelled, Stop, no, none, 499, ClientDisconnect},
		{"the client has gone mid-stream", Observation{Event: ClientGone, Status: 200, CutMidStream: true}, Cancelled, Stop, no, none, 499, ClientDisconnect},
		{"a fault of ours", Observation{Event: LocalError}, Local, Stop, no, none, 503, LocalFault},
		{"nothing observed is a fault of ours", Observation{}, Local, Stop, no, none, 503, LocalFault},
	} {
		want := Verdict{Class: c.class, Next: c.next, Counts: c.counts, Block: c.block, ClientStatus: c.status, ClientCode: c.code}
		want.Dead = c.block.Reason == "dead"
		if got := Classify(c.o, usual); got != want {
			t.Errorf("%s:\ngot  %+v\nwant %+v", c.name, got, want)
		}
	}
}

// D16: the profile of the orchestrator sends a refused credential's request to nobody else.
func TestAuthStopsWhenThePolicySaysSo_D16(t *testing.T) {
	for _, status := range []int{401, 403} {
		if v := Classify(Observation{Status: status}, Policy{}); v.Next != Stop || v.Counts || v.ClientStatus != 503 || v.Block.For == 0 {
			t.Errorf("%d: %+v", status, v)
		}
	}
	if v := Classify(Observation{Status: 402}, Policy{}); v.Next != NextAccount {
		t.Errorf("402: %+v", v)
	}
}

// B55: failover on 400 is off by default, and then only for messages that match; it never counts and never blocks.
func TestFailoverOn400_B55(t *testing.T) {
	p := Policy{FailoverOn400: true, FailoverOn400Match: catalog.DefaultSettings().FailoverOn400Match}
	thinking := Observation{Status: 400, ErrorType: "invalid_request_error", ErrorMessage: "messages.1: Invalid `signature` in `thinking` block"}
	for name, c := range map[string]struct {
		o    Observation
		p    Policy
		next Next
	}{
		"off":                     {thinking, usual, Stop},
		"on and matching":         {thinking, p, NextUpstream},
		"on and not matching":     {Observation{Status: 400, ErrorMessage: "max_tokens: required"}, p, Stop},
		"on without a filter":     {Observation{Status: 400}, Policy{FailoverOn400: true}, NextUpstream},
		"context length stops":    {Observation{Status: 400, ErrorMessage: "prompt is too long with tools"}, p, Stop},
		"422 is another status":   {Observation{Status: 422, ErrorMessage: "thinking"}, p, Stop},
		"never after the content": {Observation{Status: 400, CutMidStream: true, ErrorMessage: "thinking"}, p, Stop},
	} {
		v := Classify(c.o, c.p)
		if v.Next != c.next || v.Counts && !c.o.CutMidStream || v.Block != (Block{}) {
			t.Errorf("%s: %+v", name, v)
		}
	}
	if v := Classify(thinking, p); v.ClientStatus != 400 || !Exhausted(catalog.OnExhaustedUnified, v, true, 0).PassLast {
		t.Errorf("with nobody left the 400 is passed: %+v", v)
	}
}

func compiled(t *testing.T, rules ...catalog.Rule) []*catalog.CompiledRule {
	t.Helper()
	s := catalog.NewState()
	for i := range rules {
		facts, err := catalog.Decide(s, catalog.Apply{Resource: &rules[i]})
		if err != nil {
			t.Fatal(err)
		}
		s.Evolve(facts[0], int64(i+1))
	}
	return catalog.Build(s, nil).Rules("", nil)
}

// The operator's rules: all conditions, the first match, counting only on request. Pain 54.
func TestOperatorsRules(t *testing.T) {
	no, yes := false, true
	p := Policy{FailoverOnAuth: true, Rules: compiled(t,
		catalog.Rule{ID: "maintenance", Priority: 1, Match: catalog.RuleMatch{Status: []int{503}, BodyPattern: "(?i)maintenance", Header: "Server: ^edge$"}, Action: catalog.RuleAction{BlockFor: catalog.Duration(10 * time.Minute)}},
		catalog.Rule{ID: "teapot", Priority: 2, Match: catalog.RuleMatch{Status: []int{418}}, Action: catalog.RuleAction{Failover: &yes, CountBreaker: true}},
		catalog.Rule{ID: "quiet", Priority: 3, Match: catalog.RuleMatch{Status: []int{500}}},
		catalog.Rule{ID: "later", Priority: 4, Match: catalog.RuleMatch{Status: []int{500}}, Action: catalog.RuleAction{Failover: &no}},
		catalog.Rule{ID: "timeouts", Priority: 5, Match: catalog.RuleMatch{ErrorType: "first_byte_timeout"}, Action: catalog.RuleAction{Failover: &no}},
		catalog.Rule{ID: "kind", Priority: 6, Match: catalog.RuleMatch{ErrorType: "weird_error"}, Action: catalog.RuleAction{Failover: &yes}},
		catalog.Rule{ID: "any", Priority: 7, Match: catalog.RuleMatch{ErrorType: "cancelled"}, Action: catalog.RuleAction{CountBreaker: true, Failover: &yes}},
	)}
	edge := func(name string) string {
		if name == "Server" {
			return "edge"
		}
		return ""
	}
	for name, c := range map[string]struct {
		o      Observation
		rule   string
		next   Next
		counts bool
		block  time.Duration
	}{
		"all conditions":             {Observation{Status: 503, Body: []byte("Maintenance"), Header: edge}, "maintenance", NextUpstream, false, 10 * time.Minute},
		"one condition is missing":   {Observation{Status: 503, Body: []byte("Maintenance")}, "", NextUpstream, true, 0},
		"a stop becomes a failover":  {Observation{Status: 418}, "teapot", NextUpstream, true, 0},
		"first match, not counted":   {Observation{Status: 500}, "quiet", NextUpstream, false, 0},
		"by class, a failover stops": {Observation{Event: FirstByteTimeOut}, "timeouts", Stop, false, 0},
		"by the error's own type":    {Observation{Status: 400, ErrorType: "weird_error"}, "kind", NextUpstream, false, 0},
		"never after content":        {Observation{Status: 418, CutMidStream: true}, "teapot", Stop, true, 0},
		"never for a cancel":         {Observation{Event: ClientGone}, "", Stop, false, 0},
		"never for a success":        {Observation{Status: 200}, "", Stop, false, 0},
	} {
		v := Classify(c.o, p)
		if v.Rule != c.rule || v.Next != c.next || v.Counts != c.counts || v.Block.For != c.block {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestTheEndOfARequestThatNobodyServed_D48_E27(t *testing.T) {
	for _, c := range []struct {
		name     string
		o        Observation
		answered bool
		after    time.Duration
		want     map[string]string // policy → end
	}{
		{"5xx", Observation{Status: 500}, true, 0, map[string]string{"unified": "503 UPSTREAM_HTTP_ERROR (http_5xx)", "last_answer": "pass", "bad_gateway": "502 UPSTREAM_HTTP_ERROR (http_5xx)"}},
		{"429 keeps its Retry-After", Observation{Status: 429}, true, 1500 * time.Millisecond, map[string]string{"unified": "503 UPSTREAM_HTTP_ERROR (http_429) after 2s", "last_answer": "pass", "bad_gateway": "502 UPSTREAM_HTTP_ERROR (http_429) after 2s"}},
		{"refused connection", Observation{Event: ConnectFailed}, false, 0, map[string]string{"unified": "503 UPSTREAM_NETWORK_ERROR (network)", "last_answer": "503 UPSTREAM_NETWORK_ERROR (network)", "bad_gateway": "502 UPSTREAM_NETWORK_ERROR (network)"}},
		{"slow", Observation{Event: FirstByteTimeOut}, false, 0, map[string]string{"unified": "504 REQUEST_TIMEOUT (first_byte_timeout)", "last_answer": "504 REQUEST_TIMEOUT (first_byte_timeout)", "bad_gateway": "502 REQUEST_TIMEOUT (first_byte_timeout)"}},
		{"our credential is never shown to the client", Observation{Status: 401}, true, 0, map[string]string{"unified": "503 UPSTREAM_HTTP_ERROR (auth)", "last_answer": "503 UPSTREAM_HTTP_ERROR (auth)", "bad_gateway": "502 UPSTREAM_HTTP_ERROR (auth)"}},
		{"an empty success is nothing to pass", Observation{Status: 200, BodyEmpty: true}, true, 0, map[string]string{"unified": "503 UPSTREAM_HTTP_ERROR (empty_response)", "last_answer": "503 UPSTREAM_HTTP_ERROR (empty_response)", "bad_gateway": "502 UPSTREAM_HTTP_ERROR (empty_response)"}},
		{"the caller's own fault is passed always", Observation{Status: 404}, true, 0, map[string]string{"unified": "pass", "last_answer": "pass", "bad_gateway": "pass"}},
		{"a fault of ours stays one", Observation{Event: LocalError}, false, 0, map[string]string{"unified": "503 LOCAL_FAULT (local_fault) after 1s", "last_answer": "503 LOCAL_FAULT (local_fault) after 1s", "bad_gateway": "503 LOCAL_FAULT (local_fault) after 1s"}},
		{"the client has gone", Observation{Event: ClientGone}, false, 0, map[string]string{"unified": "499 CLIENT_DISCONNECTED (cancelled)", "last_answer": "499 CLIENT_DISCONNECTED (cancelled)", "bad_gateway": "499 CLIENT_DISCONNECTED (cancelled)"}},
	} {
		for how, want := range c.want {
			end := Exhausted(how, Classify(c.o, usual), c.answered, c.after)
			got := "pass"
			if !end.PassLast {
				got = strings.TrimSpace(strings.Join([]string{itoa(end.Refusal.Status), end.Refusal.Error(), ""}, " "))
				if end.Refusal.RetryAfter > 0 {
					got += " after " + end.Refusal.RetryAfter.String()
				}
			}
			if got != want {
				t.Errorf("%s, %s: %s, want %s", c.name, how, got, want)
			}
		}
	}
}

func TestAPassedAnswerKeepsWhenToComeBack_E27(t *testing.T) {
	for name, c := range map[string]struct {
		o    Observation
		want time.Duration
	}{
		"a rate limit":           {Observation{Status: 429}, 8 * time.Second},
		"overloaded":             {Observation{Status: 529}, 8 * time.Second},
		"the caller's own fault": {Observation{Status: 400}, 0},
	} {
		if end := Exhausted(catalog.OnExhaustedLastAnswer, Classify(c.o, usual), true, 7100*time.Millisecond); !end.PassLast || end.RetryAfter != c.want {
			t.Errorf("%s: %+v", name, end)
		}
	}
}

func TestARuleThatBlocksLeavesNothingToWaitFor(t *testing.T) {
	p := Policy{SameAccountRetries: 1, SameAccountWait: time.Minute, Rules: compiled(t,
		catalog.Rule{ID: "out", Match: catalog.RuleMatch{BodyPattern: "gone"}, Action: catalog.RuleAction{BlockFor: catalog.Duration(time.Hour)}},
		catalog.Rule{ID: "count", Priority: 1, Match: catalog.RuleMatch{Status: []int{503}}, Action: catalog.RuleAction{CountBreaker: true}},
	)}
	o := Observation{Status: 503, RetryAfter: time.Second}
	if _, again := Classify(o, p).Retry(p, false, 0); !again {
		t.Error("a rule that only counts keeps the retry")
	}
	o.Body = []byte("gone")
	v := Classify(o, p)
	if _, again := v.Retry(p, false, 0); again || v.Block != (Block{For: time.Hour, Reason: "rule", Source: "rule out"}) {
		t.Errorf("%+v", v)
	}
	ask := account.Ask{Until: t0.Add(v.Block.For), Reason: v.Block.Reason, Source: v.Block.Source}
	if f := (&account.Block{}).Apply(t0, ask); !f.Until.Equal(t0.Add(time.Hour)) {
		t.Errorf("an operator's rule is not capped: %+v", f)
	}
}

func TestOnlyABrokenConnectionIsOfTheWholeUpstream(t *testing.T) {
	for _, c := range []Class{OK, Network, ConnectTimeout, FirstByteTimeout, HTTP429, HTTP5xx, Overloaded, Auth, Quota, Local} {
		if c.Shared() != (c == Network || c == ConnectTimeout) {
			t.Error(c)
		}
	}
}

func TestPolicyComesFromTheSettings(t *testing.T) {
	s := catalog.DefaultSettings()
	s.FailoverOn400 = true
	p := PolicyOf(&s, nil)
	if !p.FailoverOn400 || !p.FailoverOnAuth || p.FailoverOn400Match == nil {
		t.Errorf("%+v", p)
	}
	p.FailoverOn400Match = regexp.MustCompile("^x$")
	if v := Classify(Observation{Status: 400, ErrorMessage: "x"}, p); v.Next != NextUpstream {
		t.Errorf("%+v", v)
	}
}
