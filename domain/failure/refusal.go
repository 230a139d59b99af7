// Package failure says what failures mean: the one table of the gateway's own refusals, the classification of what an
// upstream did, and what the client sees when nothing succeeded. Native and translated paths use it alike.
package failure

import (
	"math"
	"time"
)

// The codes of refusals.
const (
	MissingAPIKey  = "MISSING_API_KEY"
	InvalidAPIKey  = "INVALID_API_KEY"  // also revoked
	APIKeyExpired  = "API_KEY_EXPIRED"  //
	APIKeyDisabled = "API_KEY_DISABLED" // its owner is disabled

	IPDenied              = "IP_DENIED"
	OutsideHours          = "OUTSIDE_HOURS"
	ClientNotAllowed      = "CLIENT_NOT_ALLOWED"
	TooManyIPs            = "TOO_MANY_IPS"
	AuthThrottled         = "AUTH_THROTTLED"
	ModelNotAllowedForKey = "API_KEY_MODEL_NOT_ALLOWED"
	RateLimited           = "API_KEY_RATE_LIMITED"
	CallerConcurrencyFull = "CALLER_CONCURRENCY_FULL"

	QuotaExceeded         = "API_KEY_QUOTA_EXCEEDED"
	BalanceExhausted      = "BALANCE_EXHAUSTED"
	SubscriptionExhausted = "SUBSCRIPTION_EXHAUSTED"
	BudgetExceeded        = "BUDGET_EXCEEDED"
	BudgetUnboundable     = "BUDGET_UNBOUNDABLE"

	BodyInvalid       = "REQUEST_BODY_INVALID"
	RequestTooLarge   = "REQUEST_TOO_LARGE"
	EndpointNotFound  = "ENDPOINT_NOT_FOUND"
	StoreOverloaded   = "STORE_OVERLOADED"
	StoreUnavailable  = "STORE_UNAVAILABLE"
	LocalFault        = "LOCAL_FAULT"
	Draining          = "DRAINING"
	QueueWaitTimeout  = "QUEUE_WAIT_TIMEOUT"
	ClientDisconnect  = "CLIENT_DISCONNECTED"
	UpstreamHTTPError = "UPSTREAM_HTTP_ERROR"
	UpstreamNetwork   = "UPSTREAM_NETWORK_ERROR"
	RequestTimeout    = "REQUEST_TIMEOUT"
	StreamError       = "STREAM_ERROR"
	OperatorCancelled = "CANCELLED_BY_OPERATOR"

	NoAuthorizedUpstreams   = "NO_AUTHORIZED_UPSTREAMS"
	NoAccountsInGroup       = "NO_ACCOUNTS_IN_GROUP"
	UnknownModel            = "UNKNOWN_MODEL"
	NoUpstreamsConfigured   = "NO_UPSTREAMS_CONFIGURED"
	AllUpstreamsUnavailable = "ALL_UPSTREAMS_UNAVAILABLE"
)

// Reasons of AllUpstreamsUnavailable.
const (
	NoHealthyCandidates    = "NO_HEALTHY_CANDIDATES"
	UpstreamCircuitOpen    = "UPSTREAM_CIRCUIT_OPEN"
	ModelNotAllowed        = "MODEL_NOT_ALLOWED"
	CapabilityNotSupported = "CAPABILITY_NOT_SUPPORTED" // no active upstream declares what the endpoint needs
	ConcurrencyFull        = "CONCURRENCY_FULL"
	QueueFull              = "QUEUE_FULL"
	ContinuationPinned     = "CONTINUATION_PINNED" // only one account can go on with the conversation, and it cannot serve
)

// ReservationExceeded is the reason of BudgetExceeded when an answer is cut at what was set aside for it.
const ReservationExceeded = "RESERVATION_EXCEEDED"

