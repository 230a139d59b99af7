// Package request holds the facts of one request and their fold: what was asked, where it waited, what was tried and
// how it ended. One stream per request; versions count its facts.
package request

import (
	"time"

	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/pricing"
)

// Rejected: the request was refused before it was admitted. Nothing was sent; it ends the stream.
type Rejected struct {
	Stage      string      `json:"stage"` // auth, auth_filter, admission, candidate_selection
	Code       string      `json:"code"`  // INVALID_API_KEY, NO_AUTHORIZED_UPSTREAMS … (domain/failure)
	Status     int         `json:"status"`
	Reason     string      `json:"reason,omitempty"`
	Ask        Ask         `json:"ask"`
	Excluded   []Exclusion `json:"excluded,omitempty"`
	DurationUS int64       `json:"duration_us"`
}

// clientGone is the code of a client that went before its request had a plan.
const clientGone = "CLIENT_DISCONNECTED"

// Outcome is how the request ended: cancelled when it was the client that went.
func (r *Rejected) Outcome() Outcome {
	if r.Code == clientGone {
		return Cancelled
	}
	return RejectedOut
}

// Ask is what the client wanted and who it is, as far as it was known.
type Ask struct {
	Key        string `json:"key,omitempty"` // API key id
	User       string `json:"user,omitempty"`
	Group      string `json:"group,omitempty"`
	Method     string `json:"method,omitempty"`
	Path       string `json:"path,omitempty"`
	Dialect    string `json:"dialect,omitempty"`
	Capability string `json:"capability,omitempty"`
	Model      string `json:"model,omitempty"`
	Stream     bool   `json:"stream,omitempty"`
	Session    string `json:"session,omitempty"`
	Continues  string `json:"continuation,omitempty"`      // id of the response or conversation that it goes on from
	Client     string `json:"client,omitempty"`            // user agent, cut to 100 bytes
	Profile    string `json:"client_profile,omitempty"`    // the program when it was recognised: claude_code, codex …
	ClientID   string `json:"client_request_id,omitempty"` // x-client-request-id
	Address    string `json:"address,omitempty"`           // peer address without port
}

// Exclusion is a candidate that the plan left out, and why; with an account it is only that one of the upstream.
type Exclusion struct {
	Upstream string    `json:"upstream"`
	Reason   string    `json:"reason"`            // model_not_allowed, circuit_open, not_granted, no_account, excluded, concurrency_full …
	Account  string    `json:"account,omitempty"` // Reason is then disabled, expired, dead, blocked or excluded
	Until    time.Time `json:"until,omitzero"`    // of a block
}

// Candidate is one upstream of the plan, in order.
type Candidate struct {
	Upstream string `json:"upstream"`
	Tier     int    `json:"tier"`
	Why      string `json:"why,omitempty"` // weighted_selection, single_candidate_remaining, half_open_probe …
}

// Admitted: the request has a plan. Exactly one Settled will follow.
type Admitted struct {
	Ask
	InputEstimate int64       `json:"input_estimate,omitempty"` // tokens, from the size of the body
	Plan          []Candidate `json:"plan"`
	Excluded      []Exclusion `json:"excluded,omitempty"`
	Affinity      string      `json:"affinity,omitempty"` // what became of the session's binding; "" without one
	// PaidBy is whose money the request spends: balance, subscription/<id>; "" when its user is not limited by money of its own.
	// It stays the same to the end.
	PaidBy string `json:"paid_by,omitempty"`
}

// Queued: all candidates were full; the request waits.
type Queued struct {
	Upstreams []string  `json:"upstreams"` // where it waits at once; whichever frees first serves it
	Position  int       `json:"position"`  // in the queue of the first one, from 1
	Ticket    uint64    `json:"ticket"`    // rising with arrival at that queue
	Deadline  time.Time `json:"deadline"`
}

// Resumed: the wait ended with a slot.
type Resumed struct {
	Upstream string `json:"upstream"`
	WaitedUS int64  `json:"waited_us"`
}

