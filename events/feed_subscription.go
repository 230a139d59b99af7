package events

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// pull is one running subscription; one goroutine owns it.
type pull struct {
	source FeedSource
	log    *slog.Logger
	o      FeedOptions
	ctx    context.Context
	rings  <-chan struct{}
	out    chan *message.Message

	read   Position // everything up to here was read, and sent or left out
	readAt time.Time
	told   Position // up to here the consumer knows of what is not there any more
	flight Flight

	saved     Position // the stored checkpoint
	savedAt   time.Time
	delivered bool // something was acknowledged since
	soon      bool // the timer runs for feedSaveSoon
	saveTimer *time.Timer
	saveDue   <-chan time.Time // nil: nothing to store
	recheck   *time.Timer
	backoff   time.Duration // of a source that fails
}

// run delivers until the context ends.
func (p *pull) run() {
	p.saveTimer, p.recheck = time.NewTimer(time.Hour), time.NewTimer(time.Hour)
	defer p.saveTimer.Stop()
	defer p.recheck.Stop()
	defer p.finish()
	for p.ctx.Err() == nil {
		more, err := p.page()
		switch {
		case errors.Is(err, errEnded):
			return
		case err != nil:
			if !p.failed(err) {
				return
			}
		case !more:
			if !p.idle() {
				return
			}
		}
	}
}

// page reads one page and sends what is in it. A Nack takes p.read back and ends the page.
func (p *pull) page() (more bool, err error) {
	p.readAt = time.Now()
	page, err := p.source.FeedPage(p.ctx, p.read, &p.o.Filter, feedPageRows)
	if err != nil {
		return false, err
	}
	p.backoff = 0
	for i := range page.Rows {
		row := &page.Rows[i]
		if again, err := p.gone(&page, row.Position); again || err != nil {
			return true, err
		}
		messages, err := Messages(row)
		if err != nil { // it is the same at the next try, and what comes behind it is not its fault
			p.log.Error("event can not be handed on and is passed over", "group", p.o.Group, "error", err)
			continue
		}
		for k, m := range messages {
			at := row.Position + Position(k)
			if at <= p.read || !p.o.Filter.Fact(m.Metadata.Get(MetaType)) {
				continue
			}
			if again, err := p.send(m, at); again || err != nil {
				return true, err
			}
		}
	}
	if again, err := p.gone(&page, page.Through); again || err != nil {
		return true, err
	}
	p.read = max(p.read, page.Through)
	p.dirty()
	return page.More, nil
}

// gone tells of what is not there any more before a position, unless that was told already. again is that of send.
func (p *pull) gone(page *FeedPage, before Position) (again bool, err error) {
	for len(page.Holes) > 0 && page.Holes[0].Last < before {
		h := page.Holes[0]
		page.Holes = page.Holes[1:]
		if h.Last <= p.told || !p.o.Filter.Removable() {
			continue
		}
		m, through := h.Message(p.ctx, p.source)
		if again, err := p.send(m, h.First); again || err != nil {
			return again, err
		}
		p.log.Warn("events were removed before they were read", "group", p.o.Group, "first", h.First, "last", through)
		p.told, p.read = through, h.Last
	}
	return false, nil
}

// send hands on one message as soon as the window has room. again says that an earlier one was refused.
func (p *pull) send(m *message.Message, at Position) (again bool, err error) {
	ctx, cancel := context.WithCancel(p.ctx)
	m.SetContext(ctx)
	for {
		var out chan<- *message.Message
		if p.flight.Len() < p.o.Window {
			out = p.out
		}
		acked, nacked := p.flight.Oldest()
		select {
		case out <- m:
			p.flight.Sent(m, at, cancel)
			p.read = at
			return false, nil
		case <-acked:
			p.acked()
		case <-nacked:
			cancel()
			return true, p.nacked()
		case <-p.saveDue:
			p.save(p.ctx)
		case <-p.ctx.Done():
			cancel()
			return false, errEnded
		}
	}
}

// idle waits until there may be more to read; false: the subscription ends.
func (p *pull) idle() bool {
	p.recheck.Reset(feedRecheck)
	for {
		acked, nacked := p.flight.Oldest()
		select {
		case <-acked:
			p.acked()
		case <-nacked:
			return p.nacked() == nil
		case <-p.rings:
			if rest := feedGather - time.Since(p.readAt); rest > 0 {
				return p.pause(rest)
			}
			return true
		case <-p.recheck.C:
			return true
		case <-p.saveDue:
			p.save(p.ctx)
		case <-p.ctx.Done():
			return false
		}
	}
}

// acked moves on behind the first message in flight.
func (p *pull) acked() {
	p.flight.Landed()
	p.delivered = true
	p.dirty()
}

// nacked takes back everything in flight, to be read and sent again.
func (p *pull) nacked() error {
	p.read = p.floor()
	p.told = min(p.told, p.read)
	p.flight.Ground()
	if !p.pause(p.o.ResendAfter) {
		return errEnded
	}
	return nil
}

func (p *pull) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.ctx.Done():
		return false
	}
}

// failed waits after a failed read; false: the subscription ends.
func (p *pull) failed(err error) bool {
	if p.ctx.Err() != nil {
		return false
	}
	if p.backoff == 0 {
		p.log.Warn("feed is held up", "group", p.o.Group, "position", p.read, "error", err)
	}
	p.backoff = min(max(2*p.backoff, retryMin), feedBackoffMax)
	return p.pause(p.backoff)
}

// floor is the position up to which everything was acknowledged or left out.
func (p *pull) floor() Position {
	if p.flight.Len() > 0 {
		at, _ := p.flight.First()
		return at - 1
	}
	return p.read
}

// dirty sees to it that the checkpoint is stored in time.
func (p *pull) dirty() {
	if p.o.Group == "" || p.floor() <= p.saved {
		return
	}
	if p.saveDue == nil || p.delivered && !p.soon {
		every := feedSaveLate
		if p.delivered {
			every = feedSaveSoon
		}
		p.saveTimer.Reset(max(0, every-time.Since(p.savedAt)))
	}
	p.soon = p.delivered
	p.saveDue = p.saveTimer.C
}

// save stores the checkpoint. One that can not be stored is tried again later; at worst messages come twice.
func (p *pull) save(ctx context.Context) {
	p.saveDue, p.delivered, p.soon, p.savedAt = nil, false, false, time.Now()
	at := p.floor()
	if at <= p.saved {
		return
	}
	if err := p.source.SaveCheckpoint(ctx, p.o.Group, at); err != nil {
		p.log.Debug("checkpoint not stored", "group", p.o.Group, "position", at, "error", err)
		p.delivered = true
		p.dirty()
		return
	}
	p.saved = at
}

// finish stores the last checkpoint. What is acknowledged at the very end still counts.
func (p *pull) finish() {
	p.flight.LandAll()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), feedSaveTimeout)
	defer cancel()
	if p.o.Group != "" {
		p.save(ctx)
	}
	p.flight.Ground()
}
