package failure

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/domain/account"
	"github.com/penstock/penstock/domain/catalog"
)

// Observation is what an attempt saw. The zero value is an answer without a status: a fault of ours.
type Observation struct {
	Event        Event
	Status       int           // of the upstream; 0 without an answer
	ErrorType    string        // error.type of the body, as the dialect reads it
	ErrorCode    string        // error.code
	ErrorMessage string        // error.message
	RetryAfter   time.Duration // as the caller has read it; what Header and Body say besides is read here
	Now          time.Time     // for the times in headers and bodies; zero: they are not read

	BodyEmpty                 bool // a success that must have a body has none
	StreamClosedBeforeContent bool
	StreamFailedBeforeContent bool // an error event came first; ErrorType … describe it
	InvalidAnswer             bool // a success that the dialect cannot read
	HTML                      bool // the body is a web page: an edge or a proxy speaks, not the provider
	CutMidStream              bool // content had been sent to the client
	ReusedConn                bool // the connection was reused and gave not one byte of an answer

	Body   []byte                   // start of the body, for rules and what it says of limits
	Header func(name string) string // response headers, likewise; nil: none
}

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
		return cut(o, p)
	case isEvent:
		if stale := o.Event == WriteFailed || o.Event == Reset || o.Event == EOFBeforeHeaders; stale && o.ReusedConn {
			v.Next, v.Counts = SameAccount, false // the pool's connection was dead; the upstream has seen nothing
		}
		return v
	case o.StreamFailedBeforeContent:
		o.Status = 500
		if n, err := strconv.Atoi(o.ErrorCode); err == nil && n >= 400 && n <= 599 { // some put the status into the error
			o.Status = n
		}
		return inWords(o, p, byStatus(o.Status))
	case o.Status >= 200 && o.Status < 300:
		return success(o)
	case o.Status == 0:
		return events[LocalError]
	}
	return inWords(o, p, byStatus(o.Status))
}