// Dispatched: attempt N is about to leave for an upstream. "Sent" means from here on.
type Dispatched struct {
	N             int    `json:"n"` // from 1
	Upstream      string `json:"upstream"`
	Account       string `json:"account"`
	ResolvedModel string `json:"resolved_model,omitempty"` // by alias rules; used for logs and prices
	UpstreamModel string `json:"upstream_model,omitempty"` // what the body says when it was rewritten
	Why           string `json:"why,omitempty"`
	Probe         bool   `json:"probe,omitempty"` // half-open breaker
}

// Failed: attempt N came to nothing and another one may follow. It carries its own usage and costs.
type Failed struct {
	N              int            `json:"n"`
	Class          string         `json:"class"` // domain/failure
	UpstreamStatus int            `json:"upstream_status,omitempty"`
	UpstreamID     string         `json:"upstream_request_id,omitempty"`
	Evidence       string         `json:"evidence,omitempty"` // start of the error body or of the error's text, without secrets
	Next           string         `json:"next"`               // next_account, next_upstream, same_account, stop
	Counted        bool           `json:"counted,omitempty"`  // by the breaker
	Usage          pricing.Usage  `json:"usage,omitzero"`
	UsageSource    pricing.Source `json:"usage_source,omitempty"`
	Clamped        bool           `json:"usage_clamped,omitempty"` // as in Settled, like all that follows up to the costs
	ServiceTier    string         `json:"service_tier,omitempty"`
	PriceVersion   string         `json:"price_version,omitempty"`
	PriceOrigin    pricing.Origin `json:"price_origin,omitempty"`
	Inherited      bool           `json:"price_inherited,omitempty"`
	Multipliers    Multipliers    `json:"multipliers,omitzero"`
	UpstreamCost   money.Amount   `json:"upstream_cost,omitzero"`
	Cost           money.Amount   `json:"cost,omitzero"` // 0: the caller got nothing for it
	Unpriced       bool           `json:"unpriced,omitempty"`
	UnpricedReason string         `json:"unpriced_reason,omitempty"`
	TookUS         int64          `json:"took_us"`
	TTFTUS         int64          `json:"ttft_us,omitempty"`
}

// Progressed: usage so far of a long stream; recovery bills it when the node dies.
type Progressed struct {
	N           int            `json:"n"`
	Usage       pricing.Usage  `json:"usage"`
	UsageSource pricing.Source `json:"usage_source"`
	ServiceTier string         `json:"service_tier,omitempty"` // as far as it was reported
}

// Outcome is how a request ended.
type Outcome string

// The outcomes.
const (
	Completed     Outcome = "completed"
	FailedOutcome Outcome = "failed"
	RejectedOut   Outcome = "rejected"
	Cancelled     Outcome = "cancelled"
	Abandoned     Outcome = "abandoned" // the node died; settled by recovery
)

// Multipliers are those of a price that are not 1, as decimal texts. The zero value is a price as it stands in the list.
type Multipliers struct {
	Input  string `json:"input,omitempty"` // the upstream's
	Output string `json:"output,omitempty"`
	Group  string `json:"group,omitempty"`
	Key    string `json:"key,omitempty"`
}

// MultipliersOf leaves out what is 1.
func MultipliersOf(m pricing.Multipliers) Multipliers {
	of := Multipliers{Input: unlessOne(m.Input), Output: unlessOne(m.Output), Group: unlessOne(m.Group)}
	if m.Key != nil {
		of.Key = unlessOne(*m.Key)
	}
	return of
}

func unlessOne(m pricing.Multiplier) string {
	if m == pricing.One {
		return ""
	}
	return string(money.AppendDecimal(nil, int64(m), pricing.MultiplierPlaces))
}

