package actors

import (
	"errors"
	"slices"

	"github.com/penstock/penstock/domain/failure"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// add puts a fact into the next append. Facts are read by others once they were appended: they are never changed.
func (l *life) add(f events.Fact) {
	if x, ok := f.(*request.Failed); ok {
		l.purse.count(x, 1)
	}
	l.facts = append(l.facts, f)
}

// admitted puts Admitted in front of the collected facts, unless it is stored.
func (l *life) admitted() {
	if l.stored {
		return
	}
	f := l.paper.admitted.take()
	plan := f.room[:0]
	for i := range l.plan.Candidates {
		c := &l.plan.Candidates[i]
		plan = append(plan, request.Candidate{Upstream: c.Upstream.ID, Tier: c.Tier, Why: c.Why})
	}
	f.Ask, f.InputEstimate, f.Plan, f.Excluded = l.c.Ask, l.inputEstimate(), plan, l.passedOver(l.excluded())
	f.Affinity, f.PaidBy = l.plan.Affinity, l.purse.paidBy
	l.facts = slices.Insert(l.facts, 0, events.Fact(&f.Admitted))
}

// inputEstimate is a rough count of input tokens, four bytes each.
func (l *life) inputEstimate() int64 { return int64(len(l.c.Body)+3) / 4 }

// take makes an append of the collected facts and counts them as stored.
func (l *life) take(terminal bool) events.Append {
	if l.stream == "" {
		l.stream = "request/" + l.c.ID
	}
	n := len(l.facts)
	rows := l.row()
	if l.tookAt = l.now().UTC(); l.version == 0 {
		l.admittedAt = l.tookAt
	}
	rows[0] = events.Row{
		Stream: l.stream, Version: l.version, Terminal: terminal, At: l.tookAt,
		Node: l.d.Node, Request: l.c.ID, Key: l.c.Ask.Key, Facts: l.facts[:n:n],
	}
	if l.cand != nil {
		rows[0].Upstream = l.cand.Upstream.ID
	}
	l.version += int64(n)
	l.facts = l.facts[n:]
	return events.Append{Rows: rows}
}

// commit stores the collected facts as the durability asks, before something is done that they tell of. After an error that
// is not done, and the request ends.
func (l *life) commit() error {
	before, facts := l.version, l.facts
	switch l.d.Durability {
	case Relaxed:
		l.d.Journal.Put(l.take(false), events.Must)
	case Overlapped: // kept through an outage, since the call goes on beside it
		_ = l.awaitCommit() // of the attempt before; the last one speaks for all
		l.pending = l.d.Journal.Start(l.take(false), events.Must)
	default:
		if err := l.d.Journal.Commit(l.take(false), events.May); err != nil {
			l.version = before
			l.untell(facts) // the settlement tells it
			l.facts = waits(facts)
			l.doubts(err, facts)
			return err
		}
	}
	l.stored = true
	return nil
}

// awaitCommit waits for an overlapped commit, before the first byte of any answer.
func (l *life) awaitCommit() error {
	if l.pending == nil {
		return nil
	}
	err := l.pending.Wait()
	l.pending = nil
	return err
}

// noteQueued begins to store that an admitted request waits, and returns what it stores. Nil: nobody needs to know when it is
// stored.
func (l *life) noteQueued() (*events.Pending, []events.Fact) {
	l.admitted()
	l.add(l.queued)
	l.stored = true
	facts := l.facts
	if l.d.Durability == Relaxed {
		l.d.Journal.Put(l.take(false), events.Must)
		return nil, facts
	}
	return l.d.Journal.Start(l.take(false), events.May), facts
}

// doubts keeps the facts of an append that has failed when they may be stored.
func (l *life) doubts(err error, facts []events.Fact) {
	if errors.Is(err, events.ErrInDoubt) {
		l.doubt = facts
	}
}

// end appends the collected facts as the last of the request. stored is what ends it instead if the append in doubt turns out
// to be stored.
func (l *life) end(stored *request.Settled) {
	l.ended = true
	last, sealing := l.take(true), l.d.Durability == AtSettlement && l.stored
	if len(l.doubt) == 0 {
		if sealing {
			l.sealing = l.d.Journal.Start(last, events.Last)
		} else {
			l.d.Journal.Put(last, events.Last)
		}
		return
	}
	row := last.Rows[0]
	row.Version += int64(len(l.doubt))
	row.Facts = []events.Fact{stored}
	other := events.Append{Rows: []events.Row{row}}
	if sealing {
		l.sealing = l.d.Journal.StartEither(other, last)
	} else {
		l.d.Journal.PutEither(other, last)
	}
}

// neverLeft is the evidence of an attempt whose dispatch is in the log although nothing was sent.
const neverLeft = "the store did not confirm the dispatch in time: nothing was sent"

// afterDoubt is the end of a request whose last append is stored although the store had not said so; nil: none is in doubt. What
// that append tells of an earlier attempt is not told again, and the attempt that it announces never left.
func (l *life) afterDoubt(said *request.Settled) *request.Settled {
	if len(l.doubt) == 0 {
		return nil
	}
	s := *said // the end that is told otherwise
	if _, ok := l.doubt[len(l.doubt)-1].(*request.Dispatched); ok {
		s.Class, s.Evidence = string(failure.Local), neverLeft
	}
	l.describe(&s)
	return &s
}
