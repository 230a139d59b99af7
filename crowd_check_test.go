package penstock_test

import (
	"slices"
	"time"
)

// crowdTails is how many calls an upstream may still count that are over: where a client has gone, the connection is closed
// before the slot is given on, but the upstream notices that when it gets to it.
const crowdTails = 2

// slotsWereKept wants the board never to show more holders than there are slots, and the upstreams' own high-water marks to be
// the slots, but for calls whose end they have not noticed yet. It returns the totals of the upstreams' actors.
func (c *crowd) slotsWereKept(seen map[string]*sightings) map[string]board {
	totals := map[string]board{}
	for id, slots := range crowdSlots {
		up, b := c.up[id].Stats().All, c.board(id)
		totals[id] = b
		c.t.Logf("%-6s %d slots: at most %d calls at once, %d on the board, %d in the queue; %d calls, %d cut off, %d of clients that went; totals %+v",
			id, slots, up.MaxInFlight, seen[id].held, seen[id].longest, up.Requests, up.Faulted, up.Aborted, b.Totals)
		if up.MaxInFlight > int64(slots+crowdTails) || seen[id].held > slots {
			c.t.Errorf("%s has %d slots, but %d calls at once, and %d on the board", id, slots, up.MaxInFlight, seen[id].held)
		}
		if up.MaxInFlight < int64(slots) && !c.opens() {
			c.t.Errorf("%s was never full: %d of %d", id, up.MaxInFlight, slots)
		}
	}
	return totals
}

// ordersWereKept checks, by the tickets and times that the actors themselves gave, that no slot went to somebody while one
// waited there who came first or was more urgent; under fair, while one of the same key did.
func (c *crowd) ordersWereKept(seen map[string]*sightings) {
	for id, s := range seen {
		lines := map[string][]*sighting{}
		n := 0
		for _, x := range s.leases {
			if x.ticket == 0 || x.granted.IsZero() {
				continue
			}
			if n++; !x.granted.Before(x.deadline) {
				c.t.Errorf("%s: ticket %d was served at %s, its time was over at %s", id, x.ticket, x.granted, x.deadline)
			}
			line := ""
			if c.discipline == "fair" {
				line = x.key
			}
			lines[line] = append(lines[line], x)
		}
		c.t.Logf("%-6s %d grants from the queue were seen, of %d places", id, n, len(s.leases))
		if n < grantsSeen && !c.opens() {
			c.t.Errorf("%s: only %d grants from the queue were seen", id, n)
		}
		for _, granted := range lines {
			slices.SortFunc(granted, func(a, b *sighting) int { return a.granted.Compare(b.granted) })
			c.inOrder(id, granted)
		}
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

// sharesWereKept compares what the keys were granted with their weights while all of them had somebody in the queue: within
// 10 %, give or take the lease of each upstream whose turn it was when the counting began. Of a long load it also compares
// what their clients got.
func (c *crowd) sharesWereKept(told []saga, seen *sightings) {
	if c.discipline != "fair" || c.opens() { // an open breaker sends everybody away
		return
	}
	c.t.Logf("some key had nobody in the queue of %s in %d of %d looks", seen.upstream, seen.empty, seen.looks)
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
		if turns := float64(len(crowdSlots)); got < 0.9*want-turns || got > 1.1*want+turns {
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
	ClientID string `json:"client_request_id"`
}

// everyRequestHasOneLine compares what the clients know with the log, one by one.
func (c *crowd) everyRequestHasOneLine(all []saga) map[string]crowdLine {
	lines := map[string]crowdLine{}
	for l := range everyLine[crowdLine](c.rig) {
		if _, twice := lines[l.ClientID]; twice {
			c.t.Errorf("request %s has two lines", l.ClientID)
		}
		lines[l.ClientID] = l
	}
	outcomes, unread, tooLate := map[string]int{}, 0, 0
	for _, x := range all {
		l, logged := lines[x.id]
		outcomes[l.Outcome]++
		switch {
		case !logged:
			if unread++; x.gone.IsZero() || x.sent {
				c.t.Errorf("%s: %d, sent %v, gone after %s, but it is not in the log", x.id, x.status, x.sent, x.took)
			}
		case l.State != "done" || l.Outcome == "" || l.Outcome == "abandoned" || l.Key != x.key:
			c.t.Errorf("%s: logged %+v", x.id, l)
		case x.gone.IsZero():
			want := map[int][]string{200: {"completed"}, 503: {"failed", "rejected"}, 504: {"rejected", "failed"}}[x.status]
			if l.Status != x.status || !slices.Contains(want, l.Outcome) || l.ClientGone {
				c.t.Errorf("%s: the client got %d, logged %+v", x.id, x.status, l)
			}
		case l.Outcome != "cancelled": // its end came first; see whoWentIsGone
			tooLate++
		case l.Status != 499 || !l.ClientGone || l.Code != "CLIENT_DISCONNECTED":
			c.t.Errorf("%s: logged %+v", x.id, l)
		}
	}
	if outcomes["cancelled"] == 0 {
		c.t.Error("nobody's going was noticed")
	}
	if len(lines) != len(all)-unread {
		c.t.Errorf("%d requests, %d lines", len(all), len(lines))
	}
	c.t.Logf("%d requests, %d lines, outcomes %v; %d never left their client, %d had ended when the client went", len(all), len(lines), outcomes, unread, tooLate)
	return lines
}