// Stages of a request at which it can end.
const (
	StageAuth       = "auth"
	StageAuthFilter = "auth_filter"
	StageAdmission  = "admission"
	StageSelection  = "candidate_selection"
	StageQueue      = "queue"
	StageRequest    = "upstream_request"
	StageResponse   = "upstream_response"
	StageStreaming  = "downstream_streaming"
)

// Types of a refusal, for the "type" of OpenAI's error shape.
const (
	TypeClient      = "client_error"
	TypeUnavailable = "service_unavailable"
	TypeTimeout     = "timeout"
	TypeRateLimited = "rate_limited"
	TypeBilling     = "billing_error"
	TypeStream      = "stream_error"
	TypeTooLarge    = "request_too_large"
)

// Wait says when a refusal names the time to come back.
type Wait uint8

// The rules of Retry-After.
const (
	Never      Wait = iota // there is no Retry-After
	WhenKnown              // when the deadline is known
	Always                 // always, at least one second
	OfUpstream             // what the upstream said
)

// Refusal is an answer of the gateway itself. New makes it; the zero value is no refusal.
type Refusal struct {
	Code    string
	Reason  string // finer than the code; "" when there is nothing to add
	Status  int
	Type    string
	Stage   string
	Message string // for the client, a sentence
	Hint    string // user_hint: what to do
	Wait    Wait
	// RetryAfter is the value of Retry-After; 0: no header. WithRetry sets it by the rule of Wait.
	RetryAfter time.Duration
	// NoRetry asks for "x-should-retry: false", so that clients do not repeat what cannot succeed: some do for minutes, even after a
	// 401.
	NoRetry bool
	// Plain asks for the body {"error": Message} in every dialect (A18).
	Plain bool
	// Until is when the cause is expected to end; zero when unknown.
	Until time.Time
}

// IsZero says that nothing is refused.
func (r Refusal) IsZero() bool { return r.Code == "" }

// Error makes a Refusal an error that says its code and reason.
func (r Refusal) Error() string {
	if r.Reason == "" {
		return r.Code
	}
	return r.Code + " (" + r.Reason + ")"
}

// WithRetry sets Retry-After, rounded up to whole seconds and at least one; d ≤ 0 is "not known". It has no effect on
// codes that never carry it.
func (r Refusal) WithRetry(d time.Duration) Refusal {
	if r.Wait == Never || d <= 0 {
		return r
	}
	r.RetryAfter = wholeSeconds(d)
	return r
}

// wholeSeconds rounds up; 0 for what is not positive.
func wholeSeconds(d time.Duration) time.Duration {
	return time.Duration(math.Ceil(max(d, 0).Seconds())) * time.Second
}

// WithUntil sets when the cause ends, and Retry-After from it.
func (r Refusal) WithUntil(until, now time.Time) Refusal {
	r.Until = until
	if until.IsZero() {
		return r
	}
	return r.WithRetry(max(until.Sub(now), time.Second))
}

// At sets the stage, for codes that can come at several.
func (r Refusal) At(stage string) Refusal {
	r.Stage = stage
	return r
}

// New is the refusal of a code with its reason. A code that is not in the table is a fault of ours: LOCAL_FAULT with
// the code as its reason.
func New(code, reason string) Refusal {
	r, known := table[code]
	if !known {
		r, code, reason = table[LocalFault], LocalFault, "unknown code "+code
	}
	r.Code, r.Reason = code, reason
	if r.Wait == Always {
		r.RetryAfter = time.Second
	}
	if m, ok := reasons[reason]; ok && code == AllUpstreamsUnavailable {
		r.Message, r.Hint = m[0], m[1]
	}
	return r
}

// Codes lists every code of the table.
func Codes() []string {
	list := make([]string, 0, len(table))
	for code := range table {
		list = append(list, code)
	}
	return list
}

const (
	askOperator = "Ask the operator of this gateway."
	tryLater    = "Try again later."
)

