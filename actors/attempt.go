package actors

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/dialect"
	"github.com/penstock/penstock/domain/failure"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
)

const (
	evidenceMax = 512         // bytes of an error body kept in the event
	errorMax    = 256 << 10   // bytes of an error body that are read and passed on
	answerMax   = 256 << 20   // bytes of a whole answer
	headMax     = 4 << 20     // bytes of a stream held back before its first content
	readSize    = 32 << 10    // of one read from an upstream
	drainAfter  = time.Second // for the end of a stream after its terminal event

	statusClientGone = 499
)

// tried is what became of an attempt.
type tried struct {
	failure.Verdict
	class      failure.Class
	status     int // of the upstream, 0 when none came
	upstreamID string
	evidence   string
	usage      pricing.Usage
	source     pricing.Source
	tier       string
	ttft, took time.Duration
	retryAfter time.Duration
	headers    []Header // of the upstream's answer
	body       []byte   // of an error answer
	instream   bool     // the failure came inside a success: its answer can not be passed on
}

// dispatch stores that the attempt is about to leave. From here on the request counts as sent.
func (l *life) dispatch() *failure.Refusal {
	l.admittedFirst()
	n := l.attempts + 1
	l.add(&request.Dispatched{
		N: n, Upstream: l.lease.Upstream, Account: l.lease.Account, ResolvedModel: l.resolved(), UpstreamModel: l.cand.UpstreamModel,
		Why: l.cand.Why, Probe: l.lease.Probe,
	})
	if l.c.Gone.Fired() {
		l.facts = nil
		r := failure.New(failure.ClientDisconnect, "")
		return &r
	}
	if err := l.commit(); err != nil {
		r := storeRefusal(err)
		return &r
	}
	l.attempts, l.sent, l.began, l.last = n, true, l.now(), nil
	return nil
}

// admittedFirst puts what is not stored yet in front of the facts already collected.
func (l *life) admittedFirst() {
	if !l.stored {
		later := l.facts
		l.facts = nil
		l.admitted()
		l.facts = append(l.facts, later...)
	}
}

// model is the model for logs and prices.
func (l *life) model() string {
	if m := l.cand.ResolvedModel; m != "" {
		return m
	}
	return l.c.Ask.Model
}

// resolved is model when it differs from what the client asked for.
func (l *life) resolved() string {
	if m := l.model(); m != l.c.Ask.Model {
		return m
	}
	return ""
}

// attempt makes the call. done: there is an answer for the client; else another attempt may follow.
func (l *life) attempt() (Answer, bool) {
	fresh := false
	for {
		l.cut = &Gone{}
		if !l.c.Gone.Hold(closer(l.clientGone)) {
			l.clientGone()
		}
		out := l.outgoing(fresh)
		in, err := l.d.Transport.Send(out)
		if stale := isStale(err); stale && !fresh {
			l.leftBehind()
			if r := l.again(err); r != nil {
				l.release(nil)
				return l.giveUp(*r), true
			}
			fresh = true
			continue
		}
		if err != nil {
			return l.failed(l.broken(err, failure.Observation{}))
		}
		return l.answer(in)
	}
}

// again tells of a reused connection that closed without a byte, and dispatches once more on the same lease.
func (l *life) again(err error) *failure.Refusal {
	l.last = &tried{class: failure.Network, evidence: clip(err.Error()), source: pricing.None, took: l.now().Sub(l.began)}
	l.add(&request.Failed{
		N: l.attempts, Class: string(failure.Network), Evidence: "reused connection was closed: " + clip(err.Error()),
		Next: string(failure.SameAccount), UsageSource: pricing.None, TookUS: l.last.took.Microseconds(),
	})
	return l.dispatch()
}

func isStale(err error) bool {
	var s *SendError
	return errors.As(err, &s) && s.Phase == PhaseStale
}

func phaseOf(err error) Phase {
	var s *SendError
	if errors.As(err, &s) {
		return s.Phase
	}
	return PhaseBody
}

// closer lets a function be held by a Gone.
type closer func()

// Close calls it.
func (f closer) Close() error { f(); return nil }

// clientGone runs, perhaps on another goroutine, when the client goes while an attempt is under way.
func (l *life) clientGone() {
	cut := l.cut
	switch d := l.up.Disconnect; {
	case !d.Drain:
		cut.Fire()
	case d.For > 0:
		time.AfterFunc(d.For, cut.Fire)
	}
}

// answer reads an answer whose headers have come.
func (l *life) answer(in Incoming) (Answer, bool) {
	status := in.Status()
	if status < 200 || status > 299 {
		body, _ := readAll(in, errorMax) // the status says enough when its body breaks off
		headers, id := passing(in), l.seen(in).upstreamID
		o := failure.Observation{Status: status, RetryAfter: retryAfter(in, l.now()), Header: in.Header, HTML: isHTML(headers)}
		t := l.observe(o, decoded(in, body))
		in.Close()
		t.status, t.upstreamID, t.headers, t.body = status, id, headers, body
		return l.failed(t)
	}
	if l.streams(in) {
		return l.openStream(in)
	}
	return l.whole(in)
}

