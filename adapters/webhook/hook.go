package webhook

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/events"
)

// hook is one webhook at work.
type hook struct {
	m       *Manager
	spec    *catalog.Webhook
	from    events.Position
	end     context.CancelFunc
	done    chan struct{}
	notices chan Alert
	watch   Watch
	through events.Position // everything up to it is done with; it may come again when its Ack came too late

	facts lane // and alerts
	heads lane // of the chain

	mu       sync.Mutex
	position events.Position // see Status
	missed   events.Position // see Status
}

// lane is deliveries that go one after the other: one that fails holds up what comes behind it, but no other lane.
type lane struct {
	retry time.Duration // the next pause; 0 after a success
	newer chan *batch   // holds what takes the place of a delivery that has failed; nil: nothing does

	// Under the mutex of the hook.
	delivered, givenUp int64      // lines
	failing            *time.Time // since when; nil: it does not
	fault              string     // the last one since then
}

// noticesMax bounds the alerts that wait for a webhook beside the feed.
const noticesMax = 64

// start runs a webhook; one that is not active waits for its end only.
func (m *Manager) start(spec *catalog.Webhook, from events.Position) *hook {
	h := &hook{m: m, spec: spec, from: from, done: make(chan struct{}), notices: make(chan Alert, noticesMax)}
	h.heads.newer = make(chan *batch, 1)
	if m.head != nil {
		h.hasHead(*m.head)
	}
	ctx, end := context.WithCancel(m.life)
	h.end = end
	go func() {
		defer close(h.done)
		defer end()
		if !spec.Active {
			return
		}
		var heads sync.WaitGroup
		heads.Go(func() { h.sendHeads(ctx) })
		h.run(ctx)
		heads.Wait()
	}()
	return h
}

func (h *hook) wants(name string) bool {
	return slices.ContainsFunc(h.spec.Events, func(glob string) bool { return catalog.Glob(glob, name) })
}

// notice hands over an alert that no fact gave rise to.
func (h *hook) notice(a Alert) {
	if !h.spec.Active || !h.wants(a.Name) {
		return
	}
	select {
	case h.notices <- a:
	default:
		h.m.o.Logger.Warn("alert lost, the webhook does not keep up", "webhook", h.spec.ID, "alert", a.Name)
	}
}

// filter is what the webhook reads: the facts that it asks for and those that alerts are made of.
func (h *hook) filter() events.FeedFilter {
	f := events.FeedFilter{Types: slices.Clone(h.spec.Events)}
	for name, from := range sources {
		if slices.ContainsFunc(from.alerts, h.wants) {
			f.Types = append(f.Types, name)
		}
	}
	return f
}

// run delivers until the context ends.
func (h *hook) run(ctx context.Context) {
	sub, err := h.m.o.Feed.Subscriber(events.FeedOptions{
		Group: groupPrefix + h.spec.ID, From: h.from, Filter: h.filter(), Window: h.m.o.Lines,
	})
	if err != nil {
		h.m.o.Logger.Error("webhook can not read the feed", "webhook", h.spec.ID, "error", err)
		return
	}
	defer sub.Close()
	out, ok := h.subscribe(ctx, sub)
	for ok {
		select {
		case m, open := <-out:
			if !open {
				return
			}
			ok = h.gather(ctx, out, m)
		case a := <-h.notices:
			ok = h.aside(ctx, a)
		case <-ctx.Done():
			return
		}
	}
}

// subscribe tries until it succeeds: the store may be down, and then the notices that go out meanwhile are about that.
func (h *hook) subscribe(ctx context.Context, sub message.Subscriber) (<-chan *message.Message, bool) {
	for wait := h.m.o.RetryMin; ; wait = min(2*wait, h.m.o.RetryMax) {
		// It ends with Close, not with the context: what is delivered in the last moment is still acknowledged.
		out, err := sub.Subscribe(context.WithoutCancel(ctx), events.Topic)
		if err == nil {
			return out, true
		}
		if ctx.Err() == nil {
			h.m.o.Logger.Warn("webhook can not read the feed yet", "webhook", h.spec.ID, "error", err)
		}
		if !h.meanwhile(ctx, wait) {
			return nil, false
		}
	}
}

