package events

import (
	"context"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// Flight is what a subscriber has handed out and has no Ack for, in order. Acks count from the oldest on; what happens to a later
// message waits until then. The zero value is empty. One goroutine owns it.
type Flight struct{ out []flying }

// flying is a message that its consumer has.
type flying struct {
	*message.Message
	at     Position
	cancel context.CancelFunc
	since  time.Time
}

// Len is how many messages are out.
func (f *Flight) Len() int { return len(f.out) }

// Sent notes a message that was handed out; cancel ends its context.
func (f *Flight) Sent(m *message.Message, at Position, cancel context.CancelFunc) {
	f.out = append(f.out, flying{m, at, cancel, time.Now()})
}

// First is the position of the oldest message and when it was handed out; only while there is one.
func (f *Flight) First() (at Position, since time.Time) { return f.out[0].at, f.out[0].since }

// Oldest are the two ends that the oldest message may have; nil channels when there is none.
func (f *Flight) Oldest() (acked, nacked <-chan struct{}) {
	if len(f.out) == 0 {
		return nil, nil
	}
	return f.out[0].Acked(), f.out[0].Nacked()
}

// Landed lets go of the oldest message, which has its Ack.
func (f *Flight) Landed() {
	f.out[0].cancel()
	f.out = f.out[1:]
}

// LandAll lets go of all messages up to the first without an Ack.
func (f *Flight) LandAll() {
	for len(f.out) > 0 {
		select {
		case <-f.out[0].Acked():
			f.Landed()
		default:
			return
		}
	}
}

// Ground takes everything back that is out: it comes again.
func (f *Flight) Ground() {
	for _, m := range f.out {
		m.cancel()
	}
	f.out = nil
}
