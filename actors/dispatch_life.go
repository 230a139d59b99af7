package actors

import (
	"io"
	"runtime/debug"
	"sync"
	"time"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/dialect"
	"github.com/penstock/penstock/domain/failure"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/domain/routing"
	"github.com/penstock/penstock/events"
)

// life is one request from its room in the journal to its settlement. It belongs to one goroutine, the client's
// connection; only clientGone may come from another.
//
// It alone numbers the versions of its stream. What it holds of others (room, pass, lease, the upstream's answer) it
// gives back exactly once, in settled or rejected. When it is over, another request gets its memory: see recycle. What others
// may keep for longer is on its paper.
type life struct {
	d    *Dispatcher
	c    *Call
	snap *catalog.Snapshot
	key  *catalog.Key // of snap
	now  func() time.Time

	way     *itinerary // memory of the next three, given back in leave
	plan    *routing.Plan
	budget  *routing.Budget
	tries   []trial  // the plan's candidates, in order
	planned bool     // there was a plan
	shared  bool     // an actor may still look at the plan
	failedU []string // upstreams and accounts that failed in this request
	failedA []string

	entered, admittedAt, tookAt time.Time // past the caller's limits; of the rows of Admitted and of the last fact

	stream  string // its name; "" until it is needed
	version int64  // facts stored, or on their way
	facts   []events.Fact
	rows    []events.Row // room for rows that are still to be written
	paper   *paper
	pending *events.Pending // an append that the next step must wait for
	sealing *events.Pending // the settlement, when the end of the answer must wait for it
	doubt   []events.Fact   // of the last append, when nobody knows whether it was stored: nothing but the end follows
	stored  bool            // Admitted is stored, or on its way: the request must be settled

	pass    Pass
	hasPass bool
	purse   purse
	lease   Lease
	leased  bool
	tell    *Outcome // what the lease's owner learns when it gets it back
	cand    *routing.Candidate
	up      *catalog.CompiledUpstream // of cand, in snap

	attempts int
	repeats  int             // of the same account, after a wait that it had asked for
	opens    []time.Time     // when accounts that refused are usable again
	queued   *request.Queued // while and after waiting
	waited   time.Duration
	queueEnd string // of the last wait; "": there was none
	last     *tried // the final attempt so far, when it has failed
	began    time.Time
	sent     bool
	served   bool              // something of an answer has been handed to the client
	ended    bool              // the terminal fact is stored, or on its way
	cut      *Gone             // of the attempt under way
	watched  bool              // the client went, and who has seen it may still have the life in hand
	recall   *Gone             // of the lease: fires when an operator wants it back
	alive    dialect.Heartbeat // signs of life while it waits
	out      io.Writer         // what the client reads, once its head was sent while it waited
	in       Incoming          // the answer that is being read
	headers  []Header          // of it, those that the client gets

	// Room for what an attempt needs, so that it is not allocated piece by piece. What is in it belongs to the fields above,
	// and to whoever is called for as long as that takes.
	room struct {
		out  Outgoing
		seen tried
		told Outcome
	}
}

var lives = sync.Pool{New: func() any { return new(life) }}

// recycle gives the memory of a life that is over to another request. Nobody has it any more: its client's Gone has let go of it
// in leave, unless the client went, actors have copies of what they were told, and whatever else is kept is on the paper. A
// life that is not given back, such as one that panicked, is garbage.
func (l *life) recycle() {
	if l.way != nil || l.watched {
		return
	}
	*l = life{}
	lives.Put(l)
}

// run takes the request through its stages until there is an answer.
func (l *life) run() Answer {
	if r := l.enter(); r != nil {
		return l.reject(*r)
	}
	l.routes(l.d.System.Board())
	if r := l.plan.Refusal; !r.IsZero() {
		return l.reject(r)
	}
	for {
		if r := l.reserve(); r != nil {
			return l.giveUp(*r)
		}
		if !l.leased { // else it is kept for another attempt at the same account
			if r := l.acquire(); r != nil {
				return l.giveUp(*r)
			}
		}
		if !l.fund() {
			continue
		}
		if r := l.dispatch(); r != nil {
			return l.giveUp(*r)
		}
		if a, done := l.attempt(); done {
			return a
		}
	}
}

