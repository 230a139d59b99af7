package actors

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/domain/account"
	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/dialect"
	"github.com/penstock/penstock/domain/failure"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
)

// tried is what became of an attempt. Its strings are its own: they live on in events.
type tried struct {
	failure.Verdict
	class      failure.Class
	status     int // of the upstream, 0 when none came
	upstreamID string
	evidence   string
	usage      pricing.Usage
	source     pricing.Source
	clamped    bool // the upstream reported more usage than can be
	tier       string
	answerID   string // of an answer that a later request can go on from
	ttft, took time.Duration
	retryAfter time.Duration // as the upstream asked for in any way
	headers    []Header      // of an error answer
	body       []byte
}

// failed says that the attempt came to nothing by a fault that is not the client's.
func (t *tried) failed() bool { return t.class != failure.OK && t.class != failure.Cancelled }

// seen starts the record of an answer whose headers have come.
func (l *life) seen() *tried {
	id := l.in.Header("request-id")
	if id == "" {
		id = l.in.Header("x-request-id")
	}
	t := &l.room.seen // of the attempts before, none is looked at any more
	*t = tried{class: failure.OK, status: l.in.Status(), upstreamID: clipTo(id, 128), source: pricing.None}
	return t
}

// refused reads an answer that is an error by its status.
func (l *life) refused() *tried {
	body, _ := readAll(l.in, errorMax, nil) // the status says enough when its body breaks off
	t := l.seen()
	plain := decoded(l.in, body, decodedErrorMax)
	if t.headers, t.body = l.passing(), body; l.tellsSecret(plain) { // then the client gets it uncompressed
		t.body = l.withoutSecret(plain)
		t.headers = slices.DeleteFunc(t.headers, func(h Header) bool { return h.Name == "Content-Encoding" })
	}
	o := failure.Observation{Status: t.status, Header: l.in.Header, HTML: isHTML(t.headers)}
	l.observe(t, o, plain)
	l.closeAnswer()
	return t
}

// phases are the events of the failure table.
var phases = map[Phase]failure.Event{
	PhaseConnect: failure.ConnectFailed, PhaseConnectTimeout: failure.ConnectTimedOut, PhaseWrite: failure.WriteFailed,
	PhaseFirstByte: failure.EOFBeforeHeaders, PhaseFirstTimeout: failure.FirstByteTimeOut, PhaseStale: failure.EOFBeforeHeaders,
	PhaseBody: failure.Reset, PhaseIdle: failure.IdleTimeOut, PhaseMalformed: failure.Reset, PhaseCancelled: failure.ClientGone,
	PhaseLocal: failure.LocalError,
}

// eventOf is how a call ended by its error.
func eventOf(err error) failure.Event {
	if s, ok := errors.AsType[*SendError](err); ok {
		return phases[s.Phase]
	}
	return failure.Reset // such as a compressed body that is broken
}

// broken classifies a call that ended with an error instead of an answer, or within one.
func (l *life) broken(t *tried, err error, o failure.Observation) *tried {
	if o.Event = eventOf(err); l.cut.Fired() {
		o.Event = failure.ClientGone
	}
	l.observe(t, o, nil)
	t.evidence = clip(err.Error())
	return t
}

// observe classifies a failure by what the upstream said and did. The headers of an answer are read here, so that it may
// not be closed before.
func (l *life) observe(t *tried, o failure.Observation, body []byte) *tried {
	o.Now = l.now()
	if len(body) > 0 {
		a := dialect.ReadAnswer(l.c.Endpoint.Dialect, body)
		o.ErrorType, o.ErrorCode, o.ErrorMessage, o.Body = a.ErrorType, a.ErrorCode, a.ErrorMessage, body[:min(len(body), ruleMax)]
	}
	t.Verdict = failure.Classify(o, l.policy())
	t.class, t.retryAfter = t.Verdict.Class, failure.ReadLimit(o).After
	if t.source == "" {
		t.source = pricing.None
	}
	said := []byte(o.ErrorMessage)
	switch {
	case len(said) > 0:
	case o.InvalidAnswer && !o.HTML && len(body) > 0: // it may be what the model said, which stands in no event
		said = fmt.Appendf(nil, "an answer that cannot be read: %d bytes of %q", len(body), l.in.Header("Content-Type"))
	default:
		said = body[:min(len(body), ruleMax)]
	}
	t.evidence = clip(string(l.withoutSecret(said)))
	return t
}

func (l *life) policy() failure.Policy {
	return failure.PolicyOf(&l.snap.Settings, l.snap.Rules(l.up.ID, nil))
}

// withoutSecret is what an upstream said without our credential, which some repeat.
func (l *life) withoutSecret(b []byte) []byte {
	if !l.tellsSecret(b) {
		return b
	}
	secret, _ := l.d.Credential(l.lease.Account)
	return bytes.ReplaceAll(b, []byte(secret), []byte("***"))
}

func (l *life) tellsSecret(b []byte) bool {
	secret, _ := l.d.Credential(l.lease.Account)
	return len(secret) >= 8 && bytes.Contains(b, []byte(secret))
}

func isHTML(hs []Header) bool {
	for _, h := range hs {
		if h.Name == "Content-Type" {
			return strings.Contains(h.Value, "html")
		}
	}
	return false
}

