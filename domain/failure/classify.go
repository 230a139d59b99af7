package failure

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/domain/catalog"
)

// Observation is what an attempt saw. The zero value is an answer without a status: a fault of ours.
type Observation struct {
	Event        Event
	Status       int    // of the upstream; 0 without an answer
	ErrorType    string // error.type of the body, as the dialect reads it
	ErrorCode    string // error.code
	ErrorMessage string // error.message
	RetryAfter   time.Duration

	BodyEmpty                 bool // a success that must have a body has none
	StreamClosedBeforeContent bool
	StreamFailedBeforeContent bool // an error event came first; ErrorType … describe it
	InvalidAnswer             bool // a success that the dialect cannot read
	HTML                      bool // the body is a web page: an edge or a proxy speaks, not the provider
	CutMidStream              bool // content had been sent to the client
	ReusedConn                bool // the connection was reused and gave not one byte of an answer

	Body   []byte                   // start of the body, for rules
	Header func(name string) string // response headers, for rules; nil: none
}

// Policy is what the operator decided. The zero value has no rules, no failover on 400 and stops on 401 and 403.
type Policy struct {
	FailoverOn400      bool
	FailoverOn400Match *regexp.Regexp // nil matches every message
	FailoverOnAuth     bool
	Rules              []*catalog.CompiledRule // in order; the first match holds
}

// PolicyOf is the policy of the settings with the rules of an upstream.
func PolicyOf(s *catalog.Settings, rules []*catalog.CompiledRule) Policy {
	return Policy{s.FailoverOn400, s.FailoverOn400Match, s.FailoverOnAuth, rules}
}

// Block takes the account out of use. For 0 is no block.
type Block struct {
	For    time.Duration
	Reason string // http_429, auth, quota, rule
	Source string // retry-after, default, rule <id>
}

// Verdict is what an observation means.
type Verdict struct {
	Class        Class
	Next         Next
	Counts       bool // for the upstream's breaker
	Block        Block
	ClientStatus int    // what the client gets if this is the end; for a passed answer the upstream's own
	ClientCode   string // code of our own refusal; "" passes the upstream's answer unchanged
	Rule         string // id of the operator's rule that changed the verdict
}

// Lengths of blocks.
const (
	blockDefault = 30 * time.Second // 429 without Retry-After, and a forbidden account
	BlockMax     = 5 * time.Minute  // nobody's hint blocks longer; then the account is tried again
)

// Classify says what an attempt's end means. It is the same on every path.
func Classify(o Observation, p Policy) Verdict {
	v := meaning(o, p)
	if v.Class == OK || v.Class == Cancelled || v.Class == Local {
		return v
	}
	v = applyRules(o, p, v)
	if o.CutMidStream && v.Next != Stop { // bytes are out: nobody else may continue them (A65, A73)
		v.Next = Stop
	}
	return v
}

// events are the verdicts that need no status.
var events = map[Event]Verdict{
	ConnectFailed:    {Class: Network, Next: NextUpstream, Counts: true, ClientStatus: 503, ClientCode: UpstreamNetwork},
	ConnectTimedOut:  {Class: ConnectTimeout, Next: NextUpstream, Counts: true, ClientStatus: 503, ClientCode: UpstreamNetwork},
	WriteFailed:      {Class: Network, Next: NextUpstream, Counts: true, ClientStatus: 503, ClientCode: UpstreamNetwork},
	FirstByteTimeOut: {Class: FirstByteTimeout, Next: NextUpstream, Counts: true, ClientStatus: 504, ClientCode: RequestTimeout},
	IdleTimeOut:      {Class: IdleTimeout, Next: NextUpstream, Counts: true, ClientStatus: 504, ClientCode: RequestTimeout},
	Reset:            {Class: Network, Next: NextUpstream, Counts: true, ClientStatus: 503, ClientCode: UpstreamNetwork},
	EOFBeforeHeaders: {Class: Network, Next: NextUpstream, Counts: true, ClientStatus: 503, ClientCode: UpstreamNetwork},
	ClientGone:       {Class: Cancelled, Next: Stop, ClientStatus: 499, ClientCode: ClientDisconnect},
	LocalError:       {Class: Local, Next: Stop, ClientStatus: 503, ClientCode: LocalFault},
}

