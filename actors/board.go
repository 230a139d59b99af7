package actors

import (
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/routing"
)

// Figures are the live figures of one upstream, a moment old at most. They are for planning; the actor decides.
type Figures struct {
	Breaker   breaker.State
	Until     time.Time // open: when the first probe may go; zero otherwise
	ProbeFree bool      // no probe is in flight
	Held      int
	Slots     int // −1 = unlimited
	Waiting   int
	TTFT      time.Duration // moving average, 0 while unknown
	Successes uint64        // outcomes since the actor started
	Failures  uint64
}

// AccountFigures are the live figures of one account.
type AccountFigures struct {
	Upstream     string
	Held         int
	Slots        int // −1 = unlimited
	BlockedUntil time.Time
	Reason       string // of the block
	Active       bool
}

// Board shows live figures without asking anybody; it is the routing.Live of plans. Its zero value is empty.
type Board struct{ view atomic.Pointer[boardView] }

var _ routing.Live = (*Board)(nil)

type boardView struct {
	upstreams map[string]*upstreamFigures
	accounts  map[string]*accountFigures
}

// Figures gives the figures of one upstream; false when there is no such actor.
func (b *Board) Figures(upstream string) (Figures, bool) {
	if v := b.view.Load(); v != nil {
		if f := v.upstreams[upstream]; f != nil {
			return f.read(), true
		}
	}
	return Figures{}, false
}

// AccountFigures gives the figures of one account; false when there is no such actor.
func (b *Board) AccountFigures(id string) (AccountFigures, bool) {
	if v := b.view.Load(); v != nil {
		if f := v.accounts[id]; f != nil {
			return f.read(), true
		}
	}
	return AccountFigures{}, false
}

var routingStates = [...]routing.State{
	breaker.StateClosed: routing.Closed, breaker.StateOpen: routing.Open, breaker.StateHalfOpen: routing.HalfOpen,
}

// Upstream gives what planning needs. Of an unknown upstream nothing is known.
func (b *Board) Upstream(id string) routing.Figures {
	f, ok := b.Figures(id)
	if !ok {
		return routing.Figures{}
	}
	return routing.Figures{
		Breaker: routingStates[f.Breaker], Until: f.Until, ProbeFree: f.ProbeFree,
		Held: f.Held, Slots: max(f.Slots, 0), Waiting: f.Waiting, TTFT: f.TTFT,
	}
}

// Account gives what planning needs. An account without an actor is taken for a good one; its upstream knows better.
func (b *Board) Account(id string) routing.AccountFigures {
	f, ok := b.AccountFigures(id)
	if !ok {
		return routing.AccountFigures{Active: true}
	}
	return routing.AccountFigures{Held: f.Held, Slots: max(f.Slots, 0), BlockedUntil: f.BlockedUntil, Active: f.Active}
}

// upstreamFigures is written by one actor and read by everybody. Fields may be a message apart from one another.
type upstreamFigures struct {
	state     atomic.Int64
	until     atomic.Int64 // nanoseconds, 0 none
	probing   atomic.Int64
	held      atomic.Int64
	slots     atomic.Int64
	waiting   atomic.Int64
	ttft      atomic.Int64
	successes atomic.Uint64
	failures  atomic.Uint64
}

func (f *upstreamFigures) read() Figures {
	return Figures{
		Breaker: breaker.State(f.state.Load()), Until: fromNanos(f.until.Load()), ProbeFree: f.probing.Load() == 0,
		Held: int(f.held.Load()), Slots: int(f.slots.Load()), Waiting: int(f.waiting.Load()),
		TTFT: time.Duration(f.ttft.Load()), Successes: f.successes.Load(), Failures: f.failures.Load(),
	}
}

// observe takes an outcome into the averages.
func (f *upstreamFigures) observe(o *Outcome) {
	switch o.Result {
	case breaker.Success:
		f.successes.Add(1)
	case breaker.Failure:
		f.failures.Add(1)
	}
	if o.TTFT > 0 {
		const weight = 5 // a new value counts one fifth
		was := f.ttft.Load()
		if was == 0 {
			was = int64(o.TTFT)
		}
		f.ttft.Store(was + (int64(o.TTFT)-was)/weight)
	}
}

// accountFigures is written by one actor and read by everybody.
type accountFigures struct {
	upstream string
	held     atomic.Int64
	slots    atomic.Int64
	active   atomic.Bool
	block    atomic.Pointer[blockView] // nil: never blocked
}

type blockView struct {
	until  time.Time
	reason string
}

func (f *accountFigures) read() AccountFigures {
	a := AccountFigures{Upstream: f.upstream, Held: int(f.held.Load()), Slots: int(f.slots.Load()), Active: f.active.Load()}
	if b := f.block.Load(); b != nil {
		a.BlockedUntil, a.Reason = b.until, b.reason
	}
	return a
}

// put stores only what differs: a load is cheaper than a store that every reader's cache must hear of.
func put(v *atomic.Int64, to int64) {
	if v.Load() != to {
		v.Store(to)
	}
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func fromNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}
