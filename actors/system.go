// Package actors runs what owns something while the gateway runs: every upstream, account and caller is an actor over
// pure machines of domain. A System holds the actors; dispatch is the life of one request among them.
package actors

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/domain/access"
	"github.com/penstock/penstock/domain/account"
	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/limit"
	"github.com/penstock/penstock/events"
)

// Recorder takes the facts of breakers ("upstream/<id>") and blocks ("account/<id>"). It is called by actors, so it
// must never block; and since whoever asks an actor may do its work, nobody may call a System while holding a lock
// that Record takes.
type Recorder interface {
	Record(stream, upstream string, fact events.Fact)
}

// datedRecorder is a Recorder that takes the moment of the fact as well: then a restart restores the very same moments.
type datedRecorder interface {
	RecordAt(stream, upstream string, at time.Time, fact events.Fact)
}

// Options of a System. All may be zero: no log, the system's clock, nothing recorded.
type Options struct {
	Logger   *slog.Logger
	Now      func() time.Time
	Recorder Recorder
	History  History                 // nil: limits begin with nothing spent
	Funds    func(user string) Funds // of Ledger; nil: nobody was given anything
}

// System holds the actors of one gateway. Its methods may be called from any goroutine.
type System struct {
	engine   *actor.ActorSystem
	log      *slog.Logger
	now      func() time.Time
	recorder Recorder
	board    Board
	dir      atomic.Pointer[directory]
	stopped  atomic.Bool
	serial   atomic.Uint64 // makes names of actors unique over removals
	changing sync.Mutex    // held by Reconfigure and Stop
	hooks    hooks
	history  History
	unread   unread      // could not be read; under changing, as the next
	retry    *time.Timer // that reads it again
	strays   []stray     // under changing
	settling passage     // of ends of requests: from their moment until they are on their way to the store and told to the limits
	funds    func(user string) Funds
	budgets  atomic.Pointer[ref] // the actor that has the shared ones; nil before there are any

	callerTimeout time.Duration // how long callers wait for their own slots
	learnAgain    time.Duration // see there
}

// directory says which actors there are. It is replaced, never changed.
type directory struct {
	upstreams map[string]*upstreamRef
	accounts  map[string]*accountRef
	callers   map[CallerID]*callerRef
	keys      map[string]*callerRef
	rated     bool // a caller has a limit of rates
	leaving   leaving
}

type upstreamRef struct {
	ref
	id      string
	figures *upstreamFigures
}

type accountRef struct {
	ref
	id      string
	figures *accountFigures
}

type callerRef struct {
	ref
	id    CallerID
	user  *catalog.User // nil: of a key of nobody; under System.changing, like all that follows
	keys  []catalog.Key
	told  bool // it has taken all of that, and misses nothing
	rated bool // it has a limit of rates
	dark  bool // what the user has spent from its balance is not known, as nobody has asked
}

// hooks are for tests of this package; all are nil otherwise.
type hooks struct {
	before  func(owner string, msg any) // in the actor, before anything is changed
	granted func(Lease)                 // in the upstream's actor, in the order of grants
}

// NewSystem makes a system without any actor; Reconfigure starts them.
func NewSystem(o Options) *System {
	s := &System{log: o.Logger, now: o.Now, recorder: o.Recorder, history: o.History, funds: o.Funds, callerTimeout: 30 * time.Second, learnAgain: learnAgain}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.history == nil {
		s.history = func(limit.Past, func(*Used)) error { return nil }
	}
	engineLog := slog.New(warnings{s.log.Handler()})
	s.engine = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return engineLog }))
	s.board.now = s.now
	s.dir.Store(&directory{})
	return s
}

// warnings passes what is at least a warning: protoactor's own news are nobody's.
type warnings struct{ slog.Handler }

// Enabled implements slog.Handler.
func (h warnings) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && h.Handler.Enabled(ctx, l)
}

// Board gives the live figures. It may be kept.
func (s *System) Board() *Board { return &s.board }

func (s *System) send(pid *actor.PID, msg any) { s.engine.Root.Send(pid, msg) }

func (s *System) unique(name string) string {
	return name + "#" + strconv.FormatUint(s.serial.Add(1), 10)
}

func (s *System) record(stream, upstream string, fact any, at time.Time) {
	if r, ok := s.recorder.(datedRecorder); ok {
		r.RecordAt(stream, upstream, at, fact)
	} else if s.recorder != nil {
		s.recorder.Record(stream, upstream, fact)
	}
}

func (s *System) before(owner string, msg any) {
	if s.hooks.before != nil {
		s.hooks.before(owner, msg)
	}
}

func (s *System) granted(l Lease) {
	if s.hooks.granted != nil {
		s.hooks.granted(l)
	}
}

// goneReason is why an actor does not answer: Stopped, or the given reason while the system runs.
func (s *System) goneReason(r Reason) Reason {
	if s.stopped.Load() {
		return Stopped
	}
	return r
}

func (s *System) upstream(id string) (*upstreamRef, *Refusal) {
	r := s.dir.Load().upstreams[id]
	if r == nil {
		return nil, &Refusal{Reason: s.goneReason(UnknownUpstream), Upstream: id}
	}
	return r, nil
}