// failed decides whether the client gets this answer or another attempt is made, for which the lease is given back.
func (l *life) failed(t *tried) (Answer, bool) {
	t.took = l.now().Sub(l.began)
	gone := l.leftBehind() || t.class == failure.Cancelled
	after, again := time.Duration(0), false
	if !gone && !l.recall.Fired() && l.budget.Allows(l.lease.Upstream, l.lease.Account) {
		after, again = t.Retry(l.policy(), l.others(), l.repeats)
	}
	if again {
		t.Block, t.Next = failure.Block{}, failure.SameAccount
	}
	l.last, l.tell = t, l.outcome(t)
	switch {
	case l.recalled():
		return l.takenBack(t)
	case gone:
		return l.clientWent(t)
	case again:
		return l.repeat(t, after)
	}
	if l.exclude(t); t.Next == failure.Stop || !l.mayTry() || !l.anyLeft() {
		return l.lost(), true
	}
	l.closeAnswer()
	l.release()
	l.add(l.story(t))
	return Answer{}, false
}

// mayTry says whether the request may make one more call.
func (l *life) mayTry() bool {
	return l.budget.Left() > 0
}

// clientWent ends a request whose client has gone before there was anything for it.
func (l *life) clientWent(t *tried) (Answer, bool) {
	l.settled(&request.Settled{
		Outcome: request.Cancelled, Status: statusClientGone, Code: failure.ClientDisconnect, Stage: failure.StageRequest,
		ClientGone: true, OnDisconnect: l.up.Disconnect.String(),
	}, t)
	return l.refusal(failure.New(failure.ClientDisconnect, ""), true), true
}

// story is the fact of an attempt that another one follows.
func (l *life) story(t *tried) *request.Failed {
	var b bill
	l.bill(t, &b)
	f := &request.Failed{
		N: l.attempts, Class: string(t.class), UpstreamStatus: t.status, UpstreamID: t.upstreamID, Evidence: t.evidence,
		Next: string(t.Next), Counted: l.counts(t), Usage: t.usage, UsageSource: t.source, Clamped: t.clamped, ServiceTier: t.tier,
		TookUS: t.took.Microseconds(), TTFTUS: t.ttft.Microseconds(),
	}
	b.intoFailed(f)
	return f
}

// exclude takes what has failed out of what is left to try.
func (l *life) exclude(t *tried) {
	account := t.Next == failure.NextAccount
	if account {
		l.failedA = append(l.failedA, l.lease.Account)
	} else {
		l.failedU = append(l.failedU, l.lease.Upstream)
	}
	for i := range l.tries {
		c := &l.tries[i]
		switch {
		case c.Upstream.ID != l.lease.Upstream:
		case account:
			c.drop(l.lease.Account)
		default:
			c.dead = true
		}
	}
	l.afford()
}

func (l *life) anyLeft() bool {
	for i := range l.tries {
		if !l.tries[i].dead {
			return true
		}
	}
	return false
}

// counts says whether the breaker counts a failure; counting tokens never does.
func (l *life) counts(t *tried) bool { return t.Counts && l.c.Endpoint.Kind != dialect.CountTokens }

// outcome is what the actors learn from a failed attempt.
func (l *life) outcome(t *tried) *Outcome {
	o := &Outcome{
		Result: breaker.Neutral, Class: string(t.class), Status: t.status, Took: t.took, Model: l.asksFor(), Said: t.evidence,
		Quota: l.quota(),
	}
	if l.counts(t) {
		o.Result = breaker.Failure
	}
	if b := t.Block; b.For > 0 {
		now := l.now()
		o.Block = &Block{Ask: account.Ask{
			Until: now.Add(b.For), Probe: b.Probe, Reason: b.Reason, Source: b.Source, Max: l.snap.Settings.BlockMax,
		}}
		if b.Resets > 0 {
			o.Block.Resets = now.Add(b.Resets)
		}
		if b.Model || t.class == failure.HTTP429 && l.up.Breaker.PerAccountModel() {
			o.Block.Model = l.asksFor()
		}
		l.opens = append(l.opens, o.Block.Until)
	}
	return o
}

// passes says that the attempt has an error answer of its own, which can be passed on: one inside a success can not.
func (t *tried) passes() bool { return t.status != 0 && (t.status < 200 || t.status > 299) }

// lost ends the request with a failed attempt that no other could mend: the upstream's own answer, or our refusal.
func (l *life) lost() Answer {
	t := l.last
	end := failure.Exhausted(l.snap.Settings.OnExhausted, t.Verdict, t.passes(), l.soonest(t.retryAfter))
	if end.PassLast {
		if end.RetryAfter > 0 && !slices.ContainsFunc(t.headers, isRetryAfter) {
			t.headers = append(t.headers, Header{"Retry-After", strconv.Itoa(int(end.RetryAfter.Seconds()))})
		}
		status := dialect.ClientStatus(l.c.Endpoint.Dialect, t.status)
		l.settled(&request.Settled{
			Outcome: request.FailedOutcome, Status: status, Code: t.ClientCode, Reason: string(t.class), Stage: failure.StageResponse,
		}, t)
		return l.passed(t, status)
	}
	r := end.Refusal
	if t.ClientCode == "" { // about the caller's request, but said inside a success
		r.Status, r.Type = t.ClientStatus, ""
		if t.evidence != "" {
			r.Message = t.evidence
		}
	}
	l.settled(&request.Settled{Outcome: request.FailedOutcome, Status: r.Status, Code: r.Code, Reason: r.Reason, Stage: r.Stage}, t)
	return l.refusal(r, true)
}
