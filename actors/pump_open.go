package actors

import (
	"io"

	"github.com/penstock/penstock/domain/dialect"
	"github.com/penstock/penstock/domain/failure"
	"github.com/penstock/penstock/domain/pricing"
)

// openStream reads a stream up to its first content. Until then another upstream may still take over.
func (l *life) openStream() (Answer, bool) {
	s := &stream{l: l, format: l.format(), t: l.seen(), plain: true, src: &source{in: l.in}}
	if l.givesEvents() {
		s.format = dialect.SSE
	}
	headers := l.passing()
	if enc := l.in.Header("Content-Encoding"); enc != "" && enc != "identity" {
		d, err := l.in.Decode(s.src)
		if err != nil {
			l.observe(s.t, failure.Observation{Status: s.t.status, InvalidAnswer: true}, nil)
			s.t.evidence = clip(err.Error())
			return l.failed(s.t)
		}
		s.plain = l.alive.Committed() // its head says nothing of a compression
		s.src.decoder, s.src.keep = d, !s.plain
	}
	s.strip = s.plain && l.injects()
	s.meter = meters.Get().(*dialect.Meter)
	s.meter.Reset(l.c.Endpoint.Dialect, s.format)
	s.buf = readBuffers.Get().(*[readSize]byte)[:]
	for {
		err := s.take()
		switch {
		case s.meter.Content(), s.meter.Finished() && !s.meter.Failed() && (s.meter.Terminal() || err == io.EOF && s.meter.Complete()),
			err == nil && !s.meter.Failed() && len(s.ready)+len(s.meter.Held()) > headMax:
			return s.begin(headers)
		case s.meter.Failed(), err != nil:
			return s.early(err)
		case s.meter.Terminal(): // without a word, and without a reason to stop
			return s.early(io.EOF)
		}
	}
}

// early fails an attempt whose stream ended, or said that it failed, before any content.
func (s *stream) early(err error) (Answer, bool) {
	l, t := s.l, s.t
	o := failure.Observation{Status: t.status, Header: l.in.Header}
	switch e := s.meter.Failure(); {
	case s.meter.Failed():
		o.StreamFailedBeforeContent, o.ErrorType, o.ErrorCode, o.ErrorMessage = true, e.Type, e.Code, e.Message
		l.observe(t, o, nil)
	case err == io.EOF:
		o.BodyEmpty = s.meter.Events() == 0 && len(s.ready) == 0
		o.StreamClosedBeforeContent = !o.BodyEmpty
		l.observe(t, o, nil)
	default:
		l.broken(t, err, o)
	}
	if u, src := s.meter.Usage(); src != pricing.None {
		t.usage, t.source, t.tier, t.clamped = u, src, s.meter.ServiceTier(), s.clamped(src)
	}
	s.done()
	return l.failed(t)
}

// begin hands the stream to the client's connection. Its first content decides what the breaker is told.
func (s *stream) begin(headers []Header) (Answer, bool) {
	l := s.l
	s.t.ttft = l.now().Sub(l.began)
	if r := l.storeRefused(s.t); r != nil {
		s.t.usage, s.t.source = s.usage(false)
		s.t.tier, s.t.clamped = s.meter.ServiceTier(), s.clamped(s.t.source)
		s.done()
		l.tell = l.success(s.t)
		return l.giveUp(*r), true
	}
	l.d.System.Report(l.lease, *l.success(s.t))
	l.served, s.report, s.ceiling = true, l.began, l.ceiling()
	return Answer{Status: s.t.status, Headers: headers, Stream: s.run}, true
}
