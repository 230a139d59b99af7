package actors

import (
	"slices"
	"time"

	"github.com/penstock/penstock/domain/catalog"
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

// drop takes one account off; a candidate without accounts is dead.
func (t *trial) drop(account string) {
	t.accounts = slices.DeleteFunc(slices.Clone(t.accounts), func(a string) bool { return a == account })
	t.dead = t.dead || len(t.accounts) == 0
}

// acquire gets a lease: at once from the first candidate that has one free, else by waiting at all of them that have a
// queue. A refusal says that there is nothing to hope for.
func (l *life) acquire() *failure.Refusal {
	if budget := l.snap.Settings.MaxAttempts; budget > 0 && l.attempts >= budget {
		return l.spent()
	}
	want := Want{ID: LeaseID{Request: l.c.ID, Attempt: l.attempts + 1}, Key: l.c.Ask.Key}
	alive := 0
	for i := range l.tries {
		t := &l.tries[i]
		if t.dead {
			continue
		}
		lease, refusal := l.d.System.Try(want, Candidate{Upstream: t.Upstream.ID, Accounts: t.accounts})
		if refusal == nil {
			l.granted(t, lease)
			return nil
		}
		t.reason, t.until = refusal.Reason, refusal.Until
		if t.reason == ConcurrencyFull {
			alive++
		} else {
			t.dead = true
		}
	}
	if alive == 0 {
		return l.spent()
	}
	return l.wait(want)
}

func (l *life) granted(t *trial, lease Lease) {
	l.lease, l.leased = lease, true
	l.at(t.Candidate)
}

// at makes the candidate the present one.
func (l *life) at(c *routing.Candidate) { l.cand, l.up = c, l.snap.Upstream(c.Upstream.ID) }

// wait joins the queues of all full candidates with one claim.
func (l *life) wait(want Want) *failure.Refusal {
	var cs []Candidate
	for i := range l.tries {
		if t := &l.tries[i]; !t.dead {
			cs = append(cs, Candidate{Upstream: t.Upstream.ID, Accounts: t.accounts})
		}
	}
	began := l.now()
	var pending *events.Pending
	n := int64(0)
	lease, refusal := l.d.System.Wait(want, cs, l.c.Gone.Done(), func(p Place) {
		l.queued = &request.Queued{Upstreams: p.Upstreams, Position: p.Position, Ticket: p.Ticket, Deadline: p.Deadline.UTC()}
		if l.last != nil { // the story of the failed attempt comes first, with the next dispatch
			return
		}
		l.admitted()
		l.add(l.queued)
		n = int64(len(l.facts))
		mode := events.May
		if l.d.Durability == Relaxed {
			mode = events.Must
		}
		pending, l.stored = l.d.Journal.Start(l.take(false), mode), true
	})
	waited := l.now().Sub(began)
	l.waited += waited
	if pending != nil {
		if err := pending.Wait(); err != nil && l.d.Durability != Relaxed {
			l.version, l.stored = l.version-n, false
			if refusal == nil {
				l.d.System.Release(lease, nil)
			}
			r := storeRefusal(err)
			return &r
		}
	}
	if refusal != nil {
		return l.notServed(*refusal)
	}
	l.queueEnd = "resumed"
	for i := range l.tries {
		if l.tries[i].Upstream.ID == lease.Upstream {
			l.granted(&l.tries[i], lease)
		}
	}
	if r := l.lookAgain(); r != nil {
		l.release(nil)
		return r
	}
	if l.queued != nil {
		if l.last != nil {
			l.add(l.queued)
		}
		l.add(&request.Resumed{Upstream: lease.Upstream, WaitedUS: waited.Microseconds()})
	}
	return nil
}

// notServed says why the wait came to nothing.
func (l *life) notServed(r Refusal) *failure.Refusal {
	var f failure.Refusal
	switch r.Reason {
	case TimedOut:
		l.queueEnd = "timed_out"
		f = failure.New(failure.QueueWaitTimeout, "QUEUE_WAIT_TIMEOUT")
	case Aborted:
		l.queueEnd = "aborted"
		f = failure.New(failure.ClientDisconnect, "QUEUE_WAIT_ABORTED")
	case QueueFull:
		f = failure.New(failure.AllUpstreamsUnavailable, failure.QueueFull)
	case ConcurrencyFull:
		f = failure.New(failure.AllUpstreamsUnavailable, failure.ConcurrencyFull)
	case CircuitOpen, Evicted:
		f = failure.New(failure.AllUpstreamsUnavailable, failure.UpstreamCircuitOpen)
	case LocalFault, Stopped:
		f = failure.New(failure.LocalFault, string(r.Reason))
	default:
		f = failure.New(failure.AllUpstreamsUnavailable, failure.NoHealthyCandidates)
	}
	f = f.WithUntil(r.Until, l.now())
	return &f
}

// spent is the refusal when no candidate is left.
func (l *life) spent() *failure.Refusal {
	f := failure.New(failure.AllUpstreamsUnavailable, failure.NoHealthyCandidates)
	var until time.Time
	for i := range l.tries {
		t := &l.tries[i]
		switch t.reason {
		case CircuitOpen:
			f = failure.New(failure.AllUpstreamsUnavailable, failure.UpstreamCircuitOpen)
		case LocalFault, Stopped:
			f = failure.New(failure.LocalFault, string(t.reason))
		}
		if !t.until.IsZero() && (until.IsZero() || t.until.Before(until)) {
			until = t.until
		}
	}
	f = f.WithUntil(until, l.now())
	return &f
}

// lookAgain checks, after a wait, what may have changed meanwhile: the key, its grants, the upstream.
func (l *life) lookAgain() *failure.Refusal {
	snap := l.d.Catalog()
	if snap == l.snap {
		return nil
	}
	key := snap.Key(l.c.Key.ID)
	if key == nil {
		r := failure.New(failure.InvalidAPIKey, "")
		return &r
	}
	if denied := snap.Authorize(key, l.now()); denied != catalog.Accepted {
		r := failure.New(string(denied), "")
		return &r
	}
	l.snap, l.c.Key = snap, key
	var again routing.Plan
	l.routes(&again)
	for i := range again.Candidates {
		c := &again.Candidates[i]
		if c.Upstream.ID == l.lease.Upstream && slices.Contains(c.Accounts, l.lease.Account) {
			l.at(c)
			return nil
		}
	}
	r := again.Refusal
	if r.IsZero() {
		r = failure.New(failure.AllUpstreamsUnavailable, failure.NoHealthyCandidates)
	}
	return &r
}

// release gives the lease back, once.
func (l *life) release(o *Outcome) {
	if l.leased {
		l.leased = false
		l.d.System.Release(l.lease, o)
	}
}
