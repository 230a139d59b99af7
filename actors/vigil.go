package actors

import (
	"time"

	"github.com/penstock/penstock/domain/gate"
)

// seat is the asker's view of one upstream.
type seat struct {
	*upstreamRef
	candidate int // index in the candidates
	state     seatState
	place     said
}

type seatState uint8

const (
	seatAsked  seatState = iota // no first answer yet
	seatJoined                  // in the queue
	seatLeft
)

// vigil is one call of Wait.
type vigil struct {
	sys   *System
	party *party
	seats []seat
	start time.Time
	no    Refusal // why the last seat was lost; before that, the weightiest first answer
	noAt  int     // the candidate that gave it
	lease Lease
	done  bool
}

// open asks every candidate.
func (v *vigil) open(cs []Candidate) {
	v.seats = make([]seat, 0, len(cs))
	for i, c := range cs {
		r, no := v.sys.upstream(c.Upstream)
		if no != nil {
			v.weigh(*no, i)
			continue
		}
		twice := false
		for i := range v.seats {
			twice = twice || v.seats[i].upstreamRef == r
		}
		if twice {
			continue
		}
		j := &joinUpstream{party: v.party, seat: len(v.seats)}
		j.grant.join, j.grant.model, j.grant.last = j, c.Model, c.LastResort
		j.grant.reset(v.party.want, c.Accounts, v.start)
		v.seats = append(v.seats, seat{upstreamRef: r, candidate: i})
		v.sys.send(r.pid, j)
	}
}

// gather waits for the first answers; they take microseconds. False: the client went away.
func (v *vigil) gather(gone <-chan struct{}) bool {
	for i := range v.seats {
		for v.seats[i].state == seatAsked && !v.done {
			if fired(gone) {
				return false
			}
			select {
			case m := <-v.party.said:
				v.hear(m)
			case <-v.seats[i].gone:
				v.drain()
				if v.seats[i].state == seatAsked {
					v.seats[i].state = seatLeft
					v.weigh(Refusal{Reason: v.sys.goneReason(UnknownUpstream), Upstream: v.seats[i].id}, v.seats[i].candidate)
				}
			case <-gone:
				return false
			}
		}
	}
	return true
}

// drain hears everything that was said already.
func (v *vigil) drain() {
	for {
		select {
		case m := <-v.party.said:
			v.hear(m)
		default:
			return
		}
	}
}

func (v *vigil) hear(m said) {
	seat := &v.seats[m.seat]
	switch m.kind {
	case saidGranted:
		seat.state, v.done, v.lease = seatLeft, true, m.lease
	case saidLost:
		m.refusal.Upstream = seat.id
		seat.state, v.done, v.no = seatLeft, true, m.refusal
	case saidRefused:
		seat.state = seatLeft
		m.refusal.Upstream = seat.id
		v.weigh(m.refusal, seat.candidate)
	case saidJoined:
		seat.state, seat.place = seatJoined, m
	case saidEvicted:
		if seat.state == seatJoined {
			m.refusal.Upstream = seat.id
			v.no = m.refusal
		}
		seat.state = seatLeft
	}
}

// weights orders the first answers: what is nearest to a place in a queue says most.
var weights = map[Reason]int{TooLate: 8, Recalled: 8, QueueFull: 7, ConcurrencyFull: 6, NoAccount: 5, CircuitOpen: 4, Stopped: 3, LocalFault: 2, Aborted: 2, UnknownUpstream: 1}

// weigh keeps the weightiest refusal and, among equal ones, that of the first candidate.
func (v *vigil) weigh(r Refusal, candidate int) {
	by := weights[r.Reason] - weights[v.no.Reason]
	if v.no.Upstream == "" || by > 0 || by == 0 && candidate < v.noAt {
		v.no, v.noAt = r, candidate
	}
}

// place says where it waits; false when nowhere.
func (v *vigil) place() (Place, bool) {
	var p Place
	for i := range v.seats {
		s := &v.seats[i]
		if s.state != seatJoined {
			continue
		}
		if len(p.Upstreams) == 0 {
			p.Position, p.Ticket = s.place.position, s.place.ticket
			p.Expected, p.Estimated = s.place.expected, s.place.estimated
		}
		p.Upstreams = append(p.Upstreams, s.id)
		if s.place.deadline.After(p.Deadline) {
			p.Deadline = s.place.deadline
		}
	}
	return p, len(p.Upstreams) > 0
}

// wait waits in the queues until it is served or every queue is left. Each queue's own actor says when its time is over, so
// that there is one clock.
func (v *vigil) wait(gone <-chan struct{}, p pulse) (Lease, *Refusal) {
	m := v.sys.metronome(p)
	defer m.stop()
	for v.waits() && !fired(gone) {
		select {
		case s := <-v.party.said:
			if v.hear(s); v.done {
				return v.served()
			}
		case <-m.C:
			m.tick()
		case <-gone:
		}
	}
	if v.waits() {
		return v.end(Refusal{Reason: Aborted, Upstream: v.first()}, gate.Aborted, false)
	}
	return v.end(v.no, gate.Moved, true)
}

// fired says that a client has gone. It counts more than whatever is ready at the same time.
func fired(gone <-chan struct{}) bool {
	select {
	case <-gone:
		return true
	default:
		return false
	}
}

// waits says whether it stands in a queue.
func (v *vigil) waits() bool {
	for i := range v.seats {
		if v.seats[i].state == seatJoined {
			return true
		}
	}
	return false
}

func (v *vigil) first() string {
	for i := range v.seats {
		if v.seats[i].state == seatJoined {
			return v.seats[i].id
		}
	}
	return ""
}

// end gives up the claim and leaves all queues. When a grant was faster, it is taken if take is set, else given back.
func (v *vigil) end(r Refusal, why gate.Why, take bool) (Lease, *Refusal) {
	if v.party.claim.cancel() {
		v.leaveAll(why)
		return Lease{}, &r
	}
	for !v.done {
		v.hear(<-v.party.said) // who wins the claim says so in the same step
	}
	if take {
		return v.served()
	}
	v.leaveAll(gate.Moved)
	if v.lease.Upstream != "" {
		v.sys.Release(v.lease, nil)
	}
	return Lease{}, &r
}

// served ends the wait with the grant, or with the fault that it came to.
func (v *vigil) served() (Lease, *Refusal) {
	v.leaveAll(gate.Moved)
	if v.lease.Upstream == "" {
		return Lease{}, &v.no
	}
	v.lease.Waited = v.sys.now().Sub(v.start)
	return v.lease, nil
}

func (v *vigil) leaveAll(why gate.Why) {
	for i := range v.seats {
		if s := &v.seats[i]; s.state != seatLeft {
			s.state = seatLeft
			v.sys.leave(s.upstreamRef, v.party.want.ID, why)
		}
	}
}
