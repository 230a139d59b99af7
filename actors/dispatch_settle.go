package actors

import (
	"strconv"

	"github.com/penstock/penstock/domain/dialect"
	"github.com/penstock/penstock/domain/failure"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
)

// reject ends a request that was never admitted.
func (l *life) reject(r failure.Refusal) Answer {
	l.rejected(r, l.excluded())
	return l.refusal(r, false)
}

func (l *life) rejected(r failure.Refusal, excluded []request.Exclusion) {
	stored := l.afterDoubt(&request.Settled{
		Outcome: request.RejectedOut, Status: r.Status, Code: r.Code, Reason: r.Reason, Stage: r.Stage,
	})
	l.discard()
	l.add(&request.Rejected{
		Stage: r.Stage, Code: r.Code, Status: r.Status, Reason: r.Reason, Ask: l.c.Ask, Excluded: excluded,
		DurationUS: l.now().Sub(l.c.At).Microseconds(),
	})
	l.end(stored)
	l.leave()
}

// giveUp ends a request that has a plan and gets no (further) attempt.
func (l *life) giveUp(r failure.Refusal) Answer {
	gone := r.Code == failure.ClientDisconnect
	if !l.stored && !gone {
		for i := range l.tries {
			if t := &l.tries[i]; t.reason != "" {
				l.plan.Excluded = append(l.plan.Excluded, request.Exclusion{Upstream: t.Upstream.ID, Reason: string(t.reason), Until: t.until})
			}
		}
		return l.reject(r)
	}
	if l.last != nil && r.Code == failure.AllUpstreamsUnavailable {
		return l.lost()
	}
	s := &request.Settled{
		Outcome: request.RejectedOut, Status: r.Status, Code: r.Code, Reason: r.Reason, Stage: r.Stage, ClientGone: gone,
	}
	switch {
	case gone:
		s.Outcome = request.Cancelled
	case l.sent:
		s.Outcome = request.FailedOutcome
	}
	l.settled(s, l.last)
	return l.refusal(r, l.sent)
}

// settled appends the one end of the request and gives back everything that it holds.
func (l *life) settled(s *request.Settled, t *tried) {
	kept := waits(l.facts)
	l.discard() // the story of a failed attempt that none followed is told by the settlement itself
	stored := l.afterDoubt(s)
	if t != nil {
		var b bill
		l.bill(t, &b)
		b.free = !l.served && t.source != pricing.None && (s.Outcome == request.FailedOutcome || t.failed())
		s.Class, s.UpstreamStatus, s.UpstreamID, s.Evidence = string(t.class), t.status, t.upstreamID, t.evidence
		s.Usage, s.UsageSource, s.Clamped, s.ServiceTier, s.ResponseID = t.usage, t.source, t.clamped, t.tier, t.answerID
		b.into(s)
		s.TTFTUS, s.AttemptUS = t.ttft.Microseconds(), t.took.Microseconds()
	}
	l.describe(s)
	l.admitted() // an append that was refused took Admitted with it
	l.facts = append(l.facts, kept...)
	l.add(s)
	_ = l.awaitCommit() // an error is an answer too; what is not stored yet is kept, and the settlement behind it
	l.closeAnswer()     // it may take a while
	l.conclude(s, stored)
}

// conclude stores the end and tells it to the limits: for a rule that comes meanwhile it has done both, or none.
func (l *life) conclude(s, stored *request.Settled) {
	l.d.System.settling.enter()
	defer l.d.System.settling.leave()
	l.end(stored)
	l.bills(s)
	l.learn(s)
	l.leave()
}

// describe writes what is known of the whole request into its settlement.
func (l *life) describe(s *request.Settled) {
	if s.UsageSource == "" {
		s.UsageSource = pricing.None
	}
	s.Attempts, s.Sent = l.attempts, l.sent
	s.QueueState, s.WaitedUS = l.queueEnd, l.waited.Microseconds()
	s.DurationUS = l.now().Sub(l.c.At).Microseconds()
}

// Refused is a refusal in the client's dialect, or the bare string of early authentication. It records nothing.
func Refused(c *Call, r failure.Refusal, sent bool) Answer {
	headers := []Header{{"Content-Type", "application/json"}}
	if r.RetryAfter > 0 {
		headers = append(headers, Header{"Retry-After", strconv.Itoa(int(r.RetryAfter.Seconds()))})
	}
	if r.NoRetry {
		headers = append(headers, Header{"X-Should-Retry", "false"})
	}
	if r.Plain {
		return Answer{Status: r.Status, Headers: headers, Body: []byte(`{"error":"` + r.Message + `"}`)}
	}
	return Answer{Status: r.Status, Headers: headers, Body: dialect.AppendError(nil, c.Endpoint.Dialect, errorOf(c, r, sent))}
}

func errorOf(c *Call, r failure.Refusal, sent bool) dialect.Error {
	return dialect.Error{
		Reopens: reopens(r), Status: r.Status, Code: r.Code, Type: r.Type, Message: r.Message, Reason: r.Reason, RequestID: c.ID,
		UserHint: r.Hint, DidSendUpstream: sent, RetryAfter: int(r.RetryAfter.Seconds()),
	}
}
