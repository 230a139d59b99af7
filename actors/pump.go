package actors

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/penstock/penstock/domain/dialect"
	"github.com/penstock/penstock/domain/failure"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

const progressEvery = 30 * time.Second

// stream is an answer that comes as events. It holds back an event that is not whole yet, so that whatever is said
// last stands between events.
type stream struct {
	l       *life
	meter   *dialect.Meter
	src     *source
	t       *tried
	format  dialect.Format
	strip   bool   // chat usage that we asked for is kept from the client
	plain   bool   // the client gets it uncompressed: events can be told apart and an error event can be added
	ready   []byte // to be written
	buf     []byte
	report  time.Time // of the last progress
	ceiling *ceiling  // nil: none
	quiet   bool      // nobody listens any more; the rest is read for its usage
	last    *lastWord // nil: the end waits for nothing
}

var meters = sync.Pool{New: func() any { return new(dialect.Meter) }}

var readBuffers = sync.Pool{New: func() any { return new([readSize]byte) }}

// source gives the plain bytes of an answer and keeps the raw ones that they were made from.
type source struct {
	in      Incoming
	decoder io.Reader // nil: not compressed
	keep    bool      // the client gets it compressed
	raw     []byte    // then: read since it was last taken
}

// Read is the decoder's view of the upstream.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	if s.keep {
		s.raw = append(s.raw, p[:n]...)
	}
	return n, err
}

// next reads plain bytes: all that have come, as far as they fit.
func (s *source) next(p []byte) (int, error) {
	if s.decoder != nil {
		return s.decoder.Read(p)
	}
	n, err := s.in.Read(p)
	for err == nil && n < len(p) && s.in.Buffered() > 0 {
		var k int
		k, err = s.in.Read(p[n:])
		n += k
	}
	return n, err
}

// take reads once. What is held back at the end of the body passes when it ends the stream, for some upstreams leave
// out the last blank line; else it is half an event, which would swallow the error that is said behind it. What is
// compressed has passed as it came.
func (s *stream) take() error {
	n, err := s.src.next(s.buf)
	s.feed(s.buf[:n])
	if err == io.EOF {
		from, told := len(s.ready), s.meter.Failed()
		s.ready = s.meter.Flush(s.ready)
		if !s.plain || !s.meter.Complete() && !s.meter.Failed() {
			s.ready = s.ready[:from]
		}
		s.endWithFailure(from, told)
	}
	return err
}

// feed takes plain bytes: what is whole goes to ready, the rest is held.
func (s *stream) feed(p []byte) {
	from, told := len(s.ready), s.meter.Failed()
	switch {
	case !s.plain:
		s.meter.Feed(p)
		s.ready = append(s.ready, s.src.raw...)
		s.src.raw = s.src.raw[:0]
		return
	case s.strip:
		s.ready = s.meter.Strip(s.ready, p)
	default:
		s.ready = append(s.ready, s.meter.Held()...)
		s.ready = append(s.ready, p...)
		s.meter.Feed(p)
		s.ready = s.ready[:len(s.ready)-len(s.meter.Held())]
	}
	s.endWithFailure(from, told)
}

// run carries the stream to the client until its end, and settles the request.
func (s *stream) run(w io.Writer) (err error) {
	defer func() {
		if r := recover(); r != nil {
			s.l.panicked(r)
			err = errPanicked
			return
		}
		s.l.recycle()
	}()
	if s.l.d.Durability == AtSettlement {
		return s.runSealed(w)
	}
	return s.carry(w)
}

// carry is run without what a panic asks for.
func (s *stream) carry(w io.Writer) error {
	for {
		s.mayEnd(false)
		s.write(w)
		switch {
		case s.meter.Failed():
			if s.hasLastWord() {
				s.rest(w)
			}
			return s.finish(w, nil)
		case s.meter.Ended():
			s.rest(w)
			return s.finish(w, io.EOF)
		}
		whole, missed := s.meter.Whole(), s.quiet
		if err := s.take(); err != nil {
			s.mayEnd(true)
			s.write(w)
			if s.meter.Whole() { // also with what came in the same read
				err = io.EOF
				if whole {
					s.quiet = missed
				}
			}
			return s.finish(w, err)
		}
		if !s.meter.Finished() && !s.meter.Terminal() && !s.meter.Failed() && s.overspent() {
			s.write(w)
			return s.finish(w, errOverspent)
		}
		s.progress()
	}
}

var errPanicked = errors.New("the request panicked")

// write sends what is ready. A client that does not take it is gone, and nothing is written to one that is.
func (s *stream) write(w io.Writer) {
	if len(s.ready) == 0 {
		return
	}
	s.quiet = s.quiet || s.l.c.Gone.Fired()
	if !s.quiet {
		if _, err := w.Write(s.ready); err != nil {
			s.quiet = true
			s.l.c.Gone.Fire()
		}
	}
	s.ready = s.ready[:0]
}

