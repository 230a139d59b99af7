package actors

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/domain/account"
	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/catalog"
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
	Failing   float64       // moving share of failures among the outcomes, 0..1
	LastUsed  time.Time     // of its last lease
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
	TTFT         time.Duration // as of Figures, with this account
	Failing      float64
	LastUsed     time.Time
	Quota        account.Quota // as it was told last, also when that is over
}

// Board shows live figures without asking anybody and without a lock; it is the routing.Live of plans. Its zero value is
// empty.
type Board struct {
	view atomic.Pointer[boardView]
	now  func() time.Time // nil: time.Now
}

var _ routing.Batch = (*Board)(nil)

// boardView says whose figures there are. It is replaced, never changed.
type boardView struct {
	upstreams map[string]*upstreamFigures
	accounts  map[string]*accountFigures
	of        map[string][]accountSpot // the accounts of an upstream, by id
}

// accountSpot is an account on the board.
type accountSpot struct {
	id      string
	figures *accountFigures
}

// Figures gives the figures of one upstream; false when there is no such actor.
func (b *Board) Figures(upstream string) (Figures, bool) {
	if v := b.view.Load(); v != nil {
		if f := v.upstreams[upstream]; f != nil {
			x := f.read()
			x.TTFT, x.Failing, x.LastUsed = time.Duration(f.ttft.Load()), f.failing(b.now), fromNanos(f.used.Load())
			return x, true
		}
	}
	return Figures{}, false
}

// AccountFigures gives the figures of one account; false when there is no such actor.
func (b *Board) AccountFigures(id string) (AccountFigures, bool) {
	if v := b.view.Load(); v != nil {
		if f := v.accounts[id]; f != nil {
			x := f.read()
			x.TTFT, x.Failing, x.LastUsed = time.Duration(f.ttft.Load()), f.failing(b.now), fromNanos(f.used.Load())
			x.Quota, _ = f.quota.read()
			return x, true
		}
	}
	return AccountFigures{}, false
}

var routingStates = [...]routing.State{
	breaker.StateClosed: routing.Closed, breaker.StateOpen: routing.Open, breaker.StateHalfOpen: routing.HalfOpen,
}

// Upstream gives what planning needs. Of an unknown upstream nothing is known.
func (b *Board) Upstream(id string) routing.Figures {
	var f *upstreamFigures
	if v := b.view.Load(); v != nil {
		f = v.upstreams[id]
	}
	if f == nil {
		return routing.Figures{}
	}
	r := routing.Figures{
		Breaker: routingStates[f.state.Load()], Held: int(f.held.Load()), Slots: max(int(f.slots.Load()), 0),
		Waiting: int(f.waiting.Load()), TTFT: time.Duration(f.ttft.Load()), Failures: f.failing(b.now), LastUsed: f.used.Load(),
	}
	if r.Breaker != routing.Closed {
		r.Until, r.ProbeFree = fromNanos(f.until.Load()), f.probing.Load() == 0
	}
	return r
}

// Account gives what planning needs. An account without an actor is taken for a good one; its upstream knows better.
func (b *Board) Account(id string) routing.AccountFigures {
	v := b.view.Load()
	if v == nil {
		return routing.AccountFigures{Active: true}
	}
	return v.accounts[id].forPlan(&glance{clock: b.now})
}

// Accounts implements routing.Batch.
func (b *Board) Accounts(u *catalog.CompiledUpstream, into []routing.AccountFigures) {
	v := b.view.Load()
	if v == nil {
		v = &noView
	}
	seats, now := v.of[u.ID], glance{clock: b.now}
	for i := range into {
		if id := u.Accounts[i].ID; i < len(seats) && seats[i].id == id {
			into[i] = seats[i].figures.forPlan(&now)
		} else { // the snapshot and the layout are not of the same moment
			into[i] = v.accounts[id].forPlan(&now)
		}
	}
}

var noView boardView

// upstreamFigures is written by one actor and read by everybody. Fields may be a message apart from one another.
type upstreamFigures struct {
	state     atomic.Int64
	until     atomic.Int64 // nanoseconds, 0 none
	probing   atomic.Int64
	held      atomic.Int64
	slots     atomic.Int64
	waiting   atomic.Int64
	successes atomic.Uint64
	failures  atomic.Uint64
	recent
}

// recent is how well it went lately. It is written by the actor of the upstream, for the upstream and for its accounts.
// What is not known is zero, which counts as the best.
type recent struct {
	ttft  atomic.Int64  // nanoseconds
	share atomic.Uint64 // of failures, in parts of shareUnit, when it was last told
	told  atomic.Int64  // nanoseconds since 1970
	used  atomic.Int64  // the same: last lease
}

const (
	ttftWeight  = 5 // a new value counts one fifth
	shareWeight = 10
	shareUnit   = 1 << 32
	// shareHalf is how long it takes until half of a share of failures is forgotten: who is not asked because of its
	// failures can not show that they are over.
	shareHalf = time.Minute
)

// observe takes an outcome into the averages.
func (r *recent) observe(o *Outcome, now time.Time) {
	switch o.Result {
	case breaker.Success:
		if r.share.Load() > 0 {
			r.tell(r.left(now)*(shareWeight-1)/shareWeight, now)
		}
	case breaker.Failure:
		was := r.left(now)
		r.tell(was+(shareUnit-was)/shareWeight, now)
	}
	if o.TTFT > 0 {
		was := r.ttft.Load()
		if was == 0 {
			was = int64(o.TTFT)
		}
		r.ttft.Store(was + (int64(o.TTFT)-was)/ttftWeight)
	}
}

