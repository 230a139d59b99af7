package actors

import (
	"slices"
	"strings"
	"sync"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/gate"
	"github.com/penstock/penstock/domain/limit"
)

var (
	admits = sync.Pool{New: func() any { return &admit{replies: make(chan admitted, 2)} }}
	leaves = sync.Pool{New: func() any { return &leaveCaller{} }}
)

// Admit takes a slot of the caller: one of its user's and one of its key's, granted as one. When one is missing it
// waits, by class and then first come first served, for at most 30 s and with at most 20 in the queue: TimedOut, QueueFull. Aborted when
// the channel of gone is closed; gone is called only when it waits, and may be nil. Which actor that is follows from the
// key and the layout; caller is only noted in the pass. The refusal is nil when there is a pass.
func (s *System) Admit(caller CallerID, key string, w Want, gone func() <-chan struct{}) (Pass, *Refusal) {
	return s.admit(caller, key, w, gone, nil, entrance{at: s.now()})
}

// admit is Admit with a pulse, nil for none, and with what the limits look at: Limited, TooManyIPs. A caller "" is the one whose
// actor that is: while a key moves, the user before.
func (s *System) admit(caller CallerID, key string, w Want, gone func() <-chan struct{}, beat pulse, e entrance) (Pass, *Refusal) {
	r := s.dir.Load().keys[key]
	if r == nil {
		return Pass{}, &Refusal{Reason: s.goneReason(UnknownCaller)}
	}
	m := admits.Get().(*admit)
	m.want, m.key, m.entry = w, key, e
	s.send(r.pid, m)
	if caller == "" {
		caller = r.id
	}
	pass := Pass{ID: w.ID, Caller: caller, Key: key, pid: r.pid, gone: r.gone}
	first, ok := receive(m.replies, r.gone)
	if !ok {
		return Pass{}, &Refusal{Reason: s.goneReason(Evicted)}
	}
	if first.queued {
		return s.admitWaiting(m, pass, gone, beat)
	}
	admits.Put(m)
	return passed(pass, first)
}

func passed(p Pass, a admitted) (Pass, *Refusal) {
	if a.refusal.Reason != "" {
		return Pass{}, &Refusal{Reason: a.refusal.Reason, Limit: a.refusal.Limit, Until: a.refusal.Until}
	}
	p.funded = a.funded
	return p, nil
}

// admitWaiting waits in the queue. The actor says when the time is over, and who evicts says so, so that nobody waits for an
// actor that is gone.
func (s *System) admitWaiting(m *admit, p Pass, gone func() <-chan struct{}, beat pulse) (Pass, *Refusal) {
	start := s.now()
	var away <-chan struct{}
	if gone != nil {
		away = gone()
	}
	ticks := s.metronome(beat)
	defer ticks.stop()
	over := false
	defer func() {
		if !over { // the client went, or who waits has panicked in its pulse
			s.giveUp(m, p)
		}
	}()
	for !fired(away) {
		select {
		case last := <-m.replies:
			over, p.Waited = true, s.now().Sub(start)
			return passed(p, last)
		case <-ticks.C:
			ticks.tick()
		case <-away:
		}
	}
	return Pass{}, &Refusal{Reason: Aborted}
}

// giveUp ends a wait. A pass that was granted at the same time is given back.
func (s *System) giveUp(m *admit, p Pass) {
	if m.claim.cancel() {
		s.send(p.pid, &leaveCallerQueue{id: m.want.ID, why: gate.Aborted})
	} else if last := <-m.replies; last.refusal.Reason == "" { // who won the claim says so in the same step
		s.Leave(p)
	}
}

// user is whose money and slots a pass uses, "" for a key that belongs to nobody.
func (p *Pass) user() string {
	if user, is := strings.CutPrefix(p.Caller, "user/"); is {
		return user
	}
	return ""
}

// Leave gives a pass back, once however often it is called. It never blocks. The zero Pass is ignored.
func (s *System) Leave(p Pass) { s.giveBack(&p) }

func (s *System) giveBack(p *Pass) {
	if p.pid != nil {
		m := leaves.Get().(*leaveCaller)
		m.id, m.key, m.bill, m.paid = p.ID, p.Key, p.bill, p.paid
		s.send(p.pid, m)
	}
}

// placeCallers starts and tells the actors of users and of keys that belong to nobody (that is known). It returns whose
// rules do not know yet what was spent before, and how much of that counts.
func (s *System) placeCallers(l Layout, was, is *directory) (missing []*callerRef, past limit.Past) {
	past.Since = s.now()
	keys := make(map[CallerID][]catalog.Key, len(was.callers))
	slots := map[CallerID]*int{}
	users := map[CallerID]*catalog.User{}
	for i := range l.Users {
		u := &l.Users[i]
		id := callerID(u.ID, "")
		keys[id], slots[id], users[id] = nil, u.Slots, u
	}
	for _, k := range l.Keys {
		id := callerID(k.User, k.ID)
		if _, known := keys[id]; !known {
			id = callerID("", k.ID)
		}
		keys[id] = append(keys[id], k)
	}
	for id, own := range keys {
		r := was.caller(id)
		if r == nil {
			r = &callerRef{ref: s.spawn("caller/"+id, newCallerDesk(s, id)), id: id}
			r.dark = users[id] != nil && !l.born(catalog.KindUser, users[id].ID)
		}
		known := was.callers[id] == r && r.knows(users[id], own)
		before := r.keys
		if r.user, r.keys = users[id], own; known {
			is.take(r)
			continue
		}
		moving := moved(before, own, l.Keys)
		serves := slices.Concat(own, moving)
		m := &reconfigureCaller{slots: slots[id], keys: serves, moving: moving, policy: s.policyOf(r.user, serves), reply: make(chan reconfigured, 1)}
		m.policy.New = was.caller(id) == nil && r.user != nil && l.born(catalog.KindUser, r.user.ID)
		for i, k := range own {
			m.policy.Keys[i].New = was.keys[k.ID] == nil && l.born(catalog.KindKey, k.ID)
		}
		r.rated = rated(&m.policy)
		s.send(r.pid, m)
		told := answered(m.reply, r.gone, reconfigured{err: reasonError(Stopped)})
		r.told = told.err == nil && !told.missing
		switch {
		case told.err != nil:
			s.log.Error("caller kept its old settings", "caller", id, "error", told.err)
		case told.missing:
			missing, past = append(missing, r), past.With(told.past)
		}
		is.take(r)
	}
	return missing, past
}
