package actors

import (
	"io"
	"time"

	"github.com/penstock/penstock/domain/dialect"
	"github.com/penstock/penstock/domain/failure"
	"github.com/penstock/penstock/domain/request"
)

// heart is a life that waits, in the hands of its queues: they ask when the client wants a sign of life, and have it sent. It
// beats nowhere else, so that nothing is said for an upstream that keeps silent.
type heart life

var _ pulse = (*heart)(nil)

// pulse is nil for a client that gets no signs.
func (l *life) pulse() pulse {
	if l.alive.Next().IsZero() {
		return nil
	}
	return (*heart)(l)
}

func (l *heart) due() time.Time { return l.alive.Next() }

var sseHead = []Header{{"Content-Type", "text/event-stream"}}

// beat sends a sign of life, the first one behind the head of a 200. From then on the answer can only go on as a stream.
func (l *heart) beat() {
	sign, head := l.alive.Beat(l.now())
	if sign == "" {
		return
	}
	var err error
	if head {
		l.out, err = l.c.Opener.Open(sseHead)
	}
	if err == nil {
		_, err = io.WriteString(l.out, sign)
	}
	if err != nil {
		l.c.Gone.Fire()
	}
}

// refusal is a refusal as the client can still be told: with a status and a body, or as the last event of a stream whose head it
// has. The log keeps the status of the refusal either way.
func (l *life) refusal(r failure.Refusal, sent bool) Answer {
	if !l.alive.Committed() {
		return Refused(l.c, r, sent)
	}
	return l.lastEvent(errorOf(l.c, r, sent))
}

func (l *life) lastEvent(e dialect.Error) Answer {
	e.Model = l.c.Ask.Model
	return Answer{Status: e.Status, Body: l.alive.AppendRefusal(nil, e)}
}

// passed is an upstream's own error answer, for the client or, behind a head, in the words of its dialect.
func (l *life) passed(t *tried, status int) Answer {
	if !l.alive.Committed() {
		return Answer{Status: status, Headers: t.headers, Body: t.body}
	}
	said := dialect.ReadAnswer(l.c.Endpoint.Dialect, t.body)
	e := dialect.Error{
		Status: status, Type: said.ErrorType, Code: said.ErrorCode, Message: said.ErrorMessage, RequestID: l.c.ID, DidSendUpstream: true,
		RetryAfter: int(t.retryAfter.Seconds()),
	}
	if e.Message == "" {
		e.Message = t.evidence
	}
	return l.lastEvent(e)
}

// unstreamed is an answer in one piece to a client that has the head of a stream: it can not be passed on. The upstream is not to
// blame for that as much as for a failure.
func (l *life) unstreamed(t *tried) *tried {
	l.observe(t, failure.Observation{Status: t.status, InvalidAnswer: true}, nil)
	t.Counts, t.evidence = false, "an answer in one piece, though the client's stream had begun"
	return t
}

// firing is a Gone that fires when it is closed.
type firing Gone

// Close fires.
func (g *firing) Close() error {
	(*Gone)(g).Fire()
	return nil
}

// recalled says that an operator has taken the lease back while the client was still there.
func (l *life) recalled() bool { return l.recall.Fired() && !l.c.Gone.Fired() }

// takenBack ends a request whose lease an operator has taken back. Nothing else is tried: that is what was asked for.
func (l *life) takenBack(t *tried) (Answer, bool) {
	r := failure.New(failure.OperatorCancelled, "")
	l.settled(&request.Settled{Outcome: request.FailedOutcome, Status: r.Status, Code: r.Code, Reason: r.Reason, Stage: r.Stage}, t)
	return l.refusal(r, true), true
}

// takenBack is the same in the middle of a stream, which ends with an error in the client's dialect.
func (s *stream) takenBack(w io.Writer) error {
	l, t := s.l, s.t
	r := failure.New(failure.OperatorCancelled, "").At(failure.StageStreaming)
	t.class, t.evidence = failure.Cancelled, r.Message
	told := s.tell(w, r)
	s.done()
	l.settled(&request.Settled{Outcome: request.FailedOutcome, Status: t.status, Code: r.Code, Reason: string(t.class), Stage: r.Stage}, t)
	if !told {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// tell says in the client's dialect why its stream ends; false: it can not be said inside a compressed one.
func (s *stream) tell(w io.Writer, r failure.Refusal) bool {
	if !s.plain {
		return false
	}
	s.mayEnd(true)
	e := errorOf(s.l.c, r, true)
	e.Sequence, e.ResponseID, e.Model = s.meter.Events(), s.meter.ID(), s.meter.Model()
	if s.ready = s.ready[:0]; s.meter.Torn() && s.format == dialect.SSE { // too large to be held until it is whole
		s.ready = append(s.ready, "\n\n"...)
	}
	s.ready = dialect.AppendStreamError(s.ready, s.l.c.Endpoint.Dialect, s.format, e)
	s.write(w)
	return true
}