func meaning(o Observation, p Policy) Verdict {
	v, isEvent := events[o.Event]
	switch {
	case o.Event == ClientGone || o.Event == LocalError:
		return v
	case o.CutMidStream:
		return cut(o)
	case isEvent:
		if stale := o.Event == WriteFailed || o.Event == Reset || o.Event == EOFBeforeHeaders; stale && o.ReusedConn {
			v.Next, v.Counts = SameAccount, false // the pool's connection was dead; the upstream has seen nothing
		}
		return v
	case o.StreamFailedBeforeContent:
		return inWords(o, p, Verdict{Class: HTTP5xx, Next: NextUpstream, Counts: true, ClientStatus: 503, ClientCode: UpstreamHTTPError})
	case o.Status >= 200 && o.Status < 300:
		return success(o)
	case o.Status == 0:
		return events[LocalError]
	}
	return inWords(o, p, byStatus(o.Status))
}

// cut is an answer that broke off after content. What an error event said still tells whose fault it was.
func cut(o Observation) Verdict {
	v := Verdict{Class: StreamCut, Next: Stop, Counts: true, ClientStatus: 502, ClientCode: StreamError}
	if o.Event == IdleTimeOut {
		v.Class, v.ClientStatus, v.ClientCode = IdleTimeout, 504, RequestTimeout
	}
	switch {
	case named(o, callerTypes) || o.ErrorType == invalidRequest:
		v.Class, v.Counts = CallerFault, false // said late, but still about the request
	case named(o, quotaTypes):
		v.Class, v.Counts, v.Block = Quota, false, blockFor(o, BlockMax, "quota")
	case named(o, rateTypes):
		v.Class, v.Counts, v.Block = HTTP429, false, blockFor(o, blockDefault, "http_429")
	}
	return v
}

func success(o Observation) Verdict {
	v := Verdict{Next: NextUpstream, Counts: true, ClientStatus: 503, ClientCode: UpstreamHTTPError}
	switch {
	case o.StreamClosedBeforeContent:
		v.Class = NoContentStream
	case o.BodyEmpty:
		v.Class = EmptyResponse
	case o.InvalidAnswer || o.HTML:
		v.Class = InvalidAnswer
	default:
		return Verdict{Class: OK, Next: Stop, ClientStatus: o.Status}
	}
	return v
}

// byStatus is the meaning of a bare status.
func byStatus(status int) Verdict {
	failed := Verdict{Next: NextUpstream, Counts: true, ClientStatus: 503, ClientCode: UpstreamHTTPError}
	switch {
	case status == 529:
		failed.Class = Overloaded
	case status >= 500:
		failed.Class = HTTP5xx
	case status == 429:
		failed.Class, failed.Next, failed.Counts = HTTP429, NextAccount, false
	case status == 401 || status == 403:
		failed.Class, failed.Next, failed.Counts = Auth, NextAccount, false
	case status == 402:
		failed.Class, failed.Next, failed.Counts = Quota, NextAccount, false
	case status == 408:
		failed.Class, failed.Counts = HTTP4xx, false // the upstream gave up waiting for us; another may not
	case status == 400 || status == 413 || status == 422:
		return Verdict{Class: CallerFault, Next: Stop, ClientStatus: status}
	case status >= 400:
		return Verdict{Class: HTTP4xx, Next: Stop, ClientStatus: status}
	default: // a redirect, or what is no answer to a request of ours
		failed.Class = InvalidAnswer
	}
	return failed
}

// inWords corrects a verdict by what the error says, then adds blocks and the operator's switches.
func inWords(o Observation, p Policy, v Verdict) Verdict {
	pass := Verdict{Class: CallerFault, Next: Stop, ClientStatus: o.Status}
	failed := Verdict{Next: NextUpstream, Counts: true, ClientStatus: 503, ClientCode: UpstreamHTTPError}
	if o.StreamFailedBeforeContent {
		pass.ClientStatus = 400 // the upstream's own status was a success
	}
	switch {
	case o.HTML && v.Class == Auth: // an edge refuses us; the credential may be good
		return Verdict{Class: HTTP4xx, Next: NextUpstream, ClientStatus: 503, ClientCode: UpstreamHTTPError}
	case v.Class != HTTP429 && v.Class != Quota && (named(o, callerTypes) || says(o, callerWords)):
		return pass
	case v.Class == Overloaded || named(o, overloadedTypes):
		failed.Class = Overloaded
		return failed
	case says(o, overloadedWords):
		failed.Class, failed.Counts = Overloaded, o.Status >= 500 || o.StreamFailedBeforeContent
		return failed // words of a 4xx may quote the caller: they lead on, but harm no upstream
	case v.Class == Quota || named(o, quotaTypes) || begins(o, quotaPhrases):
		failed.Class, failed.Next, failed.Counts = Quota, NextAccount, false
		failed.Block = blockFor(o, BlockMax, "quota")
		return failed
	case v.Class == HTTP429 || named(o, rateTypes):
		failed.Class, failed.Next, failed.Counts = HTTP429, NextAccount, false
		failed.Block = blockFor(o, blockDefault, "http_429")
		return failed
	case v.Class == Auth || named(o, authTypes) || begins(o, accountPhrases):
		return auth(o, p)
	case o.StreamFailedBeforeContent && o.ErrorType == invalidRequest:
		return pass
	}
	if o.Status == 400 && p.FailoverOn400 && (p.FailoverOn400Match == nil || p.FailoverOn400Match.MatchString(o.ErrorMessage)) {
		v.Class, v.Next, v.ClientStatus, v.ClientCode = HTTP4xx, NextUpstream, 400, ""
	}
	return v
}