// table is the one source of statuses, types, stages and texts.
var table = map[string]Refusal{
	MissingAPIKey:  {Status: 401, Type: TypeClient, Stage: StageAuth, NoRetry: true, Plain: true, Message: "Missing API key", Hint: "Send the key as Authorization: Bearer, x-api-key or x-goog-api-key."},
	InvalidAPIKey:  {Status: 401, Type: TypeClient, Stage: StageAuth, NoRetry: true, Plain: true, Message: "Invalid API key", Hint: "Check the key, or ask for a new one."},
	APIKeyExpired:  {Status: 401, Type: TypeClient, Stage: StageAuth, NoRetry: true, Plain: true, Message: "API key has expired", Hint: "Ask for a new key."},
	APIKeyDisabled: {Status: 401, Type: TypeClient, Stage: StageAuth, NoRetry: true, Plain: true, Message: "API key is disabled", Hint: askOperator},

	IPDenied:              {Status: 403, Type: TypeClient, Stage: StageAuthFilter, NoRetry: true, Message: "This address may not use the API key.", Hint: askOperator},
	OutsideHours:          {Status: 403, Type: TypeClient, Stage: StageAuthFilter, NoRetry: true, Message: "The API key may not be used at this hour.", Hint: "Try again within the permitted hours."},
	ClientNotAllowed:      {Status: 403, Type: TypeClient, Stage: StageAuthFilter, NoRetry: true, Message: "This client program may not use the API key.", Hint: askOperator},
	TooManyIPs:            {Status: 401, Type: TypeClient, Stage: StageAuthFilter, NoRetry: true, Message: "The API key is in use from too many addresses.", Hint: askOperator},
	AuthThrottled:         {Status: 429, Type: TypeRateLimited, Stage: StageAuthFilter, Wait: Always, Message: "Too many failed authentications from this address.", Hint: "Check the key and wait."},
	ModelNotAllowedForKey: {Status: 403, Type: TypeClient, Stage: StageAuthFilter, NoRetry: true, Message: "The API key may not use this model.", Hint: "Choose a model that the key allows."},
	RateLimited:           {Status: 429, Type: TypeRateLimited, Stage: StageAuthFilter, Wait: Always, Message: "The rate limit of the API key is reached.", Hint: "Slow down and try again after Retry-After."},
	CallerConcurrencyFull: {Status: 429, Type: TypeRateLimited, Stage: StageAuthFilter, Wait: Always, Message: "Too many requests of this caller are running.", Hint: "Wait until one of them has ended."},
	QuotaExceeded:         {Status: 429, Type: TypeBilling, Stage: StageAuthFilter, Wait: WhenKnown, NoRetry: true, Message: "The spending limit of the API key is reached.", Hint: askOperator},
	BalanceExhausted:      {Status: 429, Type: TypeBilling, Stage: StageAuthFilter, Wait: WhenKnown, NoRetry: true, Message: "The balance is used up.", Hint: "Add credit."},
	SubscriptionExhausted: {Status: 429, Type: TypeBilling, Stage: StageAuthFilter, Wait: WhenKnown, NoRetry: true, Message: "The subscription is used up.", Hint: "Wait for the next period, or extend the subscription."},
	BudgetExceeded:        {Status: 429, Type: TypeBilling, Stage: StageAuthFilter, Wait: WhenKnown, NoRetry: true, Message: "The budget is used up.", Hint: askOperator},

	BudgetUnboundable: {Status: 400, Type: TypeClient, Stage: StageAdmission, NoRetry: true, Message: "The cost of this request cannot be bounded, and the budget is strict.", Hint: "Set a maximum of output tokens and use a priced model."},
	BodyInvalid:       {Status: 400, Type: TypeClient, Stage: StageAdmission, NoRetry: true, Message: "The request body is not valid.", Hint: "Correct the field that the reason names."},
	RequestTooLarge:   {Status: 413, Type: TypeTooLarge, Stage: StageAdmission, NoRetry: true, Message: "The request body is too large.", Hint: "Send less."},
	EndpointNotFound:  {Status: 404, Type: TypeClient, Stage: StageAdmission, NoRetry: true, Message: "There is no such endpoint.", Hint: "Check method and path."},
	StoreOverloaded:   {Status: 503, Type: TypeUnavailable, Stage: StageAdmission, Wait: Always, Message: "The gateway has more to record than it can.", Hint: tryLater},
	StoreUnavailable:  {Status: 503, Type: TypeUnavailable, Stage: StageAdmission, Wait: Always, Message: "The gateway's store is not available.", Hint: tryLater},
	LocalFault:        {Status: 503, Type: TypeUnavailable, Stage: StageAdmission, Wait: Always, Message: "The gateway failed.", Hint: "Try again; if it stays, tell the operator the request id."},
	Draining:          {Status: 503, Type: TypeUnavailable, Stage: StageAdmission, Wait: Always, Message: "The gateway is shutting down.", Hint: "Try again; another instance will answer."},

	NoAuthorizedUpstreams:   {Status: 403, Type: TypeClient, Stage: StageSelection, NoRetry: true, Message: "The API key may not use any upstream that serves this request.", Hint: askOperator},
	NoAccountsInGroup:       {Status: 503, Type: TypeUnavailable, Stage: StageSelection, Message: "The group of the API key has no account.", Hint: askOperator},
	UnknownModel:            {Status: 404, Type: TypeClient, Stage: StageSelection, NoRetry: true, Message: "There is no such model.", Hint: "Choose one of the list of models."},
	NoUpstreamsConfigured:   {Status: 503, Type: TypeUnavailable, Stage: StageSelection, Wait: WhenKnown, Message: "No upstream is configured.", Hint: askOperator},
	AllUpstreamsUnavailable: {Status: 503, Type: TypeUnavailable, Stage: StageSelection, Wait: WhenKnown, Message: "No upstream is available.", Hint: tryLater},

	QueueWaitTimeout: {Status: 504, Type: TypeTimeout, Stage: StageQueue, Message: "No upstream became free in time.", Hint: tryLater},
	ClientDisconnect: {Status: 499, Type: TypeClient, Stage: StageRequest, Message: "The client has gone."},

	OperatorCancelled: {Status: 503, Type: TypeUnavailable, Stage: StageResponse, Message: "The operator of the gateway has cancelled this request.", Hint: tryLater},

	UpstreamHTTPError: {Status: 503, Type: TypeUnavailable, Stage: StageResponse, Wait: OfUpstream, Message: "Every upstream that was tried answered with an error.", Hint: tryLater},
	UpstreamNetwork:   {Status: 503, Type: TypeUnavailable, Stage: StageRequest, Wait: OfUpstream, Message: "No upstream that was tried could be reached.", Hint: tryLater},
	RequestTimeout:    {Status: 504, Type: TypeTimeout, Stage: StageResponse, Wait: OfUpstream, Message: "The upstream did not answer in time.", Hint: tryLater},
	StreamError:       {Status: 502, Type: TypeStream, Stage: StageStreaming, Message: "The upstream broke off its answer.", Hint: "Send the request again."},
}

// reasons are message and hint of AllUpstreamsUnavailable where there is more to say than that.
var reasons = map[string][2]string{
	NoHealthyCandidates:    {"No upstream is available for this request now.", tryLater},
	UpstreamCircuitOpen:    {"Every upstream for this request is out of service after failures.", "Try again after Retry-After."},
	ModelNotAllowed:        {"No upstream takes this model.", "Check the name of the model."},
	CapabilityNotSupported: {"No upstream serves this endpoint.", askOperator},
	ConcurrencyFull:        {"Every upstream for this request is full.", tryLater},
	QueueFull:              {"Every upstream for this request is full, and so are their queues.", tryLater},
	ContinuationPinned: {"The account that has this conversation cannot serve it now.",
		"Try again later, or begin a new conversation without the earlier response and its encrypted items."},
}