// rest reads what comes after the last event, which is little and soon: the connection can then be used again. It is no part of the
// answer, so that it does not matter whether the client still takes it.
func (s *stream) rest(w io.Writer) {
	stop, missed := time.AfterFunc(drainAfter, s.l.cut.Fire), s.quiet
	defer func() { stop.Stop(); s.quiet = missed }()
	for {
		err := s.take()
		s.write(w)
		if err != nil {
			return // the answer was whole
		}
	}
}

// progress tells now and then what a long stream has used, for the case that this process dies.
func (s *stream) progress() {
	now := s.l.now()
	if now.Sub(s.report) < progressEvery {
		return
	}
	s.report = now
	u, src := s.usage(false)
	l := s.l
	l.add(&request.Progressed{N: l.attempts, Usage: u, UsageSource: src, ServiceTier: s.meter.ServiceTier()})
	l.d.Journal.Put(l.take(false), events.Must)
}

// usage is what the stream has used: as reported, or as far as that is known with the output that has passed.
func (s *stream) usage(complete bool) (pricing.Usage, pricing.Source) {
	u, src := s.meter.Usage()
	if src == pricing.Reported {
		return u, src
	}
	guess := s.meter.WithActs(s.l.estimate(s.meter.OutputBytes()))
	if src == pricing.Partial {
		u.Output = max(u.Output, guess.Output)
		return u, src
	}
	if !complete && s.meter.OutputBytes() == 0 && !s.meter.Content() {
		return pricing.Usage{}, pricing.None
	}
	return guess, pricing.Estimated
}

// clamped says that a usage of that source is what is left of an impossible report.
func (s *stream) clamped(src pricing.Source) bool {
	return (src == pricing.Reported || src == pricing.Partial) && s.meter.Clamped()
}

// finish settles the stream. err is io.EOF after a proper end of the body.
func (s *stream) finish(w io.Writer, err error) error {
	l, t := s.l, s.t
	complete := s.meter.Complete() && err == io.EOF
	gone := l.leftBehind()
	t.usage, t.source = s.usage(complete)
	t.tier, t.clamped, t.took = s.meter.ServiceTier(), s.clamped(t.source), l.now().Sub(l.began)
	if continues(l.c.Endpoint.Dialect) {
		t.answerID = s.meter.ID()
	}
	switch {
	case complete && !s.quiet:
		s.done()
		l.settled(l.completed(t), t)
		return nil
	case s.meter.Failed() && !s.quiet: // the client knows, and may have gone for that
		return s.cutShort(w, nil)
	case gone:
		return s.cancelled()
	case l.recalled():
		return s.takenBack(w)
	case err == errOverspent:
		return s.cutAtCeiling(w)
	}
	return s.cutShort(w, err)
}

// cancelled settles a stream of which the client did not see the end, though it may have been drained for its usage.
func (s *stream) cancelled() error {
	l := s.l
	s.t.class = failure.Cancelled
	s.done()
	l.settled(&request.Settled{
		Outcome: request.Cancelled, Status: statusClientGone, Code: failure.ClientDisconnect, Stage: failure.StageStreaming,
		ClientGone: true, OnDisconnect: l.up.Disconnect.String(),
	}, s.t)
	return io.ErrClosedPipe
}

// cutShort settles a stream that the upstream broke off after content had gone to the client. The client is told in
// its dialect; it never gets a terminal marker. When the upstream itself told, its own event is enough.
func (s *stream) cutShort(w io.Writer, err error) error {
	l, t := s.l, s.t
	o := failure.Observation{Status: t.status, CutMidStream: true, Header: l.in.Header}
	told := s.meter.Failed()
	if told {
		e := s.meter.Failure()
		o.ErrorType, o.ErrorCode, o.ErrorMessage = e.Type, e.Code, e.Message
	} else if err != io.EOF {
		o.Event = eventOf(err)
	}
	l.observe(t, o, nil)
	if t.evidence == "" && err != nil {
		t.evidence = clip(err.Error())
	}
	r := failure.New(t.ClientCode, string(t.class))
	told = told || s.tell(w, r)
	s.done()
	l.tell = l.outcome(t)
	l.settled(&request.Settled{
		Outcome: request.FailedOutcome, Status: t.status, Code: r.Code, Reason: string(t.class), Stage: failure.StageStreaming,
	}, t)
	if !told {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// done gives back what the stream has borrowed.
func (s *stream) done() {
	s.l.closeAnswer()
	if s.meter != nil {
		meters.Put(s.meter)
		readBuffers.Put((*[readSize]byte)(s.buf))
		s.meter, s.buf = nil, nil
	}
}