// streams says whether the answer comes as events: the client asked for that, and the upstream gives it.
func (l *life) streams(in Incoming) bool {
	if !l.c.Ask.Stream {
		return false
	}
	ct := in.Header("Content-Type")
	return strings.Contains(ct, "event-stream") || l.format() == dialect.JSONArray
}

func (l *life) format() dialect.Format {
	if l.c.Endpoint.Dialect == dialect.Gemini && !strings.Contains("&"+l.c.Query, "&alt=sse") {
		return dialect.JSONArray
	}
	return dialect.SSE
}

// whole reads an answer that comes in one piece, and settles the request.
func (l *life) whole(in Incoming) (Answer, bool) {
	body, err := readAll(in, answerMax)
	t := l.seen(in)
	plain := decoded(in, body)
	headers := passing(in)
	in.Close()
	if err != nil {
		f := l.broken(err, failure.Observation{Status: t.status})
		f.status, f.upstreamID = t.status, t.upstreamID
		return l.failed(f)
	}
	if len(body) == 0 && t.status != 204 && t.status != 205 {
		f := l.observe(failure.Observation{Status: t.status, BodyEmpty: true}, nil)
		f.status, f.upstreamID = t.status, t.upstreamID
		return l.failed(f)
	}
	a := dialect.ReadAnswer(l.c.Endpoint.Dialect, plain)
	if !a.IsObject && l.c.Endpoint.Dialect != dialect.None {
		f := l.observe(failure.Observation{Status: t.status, InvalidAnswer: true, HTML: isHTML(headers)}, plain)
		f.status, f.upstreamID = t.status, t.upstreamID
		return l.failed(f)
	}
	t.usage, t.tier, t.source = a.Usage, a.ServiceTier, pricing.None
	if a.HasUsage {
		t.source = pricing.Reported
	} else if a.HasContent {
		t.usage, t.source = l.estimate(int64(len(plain))), pricing.Estimated
	}
	t.took = l.now().Sub(l.began)
	t.ttft = t.took
	if r := l.storeRefused(t); r != nil {
		return l.giveUp(*r), true
	}
	l.release(&Outcome{Result: l.success(), Class: string(failure.OK), Status: t.status, TTFT: t.ttft, Took: t.took})
	s := &request.Settled{Outcome: request.Completed, Status: t.status}
	if l.leftBehind() {
		s.Outcome, s.Status, s.Code, s.ClientGone = request.Cancelled, statusClientGone, failure.ClientDisconnect, true
		s.OnDisconnect = l.up.Disconnect.String()
	}
	l.settled(s, t)
	return Answer{Status: t.status, Headers: headers, Body: body}, true
}

// success is what a good answer means for the breaker; counting tokens never counts.
func (l *life) success() breaker.Result {
	if l.c.Endpoint.Kind == dialect.CountTokens {
		return breaker.Neutral
	}
	return breaker.Success
}

// leftBehind ends the watch for the client and says whether it had gone.
func (l *life) leftBehind() bool { return !l.c.Gone.Release() }

// storeRefused waits for an overlapped commit before the first byte of the answer leaves.
func (l *life) storeRefused(t *tried) *failure.Refusal {
	if err := l.awaitCommit(); err != nil {
		l.last = t
		l.release(nil)
		r := storeRefusal(err)
		return &r
	}
	return nil
}

// estimate counts a usage of which the upstream said nothing, four bytes to a token.
func (l *life) estimate(output int64) pricing.Usage {
	return pricing.Usage{Input: l.inputEstimate(), Output: (output + 3) / 4}
}

// seen starts the record of an answer.
func (l *life) seen(in Incoming) *tried {
	id := in.Header("request-id")
	if id == "" {
		id = in.Header("x-request-id")
	}
	return &tried{status: in.Status(), upstreamID: clipTo(id, 128), source: pricing.None}
}

// phases are the events of the failure table.
var phases = map[Phase]failure.Event{
	PhaseConnect: failure.ConnectFailed, PhaseConnectTimeout: failure.ConnectTimedOut, PhaseWrite: failure.WriteFailed,
	PhaseFirstByte: failure.EOFBeforeHeaders, PhaseFirstTimeout: failure.FirstByteTimeOut, PhaseStale: failure.EOFBeforeHeaders,
	PhaseBody: failure.Reset, PhaseIdle: failure.IdleTimeOut, PhaseMalformed: failure.Reset, PhaseCancelled: failure.ClientGone,
	PhaseLocal: failure.LocalError,
}

// broken classifies a call that ended with an error instead of an answer.
func (l *life) broken(err error, o failure.Observation) *tried {
	phase := phaseOf(err)
	if o.Event = phases[phase]; l.cut.Fired() {
		o.Event = failure.ClientGone
	}
	t := l.observe(o, nil)
	t.evidence = clip(err.Error())
	return t
}

