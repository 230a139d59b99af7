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
	at time.Time
}

// pair is two keys that wait at one upstream, a before b.
type pair struct{ upstream, a, b string }

// spell is for how long both have waited without a pause, and how many of each were served meanwhile.
type spell struct{ a, b uint64 }

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
		was, is := l.queues[u.ID], lookAt{st, time.Now()}
		l.queues[u.ID] = is
		if len(l.w.accounts(u.ID)) != 1 || u.Queue == nil || u.Breaker.PerAccountModel() {
			continue
		}
		every := time.Duration(u.Queue.AgeEvery)
		if every == 0 {
			every = time.Duration(u.Queue.Timeout) / 3
		}
		if u.Queue.Discipline == "fifo" {
			l.inOrder(was, is, every)
		} else {
			l.inTurn(was, is)
		}
	}
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
			if (worst < best || worst == best && first.Ticket < w.Ticket) && waits(is, first.RequestID) {
				l.fault("%s (%s, ticket %d) was served by %s before %s (%s, ticket %d)",
					w.RequestID, w.Class, w.Ticket, is.ID, first.RequestID, first.Class, first.Ticket)
			}
		}
	}
}

// waits says whether a request is in the queue.
func waits(st lookAt, request string) bool {
	return slices.ContainsFunc(st.Waiting, func(p actors.WaitingPlace) bool { return p.RequestID == request })
}

// inTurn: while two keys wait, each gets its share. It judges keys whose requests are all of the first rank, in which nobody
// ages: the shares of two differ by less than a turn of each.
func (l *law) inTurn(was, is lookAt) {
	for i := range l.w.keys {
		for j := range i {
			a, b := l.w.keys[j], l.w.keys[i]
			if a.Priority != "high" || b.Priority != "high" {
				continue
			}
			p := pair{is.ID, a.ID, b.ID}
			if !l.stays(was, is, a.ID) || !l.stays(was, is, b.ID) {
				delete(l.spells, p)
				continue
			}
			s := l.spells[p]
			if s == nil {
				s = &spell{}
				l.spells[p] = s
			}
			s.a += served(is, a.ID) - served(was, a.ID)
			s.b += served(is, b.ID) - served(was, b.ID)
			wa, wb := uint64(a.FairWeight()), uint64(b.FairWeight())
			if s.a*wb > (s.b+2*wb)*wa || s.b*wa > (s.a+2*wa)*wb {
				l.fault("while both waited at %s, %s (weight %d) was served %d times and %s (weight %d) %d times", is.ID, a.ID, wa, s.a, b.ID, wb, s.b)
			}
		}
	}
}

// stays says that a key has waited all the time between two looks, because one of its requests has.
func (l *law) stays(was, is lookAt, key string) bool {
	return slices.ContainsFunc(is.Waiting, func(p actors.WaitingPlace) bool {
		return p.Key == key && slices.ContainsFunc(was.Waiting, func(o actors.WaitingPlace) bool {
			return o.RequestID == p.RequestID && o.Ticket == p.Ticket
		})
	})
}

func served(st lookAt, key string) uint64 {
	for _, s := range st.Shares {
		if s.Key == key {
			return s.Served
		}
	}
	return 0
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
