package postgres

import (
	"context"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"

	"github.com/penstock/penstock/events"
)

// watermill-sql hands on one row at a time and waits for its Ack. A consumer that takes many at once, as webhooks do, would get
// them one by one. So all facts of one transaction are one row for it (feedRows), and the group hands them on by its window.

// feedMessageMax is how long a message may be out, and a transaction go on handing out more.
const feedMessageMax = 30 * time.Second

// feedFact is one fact of a page. m is nil when no message can be made of it.
type feedFact struct {
	at    events.Position
	m     *message.Message
	fault error
}

// feedRows gives all rows of a page as one.
type feedRows struct {
	wsql.Rows
	conn *feedConn
	page []feedFact
	read bool
}

// Next reads the page; there is no other one. A fault of the connection is noted, for watermill takes it for the end.
func (r *feedRows) Next() bool {
	if r.read {
		return false
	}
	r.read = true
	for r.Rows.Next() {
		f, err := readFact(r.Rows)
		if err != nil {
			r.conn.failed(err)
			return false
		}
		r.page = append(r.page, f)
	}
	if ended, ok := r.Rows.(wsql.PgxRows); ok && ended.Err() != nil {
		r.conn.failed(ended.Err())
		return false
	}
	return len(r.page) > 0
}

// handing is a page on its way to the consumer, by the rules of events.FeedOptions.Window.
type handing struct {
	*groupSubscriber
	ctx    context.Context
	page   []feedFact
	next   int         // the first that was not handed on
	fresh  *feedFlight // it, once it is made
	flying []feedFlight
}

// feedFlight is a message that the consumer has, or is to get.
type feedFlight struct {
	*message.Message
	place  int // in the page
	cancel context.CancelFunc
	until  time.Time
}

// hand returns when all of a page is acknowledged; when the time for it is over; or when the subscription ends (false).
// Everything up to through is acknowledged.
func (g *groupSubscriber) hand(ctx context.Context, page []feedFact, to chan<- *message.Message) (through events.Position, open bool) {
	h := &handing{groupSubscriber: g, ctx: ctx, page: page}
	begun := time.Now()
	for open = true; open; {
		h.acknowledged()
		send, m := h.offer(to, time.Since(begun) < feedMessageMax)
		if send == nil && len(h.flying) == 0 || len(h.flying) > 0 && time.Now().After(h.flying[0].until) {
			break
		}
		open = h.step(send, m)
	}
	h.acknowledged() // also what was in the last moment
	through = h.through()
	h.takeBack()
	return through, open
}

// step waits for the next thing to happen; false: the subscription ends.
func (h *handing) step(send chan<- *message.Message, m *message.Message) (open bool) {
	var acked, nacked <-chan struct{}
	limit := time.NewTimer(feedMessageMax)
	defer limit.Stop()
	if len(h.flying) > 0 {
		acked, nacked = h.flying[0].Acked(), h.flying[0].Nacked()
		limit.Reset(time.Until(h.flying[0].until))
	}
	select {
	case send <- m:
		h.fresh.until = time.Now().Add(feedMessageMax)
		h.flying, h.fresh, h.next = append(h.flying, *h.fresh), nil, h.next+1
	case <-acked:
	case <-nacked:
		h.takeBack()
		return h.rest()
	case <-limit.C:
	case <-h.closing:
		return false
	case <-h.ctx.Done():
		return false
	}
	return true
}

// offer is the next message and where it goes; nil: nothing can be sent now.
func (h *handing) offer(to chan<- *message.Message, early bool) (chan<- *message.Message, *message.Message) {
	for h.fresh == nil && h.next < len(h.page) && !h.passes(&h.page[h.next]) {
		h.next++
	}
	if h.next == len(h.page) || len(h.flying) >= h.o.Window || !early {
		return nil, nil
	}
	if h.fresh == nil {
		ctx, cancel := context.WithCancel(h.ctx)
		h.fresh = &feedFlight{Message: h.page[h.next].m.Copy(), place: h.next, cancel: cancel} // a copy: it may come again
		h.fresh.SetContext(ctx)
	}
	return to, h.fresh.Message
}

// passes says whether a fact is handed on.
func (g *groupSubscriber) passes(f *feedFact) bool {
	if f.m == nil {
		g.feed.log.Error("event can not be handed on and is passed over", "group", g.o.Group, "error", f.fault)
		return false
	}
	return g.o.Filter.Message(f.m)
}

// acknowledged lets go of what was acknowledged, in order.
func (h *handing) acknowledged() {
	for len(h.flying) > 0 {
		select {
		case <-h.flying[0].Acked():
			h.flying[0].cancel()
			h.flying = h.flying[1:]
			continue
		default:
		}
		return
	}
}

// takeBack takes everything back that is out: it comes again.
func (h *handing) takeBack() {
	for i := range h.flying {
		h.flying[i].cancel()
	}
	if h.fresh != nil {
		h.fresh.cancel()
	}
	if len(h.flying) > 0 {
		h.next = h.flying[0].place
	}
	h.flying, h.fresh = nil, nil
}

// rest waits before what was refused comes again.
func (h *handing) rest() (open bool) {
	timer := time.NewTimer(h.o.ResendAfter)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-h.closing:
	case <-h.ctx.Done():
	}
	return false
}

// through is the position up to which everything was acknowledged or left out.
func (h *handing) through() events.Position {
	switch {
	case len(h.flying) > 0:
		return h.page[h.flying[0].place].at - 1
	case h.next < len(h.page):
		return h.page[h.next].at - 1
	}
	return h.page[len(h.page)-1].at
}
