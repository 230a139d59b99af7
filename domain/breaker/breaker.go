// Package breaker takes an upstream out of service after consecutive failures and lets it back in through single
// probes: a pure machine that mutates in place, without a clock, called from one goroutine. What it decides comes out as
// facts.
package breaker

import (
	"fmt"
	"strings"
	"time"
)

// State of a breaker. The zero value is closed.
type State uint8

// The states.
const (
	StateClosed   State = iota // in service
	StateOpen                  // out of service until a time
	StateHalfOpen              // one probe at a time
)

var stateNames = [...]string{StateClosed: "closed", StateOpen: "open", StateHalfOpen: "half_open"}

// String is "closed", "open" or "half_open".
func (s State) String() string {
	if int(s) >= len(stateNames) {
		return fmt.Sprintf("state %d", uint8(s))
	}
	return stateNames[s]
}

// MarshalText writes the name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the name.
func (s *State) UnmarshalText(b []byte) error {
	for i, name := range stateNames {
		if name == string(b) {
			*s = State(i)
			return nil
		}
	}
	return fmt.Errorf("%q is not a breaker state (closed, open, half_open)", b)
}

// Result is what an attempt tells the breaker.
type Result uint8

// The results. Faults of callers and of this machine are Neutral.
const (
	Neutral Result = iota
	Success
	Failure
)

// Policy sets the thresholds. Zero fields take the defaults 5, 2, 300 s, 30 s, 2, 300 s.
type Policy struct {
	Failures   int           // consecutive ones that open
	Successes  int           // of probes that close
	OpenFor    time.Duration // from opening to the first probe
	ProbeEvery time.Duration // from the first failed probe to the next probe
	Growth     float64       // what each further failed probe multiplies that time by; 1: it stays
	OpenMax    time.Duration // cap of what grows; never below ProbeEvery
}

func (p Policy) filled() Policy {
	if p.Failures <= 0 {
		p.Failures = 5
	}
	if p.Successes <= 0 {
		p.Successes = 2
	}
	if p.OpenFor <= 0 {
		p.OpenFor = 300 * time.Second
	}
	if p.ProbeEvery <= 0 {
		p.ProbeEvery = 30 * time.Second
	}
	if !(p.Growth >= 1) { // also what is no number
		p.Growth = 2
	}
	if p.OpenMax <= 0 {
		p.OpenMax = 300 * time.Second
	}
	p.OpenMax = max(p.OpenMax, p.ProbeEvery)
	return p
}

// reopenFor is how long the breaker stays open after its nth failed probe without a closing in between, from 1: short
// at first, then longer, never longer than the cap (pain 51).
func (p Policy) reopenFor(n int) time.Duration {
	d := float64(p.ProbeEvery)
	for i := 1; i < n && d < float64(p.OpenMax) && p.Growth > 1; i++ {
		d *= p.Growth
	}
	if d >= float64(p.OpenMax) {
		return p.OpenMax
	}
	return time.Duration(d)
}

// Permit lets one attempt through. Its generation tells outcomes of an earlier life of the breaker from present ones,
// and one probe from the next.
type Permit struct {
	Generation uint64
	Probe      bool
}

const (
	lastMax = 10  // how many failures are kept as evidence
	saidMax = 200 // bytes kept of what an upstream said
)

// Breaker is the machine. Make it with New.
type Breaker struct {
	upstream   string
	key        Key // zero: the whole upstream
	policy     Policy
	state      State
	since      time.Time // of the state
	until      time.Time // open only
	failures   int       // consecutive, closed; what opened it, otherwise
	successes  int       // of probes, half-open
	generation uint64    // rises with every change of state and with every probe
	spell      uint64    // generation at which the present state began
	probe      uint64    // generation of the probe in flight, 0 none
	reopened   int       // failed probes since the breaker was last closed
	last       []Evidence
	history    []Transition
}

// New makes a closed breaker.
func New(upstream string, p Policy, now time.Time) *Breaker {
	return &Breaker{upstream: upstream, policy: p.filled(), since: now, generation: 1, spell: 1}
}

// Reconfigure sets another policy. A deadline that is running stays; a lower threshold takes effect with the next failure.
func (b *Breaker) Reconfigure(p Policy) { b.policy = p.filled() }

// Check says whether Acquire would give a permit, and if not, when it may: zero while a probe is in flight.
func (b *Breaker) Check(now time.Time) (bool, time.Time) {
	switch {
	case b.state == StateOpen && now.Before(b.until):
		return false, b.until
	case b.state == StateHalfOpen && b.probe != 0:
		return false, time.Time{}
	}
	return true, time.Time{}
}

// Acquire gives a permit. An open breaker whose time is over becomes half-open here, by being asked; then the fact
// says so. Half-open gives one permit at a time, as a probe.
func (b *Breaker) Acquire(now time.Time) (Permit, bool, *HalfOpened) {
	if ok, _ := b.Check(now); !ok {
		return Permit{}, false, nil
	}
	var fact *HalfOpened
	if b.state == StateOpen {
		b.enter(StateHalfOpen, now)
		b.note(byTime)
		fact = &HalfOpened{b.upstream, b.key.Account, b.key.Model}
	}
	if b.state == StateHalfOpen {
		b.generation++
		b.probe = b.generation
		return Permit{Generation: b.probe, Probe: true}, true, fact
	}
	return Permit{Generation: b.generation}, true, nil
}

