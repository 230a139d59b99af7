package actors_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/failure"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// streams are the rows of all requests, by stream, in order.
func (r *rig) streams() map[string][]*events.Committed {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := r.journal.Sync(ctx); err != nil {
		r.t.Fatalf("sync: %v", err)
	}
	all := map[string][]*events.Committed{}
	err := r.store.After(ctx, 0, func(c *events.Committed) bool {
		if c.Request != "" {
			all[c.Stream] = append(all[c.Stream], c)
		}
		return true
	})
	if err != nil {
		r.t.Fatalf("read: %v", err)
	}
	return all
}

// told is the story of a request: facts of one append side by side, appends divided by a bar.
func (r *rig) told(id string) string {
	r.t.Helper()
	var rows []string
	for _, c := range r.streams()["request/"+id] {
		var facts []string
		for _, f := range c.Facts {
			facts = append(facts, say(f))
		}
		rows = append(rows, strings.Join(facts, " "))
	}
	return strings.Join(rows, " | ")
}

func say(fact any) string {
	word := func(name string, parts ...any) string {
		var s []string
		for _, p := range parts {
			if t := fmt.Sprint(p); t != "" {
				s = append(s, t)
			}
		}
		return name + "(" + strings.Join(s, " ") + ")"
	}
	switch f := fact.(type) {
	case *request.Rejected:
		return word("rejected", f.Status, f.Code, f.Reason)
	case *request.Admitted:
		return "admitted"
	case *request.Queued:
		return "queued"
	case *request.Resumed:
		return "resumed"
	case *request.Dispatched:
		return word("dispatched", f.N, f.Account)
	case *request.Failed:
		return word("failed", f.N, f.Class, f.Next)
	case *request.Progressed:
		return word("progressed", f.N, f.UsageSource)
	case *request.Settled:
		return word("settled", f.Outcome, f.Status, f.Code, f.Class, f.UsageSource)
	}
	return fmt.Sprintf("%T", fact)
}

// settlement is the last fact of a request.
func (r *rig) settlement(id string) *request.Settled {
	r.t.Helper()
	rows := r.streams()["request/"+id]
	if len(rows) == 0 {
		r.t.Fatalf("%s has no facts", id)
	}
	last := rows[len(rows)-1].Facts
	s, ok := last[len(last)-1].(*request.Settled)
	if !ok {
		r.t.Fatalf("%s ended with %s", id, say(last[len(last)-1]))
	}
	return s
}

// expect checks the story of a request, and all laws.
func (r *rig) expect(id, story string) {
	r.t.Helper()
	if got := r.told(id); got != story {
		r.t.Errorf("%s\n  told %s\n  want %s", id, got, story)
	}
	r.laws()
}

// laws are what holds of every request, and of what they leave behind when all have ended.
func (r *rig) laws() {
	r.t.Helper()
	for stream, rows := range r.streams() {
		if fault := lawful(rows); fault != "" {
			var all []string
			for _, c := range rows {
				for _, f := range c.Facts {
					all = append(all, say(f))
				}
			}
			r.t.Errorf("%s: %s: %s", stream, fault, strings.Join(all, " "))
		}
	}
	r.nothingHeld()
}

// ends are the ways in which a wait ends.
var ends = map[string]int{"resumed": 1, "timed_out": 1, "aborted": 1, "evicted": 1}

