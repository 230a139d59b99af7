package actors

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/dialect"
	"github.com/penstock/penstock/domain/failure"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/domain/routing"
)

const (
	answerMax  = 256 << 20   // bytes of a whole answer
	headMax    = 4 << 20     // bytes of a stream held back before its first content
	readSize   = 32 << 10    // of one read from an upstream
	drainAfter = time.Second // for the end of a stream after its terminal event

	statusClientGone = 499
)

// dispatch stores that the attempt is about to leave. From here on the request counts as sent.
func (l *life) dispatch() *failure.Refusal {
	switch {
	case l.c.Gone.Fired():
		return refuse(failure.ClientDisconnect, "")
	case l.recall.Fired():
		return refuse(failure.OperatorCancelled, "")
	}
	n := l.attempts + 1
	l.admitted()
	f := l.paper.dispatched.take()
	*f = request.Dispatched{
		N: n, Upstream: l.lease.Upstream, Account: l.lease.Account, ResolvedModel: l.resolved(), UpstreamModel: l.cand.UpstreamModel,
		Why: l.cand.Why, Probe: l.lease.Probe,
	}
	l.add(f)
	if err := l.commit(); err != nil {
		r := storeRefusal(err)
		return &r
	}
	l.budget.Spend(l.lease.Upstream, l.lease.Account)
	if l.purse.spent == nil {
		l.purse.spent = l.purse.room[:0]
	}
	l.purse.spent = append(l.purse.spent, UsedUpstream{Upstream: l.lease.Upstream})
	l.attempts, l.sent, l.began, l.last = n, true, l.now(), nil
	return nil
}

// model is the model for logs and prices.
func (l *life) model() string { return l.modelAt(l.cand) }

func (l *life) modelAt(c *routing.Candidate) string { return cmp.Or(c.ResolvedModel, l.c.Ask.Model) }

// resolved is model when it differs from what the client asked for.
func (l *life) resolved() string {
	if m := l.model(); m != l.c.Ask.Model {
		return m
	}
	return ""
}

// attempt makes the call. done: there is an answer for the client; else another attempt may follow.
func (l *life) attempt() (a Answer, done bool) {
	in, err := l.send(false)
	if isStale(err) {
		if r := l.again(err); r != nil {
			return l.giveUp(*r), true
		}
		in, err = l.send(true)
	}
	if err != nil {
		return l.failed(l.broken(&tried{}, err, failure.Observation{}))
	}
	l.in = in
	status := in.Status()
	switch {
	case status < 200 || status > 299:
		return l.failed(l.refused())
	case l.streams():
		return l.openStream()
	}
	return l.whole()
}

// send makes one call; until its end the client's going cuts it.
func (l *life) send(fresh bool) (Incoming, error) {
	l.cut = l.paper.cut.take()
	if !l.c.Gone.Hold((*parting)(l)) {
		(*parting)(l).Close()
	}
	if !l.recall.Hold((*firing)(l.cut)) {
		l.cut.Fire()
	}
	return l.d.Transport.Send(l.outgoing(fresh))
}

// again tells of a reused connection that closed without a byte, and dispatches once more on the same lease.
func (l *life) again(err error) *failure.Refusal {
	l.leftBehind()
	l.last = &tried{class: failure.Network, evidence: clip("reused connection was closed: " + err.Error()), source: pricing.None}
	l.last.Next, l.last.took = failure.SameAccount, l.now().Sub(l.began)
	l.add(l.story(l.last))
	return l.dispatch()
}

func isStale(err error) bool {
	s, ok := errors.AsType[*SendError](err)
	return ok && s.Phase == PhaseStale
}

// parting is a life in the hands of its client's Gone.
type parting life

// Close runs, perhaps on another goroutine, when the client goes while an attempt is under way.
func (l *parting) Close() error {
	switch d := l.up.Disconnect; {
	case !d.Drain:
		l.cut.Fire()
	case d.For > 0:
		l.cut.FireAfter(d.For)
	}
	return nil
}

// streams says whether the answer comes as events: the client asked for that, and the upstream gives it.
func (l *life) streams() bool {
	return l.c.Ask.Stream && (l.givesEvents() || l.format() == dialect.JSONArray)
}

