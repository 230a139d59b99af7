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
	hole  events.Hole // it stands for facts that are not there any more, from at on
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
	var seen events.FeedPage
	for r.Rows.Next() {
		f, checkpoint, err := readFact(r.Rows)
		if err != nil {
			r.conn.failed(err)
			return false
		}
		seen.Through = max(seen.Through, checkpoint)
		if seen.Saw(f.at, f.at); len(seen.Holes) > 0 {
			r.page = append(r.page, feedFact{at: seen.Holes[0].First, hole: seen.Holes[0]})
			seen.Holes = nil
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
	next   int                // the first that was not handed on
	fresh  *message.Message   // it, once it is made
	cancel context.CancelFunc // of fresh
	flight events.Flight
}

// hand returns when all of a page is acknowledged; when the time for it is over; or when the subscription ends (false).
// Everything up to through is acknowledged.
func (g *groupSubscriber) hand(ctx context.Context, page []feedFact, to chan<- *message.Message) (through events.Position, open bool) {
	h := &handing{groupSubscriber: g, ctx: ctx, page: g.tell(ctx, page)}
	begun := time.Now()
	for open = true; open; {
		h.flight.LandAll()
		send := h.offer(to, time.Since(begun) < feedMessageMax)
		if send == nil && h.flight.Len() == 0 || h.left() < 0 {
			break
		}
		open = h.step(send)
	}
	h.flight.LandAll() // also what was acknowledged in the last moment
	through = h.through()
	h.takeBack()
	return through, open
}

// tell makes messages of what is not there any more, and leaves out what the consumer knows of already or never asks for.
func (g *groupSubscriber) tell(ctx context.Context, page []feedFact) []feedFact {
	told := make([]feedFact, 0, len(page))
	for _, f := range page {
		if h := f.hole; h.Last > 0 {
			known := h.Last <= g.told && h.First > g.toldFrom // what is at its beginning was not acknowledged
			if known || !g.o.Filter.Removable() {
				continue
			}
			f.m, g.told = h.Message(ctx, g.feed.store)
			g.toldFrom = h.First
			g.feed.log.Warn("events were removed before they were read", "group", g.o.Group, "first", h.First, "last", g.told)
		}
		told = append(told, f)
	}
	return told
}

// left is for how long the oldest message may be out yet.
func (h *handing) left() time.Duration {
	if h.flight.Len() == 0 {
		return feedMessageMax
	}
	_, since := h.flight.First()
	return feedMessageMax - time.Since(since)
}

// step waits for the next thing to happen; false: the subscription ends.
func (h *handing) step(send chan<- *message.Message) (open bool) {
	acked, nacked := h.flight.Oldest()
	limit := time.NewTimer(h.left())
	defer limit.Stop()
	select {
	case send <- h.fresh:
		h.flight.Sent(h.fresh, h.page[h.next].at, h.cancel)
		h.fresh, h.next = nil, h.next+1
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

// offer makes the next message and says where it goes; nil: nothing can be sent now.
func (h *handing) offer(to chan<- *message.Message, early bool) chan<- *message.Message {
	for h.fresh == nil && h.next < len(h.page) && !h.passes(&h.page[h.next]) {
		h.next++
	}
	if h.next == len(h.page) || h.flight.Len() >= h.o.Window || !early {
		return nil
	}
	if h.fresh == nil {
		var ctx context.Context
		ctx, h.cancel = context.WithCancel(h.ctx)
		h.fresh = h.page[h.next].m.Copy() // a copy: it may come again
		h.fresh.SetContext(ctx)
	}
	return to
}

// passes says whether a fact is handed on.
func (g *groupSubscriber) passes(f *feedFact) bool {
	if f.m == nil {
		g.feed.log.Error("event can not be handed on and is passed over", "group", g.o.Group, "error", f.fault)
		return false
	}
	return f.hole.Last > 0 || g.o.Filter.Message(f.m)
}

// takeBack takes everything back that is out: it comes again.
func (h *handing) takeBack() {
	if h.fresh != nil {
		h.cancel()
		h.fresh = nil
	}
	if h.flight.Len() == 0 {
		return
	}
	for at, _ := h.flight.First(); h.next > 0 && h.page[h.next-1].at >= at; {
		h.next--
	}
	h.flight.Ground()
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
	case h.flight.Len() > 0:
		at, _ := h.flight.First()
		return at - 1
	case h.next < len(h.page):
		return h.page[h.next].at - 1
	}
	return h.page[len(h.page)-1].at
}
