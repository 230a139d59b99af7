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
	l      *life
	in     Incoming
	meter  *dialect.Meter
	src    *source
	t      *tried
	format dialect.Format
	strip  bool   // chat usage that we asked for is kept from the client
	plain  bool   // not compressed: events can be told apart and an error event can be added
	ready  []byte // to be written
	buf    []byte
	report time.Time // of the last progress
	quiet  bool      // nobody listens any more; the rest is read for its usage
}

var meters = sync.Pool{New: func() any { return new(dialect.Meter) }}

var readBuffers = sync.Pool{New: func() any { return make([]byte, readSize) }}

// source gives the plain bytes of an answer and keeps the raw ones that they were made from.
type source struct {
	in      Incoming
	decoder io.Reader // nil: not compressed
	raw     []byte    // read since it was last taken; only with a decoder
}

// Read is the decoder's view of the upstream.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	s.raw = append(s.raw, p[:n]...)
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

// openStream reads a stream up to its first content. Until then another upstream may still take over.
func (l *life) openStream(in Incoming) (Answer, bool) {
	s := &stream{l: l, in: in, format: l.format(), t: l.seen(in), plain: true, src: &source{in: in}}
	headers := passing(in)
	if enc := in.Header("Content-Encoding"); enc != "" && enc != "identity" {
		d, err := in.Decode(s.src)
		if err != nil {
			in.Close()
			t := l.observe(failure.Observation{Status: s.t.status, InvalidAnswer: true}, nil)
			t.status, t.evidence, t.instream = s.t.status, clip(err.Error()), true
			return l.failed(t)
		}
		s.src.decoder, s.plain = d, false
	}
	s.strip = s.plain && l.injects()
	s.meter = meters.Get().(*dialect.Meter)
	s.meter.Reset(l.c.Endpoint.Dialect, s.format)
	s.buf = readBuffers.Get().([]byte)
	for {
		err := s.take()
		switch {
		case s.meter.Content() || s.meter.Terminal() && !s.meter.Failed():
			return s.commit(headers)
		case s.meter.Failed() || err != nil:
			if err == io.EOF && s.meter.Complete() && !s.meter.Failed() {
				return s.commit(headers)
			}
			return s.early(err)
		case len(s.ready)+len(s.meter.Held()) > headMax:
			return s.commit(headers)
		}
	}
}

// early fails an attempt whose stream ended, or said that it failed, before any content.
func (s *stream) early(err error) (Answer, bool) {
	o := failure.Observation{Status: s.t.status}
	var t *tried
	switch e := s.meter.Failure(); {
	case s.meter.Failed():
		o.StreamFailedBeforeContent, o.ErrorType, o.ErrorCode, o.ErrorMessage = true, e.Type, e.Code, e.Message
		t = s.l.observe(o, nil)
	case err == io.EOF:
		o.BodyEmpty = len(s.ready) == 0 && s.meter.Events() == 0
		o.StreamClosedBeforeContent = !o.BodyEmpty
		t = s.l.observe(o, nil)
	default:
		t = s.l.broken(err, o)
	}
	t.status, t.upstreamID, t.instream = s.t.status, s.t.upstreamID, true
	if u, src := s.meter.Usage(); src != pricing.None {
		t.usage, t.source = u, src
	}
	s.done()
	return s.l.failed(t)
}

// commit hands the stream to the client's connection.
func (s *stream) commit(headers []Header) (Answer, bool) {
	l := s.l
	s.t.ttft = l.now().Sub(l.began)
	if r := l.storeRefused(s.t); r != nil {
		s.done()
		return l.giveUp(*r), true
	}
	l.d.System.Report(l.lease, Outcome{Result: l.success(), Class: string(failure.OK), Status: s.t.status, TTFT: s.t.ttft, Took: s.t.ttft})
	s.report = l.began
	return Answer{Status: s.t.status, Headers: headers, Stream: s.run}, true
}

// take reads once. At the end of the body what was held back is given up: it is an event, or there is none.
func (s *stream) take() error {
	n, err := s.src.next(s.buf)
	s.feed(s.buf[:n])
	if err == io.EOF && s.plain {
		s.ready = s.meter.Flush(s.ready)
	}
	return err
}

// feed takes plain bytes: what is whole goes to ready, the rest is held.
func (s *stream) feed(p []byte) {
	switch {
	case !s.plain:
		s.meter.Feed(p)
		s.ready = append(s.ready, s.src.raw...)
		s.src.raw = s.src.raw[:0]
	case s.strip:
		s.ready = s.meter.Strip(s.ready, p)
	default:
		n := len(s.ready)
		s.ready = append(s.ready, s.meter.Held()...)
		if k := s.meter.Feed(p); k > 0 {
			s.ready = append(s.ready, p[:k]...)
		} else {
			s.ready = s.ready[:n]
		}
	}
}

