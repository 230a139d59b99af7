package penstock_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"sort"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// slotsWereKept wants the upstreams' own high-water marks to be the slots, neither more nor less, and returns the totals of
// their actors.
func (c *crowd) slotsWereKept(seen map[string]*sightings) map[string]board {
	totals := map[string]board{}
	for id, slots := range crowdSlots {
		up, b := c.up[id].Stats().All, c.board(id)
		totals[id] = b
		c.t.Logf("%-6s %d slots: at most %d calls at once, %d on the board, %d in the queue; %d calls, %d cut off, %d of clients that went; totals %+v",
			id, slots, up.MaxInFlight, seen[id].held, seen[id].longest, up.Requests, up.Faulted, up.Aborted, b.Totals)
		if up.MaxInFlight > int64(slots) || seen[id].held > slots {
			c.t.Errorf("%s has %d slots, but %d calls at once, and %d on the board", id, slots, up.MaxInFlight, seen[id].held)
		}
		if up.MaxInFlight < int64(slots) {
			c.t.Errorf("%s was never full: %d of %d", id, up.MaxInFlight, slots)
		}
	}
	return totals
}

// ordersWereKept checks, by the tickets and times that the actors themselves gave, that no slot went to somebody while one
// waited there who came first (fifo) or was more urgent. Under fair the same holds within a key, which the machine's tests
// cover: here only the shares are looked at.
func (c *crowd) ordersWereKept(seen map[string]*sightings) {
	if c.discipline != "fifo" {
		return
	}
	for id, s := range seen {
		var granted []*sighting
		for _, x := range s.leases {
			if x.ticket > 0 && !x.granted.IsZero() {
				granted = append(granted, x)
			}
		}
		slices.SortFunc(granted, func(a, b *sighting) int { return a.granted.Compare(b.granted) })
		c.t.Logf("%-6s %d grants from the queue were seen, %d of %d places; all in order", id, len(granted), len(granted), len(s.leases))
		if len(granted) < 20 {
			c.t.Errorf("%s: only %d grants from the queue were seen", id, len(granted))
		}
		c.inOrder(id, granted)
	}
}

// inOrder looks at each grant, from the last one on: who is granted later must not have waited already with a better claim.
func (c *crowd) inOrder(id string, granted []*sighting) {
	urgency := map[string]int{"high": 0, "normal": 1, "low": 2}
	type later struct {
		came   time.Time
		ticket uint64
	}
	first := [3]later{} // of those granted later, by class: who came first
	for i := len(granted) - 1; i >= 0; i-- {
		g := granted[i]
		class := urgency[g.class]
		for better := range class {
			if l := first[better]; l.ticket > 0 && l.came.Before(g.granted) {
				c.t.Errorf("%s: ticket %d of class %s was served while ticket %d of a better one waited", id, g.ticket, g.class, l.ticket)
			}
		}
		if l := first[class]; l.ticket > 0 && l.ticket < g.ticket {
			c.t.Errorf("%s: ticket %d was served before ticket %d", id, g.ticket, l.ticket)
		}
		if l := first[class]; l.ticket == 0 || g.ticket < l.ticket {
			first[class] = later{g.came, g.ticket}
		}
	}
}

// sharesWereKept compares what the keys were granted with their weights, within 10 %, while all of them had somebody in
// the queue; and of a long load what their clients got.
func (c *crowd) sharesWereKept(told []told) {
	if c.discipline != "fair" || c.breaker["failures"] == 1 { // while breakers are open, queues are emptied
		return
	}
	weights, leases, answers := 0, 0, 0
	whole := map[string]int{}
	for _, x := range told {
		if x.whole && x.status == 200 {
			whole[x.key]++
			answers++
		}
	}
	for key, w := range c.weights {
		weights += w
		leases += c.to[key] - c.from[key]
	}
	for key, w := range c.weights {
		got, want := float64(c.to[key]-c.from[key]), float64(leases*w)/float64(weights)
		heard := float64(whole[key]) * float64(weights) / float64(answers*w)
		c.t.Logf("key %-4s of weight %d: %.0f of %d leases, %+.1f %% of its share; %d answers, %+.1f %%", key, w, got, leases, 100*(got/want-1), whole[key], 100*(heard-1))
		if got < 0.9*want || got > 1.1*want {
			c.t.Errorf("key %s of weight %d was served %.0f times of %d, its share is %.0f", key, w, got, leases, want)
		}
		if answers > 20_000 && (heard < 0.9 || heard > 1.1) {
			c.t.Errorf("the clients of key %s of weight %d got %d answers of %d", key, w, whole[key], answers)
		}
	}
}