// meanwhile passes the time with notices, which do not come by the feed; false: the context has ended.
func (h *hook) meanwhile(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case a := <-h.notices:
			if !h.aside(ctx, a) {
				return false
			}
		case <-ctx.Done():
			return false
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// batch is one delivery.
type batch struct {
	body        bytes.Buffer // JSON lines
	lines       int
	first, last string // positions, "" for what has none
	head        bool   // it is a head of the chain at that position
	messages    []*message.Message
}

// id is the same whenever the batch is tried again; "" when it has none.
func (b *batch) id() string {
	switch {
	case b.first == "":
		return ""
	case b.head:
		return "head-" + b.last
	}
	return b.first + "-" + b.last
}

// gatherTime is how long a delivery waits for more to go with it.
const gatherTime = 5 * time.Millisecond

// gather delivers a message and what comes right behind it; false: the context has ended.
func (h *hook) gather(ctx context.Context, out <-chan *message.Message, m *message.Message) bool {
	var b batch
	h.add(&b, m)
	timer := time.NewTimer(gatherTime)
	defer timer.Stop()
	for more := true; more && len(b.messages) < h.m.o.Lines && b.body.Len() < h.m.o.Bytes; {
		select {
		case m, open := <-out:
			if !open {
				return false
			}
			h.add(&b, m)
		case <-timer.C:
			more = false
		case <-ctx.Done():
			return false
		}
	}
	if b.lines > 0 && !h.deliver(ctx, &h.facts, &b) {
		return false
	}
	for _, m := range b.messages {
		m.Ack()
		h.through = max(h.through, events.PositionOf(m))
	}
	h.mu.Lock()
	h.position = h.through
	h.mu.Unlock()
	return true
}

// add puts the lines of a message into a delivery: the fact, if it is asked for, and the alert that it gives rise to.
func (h *hook) add(b *batch, m *message.Message) {
	b.messages = append(b.messages, m)
	if events.PositionOf(m) <= h.through {
		return
	}
	if gap, is := events.GapOf(m); is {
		h.misses(gap)
		return
	}
	if h.wants(m.Metadata.Get(events.MetaType)) {
		line, err := events.Line(m)
		h.put(b, m, line, err)
	}
	a, ok, err := h.watch.message(m)
	if err != nil {
		h.put(b, m, nil, err)
	} else if ok && h.wants(a.Name) {
		line, err := a.line(m.Metadata)
		h.put(b, m, line, err)
	}
}

// misses tells the operator of facts that were gone before the webhook got them: in the log, by its status and by an alert,
// which this webhook may ask for as well.
func (h *hook) misses(gap events.Gap) {
	h.m.o.Logger.Error("webhook misses events that were removed", "webhook", h.spec.ID, "first", gap.First, "last", gap.Last, "next", gap.Next)
	h.mu.Lock()
	h.missed = gap.Last
	h.mu.Unlock()
	text := func(p events.Position) string { return strconv.FormatInt(int64(p), 10) }
	data := MissedEvents{Webhook: h.spec.ID, First: text(gap.First), Last: text(gap.Last), Next: text(gap.Next)}
	h.m.alert(Alert{Name: WebhookMissed, At: time.Now().UTC(), Data: data}, nil)
}

// put adds a line. One that can not be made is passed over: it would be the same at every try.
func (h *hook) put(b *batch, m *message.Message, line []byte, err error) {
	if err != nil {
		h.m.o.Logger.Error("event can not be written for a webhook", "webhook", h.spec.ID, "position", m.UUID, "error", err)
		return
	}
	b.body.Write(line)
	b.body.WriteByte('\n')
	b.lines++
	if b.first == "" {
		b.first = m.UUID
	}
	b.last = m.UUID
}

// aside delivers an alert that stands nowhere in the feed.
func (h *hook) aside(ctx context.Context, a Alert) bool {
	line, err := a.line(message.Metadata{events.MetaNode: h.m.o.Node, events.MetaStream: "node/" + h.m.o.Node})
	if err != nil {
		h.m.o.Logger.Error("alert can not be written", "alert", a.Name, "error", errors.Wrapf(err, "webhook %s", h.spec.ID))
		return true
	}
	b := batch{lines: 1}
	b.body.Write(append(line, '\n'))
	return h.deliver(ctx, &h.facts, &b)
}

func (h *hook) status() Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := Status{ID: h.spec.ID, Active: h.spec.Active, Position: h.position, Missed: h.missed}
	for _, l := range []*lane{&h.facts, &h.heads} {
		s.Delivered += l.delivered
		s.GivenUp += l.givenUp
		if l.failing != nil && (s.FailingSince == nil || l.failing.Before(*s.FailingSince)) {
			s.FailingSince, s.LastError = l.failing, l.fault
		}
	}
	return s
}