func (r *recent) tell(share float64, now time.Time) {
	r.told.Store(now.UnixNano())
	r.share.Store(uint64(share))
}

// used notes a lease of the upstream and of one of its accounts.
func (u *upstreamDesk) used(c *child, now time.Time) {
	at := now.UnixNano()
	u.figures.used.Store(at)
	c.figures.used.Store(at)
}

// left is the share as far as it is not forgotten, in shareUnit.
func (r *recent) left(now time.Time) float64 {
	share := r.share.Load()
	if share == 0 {
		return 0
	}
	return float64(share) * math.Exp2(-float64(max(now.UnixNano()-r.told.Load(), 0))/float64(shareHalf))
}

// failing is left as 0..1. The clock is only looked at when there are failures.
func (r *recent) failing(clock func() time.Time) float64 { return r.failingAt(&glance{clock: clock}) }

func (r *recent) failingAt(now *glance) float64 {
	if r.share.Load() == 0 {
		return 0
	}
	return r.left(now.time()) / shareUnit
}

// glance is a look at the clock that is taken when it is needed, once.
type glance struct {
	clock func() time.Time // nil: time.Now
	at    time.Time
}

func (g *glance) time() time.Time {
	if g.at.IsZero() {
		if g.clock == nil {
			g.clock = time.Now
		}
		g.at = g.clock()
	}
	return g.at
}

// quotaFigures is how much of an account's limits is used, as its upstream told it last. It is written by the actor of the
// upstream.
type quotaFigures struct {
	used                atomic.Uint64 // in parts of shareUnit
	until, lapses, told atomic.Int64  // nanoseconds since 1970, 0 none
}

// tell takes what an answer says, if it says something.
func (q *quotaFigures) tell(is *account.Quota, now time.Time) {
	if is.IsZero() {
		return
	}
	q.until.Store(nanos(is.Until))
	q.lapses.Store(nanos(is.Lapses))
	q.told.Store(nanos(now))
	q.used.Store(uint64(is.Used * shareUnit))
}

// read is what was told last, and when; zero: nothing was.
func (q *quotaFigures) read() (is account.Quota, told time.Time) {
	is = account.Quota{Used: float64(q.used.Load()) / shareUnit, Until: fromNanos(q.until.Load()), Lapses: fromNanos(q.lapses.Load())}
	return is, fromNanos(q.told.Load())
}

// forPlan is what still counts of it: the share that is used, and when a quota lapses.
func (q *quotaFigures) forPlan(now *glance) (used float64, reset int64) {
	until := q.until.Load()
	if until == 0 {
		return 0, 0
	}
	at := now.time().UnixNano()
	if at < until {
		used = float64(q.used.Load()) / shareUnit
	}
	if reset = q.lapses.Load(); reset <= at {
		reset = 0
	}
	return used, reset
}

func (f *upstreamFigures) read() Figures {
	return Figures{
		Breaker: breaker.State(f.state.Load()), Until: fromNanos(f.until.Load()), ProbeFree: f.probing.Load() == 0,
		Held: int(f.held.Load()), Slots: int(f.slots.Load()), Waiting: int(f.waiting.Load()),
		Successes: f.successes.Load(), Failures: f.failures.Load(),
	}
}

// observe counts an outcome.
func (f *upstreamFigures) observe(o *Outcome, now time.Time) {
	switch o.Result {
	case breaker.Success:
		f.successes.Add(1)
	case breaker.Failure:
		f.failures.Add(1)
	}
	f.recent.observe(o, now)
}

// accountFigures is written by one actor, what is recent by its upstream's, and read by everybody.
type accountFigures struct {
	upstream string
	held     atomic.Int64
	slots    atomic.Int64
	active   atomic.Bool
	block    atomic.Pointer[blockView] // nil: never blocked
	quota    quotaFigures
	recent
}

// forPlan gives what planning needs; nil is an account of which nothing is known.
func (f *accountFigures) forPlan(now *glance) routing.AccountFigures {
	if f == nil {
		return routing.AccountFigures{Active: true}
	}
	a := routing.AccountFigures{
		Held: int(f.held.Load()), Slots: max(int(f.slots.Load()), 0), Active: f.active.Load(),
		TTFT: time.Duration(f.ttft.Load()), Failures: f.failingAt(now), LastUsed: f.used.Load(),
	}
	a.QuotaUsed, a.QuotaReset = f.quota.forPlan(now)
	if b := f.block.Load(); b != nil {
		a.BlockedUntil, a.ByHand = b.until, b.byHand
		if b.models {
			a.Blocks = b.all
		}
		if whole := b.all.Whole(); whole.Limited(now.time()) { // nothing is left, whatever was said before
			a.QuotaUsed = 1
			if at := whole.Resets(); at.After(now.time()) {
				a.QuotaReset = at.UnixNano()
			}
		}
	}
	return a
}

// blockView is what is shown of an account's blocks.
type blockView struct {
	until  time.Time // of the block of all models
	reason string
	byHand bool            // by an operator
	models bool            // some of single models are kept
	all    *account.Blocks // a copy, which is only read
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