// crowdLine is one line of the request log.
type crowdLine struct {
	logged
	ClientID   string    `json:"client_request_id"`
	At         time.Time `json:"at"`
	DurationMS int64     `json:"duration_ms"`
}

// everyRequestHasOneLine compares what the clients know with the log, one by one.
func (c *crowd) everyRequestHasOneLine(all []told) map[string]crowdLine {
	lines := map[string]crowdLine{}
	for page, before := (struct {
		Items []crowdLine
		Next  string
	}{}), "-"; before != ""; before = page.Next {
		page.Items, page.Next = nil, ""
		query := "?limit=1000"
		if before != "-" {
			query += "&before=" + before
		}
		status, body := c.admin("GET", "/api/v1/requests"+query, nil)
		require.NoError(c.t, json.Unmarshal(body, &page))
		require.Equal(c.t, 200, status)
		for _, l := range page.Items {
			if _, twice := lines[l.ClientID]; twice {
				c.t.Errorf("request %s has two lines", l.ClientID)
			}
			lines[l.ClientID] = l
		}
	}
	outcomes, unread, tooLate := map[string]int{}, 0, 0
	for _, x := range all {
		l, logged := lines[x.id]
		outcomes[l.Outcome]++
		switch {
		case !logged:
			if unread++; x.gone.IsZero() {
				c.t.Errorf("%s: %d, but it is not in the log", x.id, x.status)
			}
		case l.State != "done" || l.Outcome == "" || l.Outcome == "abandoned" || l.Key != x.key:
			c.t.Errorf("%s: logged %+v", x.id, l)
		case x.gone.IsZero():
			want := map[int][]string{200: {"completed"}, 503: {"failed", "rejected"}, 504: {"rejected", "failed"}}[x.status]
			if l.Status != x.status || !slices.Contains(want, l.Outcome) || l.ClientGone {
				c.t.Errorf("%s: the client got %d, logged %+v", x.id, x.status, l)
			}
		case l.Outcome != "cancelled": // its end came first
			if tooLate++; l.At.Add(time.Duration(l.DurationMS) * time.Millisecond).After(x.gone.Add(100 * time.Millisecond)) {
				c.t.Errorf("%s: the client had gone at %s, logged %+v at %s", x.id, x.gone, l, l.At)
			}
		case l.Status != 499 || !l.ClientGone || l.Code != "CLIENT_DISCONNECTED":
			c.t.Errorf("%s: logged %+v", x.id, l)
		}
	}
	if len(lines) != len(all)-unread {
		c.t.Errorf("%d requests, %d lines", len(all), len(lines))
	}
	c.t.Logf("%d requests, %d lines, outcomes %v; %d clients went before the gateway had read them, %d after the end", len(all), len(lines), outcomes, unread, tooLate)
	return lines
}

// deeds are the facts of the requests, summed up.
type deeds struct {
	requests, cancelled                 int
	waits                               map[string]int // by end
	resumed, sent, again                map[string]int // by upstream
	tickets                             map[string][]uint64
	took                                []int64 // of the waits, µs
	opened, closed, halfOpened, counted int
	blamed                              map[string]bool // requests in the evidence of breakers
	cancelledAttempts                   map[string]bool // requests whose last attempt the client ended
	failedAttempts                      map[string]bool
	probes                              map[string][]probe
}

