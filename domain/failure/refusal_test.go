package failure

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/catalog"
)

func itoa(n int) string { return strconv.Itoa(n) }

// The table as the manual prints it. A33-A36, A49-A55, C59-C62, D44-D47, D52.
func TestTheTableOfRefusals(t *testing.T) {
	type row struct {
		status int
		typ    string
		stage  string
		wait   Wait
		after  time.Duration // without anything known
	}
	want := map[string]row{
		"MISSING_API_KEY":           {401, "client_error", "auth", Never, 0}, // A14
		"INVALID_API_KEY":           {401, "client_error", "auth", Never, 0}, // A15
		"API_KEY_EXPIRED":           {401, "client_error", "auth", Never, 0}, // A16
		"API_KEY_DISABLED":          {401, "client_error", "auth", Never, 0}, // A17
		"IP_DENIED":                 {403, "client_error", "auth_filter", Never, 0},
		"OUTSIDE_HOURS":             {403, "client_error", "auth_filter", Never, 0},
		"CLIENT_NOT_ALLOWED":        {403, "client_error", "auth_filter", Never, 0},
		"TOO_MANY_IPS":              {401, "client_error", "auth_filter", Never, 0}, // D52
		"AUTH_THROTTLED":            {429, "rate_limited", "auth_filter", Always, time.Second},
		"API_KEY_MODEL_NOT_ALLOWED": {403, "client_error", "auth_filter", Never, 0},            // A35
		"API_KEY_RATE_LIMITED":      {429, "rate_limited", "auth_filter", Always, time.Second}, // A33
		"CALLER_CONCURRENCY_FULL":   {429, "rate_limited", "auth_filter", Always, time.Second},
		"API_KEY_QUOTA_EXCEEDED":    {429, "billing_error", "auth_filter", WhenKnown, 0}, // A34
		"BALANCE_EXHAUSTED":         {429, "billing_error", "auth_filter", WhenKnown, 0},
		"SUBSCRIPTION_EXHAUSTED":    {429, "billing_error", "auth_filter", WhenKnown, 0},
		"BUDGET_EXCEEDED":           {429, "billing_error", "auth_filter", WhenKnown, 0},
		"BUDGET_UNBOUNDABLE":        {400, "client_error", "admission", Never, 0},
		"REQUEST_BODY_INVALID":      {400, "client_error", "admission", Never, 0},
		"REQUEST_TOO_LARGE":         {413, "request_too_large", "admission", Never, 0},
		"ENDPOINT_NOT_FOUND":        {404, "client_error", "admission", Never, 0},
		"STORE_OVERLOADED":          {503, "service_unavailable", "admission", Always, time.Second},
		"STORE_UNAVAILABLE":         {503, "service_unavailable", "admission", Always, time.Second},
		"LOCAL_FAULT":               {503, "service_unavailable", "admission", Always, time.Second}, // A55
		"DRAINING":                  {503, "service_unavailable", "admission", Always, time.Second},
		"NO_AUTHORIZED_UPSTREAMS":   {403, "client_error", "candidate_selection", Never, 0},        // A50, C59
		"NO_ACCOUNTS_IN_GROUP":      {503, "service_unavailable", "candidate_selection", Never, 0}, // D46
		"UNKNOWN_MODEL":             {404, "client_error", "candidate_selection", Never, 0},
		"NO_UPSTREAMS_CONFIGURED":   {503, "service_unavailable", "candidate_selection", WhenKnown, 0},
		"ALL_UPSTREAMS_UNAVAILABLE": {503, "service_unavailable", "candidate_selection", WhenKnown, 0}, // A49, A51, A53, C60, C61
		"QUEUE_WAIT_TIMEOUT":        {504, "timeout", "queue", Never, 0},                               // A52, C62
		"CLIENT_DISCONNECTED":       {499, "client_error", "upstream_request", Never, 0},               // A54
		"UPSTREAM_HTTP_ERROR":       {503, "service_unavailable", "upstream_response", OfUpstream, 0},
		"UPSTREAM_NETWORK_ERROR":    {503, "service_unavailable", "upstream_request", OfUpstream, 0},
		"REQUEST_TIMEOUT":           {504, "timeout", "upstream_response", OfUpstream, 0},
		"STREAM_ERROR":              {502, "stream_error", "downstream_streaming", Never, 0},
		"CANCELLED_BY_OPERATOR":     {503, "service_unavailable", "upstream_response", Never, 0},
	}
	for _, code := range Codes() {
		r := New(code, "why")
		w, known := want[code]
		if got := (row{r.Status, r.Type, r.Stage, r.Wait, r.RetryAfter}); !known || got != w || r.Code != code || r.Reason != "why" {
			t.Errorf("%s: %+v, want %+v", code, got, w)
		}
		if r.Message == "" || r.Hint == "" && code != ClientDisconnect {
			t.Errorf("%s has no message or no hint", code)
		}
		if billing := r.Type == TypeBilling; billing && !r.NoRetry || r.Status == 503 && r.NoRetry {
			t.Errorf("%s: x-should-retry", code)
		}
		if r.Plain != (r.Stage == StageAuth) {
			t.Errorf("%s: plain is %v", code, r.Plain)
		}
		delete(want, code)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

func TestEarlyAuthenticationErrorsKeepTheirText_A14_A18(t *testing.T) {
	for code, text := range map[string]string{MissingAPIKey: "Missing API key", InvalidAPIKey: "Invalid API key", APIKeyExpired: "API key has expired", APIKeyDisabled: "API key is disabled"} {
		if r := New(code, ""); r.Message != text || !r.Plain || r.Status != 401 {
			t.Errorf("%s: %+v", code, r)
		}
	}
	for _, d := range []catalog.Denial{catalog.InvalidKey, catalog.ExpiredKey, catalog.DisabledKey} {
		if !slices.Contains(Codes(), string(d)) {
			t.Errorf("%s of the catalogue is not in the table", d)
		}
	}
}

func TestReasonsOfUnavailabilityHaveTheirOwnText(t *testing.T) {
	seen := map[string]bool{}
	for _, reason := range []string{NoHealthyCandidates, UpstreamCircuitOpen, ModelNotAllowed, CapabilityNotSupported, ConcurrencyFull, QueueFull} {
		r := New(AllUpstreamsUnavailable, reason)
		if seen[r.Message] || r.Status != 503 || r.Error() != "ALL_UPSTREAMS_UNAVAILABLE ("+reason+")" {
			t.Errorf("%s: %+v", reason, r)
		}
		seen[r.Message] = true
	}
}

func TestRetryAfterIsWholeSecondsAndOnlyWhereItBelongs(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		got  Refusal
		want time.Duration
	}{
		"rounded up":             {New(RateLimited, "").WithRetry(1100 * time.Millisecond), 2 * time.Second},
		"at least one":           {New(RateLimited, "").WithRetry(time.Millisecond), time.Second},
		"not known":              {New(BudgetExceeded, "").WithRetry(0), 0},
		"known":                  {New(BudgetExceeded, "").WithRetry(time.Hour), time.Hour},
		"never":                  {New(IPDenied, "").WithRetry(time.Hour), 0},
		"until":                  {New(AllUpstreamsUnavailable, UpstreamCircuitOpen).WithUntil(now.Add(90*time.Second), now), 90 * time.Second},
		"until has passed":       {New(AllUpstreamsUnavailable, UpstreamCircuitOpen).WithUntil(now.Add(-time.Hour), now), time.Second},
		"until is not known":     {New(AllUpstreamsUnavailable, UpstreamCircuitOpen).WithUntil(time.Time{}, now), 0},
		"always has its default": {New(Draining, ""), time.Second},
	} {
		if c.got.RetryAfter != c.want {
			t.Errorf("%s: %v, want %v", name, c.got.RetryAfter, c.want)
		}
	}
}

func TestAnUnknownCodeIsAFaultOfOurs(t *testing.T) {
	r := New("OOPS", "x")
	if r.Code != LocalFault || r.Status != 503 || !strings.Contains(r.Reason, "OOPS") {
		t.Errorf("%+v", r)
	}
	var as Refusal
	if !errors.As(error(New(Draining, "").At(StageQueue)), &as) || as.Stage != StageQueue || as.Error() != "DRAINING" {
		t.Errorf("%+v", as)
	}
	if !(Refusal{}).IsZero() || as.IsZero() {
		t.Error("zero value")
	}
}
