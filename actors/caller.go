package actors

import (
	"errors"
	"maps"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/penstock/penstock/domain/access"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/gate"
	"github.com/penstock/penstock/domain/limit"
)

// CallerID names whose slots count: "user/<id>", or "key/<id>" of a key that belongs to nobody.
type CallerID = string

// callerID is whose slots and limits a key uses; user "": it belongs to nobody.
func callerID(user, key string) CallerID {
	if user != "" {
		return "user/" + user
	}
	return "key/" + key
}

// Callers wait for their own slots for at most 30 s, and at most callerQueueMax of them at once, the urgent ones first.
const callerQueueMax = 20

// Pass is a slot of a caller: of the user and of the key, granted as one. It is held until Leave.
type Pass struct {
	ID     LeaseID
	Caller CallerID
	Key    string
	Waited time.Duration
	bill   limit.Settlement // what the request has cost; only when it is settled
	paid   bool             // it is: else its charges are refunded with the slot
	funded bool             // money of the user's own pays for it: reserve says which
	paidBy string           // which it is
	gone   chan struct{}
	pid    *actor.PID // of the actor that granted it, also when the key has moved to another user since
}

// callerDesk is one user with all its keys, or one key of nobody. Its gates are granted together because one actor
// has them all.
type callerDesk struct {
	sys    *System
	id     CallerID
	gate   *gate.Gate            // the user's slots, and the queue of all keys
	keys   map[string]*gate.Gate // slots of each key
	limits *limit.Caller
	policy limit.Policy                // of the limits
	heirs  map[string]*actor.PID       // who has a key now that was one of these, and counts its slots
	late   map[string][]limit.Spent    // of keys that are moving or gone: who has them next does not hear of it before
	came   map[string]time.Time        // when each key came: what was settled before is told by the history
	bound  map[string]*access.Bindings // addresses of each key
	self   *actor.PID
	alarm  alarm
	born   time.Time // of the first settings
	closed bool
}

// admit asks for a pass. It comes from a pool and goes back when the first answer was the last one.
type admit struct {
	quiet
	want    Want
	key     string
	entry   entrance
	claim   claimState
	replies chan admitted // room for a first and a last answer
}

// admitted answers an admit: refused, granted, or queued (ticket > 0) with one more answer to follow.
type admitted struct {
	refusal Refusal
	queued  bool
	funded  bool // see Pass
}

type leaveCaller struct {
	quiet
	id   LeaseID
	key  string
	bill limit.Settlement
	paid bool
}

type leaveCallerQueue struct {
	quiet
	id  LeaseID
	why gate.Why
}

// wakeCaller comes when the first waiter's time is over.
type wakeCaller struct{ quiet }

type reconfigureCaller struct {
	quiet
	slots  *int
	keys   []catalog.Key
	moving []catalog.Key // of these, to another caller
	policy limit.Policy
	reply  chan reconfigured
}

// reconfigured answers: missing says that a new rule does not know yet what was spent before, past how much of that counts.
type reconfigured struct {
	missing bool
	past    limit.Past
	err     error
}

func (m *reconfigureCaller) refuse(r Reason) { tell(m.reply, reconfigured{err: reasonError(r)}) }

func newCallerDesk(s *System, id CallerID) *callerDesk {
	return &callerDesk{
		sys: s, id: id, gate: gate.New(gate.Policy{}), keys: map[string]*gate.Gate{}, limits: limit.NewCaller(limit.Policy{}),
		bound: map[string]*access.Bindings{}, heirs: map[string]*actor.PID{}, late: map[string][]limit.Spent{},
	}
}

func (m *admit) refuse(r Reason) { tell(m.replies, admitted{refusal: Refusal{Reason: r}}) }

func (d *callerDesk) receive(ctx actor.Context, msg any) {
	d.self = ctx.Self()
	if d.closed {
		turnAway(msg, d.sys.goneReason(Evicted))
		return
	}
	d.sys.before(d.id, msg)
	switch m := msg.(type) {
	case *admit:
		d.admit(m, m.entry.at)
	case *leaveCaller:
		d.leave(m.id, m.key)
		d.settle(m)
		leaves.Put(m)
	case *wakeCaller:
		d.alarm.rang()
	case *leaveCallerQueue:
		d.gate.Leave(m.id, m.why)
		d.limits.Refund(m.id.Request)
	case *reserveCaller:
		by, no := d.limits.Reserve(m.id, m.worst, d.sys.now())
		m.reply <- reserved{by, no}
	case *spendCaller:
		if !m.left || !m.At.Before(d.came[m.Key]) {
			d.limits.Spend(m.Spent)
		}
	case *inside[*callerDesk]:
		m.perform(d)
	case *depart:
		d.depart(d.sys.now())
		m.reply <- d.gate.Held()
	case *bequeath:
		m.reply <- d.bequeath(m, d.sys.now())
	case *inherit:
		d.inherit(m)
	case *reconfigureCaller:
		m.reply <- d.reconfigure(m, d.sys.now())
	}
}

func (d *callerDesk) room(key string) bool { return d.keys[key] != nil && d.keys[key].Room() }

