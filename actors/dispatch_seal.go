package actors

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/penstock/penstock/domain/failure"
	"github.com/penstock/penstock/events"
)

// sealMax is how long the end of an answer waits for a store that is away.
const sealMax = 30 * time.Second

// seal waits until the settlement is stored, where the end of the answer must not leave before. While the store is away it waits
// for its return, until the client goes and for sealMax at most. An error means that the settlement is not stored, though it may
// be later, and that the client must not see the end.
func (l *life) seal() error {
	if l.sealing == nil {
		return nil
	}
	err := l.sealing.Wait()
	l.sealing = nil
	if errors.Is(err, events.ErrUnavailable) {
		ctx, cancel := context.WithTimeout(context.Background(), sealMax)
		defer cancel()
		gone := l.c.Gone.Done() // the life may be another request's before the next line runs
		go func() {
			select {
			case <-gone:
				cancel()
			case <-ctx.Done():
			}
		}()
		err = l.d.Journal.Sync(ctx)
	}
	if err != nil {
		l.d.Logger.Warn("the end of an answer is kept back, for its settlement is not stored", "request_id", l.c.ID, "error", err)
	}
	return err
}

// sealed is an answer whose settlement is stored, or the refusal that takes its place.
func (l *life) sealed(a Answer) Answer {
	if l.seal() == nil {
		return a
	}
	return l.refusal(failure.New(failure.StoreUnavailable, ""), l.sent)
}

// lastWord is the connection of a client whose stream must not end before it is settled.
type lastWord struct {
	w    io.Writer
	keep bool // what is written may be the end
	kept []byte
}

// Write implements io.Writer.
func (x *lastWord) Write(p []byte) (int, error) {
	if x.keep {
		x.kept = append(x.kept, p...)
		return len(p), nil
	}
	if err := x.speak(); err != nil { // what was kept was not the end
		return 0, err
	}
	return x.w.Write(p)
}

// speak writes what is kept.
func (x *lastWord) speak() error {
	if len(x.kept) == 0 {
		return nil
	}
	_, err := x.w.Write(x.kept)
	x.kept = nil
	return err
}

// runSealed carries the stream, the end of which waits for the settlement.
func (s *stream) runSealed(w io.Writer) error {
	l, last := s.l, &lastWord{w: w}
	s.last = last
	err := s.carry(last)
	if unstored := l.seal(); unstored != nil {
		return unstored
	}
	if unheard := last.speak(); err == nil {
		err = unheard
	}
	return err
}

// mayEnd says before what is ready is written whether it may be the end of the answer; over: it is.
func (s *stream) mayEnd(over bool) {
	if s.last != nil {
		s.last.keep = over || s.meter.Terminal() || s.meter.Failed()
	}
}
