package requestlog

import (
	"time"

	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/events"
)

// State says whether a request has ended.
type State string

// The states of an entry.
const (
	InProgress State = "in_progress"
	Done       State = "done"
)

// Entry is one request as the log shows it, from its admission (or rejection) on. Durations are whole milliseconds,
// null where nothing was measured; amounts are decimal strings in USD.
type Entry struct {
	RequestID         string    `json:"request_id"`
	ClientRequestID   string    `json:"client_request_id"`   // x-client-request-id, "" when the client sent none
	UpstreamRequestID string    `json:"upstream_request_id"` // of the last attempt that was told one
	At                time.Time `json:"at"`                  // of the first fact, UTC
	State             State     `json:"state"`

	Key           string `json:"key"`
	User          string `json:"user"`
	Group         string `json:"group"`
	Method        string `json:"method"`
	Path          string `json:"path"`
	Dialect       string `json:"dialect"`
	Capability    string `json:"capability"`
	Model         string `json:"model"`          // as the client asked for it
	ResolvedModel string `json:"resolved_model"` // by alias rules, of the last attempt
	UpstreamModel string `json:"upstream_model"` // "" when the body's model was not rewritten
	Stream        bool   `json:"stream"`
	Session       string `json:"session"`
	Client        string `json:"client"`         // user agent
	ClientProfile string `json:"client_profile"` // the program when it was recognised: claude_code, codex …

	Status       int    `json:"status"`  // what the client got; 0 while in progress
	Outcome      string `json:"outcome"` // completed, failed, rejected, cancelled, abandoned; "" while in progress
	Code         string `json:"code"`
	Reason       string `json:"reason"`
	FailureStage string `json:"failure_stage"`
	Sent         bool   `json:"did_send_upstream"`

	Upstream string      `json:"upstream"` // of the last attempt
	Account  string      `json:"account"`
	Attempts []Attempt   `json:"attempts"` // never null
	Queue    *Queue      `json:"queue"`    // null when the request did not wait
	Affinity string      `json:"affinity"` // of the session: affinity_hit, affinity_migrated, affinity_pinned, affinity_escaped_…, or ""
	Excluded []Exclusion `json:"excluded"` // never null

	Usage        pricing.Usage  `json:"usage"` // over all attempts
	UsageSource  pricing.Source `json:"usage_source"`
	Cost         money.Amount   `json:"cost"` // over all attempts
	UpstreamCost money.Amount   `json:"upstream_cost"`
	Unpriced     bool           `json:"unpriced"`      // an attempt was used and has no price
	PriceVersion string         `json:"price_version"` // this and the next five are those of the last attempt

	PriceOrigin    pricing.Origin `json:"price_origin"`    // who set the price: manual or synced; "" without one
	PriceInherited bool           `json:"price_inherited"` // no price for the service tier: the ordinary one counted
	ServiceTier    string         `json:"service_tier"`    // as the upstream reported it
	UsageClamped   bool           `json:"usage_clamped"`   // the upstream reported more than can be: usage is what is left of it
	UnpricedReason string         `json:"unpriced_reason"` // price_not_found, calculation_error

	TTFTMS     *int64 `json:"ttft_ms"`
	DurationMS *int64 `json:"duration_ms"` // null while in progress
	ClientGone bool   `json:"client_gone"`

	// Position is that of the request's first fact: with At the cursor of the page that follows this entry.
	Position events.Position `json:"-"`
}

// Attempt is one try. Class "" and Status 0 mean that it is still running.
type Attempt struct {
	N          int           `json:"n"`
	Upstream   string        `json:"upstream"`
	Account    string        `json:"account"`
	Status     int           `json:"status"` // of the upstream; 0 when it gave none
	Class      string        `json:"class"`
	StartedAt  time.Time     `json:"started_at"`
	DurationMS *int64        `json:"duration_ms"`
	TTFTMS     *int64        `json:"ttft_ms"`
	Usage      pricing.Usage `json:"usage"`
	Cost       money.Amount  `json:"cost"` // 0 of a failed one: the caller got nothing for it

	UpstreamCost   money.Amount   `json:"upstream_cost"`
	PriceVersion   string         `json:"price_version"`
	PriceOrigin    pricing.Origin `json:"price_origin"`
	PriceInherited bool           `json:"price_inherited"`
	ServiceTier    string         `json:"service_tier"`
	UsageClamped   bool           `json:"usage_clamped"`
	Unpriced       bool           `json:"unpriced"`
}

// Queue is the wait of a request.
type Queue struct {
	State    string `json:"state"`    // waiting, resumed, timed_out, aborted, evicted
	Upstream string `json:"upstream"` // that served it, before that the first one where it waits
	Position int    `json:"position"` // on arrival, from 1
	Ticket   uint64 `json:"ticket"`
	WaitedMS *int64 `json:"waited_ms"` // null while waiting
}

// Exclusion is an upstream that the plan left out, and why; with an account it is only that one.
type Exclusion struct {
	Upstream string     `json:"upstream"`
	Reason   string     `json:"reason"`
	Account  string     `json:"account,omitempty"`
	Until    *time.Time `json:"until,omitempty"` // of a block
}
