package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// alarm sends an actor a message at a time of the system's clock. The actor says when it has come; a message that comes
// early (the clock of a test stands still) does no harm, for the actor looks at its clock and sets the alarm again. The zero
// value is not set.
type alarm struct {
	timer *time.Timer
	at    time.Time
}

// afterPanic is when an actor looks again whom it can serve after it has panicked at that: a panic that comes again and again
// must not keep a processor busy.
const afterPanic = time.Second

// set has msg sent at a time, unless it will be sent before that; the zero time is never.
func (a *alarm) set(s *System, to *actor.PID, at, now time.Time, msg any) {
	if at.IsZero() || a.timer != nil && !at.Before(a.at) {
		return
	}
	a.off()
	a.at = at
	a.timer = time.AfterFunc(max(at.Sub(now), 0), func() { s.send(to, msg) })
}

// rang says that the message has come.
func (a *alarm) rang() { a.timer = nil }

func (a *alarm) off() {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
}