// lawful says what is wrong with the facts of a request that has ended.
func lawful(rows []*events.Committed) string {
	var version int64
	var dispatched, failed int
	var settled *request.Settled
	queued, waits := false, false // it has been in a queue, and it is
	for i, c := range rows {
		switch {
		case c.Version != version:
			return fmt.Sprintf("version %d follows %d", c.Version, version)
		case c.Terminal != (i == len(rows)-1):
			return "the terminal row is not the last one"
		}
		for k, f := range c.Facts {
			first, last := version == 0 && k == 0, i == len(rows)-1 && k == len(c.Facts)-1
			switch f := f.(type) {
			case *request.Rejected:
				if !first || !last {
					return "rejected is not alone"
				}
			case *request.Admitted:
				if !first {
					return "admitted is not first"
				}
			case *request.Queued:
				if queued, waits = true, true; first {
					return "queued is first"
				}
			case *request.Resumed:
				if !waits {
					return "resumed, and it did not wait"
				}
				waits = false
			case *request.Dispatched:
				if waits {
					return "sent while it waits"
				}
				if dispatched++; f.N != dispatched || failed != dispatched-1 {
					return "attempts are not 1..n, each failed before the next"
				}
			case *request.Failed:
				if failed++; f.N != failed || failed != dispatched || f.Cost != 0 || f.UpstreamCost != costOf(f.Usage) {
					return "a failure is not that of the running attempt, or not priced"
				}
			case *request.Settled:
				if !last {
					return "settled is not last"
				}
				settled = f
			}
		}
		version += int64(len(c.Facts))
	}
	if settled == nil {
		return ""
	}
	left := dispatched
	if strings.HasSuffix(settled.Evidence, "nothing was sent") { // the store had not confirmed it in time
		left--
	}
	served := settled.Outcome != request.FailedOutcome || settled.Stage == failure.StageStreaming
	switch cost := costOf(settled.Usage); {
	case !queued && settled.QueueState != "", queued && waits == (settled.QueueState == "resumed"), queued && ends[settled.QueueState] == 0:
		return fmt.Sprintf("its wait ended as %q", settled.QueueState)
	case settled.Attempts != left || settled.Sent != (left > 0):
		return "settled tells of other attempts"
	case dispatched > 0 && failed != dispatched-1:
		return "the final attempt is in attempt.failed and in settled"
	case settled.UpstreamCost != cost || served && settled.Cost != cost || !served && settled.Cost != 0:
		return fmt.Sprintf("cost %v and %v of a usage worth %v", settled.Cost, settled.UpstreamCost, cost)
	case dispatched > 0 && settled.Class == "":
		return "the final attempt has no class"
	case (settled.UsageSource == pricing.None) != settled.Usage.IsZero():
		return "usage and its source disagree"
	}
	return ""
}

// costOf is 1 USD per million input tokens and 2 per million of output, in 1e-10 USD.
func costOf(u pricing.Usage) money.Amount { return money.Amount(u.Input*10_000 + u.Output*20_000) }

// B67, B68: nothingHeld waits until everything is given back: leases, waiters, probes, passes, rooms, answers.
func (r *rig) nothingHeld() {
	r.t.Helper()
	for _, u := range r.snap.Load().Upstreams() {
		r.until("upstream "+u.ID+" to be free", func() bool {
			s, ok := r.system.Status(u.ID)
			free := ok && len(s.Held) == 0 && len(s.Waiting) == 0
			for _, a := range s.Accounts {
				free = free && a.Held == 0
			}
			f, _ := r.system.Board().Figures(u.ID)
			return free && f.ProbeFree
		})
	}
	r.until("the journal to be empty", func() bool { s := r.journal.Stats(); return s.Rooms == 0 && s.Queued == 0 })
	r.until("the answers to be closed", func() bool { return r.ups.open.Load() == 0 })
	for _, k := range r.snap.Load().Keys() {
		if k.Slots == nil || k.Revoked {
			continue
		}
		r.until("the passes of "+k.ID, func() bool { return r.passes(k.ID, *k.Slots) })
	}
}

// passes says whether a key has all its slots free.
func (r *rig) passes(id string, n int) bool {
	gone := make(chan struct{})
	close(gone)
	all := true
	for i := range n {
		w := actors.Want{ID: actors.LeaseID{Request: fmt.Sprint("pass-", i)}, Key: id}
		p, no := r.system.Admit("key/"+id, id, w, func() <-chan struct{} { return gone })
		all = all && no == nil
		defer r.system.Leave(p)
	}
	return all
}
