package actors

import (
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// add puts a fact into the next append. Facts are read by others once they were appended: they are never changed.
func (l *life) add(f events.Fact) { l.facts = append(l.facts, f) }

// admitted puts Admitted in front of the collected facts, unless it is stored.
func (l *life) admitted() {
	if l.stored {
		return
	}
	plan := make([]request.Candidate, len(l.plan.Candidates))
	for i, c := range l.plan.Candidates {
		plan[i] = request.Candidate{Upstream: c.Upstream.ID, Tier: c.Tier, Why: c.Why}
	}
	later := l.facts
	l.facts = append(make([]events.Fact, 0, 4),
		&request.Admitted{Ask: l.c.Ask, InputEstimate: l.inputEstimate(), Plan: plan, Excluded: l.plan.Excluded})
	l.facts = append(l.facts, later...)
}

// inputEstimate is a rough count of input tokens, four bytes each.
func (l *life) inputEstimate() int64 { return int64(len(l.c.Body)+3) / 4 }

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

// commit stores the collected facts as the durability asks, before something is done that they tell of.
func (l *life) commit() error {
	before := l.version
	switch l.d.Durability {
	case Relaxed:
		l.d.Journal.Put(l.take(false), events.Must)
	case Overlapped: // kept through an outage, since the call goes on beside it
		_ = l.awaitCommit() // of the attempt before; the last one speaks for all
		l.pending = l.d.Journal.Start(l.take(false), events.Must)
	default:
		if err := l.d.Journal.Commit(l.take(false), events.May); err != nil {
			l.version = before
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

// noteQueued begins to store that an admitted request waits. Nil: nobody needs to know when it is stored.
func (l *life) noteQueued() *events.Pending {
	l.admitted()
	l.add(l.queued)
	l.stored = true
	if l.d.Durability == Relaxed {
		l.d.Journal.Put(l.take(false), events.Must)
		return nil
	}
	return l.d.Journal.Start(l.take(false), events.May)
}

// end appends the collected facts as the last of the request.
func (l *life) end() {
	l.ended = true
	l.d.Journal.Put(l.take(true), events.Last)
}
