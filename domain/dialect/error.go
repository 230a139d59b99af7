package dialect

import (
	"strconv"
	"time"
)

// Error is a refusal or failure of ours, to be written in a client's dialect.
type Error struct {
	Status          int    // HTTP status
	Code            string // ours, such as QUEUE_WAIT_TIMEOUT
	Type            string // OpenAI's error.type; "" takes the one that belongs to the status
	Message         string // for people
	Reason          string // ours, finer than Code
	RequestID       string
	UserHint        string    // what the caller can do
	DidSendUpstream bool      // whether request bytes left for an upstream
	Reopens         time.Time // when the same request would be admitted, to the millisecond; zero is unknown
	RetryAfter      int       // seconds; 0 is unknown. Gemini clients read it from the body, all others from the header

	// For errors inside a Responses stream, whose events carry these.
	Sequence   int64  // sequence number of the error event: Meter.Events
	ResponseID string // Meter.ID
	Model      string // Meter.Model
}

// kinds is what a status is called in each dialect (wire.md 3.7).
var kinds = [...]struct {
	status                    int
	openAI, anthropic, google string
}{
	{400, "invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT"},
	{401, "invalid_request_error", "authentication_error", "UNAUTHENTICATED"},
	{402, "insufficient_quota", "billing_error", "RESOURCE_EXHAUSTED"},
	{403, "permission_error", "permission_error", "PERMISSION_DENIED"},
	{404, "invalid_request_error", "not_found_error", "NOT_FOUND"},
	{408, "server_error", "timeout_error", "DEADLINE_EXCEEDED"},
	{409, "invalid_request_error", "conflict_error", "ABORTED"},
	{413, "invalid_request_error", "request_too_large", "INVALID_ARGUMENT"},
	{429, "requests", "rate_limit_error", "RESOURCE_EXHAUSTED"},
	{499, "invalid_request_error", "invalid_request_error", "CANCELLED"},
	{500, "server_error", "api_error", "INTERNAL"},
	{501, "server_error", "not_supported", "UNIMPLEMENTED"},
	{502, "server_error", "api_error", "INTERNAL"},
	{503, "server_error", "overloaded_error", "UNAVAILABLE"},
	{504, "server_error", "timeout_error", "DEADLINE_EXCEEDED"},
	{529, "server_error", "overloaded_error", "UNAVAILABLE"},
}

// kind is the error's name in a dialect. Spent budgets are a billing error to Anthropic clients, whatever the status:
// they then show the message instead of trying again.
func (e *Error) kind(d Dialect) string {
	if d == AnthropicMessages {
		switch e.Code {
		case "API_KEY_QUOTA_EXCEEDED", "BALANCE_EXHAUSTED", "SUBSCRIPTION_EXHAUSTED", "BUDGET_EXCEEDED":
			return "billing_error"
		}
	}
	if d.openAI() && e.Type != "" {
		return e.Type
	}
	row := kinds[0]
	if e.Status >= 500 || e.Status < 400 {
		row.openAI, row.anthropic, row.google = "server_error", "api_error", "INTERNAL"
	}
	for _, k := range kinds {
		if k.status == e.Status {
			row = k
		}
	}
	switch d {
	case AnthropicMessages:
		return row.anthropic
	case Gemini:
		return row.google
	}
	return row.openAI
}

// ClientStatus is the status that a client of that dialect knows for an upstream's status: 529 is Anthropic's
// "overloaded", 503 everyone else's. Our own refusals keep their status.
func ClientStatus(d Dialect, status int) int {
	switch {
	case d == AnthropicMessages && status == 503:
		return 529
	case d != AnthropicMessages && status == 529:
		return 503
	}
	return status
}

// AppendError appends a whole error body in the client's dialect; None has OpenAI's shape.
func AppendError(dst []byte, d Dialect, e Error) []byte {
	switch d {
	case AnthropicMessages:
		return e.appendAnthropic(dst)
	case Gemini:
		return e.appendGemini(dst)
	}
	dst = append(dst, `{"error":`...)
	dst = e.appendObject(dst, d)
	return append(dst, '}')
}

