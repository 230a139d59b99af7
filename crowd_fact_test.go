package penstock_test

import (
	"context"
	"path/filepath"
	"slices"
	"sort"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/failure"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// deeds are the facts of the requests, summed up.
type deeds struct {
	requests, cancelled        int
	waits                      map[string]int // by end
	resumed, sent, again       map[string]int // by upstream
	tickets                    map[string][]uint64
	took                       []int64 // of the waits, µs
	opened, closed, halfOpened int
	blamed, failed             map[string]bool // "upstream request": evidence of breakers, and attempts that failed
	probes                     map[string][]probe
}

type probe struct{ began, ended time.Time }

// everyWaitHasOneEnd reads the facts themselves.
func (c *crowd) everyWaitHasOneEnd(told []saga, lines map[string]crowdLine, boards map[string]board) {
	store, err := sqlite.OpenStore(filepath.Join(c.config.DataDir, "events.db"), sqlite.StoreOptions{})
	require.NoError(c.t, err)
	defer store.Close()
	d := &deeds{waits: map[string]int{}, resumed: map[string]int{}, sent: map[string]int{}, again: map[string]int{}, tickets: map[string][]uint64{},
		blamed: map[string]bool{}, failed: map[string]bool{}, probes: map[string][]probe{}}
	tales := map[string]*tale{}
	require.NoError(c.t, store.Find(context.Background(), events.Query{}, func(row *events.Committed) bool {
		for _, f := range row.Facts {
			if d.ofBreaker(f) || row.Request == "" {
				continue
			}
			if tales[row.Request] == nil {
				tales[row.Request] = &tale{crowd: c, deeds: d, id: row.Request, first: row.Position}
			}
			tales[row.Request].last = row.Position
			tales[row.Request].hear(f, row.At)
		}
		return true
	}))
	for _, l := range lines {
		if x := tales[l.RequestID]; x == nil || x.outcome != l.Outcome || x.ends != 1 {
			c.t.Errorf("logged %+v, but the facts say %+v", l, x)
		}
	}
	if len(tales) != len(lines) {
		c.t.Errorf("%d requests in the store, %d in the log", len(tales), len(lines))
	}
	d.requests = len(tales)
	c.whoWentIsGone(told, lines, tales)
	c.sumsUp(d, boards)
	c.breakersWereFair(d)
}

// whoWentIsGone: a request ends when its client goes. Moments say nothing on a machine that has too much to do, but the client's
// next requests do: one that was answered as a whole took everything a request needs. When two have been, and one more is
// admitted, the first is over: in the order of the store.
func (c *crowd) whoWentIsGone(told []saga, lines map[string]crowdLine, tales map[string]*tale) {
	const answers = 2
	judged := 0
	for i := range told {
		gone := tales[lines[told[i].id].RequestID]
		if told[i].gone.IsZero() || gone == nil {
			continue
		}
		since := 0
		for _, x := range told[i+1:] {
			if x.client != told[i].client {
				break
			}
			if next := tales[lines[x.id].RequestID]; since == answers && next != nil {
				if judged++; next.first < gone.last {
					c.t.Errorf("%s: its client went, and had %d answers since; it ended at %d, and the next one was admitted at %d", told[i].id, since, gone.last, next.first)
				}
				break
			}
			if x.whole && x.status == 200 {
				since++
			}
		}
	}
	c.t.Logf("%d clients went and had %d answers afterwards", judged, answers)
}

// sumsUp compares the facts of the requests with the totals of the actors.
func (c *crowd) sumsUp(d *deeds, boards map[string]board) {
	silent, unsent, queued := 0, 0, 0
	for id, b := range boards {
		t := b.Totals
		served := int(t.Queued - t.TimedOut - t.Aborted - t.Moved)
		dispatched := d.sent[id]
		calls := int(c.up[id].Stats().All.Requests)
		c.t.Logf("%-6s %d joined its queue, %d were served from it (%d facts say so); %d leases, %d dispatches, %d of them on the same lease again, %d calls arrived",
			id, t.Queued, served, d.resumed[id], t.Granted, dispatched, d.again[id], calls)
		if served < d.resumed[id] || t.Queued < uint64(d.resumed[id]) {
			c.t.Errorf("%s: %d were served from the queue, but %d requests went on", id, served, d.resumed[id])
		}
		if int(t.Granted) < dispatched-d.again[id] {
			c.t.Errorf("%s: %d leases, but %d dispatches", id, t.Granted, dispatched)
		}
		if calls > dispatched {
			c.t.Errorf("%s: %d calls arrived of %d dispatches", id, calls, dispatched)
		}
		silent += served - d.resumed[id]
		unsent += dispatched - calls
		queued += d.resumed[id]
	}
	if unsent > d.cancelled || silent > d.cancelled+queued/100 {
		c.t.Errorf("%d dispatches never arrived, %d grants from a queue led to nothing, but only %d clients went", unsent, silent, d.cancelled)
	}
	slices.Sort(d.took)
	at := func(q float64) time.Duration {
		return (time.Duration(d.took[int(q*float64(len(d.took)-1))]) * time.Microsecond).Round(time.Millisecond)
	}
	c.t.Logf("%d requests, %d cancelled; waits ended %v; waited p50 %s, p99 %s, at most %s; %d dispatches never arrived, %d grants were of clients that went in that moment",
		d.requests, d.cancelled, d.waits, at(0.5), at(0.99), at(1), unsent, silent)
	if c.discipline == "fifo" && c.classes == nil {
		c.ticketsInTheFacts(d)
	}
}

// ticketsInTheFacts looks at the order in which the facts of the dispatches were stored. Requests that were granted slots
// one after the other store their facts side by side, so neighbours may swap.
func (c *crowd) ticketsInTheFacts(d *deeds) {
	for id, order := range d.tickets {
		late, farthest := 0, 0
		var sorted []uint64 // of those before
		for _, ticket := range order {
			at := sort.Search(len(sorted), func(i int) bool { return sorted[i] > ticket })
			if overtaken := len(sorted) - at; overtaken > 0 {
				late++
				farthest = max(farthest, overtaken)
			}
			sorted = slices.Insert(sorted, at, ticket)
		}
		c.t.Logf("%-6s %d tickets in the facts: %d behind a later one, by %d places at most", id, len(order), late, farthest)
		if late > len(order)/4 {
			c.t.Errorf("%s: %d of %d waits ended out of order", id, late, len(order))
		}
	}
}

// breakersWereFair wants nobody's going to count as a failure, and one probe at a time.
func (c *crowd) breakersWereFair(d *deeds) {
	if !c.opens() {
		if d.opened > 0 {
			c.t.Errorf("%d breakers opened", d.opened)
		}
		return
	}
	for id := range d.blamed {
		if !d.failed[id] {
			c.t.Errorf("%s is evidence of a breaker, but that request did not fail there", id)
		}
	}
	n, overlaps := 0, 0
	for id, ps := range d.probes {
		slices.SortFunc(ps, func(a, b probe) int { return a.began.Compare(b.began) })
		for i := range ps {
			if n++; i > 0 && ps[i].began.Before(ps[i-1].ended) {
				overlaps++
				c.t.Logf("%s: a probe at %s, the one before from %s to %s", id, ps[i].began, ps[i-1].began, ps[i-1].ended)
			}
		}
	}
	c.t.Logf("breakers opened %d times, half-opened %d times, closed %d times; %d probes, %d began before the outcome of the one before", d.opened, d.halfOpened, d.closed, n, overlaps)
	if d.opened < 2 || d.closed < 1 || n < 2 || overlaps > 0 {
		c.t.Error("want openings, closings and single probes")
	}
}

func (d *deeds) ofBreaker(f events.Fact) bool {
	switch f := f.(type) {
	case *breaker.Opened:
		d.opened++
		for _, e := range f.Last {
			d.blamed[f.Upstream+" "+e.Request] = true
		}
	case *breaker.HalfOpened:
		d.halfOpened++
	case *breaker.Closed:
		d.closed++
	default:
		return false
	}
	return true
}

// tale is one request as its facts tell it.
type tale struct {
	*crowd
	*deeds
	id      string
	outcome string
	ends    int
	queued  *request.Queued // it waits; nil: it does not
	waited  int64           // µs, in waits that are over
	now     *request.Dispatched
	began   time.Time // of the present attempt

	first, last events.Position
}

func (x *tale) hear(f events.Fact, at time.Time) {
	if x.ends > 0 {
		x.t.Errorf("%s: %T after its end", x.id, f)
	}
	switch f := f.(type) {
	case *request.Queued:
		if x.queued != nil {
			x.t.Errorf("%s: it waits twice", x.id)
		}
		x.queued = f
	case *request.Resumed:
		if x.queued == nil || !slices.Contains(x.queued.Upstreams, f.Upstream) {
			x.t.Errorf("%s: served by %s, but it waits %+v", x.id, f.Upstream, x.queued)
			return
		}
		x.waits["resumed"]++
		x.resumed[f.Upstream]++
		x.took = append(x.took, f.WaitedUS)
		x.waited += f.WaitedUS
		if x.queued.Upstreams[0] == f.Upstream {
			x.tickets[f.Upstream] = append(x.tickets[f.Upstream], x.queued.Ticket)
		}
		x.queued = nil
	case *request.Dispatched:
		if x.queued != nil {
			x.t.Errorf("%s: it is sent while it waits", x.id)
		}
		x.sent[f.Upstream]++
		x.now, x.began = f, at
	case *request.Failed:
		x.failed[x.now.Upstream+" "+x.id] = true
		if f.Next == "same_account" {
			x.again[x.now.Upstream]++
		}
		x.attemptEnded(f.TTFTUS, f.TookUS)
	case *request.Settled:
		x.endedWith(f)
	case *request.Rejected:
		x.ends++
		if x.outcome = string(f.Outcome()); x.outcome == "cancelled" {
			x.cancelled++
		} else if f.Code == "QUEUE_WAIT_TIMEOUT" {
			x.t.Errorf("%s: it waited, but was not admitted", x.id)
		}
	}
}

func (x *tale) endedWith(f *request.Settled) {
	x.ends++
	x.outcome = string(f.Outcome)
	if f.Outcome == request.Cancelled {
		x.cancelled++
	}
	switch failure.Class(f.Class) {
	case "", failure.OK, failure.Cancelled:
	default: // also when its client went while it waited for another attempt
		if x.now != nil {
			x.failed[x.now.Upstream+" "+x.id] = true
		}
	}
	x.attemptEnded(f.TTFTUS, f.AttemptUS)
	switch waits := x.queued != nil; f.QueueState {
	case "timed_out", "aborted", "evicted":
		if !waits {
			x.t.Errorf("%s: its wait has an end, but no beginning: %+v", x.id, f)
		}
		x.waits[f.QueueState]++
		x.took = append(x.took, f.WaitedUS-x.waited)
		if f.QueueState == "evicted" && !x.opens() {
			x.t.Errorf("%s: it was sent away, and no breaker opens: %+v", x.id, f)
		}
	default:
		if waits {
			x.t.Errorf("%s: its wait has no end: %+v", x.id, f)
		}
	}
	x.queued = nil
}

// attemptEnded notes when the outcome of a probe was known at the latest: with its first content, or its end.
func (x *tale) attemptEnded(ttft, took int64) {
	if x.now == nil || !x.now.Probe {
		return
	}
	us := ttft
	if us == 0 {
		us = took
	}
	x.probes[x.now.Upstream] = append(x.probes[x.now.Upstream], probe{x.began, x.began.Add(time.Duration(us) * time.Microsecond)})
}