// admit grants at once when both gates have room: who waits then waits for another key. Else it queues. Now is when it arrived,
// a moment ago; only who waits needs to know better.
func (d *callerDesk) admit(m *admit, now time.Time) {
	own := d.keys[m.key]
	switch {
	case own == nil:
		m.refuse(UnknownCaller)
	case d.gate.Holder(m.want.ID) != nil || d.gate.Waiter(m.want.ID) != nil:
		m.refuse(LocalFault)
	case !d.comesIn(m, now):
	case d.gate.Room() && own.Room():
		d.hold(m, own, now)
		m.replies <- admitted{funded: d.limits.Funded(m.want.ID.Request)}
	default:
		ask := m.want.ask(m)
		ask.Key, now = m.key, d.sys.now()
		switch _, err := d.gate.Enqueue(ask, now); {
		case errors.Is(err, gate.ErrQueueFull):
			d.turnBack(m, QueueFull)
		case errors.Is(err, gate.ErrTooLate):
			d.turnBack(m, TimedOut)
		case err != nil:
			d.turnBack(m, LocalFault)
		default:
			m.replies <- admitted{queued: true}
		}
	}
}

// hold takes both slots, the second one of its key; the caller has looked that there is room.
func (d *callerDesk) hold(m *admit, own *gate.Gate, now time.Time) {
	_ = d.gate.Take(m.want.ID, m.key, "", now)
	_ = own.Take(m.want.ID, m.key, "", now)
}

func (d *callerDesk) leave(id LeaseID, key string) {
	held := d.gate.Free(id)
	if k := d.keys[key]; k != nil {
		k.Free(id)
	}
	if heir := d.heirs[key]; held && heir != nil {
		m := leaves.Get().(*leaveCaller)
		*m = leaveCaller{id: id, key: key}
		d.sys.send(heir, m)
	}
}

// after tells those whose time is over, serves the waiters that can be served, class by class and in the order of their
// tickets, and sets the alarm for the next whose time will be over.
func (d *callerDesk) after() {
	if d.closed || d.gate.Waiting() == 0 {
		return
	}
	now := d.sys.now()
	for w := d.gate.Overdue(now); w != nil; w = d.gate.Overdue(now) {
		d.gate.Leave(w.ID, gate.TimedOut)
		d.turnBack(w.Tag.(*admit), TimedOut)
	}
	d.serve(now)
	d.alarm.set(d.sys, d.self, d.gate.NextDeadline(), now, &wakeCaller{})
}

func (d *callerDesk) serve(now time.Time) {
	for {
		w := d.gate.Next(now, func(w *gate.Waiter) bool { return d.room(w.Key) })
		if w == nil {
			return
		}
		m := w.Tag.(*admit)
		no := d.limits.Check(w.ID.Request, now) // before the claim is won: then it can be answered
		if !m.claim.grant() {
			d.gate.Leave(w.ID, gate.Moved)
			d.limits.Refund(w.ID.Request)
			continue
		}
		d.gate.Leave(w.ID, gate.Served)
		if !no.OK() { // others have spent meanwhile
			d.limits.Refund(w.ID.Request)
			m.replies <- admitted{refusal: limited(no)}
			continue
		}
		d.hold(m, d.keys[m.key], now)
		m.replies <- admitted{funded: d.limits.Funded(m.want.ID.Request)}
	}
}

func (d *callerDesk) reconfigure(m *reconfigureCaller, now time.Time) reconfigured {
	longest := callerQueueMax
	queue := &gate.Queue{Timeout: d.sys.callerTimeout, MaxLength: &longest}
	keys, came, added := make(map[string]*gate.Gate, len(m.keys)), make(map[string]time.Time, len(m.keys)), false
	for _, k := range m.keys {
		g, at := d.keys[k.ID], d.came[k.ID]
		if g == nil {
			g, at, added = gate.New(gate.Policy{}), now, true
		}
		g.Reconfigure(gate.Policy{Slots: k.Slots})
		keys[k.ID], came[k.ID] = g, at
	}
	if added {
		d.recount(keys)
	}
	maps.DeleteFunc(d.late, func(key string, _ []limit.Spent) bool { return keys[key] != nil })
	for i := range m.moving {
		d.late[m.moving[i].ID] = nil
	}
	d.keys, d.came = keys, came
	d.gate.Reconfigure(gate.Policy{Slots: m.slots, Queue: queue})
	d.evict(Evicted, func(key string) bool { return keys[key] == nil })
	d.bind(m.keys)
	return d.limit(m.policy, now)
}

func (d *callerDesk) limit(p limit.Policy, now time.Time) (is reconfigured) {
	if d.born.IsZero() {
		if d.born = now; !p.New {
			d.limits = limit.ReturningCaller(now)
		}
	}
	d.policy = p
	if is.missing = d.limits.Reconfigure(p, now); is.missing {
		is.past = d.limits.Missing(now)
	}
	return is
}

// evict throws out the waiters whose key is chosen.
func (d *callerDesk) evict(r Reason, which func(key string) bool) {
	for _, w := range d.gate.Waiters {
		if which(w.Key) {
			d.gate.Leave(w.ID, gate.Moved)
			d.turnBack(w.Tag.(*admit), r)
		}
	}
}

func (d *callerDesk) fault(msg any) {
	switch m := msg.(type) {
	case *admit:
		d.gate.Leave(m.want.ID, gate.Moved)
		d.leave(m.want.ID, m.key)
		d.limits.Refund(m.want.ID.Request)
	case *leaveCaller:
		d.leave(m.id, m.key)
		d.settle(m) // of what has ended it does nothing
	case *wakeCaller: // else nobody would be woken any more
		d.alarm.rang()
	case nil:
		d.alarm.set(d.sys, d.self, d.sys.now().Add(afterPanic), d.sys.now(), &wakeCaller{})
	}
	turnAway(msg, LocalFault)
}

func (d *callerDesk) stop() {
	d.closed = true
	d.alarm.off()
	d.evict(d.sys.goneReason(Evicted), func(string) bool { return true })
}