// AppendStreamError appends an error to a stream that has begun, in its dialect and format. It never appends the end
// mark of a complete answer (pain 56). The stream must be at an event boundary.
func AppendStreamError(dst []byte, d Dialect, f Format, e Error) []byte {
	switch {
	case f == JSONArray:
		dst = append(dst, ',')
		dst = AppendError(dst, d, e)
		return append(dst, ']')
	case d == AnthropicMessages:
		dst = append(dst, "event: error\ndata: "...)
	case d == OpenAIResponses:
		return e.appendResponses(dst)
	default:
		dst = append(dst, "data: "...)
	}
	dst = AppendError(dst, d, e)
	return append(dst, "\n\n"...)
}

// appendObject appends the error object of OpenAI and Anthropic.
func (e *Error) appendObject(dst []byte, d Dialect) []byte {
	dst = append(dst, `{"type":`...)
	dst = appendString(dst, e.kind(d))
	if e.Code != "" {
		dst = appendMember(dst, "code", e.Code)
	}
	dst = appendMember(dst, "message", e.Message)
	dst = e.appendShared(dst)
	return append(dst, '}')
}

// appendShared appends the members that every dialect carries (A46), each with a comma before it.
func (e *Error) appendShared(dst []byte) []byte {
	if e.Reason != "" {
		dst = appendMember(dst, "reason", e.Reason)
	}
	dst = append(dst, `,"did_send_upstream":`...)
	dst = strconv.AppendBool(dst, e.DidSendUpstream)
	if e.RequestID != "" {
		dst = appendMember(dst, "request_id", e.RequestID)
	}
	if e.UserHint != "" {
		dst = appendMember(dst, "user_hint", e.UserHint)
	}
	if !e.Reopens.IsZero() {
		dst = appendMember(dst, "reopens_at", e.Reopens.UTC().Add(time.Millisecond-1).Format("2006-01-02T15:04:05.000Z"))
	}
	return dst
}

// appendMember appends a member and the comma before it.
func appendMember(dst []byte, name, value string) []byte {
	dst = append(dst, `,"`...)
	dst = append(dst, name...)
	dst = append(dst, `":`...)
	return appendString(dst, value)
}

func (e *Error) appendAnthropic(dst []byte) []byte {
	dst = append(dst, `{"type":"error","error":`...)
	dst = e.appendObject(dst, AnthropicMessages)
	if e.RequestID != "" {
		dst = appendMember(dst, "request_id", e.RequestID)
	}
	return append(dst, '}')
}

func (e *Error) appendGemini(dst []byte) []byte {
	dst = append(dst, `{"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(e.Status), 10)
	dst = appendMember(dst, "status", e.kind(Gemini))
	dst = appendMember(dst, "message", e.Message)
	dst = append(dst, `,"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo"`...)
	dst = appendMember(dst, "domain", "penstock")
	if e.Code != "" {
		dst = appendMember(dst, "code", e.Code)
	}
	dst = e.appendShared(dst)
	dst = append(dst, '}')
	if e.RetryAfter > 0 {
		dst = append(dst, `,{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"`...)
		dst = strconv.AppendInt(dst, int64(e.RetryAfter), 10)
		dst = append(dst, `s"}`...)
	}
	return append(dst, `]}}`...)
}

// appendResponses appends the two events in which OpenAI ends a failed response: some clients read the first, some
// the second.
func (e *Error) appendResponses(dst []byte) []byte {
	dst = append(dst, "event: error\ndata: {\"type\":\"error\",\"sequence_number\":"...)
	dst = strconv.AppendInt(dst, e.Sequence, 10)
	dst = append(dst, `,"error":`...)
	dst = e.appendObject(dst, OpenAIResponses)
	dst = append(dst, "}\n\nevent: response.failed\ndata: {\"type\":\"response.failed\",\"sequence_number\":"...)
	dst = strconv.AppendInt(dst, e.Sequence+1, 10)
	dst = append(dst, `,"response":{"id":`...)
	dst = appendString(dst, e.ResponseID)
	dst = append(dst, `,"object":"response","created_at":0,"status":"failed","error":{"code":`...)
	dst = appendString(dst, e.Code)
	dst = appendMember(dst, "message", e.Message)
	dst = append(dst, `},"incomplete_details":null,"instructions":null,"metadata":{},"model":`...)
	dst = appendString(dst, e.Model)
	return append(dst, ",\"output\":[],\"parallel_tool_calls\":true,\"temperature\":null,\"tool_choice\":\"auto\",\"tools\":[],\"top_p\":null,\"usage\":null}}\n\n"...)
}
