package actors

import (
	"errors"
	"runtime/debug"
	"time"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/failure"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/domain/routing"
	"github.com/penstock/penstock/events"
)

// life is one request from its room in the journal to its settlement. It belongs to one goroutine, the client's
// connection; only clientGone may come from another.
//
// It alone numbers the versions of its stream. What it holds of others (room, pass, lease) it gives back exactly once,
// in settled or rejected.
type life struct {
	d    *Dispatcher
	c    *Call
	snap *catalog.Snapshot
	now  func() time.Time

	plan    routing.Plan
	tries   []trial // the plan's candidates, in order
	version int64   // facts stored, or on their way
	facts   []events.Fact
	pending *events.Pending // an append that the next step must wait for
	stored  bool            // Admitted is stored, or on its way: the request must be settled

	pass    Pass
	hasPass bool
	lease   Lease
	leased  bool
	cand    *routing.Candidate
	up      *catalog.CompiledUpstream // of cand, in snap

	attempts int
	queued   *request.Queued // while and after waiting
	waited   time.Duration
	queueEnd string // resumed, timed_out, aborted
	last     *tried // the final attempt so far
	began    time.Time
	sent     bool
	ended    bool
	cut      *Gone // of the attempt under way
	policy   string
}

// run takes the request through its stages until there is an answer.
func (l *life) run() Answer {
	if r := l.enter(); r != nil {
		return l.reject(*r, nil)
	}
	l.makePlan()
	if r := l.plan.Refusal; !r.IsZero() {
		return l.reject(r, l.plan.Excluded)
	}
	for {
		if r := l.acquire(); r != nil {
			return l.giveUp(*r)
		}
		if r := l.dispatch(); r != nil {
			l.release(nil)
			return l.giveUp(*r)
		}
		if a, done := l.attempt(); done {
			return a
		}
	}
}

// enter checks what the key may do and takes its slots.
func (l *life) enter() *failure.Refusal {
	key := l.c.Key
	if m := l.c.Ask.Model; m != "" && !key.AllowsModel(m) {
		r := failure.New(failure.ModelNotAllowedForKey, "")
		return &r
	}
	pass, refusal := l.d.System.Admit(callerOf(key), key.ID, Want{ID: LeaseID{Request: l.c.ID}, Key: key.ID}, l.c.Gone.Done)
	if refusal != nil {
		r := failure.New(failure.CallerConcurrencyFull, "")
		switch refusal.Reason {
		case Aborted:
			r = failure.New(failure.ClientDisconnect, "")
		case LocalFault, Stopped:
			r = failure.New(failure.LocalFault, string(refusal.Reason))
		}
		return &r
	}
	l.pass, l.hasPass = pass, true
	return nil
}

func callerOf(k *catalog.Key) CallerID {
	if k.User != "" {
		return "user/" + k.User
	}
	return "key/" + k.ID
}

func (l *life) makePlan() {
	l.routes(&l.plan)
	l.tries = make([]trial, len(l.plan.Candidates))
	for i := range l.plan.Candidates {
		c := &l.plan.Candidates[i]
		l.tries[i] = trial{Candidate: c, accounts: c.Accounts}
	}
}

// routes makes a plan by the present snapshot.
func (l *life) routes(into *routing.Plan) {
	q := routing.Query{Capability: l.c.Endpoint.Capability, Model: l.c.Ask.Model, Key: l.c.Key, Now: l.now(), Seed: l.d.Random()}
	routing.Make(q, l.snap, l.d.System.Board(), into)
}

// add puts a fact into the next append.
func (l *life) add(f events.Fact) { l.facts = append(l.facts, f) }

// take makes an append of the collected facts and counts them as stored.
func (l *life) take(terminal bool) events.Append {
	row := events.Row{
		Stream: "request/" + l.c.ID, Version: l.version, Terminal: terminal, At: l.now().UTC(),
		Node: l.d.Node, Request: l.c.ID, Key: l.c.Ask.Key, Facts: l.facts,
	}
	if l.cand != nil {
		row.Upstream = l.cand.Upstream.ID
	}
	l.version += int64(len(l.facts))
	l.facts = nil
	return events.Append{Rows: []events.Row{row}}
}

// end appends the collected facts as the last of the request.
func (l *life) end() { l.d.Journal.Put(l.take(true), events.Last) }

// admitted puts the Admitted fact in front of the first append.
func (l *life) admitted() {
	if l.stored {
		return
	}
	plan := make([]request.Candidate, len(l.plan.Candidates))
	for i, c := range l.plan.Candidates {
		plan[i] = request.Candidate{Upstream: c.Upstream.ID, Tier: c.Tier, Why: c.Why}
	}
	l.add(&request.Admitted{Ask: l.c.Ask, InputEstimate: l.inputEstimate(), Plan: plan, Excluded: l.plan.Excluded})
}

// inputEstimate is a rough count of input tokens, four bytes each.
func (l *life) inputEstimate() int64 { return int64(len(l.c.Body)+3) / 4 }

// commit stores the collected facts as the durability asks, before something is done that they tell of.
func (l *life) commit() error {
	n := int64(len(l.facts))
	switch l.d.Durability {
	case Relaxed:
		l.d.Journal.Put(l.take(false), events.Must)
	case Overlapped: // kept through an outage, since the call goes on beside it
		l.pending = l.d.Journal.Start(l.take(false), events.Must)
	default:
		if err := l.d.Journal.Commit(l.take(false), events.May); err != nil {
			l.version -= n
			return err
		}
	}
	l.stored = true
	return nil
}

// awaitCommit waits for an overlapped commit, before the first byte of the answer.
func (l *life) awaitCommit() error {
	if l.pending == nil {
		return nil
	}
	err := l.pending.Wait()
	l.pending = nil
	return err
}

// guard turns a panic of f into an answer, with everything given back.
func (l *life) guard(f func() Answer) (a Answer) {
	defer func() {
		if r := recover(); r != nil {
			a = l.panicked(r)
		}
	}()
	return f()
}

func (l *life) panicked(r any) Answer {
	l.d.Logger.Error("request panicked", "request_id", l.c.ID, "panic", r, "stack", string(debug.Stack()))
	fault := failure.New(failure.LocalFault, "panic")
	if l.ended {
		return refusalAnswer(l.c, fault, l.sent)
	}
	l.release(nil)
	return l.giveUp(fault)
}

func isOverloaded(err error) bool { return errors.Is(err, events.ErrOverloaded) }