// Valid says whether a permit still counts: the breaker has not changed since, and a probe is the one in flight.
func (b *Breaker) Valid(p Permit) bool {
	switch b.state {
	case StateClosed:
		return p.Generation >= b.spell
	case StateHalfOpen:
		return p.Probe && p.Generation == b.probe
	}
	return false
}

// Cancel gives a permit back without an outcome: a probe's place is free again and nothing is counted. Permits that
// are not the probe in flight need not be given back; doing it twice is harmless.
func (b *Breaker) Cancel(p Permit) {
	if p.Probe && p.Generation == b.probe {
		b.probe = 0
	}
}

// Record takes the outcome of an attempt. An attempt may have two: success at first content, failure when the stream
// breaks later. Outcomes of permits from before the present state are ignored. e is kept when r is a counted failure.
// The result is *Opened, *Closed or nil.
func (b *Breaker) Record(p Permit, r Result, e Evidence) any {
	b.Cancel(p) // an outcome of any kind frees the probe's place
	if p.Generation < b.spell || r == Neutral {
		return nil
	}
	switch b.state {
	case StateClosed:
		return b.recordClosed(r, e)
	case StateHalfOpen:
		if p.Probe {
			return b.recordProbe(r, e)
		}
	}
	return nil
}

func (b *Breaker) recordClosed(r Result, e Evidence) any {
	if r == Success {
		b.failures = 0
		return nil
	}
	b.keep(e)
	if b.failures < b.policy.Failures {
		return nil
	}
	b.reopened = 0
	return b.open(e.At, e.At.Add(b.policy.OpenFor), byFailures)
}

func (b *Breaker) recordProbe(r Result, e Evidence) any {
	if r == Failure {
		b.keep(e)
		b.reopened++
		return b.open(e.At, e.At.Add(b.policy.reopenFor(b.reopened)), byProbe)
	}
	b.successes++
	if b.successes < b.policy.Successes {
		return nil
	}
	return b.close(e.At, byProbes)
}

// ForceOpen takes the upstream out of service until the given time; a zero until means OpenFor from now.
func (b *Breaker) ForceOpen(now, until time.Time) *Opened {
	if until.IsZero() {
		until = now.Add(b.policy.OpenFor)
	}
	b.reopened = 0
	return b.open(now, until, byOperator)
}

// ForceClose puts the upstream in service again and forgets its failures. It returns nil when the breaker was closed.
func (b *Breaker) ForceClose(now time.Time) *Closed {
	if b.state == StateClosed {
		b.failures = 0
		return nil
	}
	return b.close(now, byOperator)
}

// Evolve applies a stored fact of this breaker, at the time that its envelope says: *Opened, *HalfOpened or *Closed.
// Facts of another breaker of the same upstream, and anything else, are ignored. Permits from before are void.
func (b *Breaker) Evolve(fact any, at time.Time) {
	if _, key, ok := KeyOf(fact); !ok || key != b.key {
		return
	}
	switch f := fact.(type) {
	case *Opened:
		if b.reopened++; f.Reopened > 0 || f.By != byProbe { // facts of old have no number
			b.reopened = f.Reopened
		}
		b.enter(StateOpen, at)
		b.until, b.failures = f.Until, f.Failures
		b.last = append(b.last[:0], f.Last[max(0, len(f.Last)-lastMax):]...)
		b.note(f.By)
	case *HalfOpened:
		b.enter(StateHalfOpen, at)
		b.note(byTime)
	case *Closed:
		b.enter(StateClosed, at)
		b.failures, b.reopened = 0, 0
		b.note(f.By)
	}
}

func (b *Breaker) open(now, until time.Time, by string) *Opened {
	b.enter(StateOpen, now)
	b.until = until
	b.note(by)
	return &Opened{
		Upstream: b.upstream, Account: b.key.Account, Model: b.key.Model,
		Failures: b.failures, Reopened: b.reopened, Until: until, By: by, Last: b.Last(),
	}
}

func (b *Breaker) close(now time.Time, by string) *Closed {
	b.enter(StateClosed, now)
	b.failures, b.reopened = 0, 0
	b.note(by)
	return &Closed{b.upstream, b.key.Account, b.key.Model, by}
}

func (b *Breaker) enter(s State, now time.Time) {
	b.generation++
	b.spell = b.generation
	b.state, b.since, b.until = s, now, time.Time{}
	b.successes, b.probe = 0, 0
}

func (b *Breaker) keep(e Evidence) {
	b.failures++
	if len(e.Said) > saidMax {
		e.Said = strings.ToValidUTF8(e.Said[:saidMax], "")
	}
	if len(b.last) == lastMax {
		copy(b.last, b.last[1:])
		b.last = b.last[:lastMax-1]
	}
	b.last = append(b.last, e)
}

// State is the present state; an open breaker whose time is over stays open until it is asked.
func (b *Breaker) State() State { return b.state }

// Until is when an open breaker lets the first probe through; zero in the other states.
func (b *Breaker) Until() time.Time { return b.until }

// Probing says whether a probe is in flight.
func (b *Breaker) Probing() bool { return b.probe != 0 }

// Last is a copy of the last failures, at most ten, oldest first.
func (b *Breaker) Last() []Evidence { return append([]Evidence(nil), b.last...) }