// enter checks what the key may do and takes its slots.
func (l *life) enter() *failure.Refusal {
	if g := l.snap.Group(l.key.Group); g != nil && !g.AllowsClient(l.c.Client.String(), l.c.Ask.Client) {
		return refuse(failure.ClientNotAllowed, "")
	}
	if !l.snap.AllowsModel(l.key, l.c.Ask.Model) {
		return refuse(failure.ModelNotAllowedForKey, "")
	}
	want := Want{ID: LeaseID{Request: l.c.ID}, Key: l.key.ID, Class: l.key.Class(), Weight: l.key.FairWeight()}
	pass, no := l.d.System.admit("", l.key.ID, want, l.c.Gone.Done, l.pulse(),
		entrance{at: l.c.At, tokens: l.charged(), address: l.c.Address})
	if no == nil {
		l.pass, l.hasPass, l.entered = pass, true, l.c.At // a moment ago, unless it has waited
		l.c.Ask.User = pass.user()                        // whatever the catalogue says of its key: it may be moving
		if pass.Waited > 0 {
			l.entered = l.now()
		}
		return l.renew(l.entered)
	}
	switch no.Reason {
	case Limited:
		return l.limitRefusal(*no.Limit)
	case TooManyIPs:
		r := failure.New(failure.TooManyIPs, "").WithUntil(no.Until, l.now())
		return &r
	case TimedOut, QueueFull:
		return refuse(failure.CallerConcurrencyFull, "")
	case Aborted:
		r := failure.New(failure.ClientDisconnect, "").At(failure.StageAuthFilter) // it waited for a slot of its own
		return &r
	case Evicted, UnknownCaller: // the key was removed meanwhile, or moved to another owner
		if r := l.renew(l.now()); r != nil {
			return r
		}
	}
	return refuse(failure.LocalFault, string(no.Reason))
}

func refuse(code, reason string) *failure.Refusal {
	r := failure.New(code, reason)
	return &r
}

// renew takes the configuration that is in force now, and looks again whether the key may do what it asks for.
func (l *life) renew(now time.Time) *failure.Refusal {
	snap := l.d.Catalog()
	key, denied := snap.Present(l.key, now)
	if denied != catalog.Accepted {
		return refuse(string(denied), "")
	}
	if !snap.AllowsModel(key, l.c.Ask.Model) {
		return refuse(failure.ModelNotAllowedForKey, "")
	}
	if l.snap, l.key = snap, key; !l.stored {
		l.c.Ask.Group = key.Group // from Admitted on, the group that pays stays
	}
	return nil
}

// panicked ends a request in which a fault of ours came up: everything is given back, and the client gets an answer.
func (l *life) panicked(r any) Answer {
	l.d.Logger.Error("request panicked", "request_id", l.c.ID, "panic", r, "stack", string(debug.Stack()))
	fault := failure.New(failure.LocalFault, "panic")
	if l.ended {
		l.leave()
		return l.refusal(fault, l.sent)
	}
	if l.sent {
		fault = fault.At(failure.StageResponse)
		l.last = &tried{class: failure.Local, source: pricing.None, took: l.now().Sub(l.began)}
	}
	return l.giveUp(fault)
}

// leave gives back what the request holds of others, each once.
func (l *life) leave() {
	l.closeAnswer()
	l.release()
	if l.hasPass {
		l.hasPass = false
		l.settleShared()
		l.d.System.giveBack(&l.pass)
	}
	l.leaveWay()
}

// release gives the lease back.
func (l *life) release() {
	if l.cut != nil {
		l.leftBehind()
	}
	if l.leased {
		l.leased = false
		l.d.System.Release(l.lease, l.tell)
		l.tell = nil
	}
}

// closeAnswer ends the reading of an upstream's answer.
func (l *life) closeAnswer() {
	if in := l.in; in != nil {
		l.in = nil
		in.Close()
	}
}

// leftBehind ends the watch for the client and says whether it had gone.
func (l *life) leftBehind() bool {
	gone := !l.c.Gone.Release()
	l.watched = l.watched || gone
	l.recall.Release()
	l.cut.End()
	return gone
}