// givesEvents says that the answer is framed as events: some upstreams do so for Gemini's arrays, too.
func (l *life) givesEvents() bool {
	return strings.Contains(strings.ToLower(l.in.Header("Content-Type")), "event-stream")
}

// format is how the client wants its stream framed.
func (l *life) format() dialect.Format {
	if l.c.Endpoint.Dialect == dialect.Gemini && !strings.Contains("&"+l.c.Query, "&alt=sse") {
		return dialect.JSONArray
	}
	return dialect.SSE
}

// whole reads an answer that comes in one piece, and settles the request.
func (l *life) whole() (Answer, bool) {
	body, err := readAll(l.in, answerMax, l.c.Room)
	t, headers, plain := l.seen(), l.passing(), decoded(l.in, body, answerMax)
	if err != nil {
		return l.failed(l.broken(t, err, failure.Observation{Status: t.status, Header: l.in.Header}))
	}
	var o failure.Observation
	a := dialect.ReadAnswer(l.c.Endpoint.Dialect, plain)
	switch {
	case len(body) == 0:
		o.BodyEmpty = t.status != 204 && t.status != 205
	case !a.IsObject:
		o.InvalidAnswer, o.HTML = true, isHTML(headers)
	default: // some upstreams put an error into a success
		o.StreamFailedBeforeContent = !a.HasContent && a.ErrorType+a.ErrorCode+a.ErrorMessage != ""
	}
	if o.StreamFailedBeforeContent && a.HasUsage {
		l.count(t, &a, 0)
	}
	if o.BodyEmpty || o.InvalidAnswer || o.StreamFailedBeforeContent {
		o.Status, o.Header = t.status, l.in.Header
		return l.failed(l.observe(t, o, plain))
	}
	l.closeAnswer()
	l.count(t, &a, len(plain))
	if l.alive.Committed() {
		return l.failed(l.unstreamed(t))
	}
	return l.answer(t, headers, body)
}

// count reads the usage of a whole answer. What only counts tokens uses none.
func (l *life) count(t *tried, a *dialect.Answer, size int) {
	t.tier, t.answerID = a.ServiceTier, a.ID
	switch {
	case l.c.Endpoint.Kind == dialect.CountTokens:
	case a.HasUsage:
		t.usage, t.source, t.clamped = a.Usage, pricing.Reported, a.Clamped
	case a.HasContent:
		t.usage, t.source = l.estimate(int64(size)), pricing.Estimated
	}
}

// answer settles a request with a whole answer.
func (l *life) answer(t *tried, headers []Header, body []byte) (Answer, bool) {
	t.took = l.now().Sub(l.began)
	t.ttft = t.took
	l.tell = l.success(t)
	gone := l.leftBehind()
	if r := l.storeRefused(t); r != nil {
		return l.giveUp(*r), true
	}
	l.served = true
	s := l.completed(t)
	if gone {
		s.Outcome, s.Status, s.Code, s.Stage = request.Cancelled, statusClientGone, failure.ClientDisconnect, failure.StageResponse
		s.ClientGone, s.OnDisconnect = true, l.up.Disconnect.String()
	}
	l.settled(s, t)
	return Answer{Status: t.status, Headers: headers, Body: body}, true
}

// success is what a good answer, or the first content of one, tells the actors. Counting tokens tells nothing of how
// an upstream answers.
func (l *life) success(t *tried) *Outcome {
	o := &l.room.told
	*o = Outcome{Result: breaker.Success, Class: string(failure.OK), Status: t.status, TTFT: t.ttft, Took: t.took, Quota: l.quota()}
	if l.c.Endpoint.Kind == dialect.CountTokens {
		o.Result, o.TTFT = breaker.Neutral, 0
	}
	return o
}

// storeRefused waits for an overlapped commit before the first byte of the answer leaves.
func (l *life) storeRefused(t *tried) *failure.Refusal {
	err := l.awaitCommit()
	if err == nil {
		return nil
	}
	l.last = t
	r := storeRefusal(err)
	return &r
}

// estimate counts a usage of which the upstream said nothing, four bytes to a token.
func (l *life) estimate(output int64) pricing.Usage {
	return pricing.Usage{Input: l.inputEstimate(), Output: (output + 3) / 4}
}
