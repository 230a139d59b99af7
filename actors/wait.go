package actors

import (
	"time"

	"github.com/penstock/penstock/domain/gate"
)

// party is one request that waits at one or several upstreams with one claim.
type party struct {
	want  Want
	claim claimState
	said  chan said // room for everything that its upstreams can say, so that no actor ever blocks
}

// joinUpstream asks for a slot, and for a place in the queue when there is none.
type joinUpstream struct {
	quiet
	party *party
	seat  int // index in the asker's list
	grant grant
}

// said is what an upstream tells a party: one first answer, and after "joined" one last one.
type said struct {
	seat      int
	kind      saidKind
	lease     Lease
	refusal   Refusal
	position  int
	ticket    uint64
	deadline  time.Time
	expected  time.Duration
	estimated bool // expected is known
}

type saidKind uint8

const (
	saidGranted saidKind = iota // first or last
	saidRefused                 // first
	saidJoined                  // first
	saidEvicted                 // last
	saidLost                    // the grant that won the claim came to nothing
)

// answersMax is how often one upstream speaks to one party: first, last, and a lost grant.
const answersMax = 3

func (j *joinUpstream) say(s said) {
	s.seat = j.seat
	j.party.said <- s
}

func (j *joinUpstream) refuse(r Reason) { j.say(said{kind: saidRefused, refusal: Refusal{Reason: r}}) }

// pulse is what a waiting client is kept alive with. Its methods are called by who waits.
type pulse interface {
	due() time.Time // when beat wants to be called next; zero: never
	beat()
}

// Wait joins the queue of every candidate that has one, with one claim: whichever frees first serves it, exactly once.
// A candidate with a free slot serves it at once. onQueued is called once, when it really waits. The wait ends with a
// lease; TimedOut at the latest deadline among the joined queues; Aborted when gone is closed; Evicted when all queues
// threw it out; Recalled when an operator took the slot back that it was about to get; or at once when none could be
// joined: TooLate when its turn would come too late, QueueFull when those that exist are full, ConcurrencyFull when there
// are none, else what stands in the way. The refusal is nil when there is a lease.
func (s *System) Wait(w Want, cs []Candidate, gone <-chan struct{}, onQueued func(Place)) (Lease, *Refusal) {
	return s.wait(w, cs, gone, nil, onQueued)
}

// wait is Wait with a pulse; nil: without. Whoever waits may panic in its pulse or in onQueued: it waits no more then.
func (s *System) wait(w Want, cs []Candidate, gone <-chan struct{}, p pulse, onQueued func(Place)) (l Lease, no *Refusal) {
	v := &vigil{sys: s, start: s.now(), no: Refusal{Reason: s.goneReason(UnknownUpstream)}}
	v.party = &party{want: w, said: make(chan said, answersMax*len(cs))}
	over := false
	defer func() {
		if !over {
			v.end(Refusal{}, gate.Aborted, false)
		}
	}()
	v.open(cs)
	l, no = v.run(gone, p, onQueued)
	over = true
	return l, no
}

func (v *vigil) run(gone <-chan struct{}, p pulse, onQueued func(Place)) (Lease, *Refusal) {
	if !v.gather(gone) {
		return v.end(Refusal{Reason: Aborted}, gate.Aborted, false)
	}
	if v.done {
		return v.served()
	}
	place, waits := v.place()
	if !waits {
		return Lease{}, &v.no
	}
	if onQueued != nil {
		onQueued(place)
	}
	return v.wait(gone, p)
}

// metronome is the timer of a pulse. The zero value never ticks.
type metronome struct {
	pulse pulse
	sys   *System
	timer *time.Timer
	C     <-chan time.Time
}

func (s *System) metronome(p pulse) *metronome {
	m := &metronome{pulse: p, sys: s}
	m.arm()
	return m
}

func (m *metronome) arm() {
	if m.pulse == nil {
		return
	}
	next := m.pulse.due()
	if next.IsZero() {
		m.C = nil
		return
	}
	d := max(next.Sub(m.sys.now()), 0)
	if m.timer == nil {
		m.timer = time.NewTimer(d)
		m.C = m.timer.C
		return
	}
	m.timer.Reset(d)
}

// tick beats, and waits for the next time.
func (m *metronome) tick() {
	m.pulse.beat()
	m.arm()
}

func (m *metronome) stop() {
	if m.timer != nil {
		m.timer.Stop()
	}
}