// Breaker is Switch of the whole upstream: "open" for its open_for, or "close".
func (s *System) Breaker(upstream, action string) error {
	if action != "open" && action != "close" {
		return errors.Newf("action %q is neither open nor close", action)
	}
	return s.Switch(upstream, Switch{Open: action == "open"})
}

// Switch is what an operator wants of a breaker. The zero value closes all of an upstream's.
type Switch struct {
	Open  bool
	Until time.Time   // of opening; zero: as long as the settings say
	Of    breaker.Key // one account and model of it; zero: the whole upstream
}

// Errors of Switch.
var (
	ErrNoOwnBreaker = errors.New("has no breakers for single accounts and models: set breaker.per to account_model")
	ErrUntilIsOver  = errors.New("is not in the future")
)

// Switch is the operator's hand on a breaker: opening takes the upstream, or one model at one of its accounts, out of
// service; closing puts it back. It is in force when it returns.
func (s *System) Switch(upstream string, w Switch) error {
	r, no := s.upstream(upstream)
	if no != nil {
		return errors.Newf("upstream %q is not known", upstream)
	}
	if w.Open && !w.Until.IsZero() && !w.Until.After(s.now()) {
		return errors.Wrapf(ErrUntilIsOver, "until %s", w.Until.Format(time.RFC3339))
	}
	m := &switchBreaker{open: w.Open, until: w.Until, key: w.Of, done: make(chan error, 1)}
	s.send(r.pid, m)
	return errors.Wrapf(await(m.done, r.gone), "upstream %q", upstream)
}

// BlockAccount is the operator's hand on an account: blocked until the given time, without a cap, or unblocked when
// until is nil. A deadline before the present one changes nothing: unblock first. It is in force when it
// returns.
func (s *System) BlockAccount(id string, until *time.Time) error {
	r := s.dir.Load().accounts[id]
	if r == nil {
		return errors.Newf("account %q is not known", id)
	}
	done := make(chan error, 1)
	switch {
	case until == nil:
		s.send(r.pid, &unblockAccount{by: account.Operator, done: done})
	case until.After(s.now()):
		ask := account.Ask{Until: *until, Reason: account.Operator, Source: account.Operator}
		s.send(r.pid, &blockAccount{ask: ask, done: done})
	default:
		return errors.Newf("until %s is not in the future", until.Format(time.RFC3339))
	}
	return errors.Wrapf(await(done, r.gone), "account %q", id)
}

// Restore applies a stored fact of a breaker or a block (at: when it was stored) after a restart, before there is
// traffic. Facts of what is not in the layout, and other facts, are ignored.
func (s *System) Restore(fact events.Fact, at time.Time) error {
	d := s.dir.Load()
	toAccount := func(id string) error {
		if r := d.accounts[id]; r != nil {
			m := &restoreAccount{fact: fact, at: at, done: make(chan error, 1)}
			s.send(r.pid, m)
			return errors.Wrapf(await(m.done, r.gone), "account %q", id)
		}
		return nil
	}
	toUpstream := func(id string) error {
		if r := d.upstreams[id]; r != nil {
			m := &restoreBreaker{fact: fact, at: at, done: make(chan error, 1)}
			s.send(r.pid, m)
			return errors.Wrapf(await(m.done, r.gone), "upstream %q", id)
		}
		return nil
	}
	switch f := fact.(type) {
	case *breaker.Opened:
		return toUpstream(f.Upstream)
	case *breaker.HalfOpened:
		return toUpstream(f.Upstream)
	case *breaker.Closed:
		return toUpstream(f.Upstream)
	case *account.Blocked:
		return toAccount(f.Account)
	case *account.Unblocked:
		return toAccount(f.Account)
	case *access.Bound:
		if r := d.keys[f.Key]; r != nil {
			return within(s, r.ref, func(c *callerDesk) {
				if b := c.bound[f.Key]; b != nil {
					b.Bind(f.Address, at)
				}
			})
		}
	}
	return nil
}

// Stop ends all actors and answers everybody who waits for one, with Stopped. Nothing is granted afterwards. It returns
// an error when ctx ends first. Calling it again does nothing.
func (s *System) Stop(ctx context.Context) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.stopped.Swap(true) {
		return nil
	}
	if s.retry != nil {
		s.retry.Stop()
	}
	d := s.dir.Swap(&directory{})
	s.board.view.Store(nil)
	all := slices.Concat(
		addresses(d.upstreams, d.leaving.upstreams), addresses(d.accounts, d.leaving.accounts), addresses(d.callers, d.leaving.callers))
	if r := s.budgets.Load(); r != nil {
		all = append(all, *r)
	}
	err := s.retire(ctx, all)
	s.engine.Shutdown()
	return err
}

// retire stops actors after what is in their mailboxes (Stop would drop it), and waits for their end.
func (s *System) retire(ctx context.Context, refs []ref) error {
	for _, r := range refs {
		s.engine.Root.Poison(r.pid)
	}
	for _, r := range refs {
		select {
		case <-r.gone:
		case <-ctx.Done():
			return errors.Wrap(ctx.Err(), "actors are still stopping")
		}
	}
	return nil
}