// Settled: the one end of an admitted request. Usage and costs are those of the final attempt; the bill is their sum
// with those of the Failed ones.
type Settled struct {
	Outcome        Outcome        `json:"outcome"`
	Status         int            `json:"status"` // HTTP status that the client got (499 when it was gone)
	Code           string         `json:"code,omitempty"`
	Reason         string         `json:"reason,omitempty"`
	Stage          string         `json:"failure_stage,omitempty"`
	Class          string         `json:"class,omitempty"` // of the final attempt; "" when nothing was sent
	UpstreamStatus int            `json:"upstream_status,omitempty"`
	UpstreamID     string         `json:"upstream_request_id,omitempty"`
	Evidence       string         `json:"evidence,omitempty"` // of a failed final attempt, as in Failed
	Attempts       int            `json:"attempts"`           // dispatched ones
	Sent           bool           `json:"did_send_upstream"`
	Usage          pricing.Usage  `json:"usage,omitzero"`
	UsageSource    pricing.Source `json:"usage_source"`
	Clamped        bool           `json:"usage_clamped,omitempty"` // the upstream reported more than can be: Usage is what is left of it
	ServiceTier    string         `json:"service_tier,omitempty"`  // as reported
	ResponseID     string         `json:"response_id,omitempty"`   // of an answer that a later request can go on from
	PriceVersion   string         `json:"price_version,omitempty"`
	PriceOrigin    pricing.Origin `json:"price_origin,omitempty"`    // who set that price
	Inherited      bool           `json:"price_inherited,omitempty"` // no price for the reported service tier: the ordinary one counted
	Multipliers    Multipliers    `json:"multipliers,omitzero"`
	UpstreamCost   money.Amount   `json:"upstream_cost,omitzero"`
	Cost           money.Amount   `json:"cost,omitzero"`
	Free           bool           `json:"free,omitempty"` // the caller got nothing for the attempt and pays nothing
	Unpriced       bool           `json:"unpriced,omitempty"`
	UnpricedReason string         `json:"unpriced_reason,omitempty"` // price_not_found, calculation_error
	ClientGone     bool           `json:"client_gone,omitempty"`
	OnDisconnect   string         `json:"on_disconnect,omitempty"` // policy that was applied when the client had gone
	TTFTUS         int64          `json:"ttft_us,omitempty"`       // of the final attempt, to the first content
	AttemptUS      int64          `json:"attempt_us,omitempty"`    // of the final attempt
	QueueState     string         `json:"queue_state,omitempty"`   // how its last wait ended: resumed, timed_out, aborted, evicted; "": it never waited
	WaitedUS       int64          `json:"waited_us,omitempty"`
	DurationUS     int64          `json:"duration_us"`
}

// Repriced: after its end, the request costs something else by prices that were set since. A story tells what it costs now;
// the facts of its attempts stay as they are. A pass over the requests writes at most one of them per request; a run that was cut
// short, or that goes on with another scope, is several passes.
type Repriced struct {
	Reprice      string       `json:"reprice"` // id of the run
	Changes      []Repricing  `json:"changes"` // by attempt; never empty
	UpstreamCost money.Amount `json:"upstream_cost,omitzero"`
	Cost         money.Amount `json:"cost,omitzero"` // sums of the differences: what they are now, minus what they were
}

// Repricing is what one attempt costs now. That of a Settled is there, too, when all that had no price in its request has got one:
// the request was counted as unpriced where its end is told.
type Repricing struct {
	N        int       `json:"n"`        // its costs are those of Failed, else of Settled; 0: of a Settled behind the Failed of its last attempt
	Position int64     `json:"position"` // of the fact that told them first
	At       time.Time `json:"at"`       // when that was: bills are by day of use
	Was      Charge    `json:"was"`
	Is       Charge    `json:"is"`
}

// Charge is what an attempt is booked at.
type Charge struct {
	PriceVersion string         `json:"price_version,omitempty"`
	PriceOrigin  pricing.Origin `json:"price_origin,omitempty"`
	Inherited    bool           `json:"price_inherited,omitempty"`
	UpstreamCost money.Amount   `json:"upstream_cost,omitzero"`
	Cost         money.Amount   `json:"cost,omitzero"`
	Unpriced     bool           `json:"unpriced,omitempty"`
}
