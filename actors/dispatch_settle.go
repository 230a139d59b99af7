package actors

import (
	"strconv"
	"time"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/dialect"
	"github.com/penstock/penstock/domain/failure"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
)

const unpricedReason = "price_not_found"

// bill is what one attempt costs.
type bill struct {
	version        string // of the price; "" when unpriced or nothing was used
	upstream       money.Amount
	caller         money.Amount
	unpriced       bool
	in, out, group string // multipliers, "" is 1
}

// into writes the bill into a settlement.
func (b bill) into(s *request.Settled) {
	s.PriceVersion, s.UpstreamCost, s.Cost = b.version, b.upstream, b.caller
	s.Multipliers = request.MultipliersOf(b.in, b.out, b.group)
	if b.unpriced {
		s.Unpriced, s.UnpricedReason = true, unpricedReason
	}
}

// price computes what a usage at an upstream costs by the prices in force at a time.
func price(snap *catalog.Snapshot, up *catalog.CompiledUpstream, resolved, rewritten, group string, u pricing.Usage, at time.Time) bill {
	b := bill{in: up.Multipliers.Input, out: up.Multipliers.Output}
	m := pricing.Multipliers{Input: up.Input, Output: up.Output, Group: pricing.One}
	if g := snap.Group(group); g != nil {
		b.group, m.Group = g.Group.Multiplier, g.Multiplier
	}
	p, ok := snap.Price(resolved, rewritten, up.ID, at)
	if !ok {
		b.unpriced = !u.IsZero()
		return b
	}
	cost, err := pricing.Cost(&p.Rates, u, m)
	if err != nil { // beyond any real bill: the usage is kept, and can be repriced
		b.unpriced = true
		return b
	}
	b.version, b.upstream, b.caller = p.Version, cost.Upstream.Total, cost.Caller.Total
	return b
}

// bill prices an attempt at the present candidate. Of an attempt whose usage is not known nothing is billed.
func (l *life) bill(t *tried) bill {
	if t.source == pricing.None {
		return bill{}
	}
	return price(l.snap, l.up, l.model(), l.cand.UpstreamModel, l.c.Ask.Group, t.usage, l.c.At)
}

// reject ends a request that was never admitted.
func (l *life) reject(r failure.Refusal) Answer {
	l.rejected(r, l.excluded())
	return l.refusal(r, false)
}

func (l *life) rejected(r failure.Refusal, excluded []request.Exclusion) {
	stored := l.afterDoubt(request.Settled{
		Outcome: request.RejectedOut, Status: r.Status, Code: r.Code, Reason: r.Reason, Stage: r.Stage,
	})
	l.facts = l.facts[:0]
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
	l.facts = l.facts[:0] // the story of a failed attempt that none followed is told by the settlement itself
	stored := l.afterDoubt(*s)
	if t != nil {
		b := l.bill(t)
		if s.Outcome == request.FailedOutcome && !l.served {
			b.caller = 0 // the caller got nothing for it
		}
		s.Class, s.UpstreamStatus, s.UpstreamID, s.Evidence = string(t.class), t.status, t.upstreamID, t.evidence
		s.Usage, s.UsageSource, s.ServiceTier, s.ResponseID = t.usage, t.source, t.tier, t.answerID
		b.into(s)
		s.TTFTUS, s.AttemptUS = t.ttft.Microseconds(), t.took.Microseconds()
	}
	l.describe(s)
	l.admitted() // an append that was refused took Admitted with it
	l.add(s)
	_ = l.awaitCommit() // an error is an answer too; what is not stored yet is kept, and the settlement behind it
	l.end(stored)
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

// refusalAnswer is a refusal in the client's dialect, or the bare string of early authentication.
func refusalAnswer(c *Call, r failure.Refusal, sent bool) Answer {
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
		Status: r.Status, Code: r.Code, Type: r.Type, Message: r.Message, Reason: r.Reason, RequestID: c.ID,
		UserHint: r.Hint, DidSendUpstream: sent, RetryAfter: int(r.RetryAfter.Seconds()),
	}
}