// run carries the stream to the client until its end, and settles the request.
func (s *stream) run(w io.Writer) (err error) {
	defer func() {
		if r := recover(); r != nil {
			s.l.panicked(r)
			err = errPanicked
		}
	}()
	for {
		s.write(w)
		if s.meter.Terminal() {
			return s.finish(w, s.rest(w))
		}
		err := s.take()
		if s.meter.Failed() || err != nil {
			s.write(w)
			return s.finish(w, err)
		}
		s.progress()
	}
}

var errPanicked = errors.New("the request panicked")

// write sends what is ready. A client that does not take it is gone.
func (s *stream) write(w io.Writer) {
	if len(s.ready) == 0 {
		return
	}
	if !s.quiet {
		if _, err := w.Write(s.ready); err != nil {
			s.quiet = true
			s.l.c.Gone.Fire()
		}
	}
	s.ready = s.ready[:0]
}

// rest reads what comes after the terminal event, which is little and soon: the connection can then be used again.
func (s *stream) rest(w io.Writer) error {
	stop := time.AfterFunc(drainAfter, s.l.cut.Fire)
	defer stop.Stop()
	for {
		err := s.take()
		s.write(w)
		if err != nil {
			return io.EOF // the answer was whole
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
	l.add(&request.Progressed{N: l.attempts, Usage: u, UsageSource: src})
	l.d.Journal.Put(l.take(false), events.Must)
}

// usage is what the stream has used: as reported, or as far as that is known with the output that has passed.
func (s *stream) usage(complete bool) (pricing.Usage, pricing.Source) {
	u, src := s.meter.Usage()
	if src == pricing.Reported {
		return u, src
	}
	guess := s.l.estimate(s.meter.OutputBytes())
	if src == pricing.Partial {
		u.Output = max(u.Output, guess.Output)
		return u, src
	}
	if !complete && s.meter.OutputBytes() == 0 && !s.meter.Content() {
		return pricing.Usage{}, pricing.None
	}
	return guess, pricing.Estimated
}

// finish settles the stream. err is io.EOF after a proper end of the body.
func (s *stream) finish(w io.Writer, err error) error {
	l, t := s.l, s.t
	complete := !s.meter.Failed() && (s.meter.Terminal() || err == io.EOF && s.meter.Complete())
	gone := l.leftBehind()
	t.usage, t.source = s.usage(complete)
	t.tier, t.took = s.meter.ServiceTier(), l.now().Sub(l.began)
	switch {
	case complete && gone && s.quiet && l.up.Disconnect.Drain:
		return s.cancelled() // drained for its usage; the client did not see the end
	case complete:
		s.done()
		l.release(nil)
		l.settled(&request.Settled{Outcome: request.Completed, Status: t.status}, t)
		return nil
	case gone:
		return s.cancelled()
	}
	return s.cutShort(w, err)
}

// cancelled settles a stream whose client has gone.
func (s *stream) cancelled() error {
	l := s.l
	s.t.class = failure.Cancelled
	s.done()
	l.release(nil)
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
	o := failure.Observation{Status: t.status, CutMidStream: true}
	if s.meter.Failed() {
		e := s.meter.Failure()
		o.ErrorType, o.ErrorCode, o.ErrorMessage = e.Type, e.Code, e.Message
	} else if err != io.EOF {
		o.Event = phases[phaseOf(err)]
	}
	seen := l.observe(o, nil)
	if seen.evidence == "" && err != nil {
		seen.evidence = clip(err.Error())
	}
	t.Verdict, t.class, t.evidence = seen.Verdict, seen.class, seen.evidence
	r := t.refusal()
	told := s.meter.Failed()
	if !told && s.plain {
		e := errorOf(l.c, r, true)
		e.Sequence, e.ResponseID, e.Model = s.meter.Events(), s.meter.ID(), s.meter.Model()
		s.ready = dialect.AppendStreamError(s.ready[:0], l.c.Endpoint.Dialect, s.format, e)
		s.write(w)
		told = true
	}
	s.done()
	l.release(l.outcome(t))
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
	if s.in == nil {
		return
	}
	s.in.Close()
	s.in = nil
	meters.Put(s.meter)
	readBuffers.Put(s.buf) //nolint:staticcheck // a slice header costs less than the pool saves
	s.meter, s.buf = nil, nil
}