func auth(o Observation, p Policy) Verdict {
	v := Verdict{Class: Auth, Next: NextAccount, ClientStatus: 503, ClientCode: UpstreamHTTPError}
	if !p.FailoverOnAuth {
		v.Next = Stop
	}
	switch {
	case o.Status == 401 || named(o, authTypes) || begins(o, accountPhrases):
		v.Block = Block{BlockMax, "auth", "default"}
	case !says(o, resourceWords): // else the account lacks what this caller asked for and is good for others
		v.Block = Block{blockDefault, "auth", "default"}
	}
	return v
}

func blockFor(o Observation, fallback time.Duration, reason string) Block {
	if o.RetryAfter > 0 {
		return Block{For: min(max(o.RetryAfter, time.Second), BlockMax), Reason: reason, Source: "retry-after"}
	}
	return Block{For: fallback, Reason: reason, Source: "default"}
}

const invalidRequest = "invalid_request_error"

// What errors are called, in lower case. Types are whole names of error.type or error.code; words stand anywhere in the
// message; phrases begin it, because what follows may quote the caller, and no caller may block an account with words.
var (
	overloadedTypes = []string{"overloaded_error", "server_is_overloaded", "overloaded", "engine_overloaded", "slow_down"}
	overloadedWords = []string{"overloaded", "at capacity", "over capacity", "no capacity"}
	quotaTypes      = []string{"insufficient_quota", "billing_error", "billing_hard_limit_reached", "billing_not_active", "credit_balance_too_low"}
	quotaPhrases    = []string{"your credit balance is too low", "you exceeded your current quota", "insufficient balance", "insufficient credits"}
	rateTypes       = []string{"rate_limit_error", "rate_limit_exceeded", "resource_exhausted"}
	authTypes       = []string{"authentication_error", "invalid_api_key", "api_key_invalid", "account_deactivated", "token_revoked", "token_invalidated", "unauthenticated"}
	accountPhrases  = []string{"this organization has been disabled", "your organization has been disabled", "your account has been", "your account is", "api key not valid", "your api key has been"}
	resourceWords   = []string{"access to model", "access to the model", "permission to use", "not have access to"}
	callerTypes     = []string{"context_length_exceeded", "content_policy_violation", "content_filter", "string_above_max_length", "request_too_large"}
	callerWords     = []string{"prompt is too long", "context length", "context window", "maximum context", "input was flagged", "input token count"}
)

// named says that the error's type or code is one of the names.
func named(o Observation, names []string) bool {
	return o.ErrorType != "" && slices.Contains(names, strings.ToLower(o.ErrorType)) ||
		o.ErrorCode != "" && slices.Contains(names, strings.ToLower(o.ErrorCode))
}

// says that the message has one of the words in it.
func says(o Observation, words []string) bool {
	if o.ErrorMessage == "" {
		return false
	}
	message := strings.ToLower(o.ErrorMessage)
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(message, w) })
}

// begins says that the message begins with one of the phrases.
func begins(o Observation, phrases []string) bool {
	if o.ErrorMessage == "" {
		return false
	}
	message := strings.ToLower(strings.TrimSpace(o.ErrorMessage))
	return slices.ContainsFunc(phrases, func(p string) bool { return strings.HasPrefix(message, p) })
}

// applyRules lets the operator's first matching rule change the verdict. A match suppresses counting unless the rule
// asks for it.
func applyRules(o Observation, p Policy, v Verdict) Verdict {
	if len(p.Rules) == 0 {
		return v
	}
	evidence := catalog.Evidence{Status: o.Status, Types: []string{o.ErrorType, o.ErrorCode, string(v.Class)}, Body: o.Body, Header: o.Header}
	for _, r := range p.Rules {
		if !r.Matches(evidence) {
			continue
		}
		v.Rule, v.Counts = r.ID, r.Action.CountBreaker
		if r.Action.Failover != nil {
			switch {
			case !*r.Action.Failover:
				v.Next = Stop
			case v.Next == Stop:
				v.Next = NextUpstream
			}
		}
		if r.Action.BlockFor > 0 {
			v.Block = Block{r.Action.BlockFor.Std(), "rule", "rule " + r.ID}
		}
		return v
	}
	return v
}