// cut is an answer that broke off after content. What an error event said still tells whose fault it was.
func cut(o Observation, p Policy) Verdict {
	v := Verdict{Class: StreamCut, Next: Stop, Counts: true, ClientStatus: 502, ClientCode: StreamError}
	if o.Event == IdleTimeOut {
		v.Class, v.ClientStatus, v.ClientCode = IdleTimeout, 504, RequestTimeout
	}
	switch {
	case named(o, callerTypes) || named(o, invalidTypes):
		v.Class, v.Counts = CallerFault, false // said late, but still about the request
	case named(o, quotaTypes) || named(o, rateTypes):
		limited := refusedByLimit(o, p, v)
		v.Class, v.Counts, v.Block = limited.Class, false, limited.Block
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
	case status == 407: // an egress proxy speaks, not the upstream
		failed.Class, failed.ClientCode = Network, UpstreamNetwork
	case status == 408 || status == 425:
		failed.Class, failed.Counts = HTTP4xx, false // the upstream gave up waiting for us, or is not ready; another may be
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
	if o.StreamFailedBeforeContent && o.Status >= 500 {
		pass.ClientStatus = 400 // the upstream's own status was a success
	}
	switch {
	case edge(o) && (v.Class == Auth || v.Class == HTTP4xx || v.Class == CallerFault && o.Status != 413):
		// An edge refuses us, or it is no API that we reach: the credential may be good, and so may the request.
		return Verdict{Class: HTTP4xx, Next: NextUpstream, ClientStatus: 503, ClientCode: UpstreamHTTPError}
	case v.Class != HTTP429 && v.Class != Quota && (named(o, callerTypes) || says(o, callerWords)):
		return pass
	case v.Class == Overloaded || named(o, overloadedTypes):
		failed.Class = Overloaded
		failed.Again = again(o, p)
		return failed
	case says(o, overloadedWords) && v.Class != Quota && !named(o, quotaTypes):
		failed.Class, failed.Counts = Overloaded, o.Status >= 500 || o.StreamFailedBeforeContent
		failed.Again = again(o, p)
		return failed // words of a 4xx may quote the caller: they lead on, but harm no upstream
	case v.Class == Quota || v.Class == HTTP429 || named(o, quotaTypes) || named(o, rateTypes) || begins(o, quotaPhrases):
		return refusedByLimit(o, p, v)
	case begins(o, regionPhrases) || named(o, regionTypes): // another account or upstream may go out elsewhere
		return Verdict{Class: HTTP4xx, Next: NextUpstream, ClientStatus: 503, ClientCode: UpstreamHTTPError}
	case v.Class == Auth || named(o, deadTypes) || named(o, authTypes) || begins(o, accountPhrases):
		return auth(o, p)
	case o.StreamFailedBeforeContent && named(o, invalidTypes):
		return pass
	case o.StreamFailedBeforeContent && named(o, missingTypes):
		return Verdict{Class: HTTP4xx, Next: Stop, ClientStatus: 404}
	}
	if o.Status == 400 && p.FailoverOn400 && (p.FailoverOn400Match == nil || p.FailoverOn400Match.MatchString(o.ErrorMessage)) {
		v.Class, v.Next, v.ClientStatus, v.ClientCode = HTTP4xx, NextUpstream, 400, ""
	}
	if o.Status == 503 {
		v.Again = again(o, p)
	}
	return v
}

// again is the wait that an upstream asked for, where it is short enough to wait for it; 0 else.
func again(o Observation, p Policy) time.Duration {
	if l := ReadLimit(o); l.After > 0 && l.After <= p.SameAccountWait {
		return l.After
	}
	return 0
}

// refusedByLimit tells a burst from the end of a quota: the former is over soon, the latter is blocked longer and probed.
func refusedByLimit(o Observation, p Policy, v Verdict) Verdict {
	l := ReadLimit(o)
	out := Verdict{Next: NextAccount, ClientStatus: 503, ClientCode: UpstreamHTTPError}
	if l.spent(o, v) {
		out.Class, out.Block = Quota, l.block(p, p.blockMax(), reasonQuota)
		return out
	}
	out.Class, out.Block = HTTP429, l.block(p, p.blockDefault(), reasonRate)
	if edge(o) { // it limits our address: the upstream's other accounts come from there as well
		out.Next = NextUpstream
	}
	if l.After > 0 && l.After <= p.SameAccountWait {
		out.Again = l.After
	}
	return out
}

func auth(o Observation, p Policy) Verdict {
	v := Verdict{Class: Auth, Next: NextAccount, ClientStatus: 503, ClientCode: UpstreamHTTPError}
	if !p.FailoverOnAuth {
		v.Next = Stop
	}
	switch {
	case named(o, deadTypes) || begins(o, accountPhrases):
		v.Dead = true
		v.Block = Block{For: p.blockMax(), Probe: true, Reason: reasonDead, Source: "default"}
	case o.Status == 401 || named(o, authTypes):
		v.Block = Block{For: p.blockMax(), Probe: true, Reason: reasonAuth, Source: "default"}
	case !says(o, resourceWords): // else the account lacks what this caller asked for and is good for others
		v.Block = Block{For: p.blockDefault(), Reason: reasonAuth, Source: "default"}
	}
	return v
}

// edge says that something in front of the provider's API speaks: a web page, a challenge, Cloudflare's bare numbers.
func edge(o Observation) bool {
	if o.HTML || o.Header != nil && o.Header("Cf-Mitigated") != "" {
		return true
	}
	start := bytes.ToLower(bytes.TrimSpace(o.Body[:min(len(o.Body), 64)]))
	for _, page := range []string{"<!doctype html", "<html", "error code: 1"} {
		if bytes.HasPrefix(start, []byte(page)) {
			return true
		}
	}
	return false
}

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
			v.Block = Block{For: r.Action.BlockFor.Std(), Reason: reasonRule, Source: account.RulePrefix + r.ID}
			v.Again = 0
		}
		return v
	}
	return v
}