type probe struct{ began, ended time.Time }

// everyWaitHasOneEnd reads the facts themselves.
func (c *crowd) everyWaitHasOneEnd(lines map[string]crowdLine, boards map[string]board) {
	store, err := sqlite.OpenStore(filepath.Join(c.config.DataDir, "events.db"), sqlite.StoreOptions{})
	require.NoError(c.t, err)
	defer store.Close()
	d := &deeds{waits: map[string]int{}, resumed: map[string]int{}, sent: map[string]int{}, again: map[string]int{}, tickets: map[string][]uint64{},
		blamed: map[string]bool{}, cancelledAttempts: map[string]bool{}, failedAttempts: map[string]bool{}, probes: map[string][]probe{}}
	tales := map[string]*tale{}
	require.NoError(c.t, store.Find(context.Background(), events.Query{}, func(row *events.Committed) bool {
		for _, f := range row.Facts {
			if d.ofBreaker(f) || row.Request == "" {
				continue
			}
			if tales[row.Request] == nil {
				tales[row.Request] = &tale{crowd: c, deeds: d, id: row.Request}
			}
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
	c.sumsUp(d, boards)
	c.breakersWereFair(d)
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
	if longest := at(1); longest > crowdWait+2*time.Second {
		c.t.Errorf("somebody waited for %s", longest)
	}
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
	if c.breaker["failures"] != 1 {
		if d.opened > 0 {
			c.t.Errorf("%d breakers opened", d.opened)
		}
		return
	}
	for id := range d.blamed {
		if !d.failedAttempts[id] {
			c.t.Errorf("request %s is evidence of a breaker, but none of its attempts failed", id)
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
	if d.opened < 5 || d.closed < 2 || n < 5 || overlaps > 0 {
		c.t.Errorf("want openings, closings and single probes")
	}
}

func (d *deeds) ofBreaker(f events.Fact) bool {
	switch f := f.(type) {
	case *breaker.Opened:
		d.opened++
		for _, e := range f.Last {
			d.blamed[e.Request] = true
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
	now     *request.Dispatched
	began   time.Time // of the present attempt
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
		x.failedAttempts[x.id] = true
		if f.Next == "same_account" {
			x.again[x.now.Upstream]++
		}
		x.attemptEnded(f.TTFTUS, f.TookUS)
	case *request.Settled:
		x.settled(f)
	case *request.Rejected:
		x.ends++
		if x.outcome = string(f.Outcome()); x.outcome == "cancelled" {
			x.cancelled++
		} else if f.Code == "QUEUE_WAIT_TIMEOUT" {
			x.t.Errorf("%s: it waited, but was not admitted", x.id)
		}
	}
}

func (x *tale) settled(f *request.Settled) {
	x.ends++
	x.outcome = string(f.Outcome)
	if f.Outcome == request.Cancelled {
		x.cancelled++
	}
	if f.Outcome == request.FailedOutcome {
		x.failedAttempts[x.id] = true
	}
	x.attemptEnded(f.TTFTUS, f.AttemptUS)
	switch f.QueueState {
	case "timed_out", "aborted": // a wait after a failed attempt is told by its end alone
		if x.queued == nil && f.Attempts == 0 {
			x.t.Errorf("%s: its wait has an end, but no beginning: %+v", x.id, f)
		}
		x.waits[f.QueueState]++
		x.took = append(x.took, f.WaitedUS)
	case "resumed":
		if x.queued != nil {
			x.waits["resumed, and the client went"]++
			if f.Outcome != request.Cancelled {
				x.t.Errorf("%s: it was served and not sent, but its client was there: %+v", x.id, f)
			}
		}
	default:
		if x.queued != nil {
			x.waits["sent away"]++
			if x.breaker["failures"] != 1 {
				x.t.Errorf("%s: its wait has no end: %+v", x.id, f)
			}
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
	x.now = nil
}
