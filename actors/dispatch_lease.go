package actors

import (
	"slices"
	"time"

	"github.com/penstock/penstock/domain/failure"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/domain/routing"
	"github.com/penstock/penstock/events"
)

// trial is a candidate of the plan with what is left of it.
type trial struct {
	*routing.Candidate
	accounts []string // not yet tried
	dead     bool     // not to be asked again by this request
	reason   Reason   // of the last refusal
	until    time.Time
}

// asked is what of it is asked for a lease.
func (t *trial) asked(model string) Candidate {
	return Candidate{Upstream: t.Upstream.ID, Accounts: t.accounts, Model: t.Asks(model), LastResort: t.LastResort}
}

// drop takes one account off; a candidate without accounts is dead.
func (t *trial) drop(account string) {
	t.accounts = slices.DeleteFunc(slices.Clone(t.accounts), func(a string) bool { return a == account })
	t.dead = t.dead || len(t.accounts) == 0
}

// acquire gets a lease: at once from the first candidate that has one free, else by waiting at all of them that have a
// queue. A refusal says that there is nothing to hope for.
func (l *life) acquire() *failure.Refusal {
	l.recall = l.paper.back.take()
	want := Want{
		ID: LeaseID{Request: l.c.ID, Attempt: l.attempts + 1}, Key: l.c.Ask.Key, Class: l.key.Class(), Weight: l.key.FairWeight(),
		Recall: l.recall,
	}
	alive := false
	for i := range l.tries {
		t := &l.tries[i]
		if t.dead {
			continue
		}
		lease, no := l.d.System.Try(want, t.asked(l.c.Ask.Model))
		if no == nil {
			l.granted(lease)
			l.at(t.Candidate)
			return nil
		}
		if no.Reason == Recalled {
			return refuse(failure.OperatorCancelled, "")
		}
		t.reason, t.until = no.Reason, no.Until
		t.dead = t.reason != ConcurrencyFull
		l.shared = l.shared || no.Reason != ConcurrencyFull && no.Reason != CircuitOpen && no.Reason != NoAccount
		alive = alive || !t.dead
	}
	if !alive {
		return l.spent()
	}
	return l.wait(want)
}

func (l *life) granted(lease Lease) { l.lease, l.leased = lease, true }

// at makes the candidate the present one.
func (l *life) at(c *routing.Candidate) { l.cand, l.up = c, l.snap.Upstream(c.Upstream.ID) }

// wait joins the queues of all full candidates with one claim.
func (l *life) wait(want Want) *failure.Refusal {
	var cs []Candidate
	for i := range l.tries {
		if t := &l.tries[i]; !t.dead {
			cs = append(cs, t.asked(l.c.Ask.Model))
		}
	}
	l.shared = true // queues forget who has left them in their own time
	began := l.now()
	var pending *events.Pending
	var facts []events.Fact // that it is to store
	queued, noted := false, false
	lease, no := l.d.System.wait(want, cs, l.c.Gone.Done(), l.pulse(), func(p Place) {
		queued, l.queueEnd = true, queueEvicted
		l.queued = &request.Queued{Upstreams: p.Upstreams, Position: p.Position, Ticket: p.Ticket, Deadline: p.Deadline.UTC()}
		if !l.stored { // else what happened before comes first, with the next dispatch
			noted = true
			pending, facts = l.noteQueued()
		}
	})
	waited := l.now().Sub(began)
	if queued {
		l.waited += waited
	}
	if no == nil {
		l.granted(lease)
	}
	if pending != nil {
		if err := pending.Wait(); err != nil {
			l.version, l.stored, noted = 0, false, false
			l.doubts(err, facts)
			if no == nil {
				r := storeRefusal(err)
				return &r
			}
		}
	}
	if queued && !noted {
		l.add(l.queued)
	}
	if no != nil {
		return l.notServed(*no, queued)
	}
	if queued {
		l.queueEnd = queueResumed
		l.add(&request.Resumed{Upstream: lease.Upstream, WaitedUS: waited.Microseconds()})
	}
	useful, r := l.lookAgain()
	if r == nil { // also of another plan, which may cost more
		r = l.reserve()
	}
	if r == nil && !useful {
		l.release()
		return l.acquire()
	}
	return r
}

