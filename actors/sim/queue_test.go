package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/penstock/penstock/actors"
)

// lookAt is what a look at an upstream has seen.
type lookAt struct {
	actors.UpstreamStatus
	at      time.Time
	blocked bool // its account is, or a model at it
	blocks  int  // that there were so far
}

// inTheWay says that between two looks a block may have made a difference between those who waited: it may be one of a single
// model, and a last resort is served in spite of it.
func inTheWay(was, is lookAt) bool { return was.blocked || is.blocked || was.blocks != is.blocks }

// look is the operator's eye on the queues of upstreams of one account, where everybody who waits can be served by
// whatever frees.
func (l *law) look() {
	for _, u := range l.w.ups {
		st, ok := l.p.system.Status(u.ID)
		if !ok {
			l.fault("no status of %s", u.ID)
			continue
		}
		l.w.trace("%s: %d held, %d wait, %v", u.ID, len(st.Held), len(st.Waiting), st.Breaker.State)
		was, is := l.queues[u.ID], l.lookAt(st)
		l.queues[u.ID] = is
		if len(l.w.accounts(u.ID)) != 1 || u.Queue == nil || u.Breaker.PerAccountModel() || inTheWay(was, is) {
			continue
		}
		every := time.Duration(u.Queue.AgeEvery)
		if every == 0 {
			every = time.Duration(u.Queue.Timeout) / 3
		}
		switch {
		case u.Queue.Discipline == "fifo":
			l.inOrder(was, is, every)
		case l.w.crowd:
			l.inTurn(was, is)
		}
	}
}

func (l *law) lookAt(st actors.UpstreamStatus) lookAt {
	l.mu.Lock()
	defer l.mu.Unlock()
	return lookAt{st, time.Now(), slices.ContainsFunc(l.w.accounts(st.ID), l.blocked), l.blocksSoFar}
}

var levels = map[string]int{"high": 0, "normal": 1, "low": 2}

// level is the rank of a waiter: its class, and one better for each ageEvery of waiting.
func level(p actors.WaitingPlace, at time.Time, every time.Duration) int {
	return max(0, levels[p.Class]-int(at.Sub(p.Since)/every))
}

// inOrder: who came first goes first, among those of one rank, and a better rank goes before a worse one. A waiter that was
// served was so at some time between two looks.
func (l *law) inOrder(was, is lookAt, every time.Duration) {
	for _, w := range was.Waiting {
		if !slices.ContainsFunc(is.Held, func(h actors.HeldSlot) bool { return h.RequestID == w.RequestID }) {
			continue
		}
		best := level(w, is.at, every)
		for _, first := range was.Waiting {
			worst := level(first, was.at, every)
			if (worst < best || worst == best && first.Ticket < w.Ticket) && waits(is, first) {
				l.fault("%s (%s, ticket %d) was served by %s before %s (%s, ticket %d)",
					w.RequestID, w.Class, w.Ticket, is.ID, first.RequestID, first.Class, first.Ticket)
			}
		}
	}
}

// waits says whether somebody is in the queue still, and not again.
func waits(st lookAt, was actors.WaitingPlace) bool {
	return slices.ContainsFunc(st.Waiting, func(p actors.WaitingPlace) bool {
		return p.RequestID == was.RequestID && p.Ticket == was.Ticket
	})
}

// queued judges the sums of each queue: who has joined it was served from it, timed out, went away, or was sent or served
// elsewhere. What is served is known from the stories; some who were served had gone meanwhile, and their stories tell
// nothing of it.
func (l *law) queued(tales map[string]*tale) {
	served, lost := map[string]uint64{}, uint64(0)
	for _, c := range l.w.clients {
		t := tales[c.id]
		if c.node != l.p || t == nil {
			continue
		}
		for _, r := range t.resumes {
			served[r.Upstream]++
		}
		if t.settled == nil || t.settled.QueueState != "resumed" {
			lost += 1 + uint64(len(c.calls))
		}
	}
	for _, u := range l.w.ups {
		t := l.totals[u.ID]
		from := t.Queued - t.TimedOut - t.Aborted - t.Moved // what is left must have been served
		if len(l.returned[u.ID]) > 0 {                      // it has counted anew
			continue
		}
		if from < served[u.ID] || from > served[u.ID]+lost || l.w.quiet && (from != served[u.ID] || t.Aborted > 0) {
			l.fault("%s: %d were served from the queue, which counts %+v", u.ID, served[u.ID], t)
		}
	}
}

// bound: a restart would find the bindings of sessions as they are.
func (l *law) bound() {
	now := time.Now()
	live := l.p.affinity.Status("", now, 1000)
	again := actors.NewAffinity(&l.w.snap.Load().Settings.Scheduling)
	l.must("affinity", again.Load(background, l.w.store, now))
	is := sorted(again.Status("", now, 1000).Sessions)
	was := sorted(live.Sessions)
	if len(is) != len(was) {
		l.fault("%d sessions are bound; %d after a restart", len(was), len(is))
		return
	}
	for i := range is {
		if is[i] != was[i] {
			l.fault("a session is bound as %+v; after a restart as %+v", was[i], is[i])
		}
	}
}

// sorted sessions, with times as the store keeps them.
func sorted(s []actors.BoundSession) []actors.BoundSession {
	for i := range s {
		s[i].Since, s[i].Used = s[i].Since.Truncate(time.Microsecond), s[i].Used.Truncate(time.Microsecond)
	}
	slices.SortFunc(s, func(a, b actors.BoundSession) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Capability, b.Capability), cmp.Compare(a.Session, b.Session))
	})
	return s
}
