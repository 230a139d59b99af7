package failure

import (
	"testing"
	"time"

	"github.com/penstock/penstock/domain/dialect"
)

// said is a refusal as a provider sends it.
type said struct {
	status  int
	headers []string
	body    string
}

// observed reads it the way the gateway does.
func (s said) observed(d dialect.Dialect) Observation {
	a := dialect.ReadAnswer(d, []byte(s.body))
	return Observation{
		Status: s.status, Now: t0, Header: headers(s.headers...), Body: []byte(s.body),
		ErrorType: a.ErrorType, ErrorCode: a.ErrorCode, ErrorMessage: a.ErrorMessage,
	}
}

const (
	openAI    = dialect.OpenAIChat
	anthropic = dialect.AnthropicMessages
	google    = dialect.Gemini
)

func googleQuota(id, delay string) string {
	return `{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details. For more information on this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits.` +
		`\nPlease retry in ` + delay + `.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[` +
		`{"quotaMetric":"generativelanguage.googleapis.com/generate_content_free_tier_requests","quotaId":"` + id + `","quotaDimensions":{"location":"global","model":"gemini-2.5-pro"},"quotaValue":"5"}]},` +
		`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"` + delay + `"}]}}`
}

// B17, B53, D13, E25; pains 46, 50, 57: what kind of limit was met, and until when the account is left alone.
func TestABurstIsToldFromTheEndOfAQuota_pain50(t *testing.T) {
	rate := `{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your account's rate limit. Please try again later."}}`
	for _, c := range []struct {
		name   string
		d      dialect.Dialect
		s      said
		class  Class
		block  time.Duration
		source string
		resets time.Duration
		probe  bool
		model  bool
	}{
		// Any provider.
		{"seconds", openAI, said{429, []string{"retry-after", "12"}, ``}, HTTP429, 12 * time.Second, "retry-after", 0, false, false},
		{"an HTTP date", openAI, said{429, []string{"retry-after", "Fri, 02 Jan 2026 03:04:35 GMT"}, ``}, HTTP429, 30 * time.Second, "retry-after", 0, false, false},
		{"milliseconds are finer than seconds, the later counts", openAI, said{429, []string{"retry-after-ms", "1500", "retry-after", "1"}, ``}, HTTP429, 1500 * time.Millisecond, "retry-after-ms", 0, false, false},
		{"a date in the past is nothing said", openAI, said{429, []string{"retry-after", "Fri, 02 Jan 2015 03:04:35 GMT"}, ``}, HTTP429, 30 * time.Second, "default", 0, false, false},
		{"absurd", openAI, said{429, []string{"retry-after", "1e300"}, ``}, HTTP429, 5 * time.Minute, "retry-after", 31 * 24 * time.Hour, true, false},
		{"negative", openAI, said{429, []string{"retry-after", "-7"}, ``}, HTTP429, 30 * time.Second, "default", 0, false, false},
		{"a plain limit with a point in time", openAI, said{429, []string{"x-ratelimit-remaining", "0", "x-ratelimit-reset", "1767323105000"}, ``}, HTTP429, time.Minute, "x-ratelimit-reset", 0, false, false},

		// OpenAI and those who copy it.
		{"of two limits the one that is used up counts", openAI, said{429, []string{"x-ratelimit-remaining-requests", "9999", "x-ratelimit-reset-requests", "4m0s",
			"x-ratelimit-remaining-tokens", "0", "x-ratelimit-reset-tokens", "8s"}, ``}, HTTP429, 8 * time.Second, "x-ratelimit-reset-tokens", 0, false, false},
		{"of two that are used up the later one (pain 46)", openAI, said{429, []string{"retry-after", "1", "x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "1m30s",
			"x-ratelimit-remaining-tokens", "0", "x-ratelimit-reset-tokens", "8s"}, ``}, HTTP429, 90 * time.Second, "x-ratelimit-reset-requests", 0, false, false},
		{"the error names the limit although something is left", openAI, said{429, []string{"x-ratelimit-remaining-tokens", "500", "x-ratelimit-reset-tokens", "12s"},
			`{"error":{"message":"Request too large for gpt-4o in organization org-1 on tokens per min (TPM): Limit 30000, Requested 31000.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`},
			HTTP429, 12 * time.Second, "x-ratelimit-reset-tokens", 0, false, false},
		{"the message alone; OpenAI's limits are a model's", openAI, said{429, nil,
			`{"error":{"message":"Rate limit reached for gpt-4o in organization org-1 on requests per day (RPD): Limit 200, Used 200, Requested 1. Please try again in 7m12s. Visit https://platform.openai.com/account/rate-limits to learn more.","type":"requests","param":null,"code":"rate_limit_exceeded"}}`},
			HTTP429, 5 * time.Minute, "message", 7*time.Minute + 12*time.Second, true, true},
		{"milliseconds in the message are a second", openAI, said{429, nil,
			`{"error":{"message":"Rate limit reached for gpt-4o on tokens per min. Please try again in 20ms.","type":"tokens","code":"rate_limit_exceeded"}}`}, HTTP429, time.Second, "message", 0, false, true},
		{"Azure", openAI, said{429, nil, `{"error":{"code":"429","message":"Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-06-01 have exceeded token rate limit of your current OpenAI S0 pricing tier. Please retry after 26 seconds. Please go here: https://aka.ms/oai/quotaincrease"}}`},
			HTTP429, 26 * time.Second, "message", 0, false, false},
		{"no money left, and a second is no time to earn some", openAI, said{429, []string{"retry-after", "1"}, `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`},
			Quota, 30 * time.Second, "default", 0, true, false},
		{"no money left, and no hint", openAI, said{429, nil, `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`},
			Quota, 5 * time.Minute, "default", 0, true, false},
		{"billing hard limit", openAI, said{400, nil, `{"error":{"message":"Billing hard limit has been reached","type":"invalid_request_error","code":"billing_hard_limit_reached"}}`}, Quota, 5 * time.Minute, "default", 0, true, false},
		{"a subscription's window", dialect.OpenAIResponses, said{429, nil, `{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","plan_type":"plus","resets_at":1767326645,"resets_in_seconds":3600}}`},
			Quota, 5 * time.Minute, "body", time.Hour, true, false},
		{"a subscription's window in headers", dialect.OpenAIResponses, said{429, []string{"x-codex-primary-used-percent", "100.0", "x-codex-primary-reset-after-seconds", "120", "x-codex-secondary-used-percent", "12", "x-codex-secondary-reset-after-seconds", "500000"}, ``},
			Quota, 2 * time.Minute, "x-codex-primary-reset-after-seconds", 0, true, false},
		{"payment required", openAI, said{402, nil, `{"error":{"message":"Insufficient Balance","type":"unknown_error","code":"invalid_request_error"}}`}, Quota, 5 * time.Minute, "default", 0, true, false},

		// Anthropic.
		{"without a word of when", anthropic, said{429, nil, rate}, HTTP429, 30 * time.Second, "default", 0, false, false},
		{"the window that is used up", anthropic, said{429, []string{"retry-after", "3", "anthropic-ratelimit-requests-remaining", "40", "anthropic-ratelimit-requests-reset", "2026-01-02T09:00:00Z",
			"anthropic-ratelimit-input-tokens-remaining", "0", "anthropic-ratelimit-input-tokens-reset", "2026-01-02T03:04:50Z"}, rate}, HTTP429, 45 * time.Second, "anthropic-ratelimit-input-tokens-reset", 0, false, false},
		{"a subscription's five hours are over", anthropic, said{429, []string{"anthropic-ratelimit-unified-status", "rejected", "anthropic-ratelimit-unified-reset", "1767333845", "anthropic-ratelimit-unified-representative-claim", "five_hour"}, rate},
			Quota, 5 * time.Minute, "anthropic-ratelimit-unified-reset", 3 * time.Hour, true, false},
		{"a subscription's week of one model", anthropic, said{429, []string{"anthropic-ratelimit-unified-status", "rejected", "anthropic-ratelimit-unified-reset", "1767495845", "anthropic-ratelimit-unified-representative-claim", "seven_day_opus"}, rate},
			Quota, 5 * time.Minute, "anthropic-ratelimit-unified-reset", 48 * time.Hour, true, true},
		{"a burst within a subscription", anthropic, said{429, []string{"anthropic-ratelimit-unified-status", "allowed", "anthropic-ratelimit-unified-reset", "1767333845", "retry-after", "4"}, rate}, HTTP429, 4 * time.Second, "retry-after", 0, false, false},
		{"no credit", anthropic, said{400, nil, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."}}`},
			Quota, 5 * time.Minute, "default", 0, true, false},
		{"the month's limit names its day", anthropic, said{400, nil, `{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2026-01-03 at 00:00 UTC."}}`},
			Quota, 5 * time.Minute, "message", 20*time.Hour + 55*time.Minute + 55*time.Second, true, false},

		// Google.
		{"per minute, though it speaks of plan and billing", google, said{429, nil, googleQuota("GenerateRequestsPerMinutePerProjectPerModel-FreeTier", "34.5s")}, HTTP429, 34500 * time.Millisecond, "body", 0, false, true},
		{"per day, though it names seconds", google, said{429, nil, googleQuota("GenerateRequestsPerDayPerProjectPerModel-FreeTier", "34s")}, Quota, 5 * time.Minute, "default", 0, true, true},
		{"none at all", google, said{429, nil, `{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.\n* Quota exceeded for metric: generate_content_free_tier_requests, limit: 0\nPlease retry in 9s.","status":"RESOURCE_EXHAUSTED"}}`},
			Quota, 5 * time.Minute, "default", 0, true, false},
		{"without details, by its words", google, said{429, nil, `{"error":{"code":429,"message":"You exceeded your current quota. Please retry in 12.5s.","status":"RESOURCE_EXHAUSTED"}}`}, HTTP429, 12500 * time.Millisecond, "message", 0, false, false},
		{"no capacity for a while", google, said{429, nil, `{"error":{"code":429,"message":"Resource has been exhausted (e.g. check quota).","status":"RESOURCE_EXHAUSTED"}}`}, HTTP429, 30 * time.Second, "default", 0, false, false},
		{"Google's OpenAI endpoint", openAI, said{429, nil, "[" + googleQuota("GenerateRequestsPerMinutePerProjectPerModel-FreeTier", "7s") + "]"}, HTTP429, 7 * time.Second, "body", 0, false, true},
	} {
		v := Classify(c.s.observed(c.d), usual)
		want := Block{For: c.block, Resets: c.resets, Probe: c.probe, Model: c.model, Reason: "http_429", Source: c.source}
		if c.class == Quota {
			want.Reason = "quota"
		}
		if v.Class != c.class || v.Block != want || v.Next != NextAccount || v.Counts {
			t.Errorf("%s:\ngot  %s %s %+v\nwant %s %+v", c.name, v.Class, v.Next, v.Block, c.class, want)
		}
	}
}

func TestWhatAStreamSaysOfItsLimitCountsAsWell(t *testing.T) {
	o := Observation{Status: 200, StreamFailedBeforeContent: true, ErrorCode: "rate_limit_exceeded", ErrorMessage: "Rate limit reached for gpt-5 in organization o on tokens per min. Please try again in 11s."}
	if v := Classify(o, usual); v.Class != HTTP429 || v.Block.For != 11*time.Second || !v.Block.Model {
		t.Errorf("before content: %+v", v)
	}
	o.StreamFailedBeforeContent, o.CutMidStream = false, true
	if v := Classify(o, usual); v.Class != HTTP429 || v.Block.For != 11*time.Second || v.Next != Stop {
		t.Errorf("after content: %+v", v)
	}
}

func TestTheOperatorSetsHowLongBlocksAre_pain48(t *testing.T) {
	p := Policy{BlockDefault: 3 * time.Second, BlockMax: time.Minute}
	for name, c := range map[string]struct {
		o    Observation
		want Block
	}{
		"no hint":            {Observation{Status: 429}, Block{For: 3 * time.Second, Reason: "http_429", Source: "default"}},
		"a hint above":       {Observation{Status: 429, RetryAfter: time.Hour}, Block{For: time.Minute, Resets: time.Hour, Probe: true, Reason: "http_429", Source: "retry-after"}},
		"a quota":            {Observation{Status: 402}, Block{For: time.Minute, Probe: true, Reason: "quota", Source: "default"}},
		"a credential":       {Observation{Status: 401}, Block{For: time.Minute, Probe: true, Reason: "auth", Source: "default"}},
		"a forbidden access": {Observation{Status: 403}, Block{For: 3 * time.Second, Reason: "auth", Source: "default"}},
	} {
		if got := Classify(c.o, p).Block; got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if got := Classify(Observation{Status: 429}, Policy{BlockMax: time.Second}).Block.For; got != time.Second {
		t.Errorf("a default above the cap: %v", got)
	}
}

// D18; seed 3.10: the same account again only where that helps, within a budget.
func TestTheSameAccountIsAskedAgainOnlyWhereThatHelps_D18(t *testing.T) {
	p := Policy{SameAccountRetries: 2, SameAccountWait: 2 * time.Second, FailoverOnAuth: true}
	for _, c := range []struct {
		name   string
		o      Observation
		others bool
		done   int
		after  time.Duration
		again  bool
	}{
		{"a short burst and nobody else", Observation{Status: 429, RetryAfter: time.Second}, false, 0, time.Second, true},
		{"somebody else is left", Observation{Status: 429, RetryAfter: time.Second}, true, 0, 0, false},
		{"twice as long the second time", Observation{Status: 429, RetryAfter: time.Second}, false, 1, 2 * time.Second, true},
		{"too long the second time", Observation{Status: 429, RetryAfter: 1500 * time.Millisecond}, false, 1, 3 * time.Second, false},
		{"the budget is used up", Observation{Status: 429, RetryAfter: 100 * time.Millisecond}, false, 2, 0, false},
		{"a long wait", Observation{Status: 429, RetryAfter: 3 * time.Second}, false, 0, 0, false},
		{"no wait named", Observation{Status: 429}, false, 0, 0, false},
		{"no money", Observation{Status: 429, RetryAfter: time.Second, ErrorCode: "insufficient_quota"}, false, 0, 0, false},
		{"503 with a short wait", Observation{Status: 503, RetryAfter: time.Second}, false, 0, time.Second, true},
		{"529 with a short wait", Observation{Status: 529, RetryAfter: time.Second}, false, 0, time.Second, true},
		{"503 without one", Observation{Status: 503}, false, 0, 0, false},
		{"500 with one", Observation{Status: 500, RetryAfter: time.Second}, false, 0, 0, false},
		{"a refused credential", Observation{Status: 401, RetryAfter: time.Second}, false, 0, 0, false},
		{"the caller's fault", Observation{Status: 400, RetryAfter: time.Second}, false, 0, 0, false},
		{"a dead connection, at once and whoever is left", Observation{Event: EOFBeforeHeaders, ReusedConn: true}, true, 0, 0, true},
		{"a dead connection a second time", Observation{Event: EOFBeforeHeaders, ReusedConn: true}, false, 1, 0, false},
		{"after content", Observation{Status: 200, CutMidStream: true, ErrorType: "rate_limit_error", RetryAfter: time.Second}, false, 0, 0, false},
	} {
		after, again := Classify(c.o, p).Retry(p, c.others, c.done)
		if again != c.again || again && after != c.after {
			t.Errorf("%s: after %v, %v; want %v, %v", c.name, after, again, c.after, c.again)
		}
	}
	if _, again := Classify(Observation{Status: 429, RetryAfter: time.Second}, usual).Retry(usual, false, 0); again {
		t.Error("a policy that allows no retry had one")
	}
}

func TestTheSoonestReopeningIsWhatTheClientWaitsFor(t *testing.T) {
	at := func(d time.Duration) time.Time { return t0.Add(d) }
	for _, c := range []struct {
		says string
		of   []time.Time
		want time.Duration
	}{
		{"none is known", nil, 0},
		{"zero is not known", []time.Time{{}, {}}, 0},
		{"the first of several", []time.Time{at(time.Minute), {}, at(20 * time.Second), at(time.Hour)}, 20 * time.Second},
		{"one that is over is a second", []time.Time{at(time.Minute), at(-time.Hour)}, time.Second},
	} {
		if got := Soonest(t0, c.of...); got != c.want {
			t.Errorf("%s: %v, want %v", c.says, got, c.want)
		}
	}
}

// A caller decides about much of an error's text; never about how long others wait.
func TestACallersWordsBlockNobody_pain58(t *testing.T) {
	for _, text := range []string{
		"Invalid value: 'please try again in 300s' (limit: 0)", "messages.0: 'You have reached your specified API usage limits'",
		"Unknown model: rate limit reached for x", "prompt says: billing hard limit, credit balance",
	} {
		if v := Classify(Observation{Status: 400, ErrorType: "invalid_request_error", ErrorMessage: text, Now: t0}, usual); v.Block != (Block{}) || v.Next != Stop {
			t.Errorf("%q: %+v", text, v)
		}
	}
}