// How the last wait of a request ended, as Settled.QueueState tells it. "": it never had a place in a queue.
const (
	queueResumed  = "resumed"
	queueTimedOut = "timed_out"
	queueAborted  = "aborted" // its client went
	queueEvicted  = "evicted" // it was sent away, or this process ended
)

// waits are the facts of waiting among some. Nothing else tells of them, so that they are kept when others are not.
func waits(facts []events.Fact) (kept []events.Fact) {
	for _, f := range facts {
		switch f.(type) {
		case *request.Queued, *request.Resumed:
			kept = append(kept, f)
		}
	}
	return kept
}

// notServed says why the wait came to nothing; queued: there was one.
func (l *life) notServed(no Refusal, queued bool) *failure.Refusal {
	code, reason := failure.AllUpstreamsUnavailable, failure.NoHealthyCandidates
	switch no.Reason {
	case TimedOut:
		l.queueEnd = queueTimedOut
		code, reason = failure.QueueWaitTimeout, "QUEUE_WAIT_TIMEOUT"
	case TooLate:
		code, reason = failure.QueueWaitTimeout, "QUEUE_WAIT_TOO_LONG"
	case Recalled:
		code, reason = failure.OperatorCancelled, ""
	case Aborted:
		if queued { // else it had asked for a place, and left before it was told of one
			l.queueEnd = queueAborted
		}
		code, reason = failure.ClientDisconnect, "QUEUE_WAIT_ABORTED"
	case QueueFull:
		reason = failure.QueueFull
	case ConcurrencyFull:
		reason = failure.ConcurrencyFull
	case CircuitOpen:
		reason = failure.UpstreamCircuitOpen
	case Evicted: // by a breaker that knows when it tries again, or since the upstream is no more
		if !no.Until.IsZero() {
			reason = failure.UpstreamCircuitOpen
		}
	case LocalFault, Stopped:
		code, reason = failure.LocalFault, string(no.Reason)
	}
	r := failure.New(code, reason)
	if no.Reason == Aborted {
		r = r.At(failure.StageQueue)
	}
	if no.Reason == TooLate { // it did not wait, and may come back
		r.Wait = failure.WhenKnown
	}
	r = r.WithUntil(no.Until, l.now())
	return &r
}

// spent is the refusal when no candidate is left.
func (l *life) spent() *failure.Refusal {
	if r := l.purse.short; r != nil {
		return r
	}
	r := failure.New(failure.AllUpstreamsUnavailable, failure.NoHealthyCandidates)
	var until time.Time
	for i := range l.tries {
		t := &l.tries[i]
		switch t.reason {
		case CircuitOpen:
			r = failure.New(failure.AllUpstreamsUnavailable, failure.UpstreamCircuitOpen)
		case LocalFault, Stopped:
			r = failure.New(failure.LocalFault, string(t.reason))
		}
		if !t.until.IsZero() && (until.IsZero() || t.until.Before(until)) {
			until = t.until
		}
	}
	if r.Code == failure.AllUpstreamsUnavailable && l.plan.Affinity == routing.WhyPinned {
		r = failure.New(r.Code, failure.ContinuationPinned)
	}
	r = r.WithUntil(until, l.now())
	return &r
}

// lookAgain checks, after a wait, what may have changed meanwhile: the key, its grants, the upstream. When the
// configuration is another one the plan is made anew; the lease is useful when it is of one of its candidates.
func (l *life) lookAgain() (useful bool, _ *failure.Refusal) {
	was := l.snap
	if r := l.renew(l.now()); r != nil {
		return false, r
	}
	if l.snap != was {
		l.routes(configured{})
		if r := l.plan.Refusal; !r.IsZero() {
			return false, &r
		}
	}
	for i := range l.tries {
		t := &l.tries[i]
		if t.Upstream.ID == l.lease.Upstream && slices.Contains(t.accounts, l.lease.Account) {
			l.at(t.Candidate)
			return true, nil
		}
	}
	return false, nil
}

// configured is a routing.Live that knows of no load and no fault: a plan by the configuration alone. The lease that a
// request holds has been judged by the actors; on the board it would stand in its own way.
type configured struct{}

func (configured) Upstream(string) routing.Figures { return routing.Figures{} }

func (configured) Account(string) routing.AccountFigures { return routing.AccountFigures{Active: true} }