// observe classifies a failure by what the upstream said and did.
func (l *life) observe(o failure.Observation, body []byte) *tried {
	if len(body) > 0 {
		a := dialect.ReadAnswer(l.c.Endpoint.Dialect, body)
		o.ErrorType, o.ErrorCode, o.ErrorMessage, o.Body = a.ErrorType, a.ErrorCode, a.ErrorMessage, body[:min(len(body), 64<<10)]
	}
	v := failure.Classify(o, failure.PolicyOf(&l.snap.Settings, l.snap.Rules(l.up.ID, nil)))
	t := &tried{Verdict: v, class: v.Class, retryAfter: o.RetryAfter, source: pricing.None}
	switch {
	case o.ErrorMessage != "":
		t.evidence = clip(o.ErrorMessage)
	case len(body) > 0:
		t.evidence = clip(string(body))
	}
	return t
}

func isHTML(hs []Header) bool {
	for _, h := range hs {
		if h.Name == "Content-Type" {
			return strings.Contains(h.Value, "html")
		}
	}
	return false
}

// failed gives the lease back and decides whether the client gets this answer or another attempt is made.
func (l *life) failed(t *tried) (Answer, bool) {
	t.took = l.now().Sub(l.began)
	gone := l.leftBehind()
	l.release(l.outcome(t))
	l.last = t
	if gone || t.class == failure.Cancelled {
		s := &request.Settled{
			Outcome: request.Cancelled, Status: statusClientGone, Code: failure.ClientDisconnect, Stage: failure.StageRequest,
			ClientGone: true, OnDisconnect: l.up.Disconnect.String(),
		}
		l.settled(s, t)
		return refusalAnswer(l.c, failure.New(failure.ClientDisconnect, ""), true), true
	}
	if t.Next == failure.Stop {
		return l.stopped(t), true
	}
	l.exclude(t)
	if l.snap.Settings.MaxAttempts > 0 && l.attempts >= l.snap.Settings.MaxAttempts || !l.anyLeft() {
		return l.exhausted(), true
	}
	b := l.bill(t)
	l.add(&request.Failed{
		N: l.attempts, Class: string(t.class), UpstreamStatus: t.status, UpstreamID: t.upstreamID, Evidence: t.evidence,
		Next: string(t.Next), Counted: t.Counts, Usage: t.usage, UsageSource: t.source, PriceVersion: b.version, UpstreamCost: b.upstream,
		TookUS: t.took.Microseconds(), TTFTUS: t.ttft.Microseconds(),
	})
	return Answer{}, false
}

// exclude takes what has failed out of what is left to try.
func (l *life) exclude(t *tried) {
	for i := range l.tries {
		c := &l.tries[i]
		if c.Upstream.ID != l.lease.Upstream {
			continue
		}
		if t.Next == failure.NextAccount {
			c.drop(l.lease.Account)
		} else {
			c.dead = true
		}
	}
}

func (l *life) anyLeft() bool {
	for i := range l.tries {
		if !l.tries[i].dead {
			return true
		}
	}
	return false
}

// outcome is what the actors learn from a failed attempt.
func (l *life) outcome(t *tried) *Outcome {
	o := &Outcome{Result: breaker.Neutral, Class: string(t.class), Status: t.status, Took: t.took}
	if t.Counts && l.c.Endpoint.Kind != dialect.CountTokens {
		o.Result = breaker.Failure
	}
	if b := t.Block; b.For > 0 {
		o.Block = &Block{Until: l.now().Add(b.For), Reason: b.Reason, Source: b.Source}
	}
	return o
}

// readAll reads the whole body, at most max bytes.
func readAll(in Incoming, limit int) ([]byte, error) {
	n := in.Length()
	if n < 0 {
		n = 1024
	}
	b := make([]byte, 0, min(n, limit)+1)
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		k, err := in.Read(b[len(b):min(cap(b), limit+1)])
		b = b[:len(b)+k]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return b, err
		}
		if len(b) > limit {
			return b[:limit], &SendError{Phase: PhaseMalformed, Err: errors.New("the answer is too large")}
		}
	}
}

// decoded is the plain form of a body, the body itself when it is not compressed or can not be read.
func decoded(in Incoming, body []byte) []byte {
	if in.Header("Content-Encoding") == "" {
		return body
	}
	r, err := in.Decode(strings.NewReader(string(body)))
	if err != nil {
		return body
	}
	plain, err := io.ReadAll(io.LimitReader(r, answerMax))
	if err != nil && len(plain) == 0 {
		return body
	}
	return plain
}

// retryAfter reads how long the upstream asks to wait: milliseconds, seconds, or a date. 0: it does not say.
func retryAfter(in Incoming, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(in.Header("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	v := in.Header("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil && s > 0 && s < 1e9 {
		return time.Duration(s * float64(time.Second))
	}
	if at, err := http.ParseTime(v); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}

func clip(s string) string { return clipTo(s, evidenceMax) }

func clipTo(s string, n int) string {
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "")
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
