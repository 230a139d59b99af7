package actors

import (
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// paper is the memory of what others may keep beyond the request, and never used again: two rows with three facts, which is what
// nearly every request writes; what an operator, a client or a clock may fire late; and the headers of an answer, which are the
// client's until they are written. It is allocated as one. What a request needs beyond that is allocated piece by piece.
type paper struct {
	admitted   sheet[admission]
	dispatched sheet[request.Dispatched]
	settled    sheet[request.Settled]
	facts      [4]events.Fact
	rows       [2]events.Row
	cut        sheet[Gone] // of an attempt
	back       sheet[Gone] // of a lease, for who wants it back
	head       sheet[[6]Header]
}

// admission is a fact with room for the candidates of most plans.
type admission struct {
	request.Admitted
	room [2]request.Candidate
}

// sheet is room for one T.
type sheet[T any] struct {
	v     T
	taken bool
}

// take gives the room, and another one each time after that.
func (s *sheet[T]) take() *T {
	if s.taken {
		return new(T)
	}
	s.taken = true
	return &s.v
}

// newPaper hands the life its paper.
func (l *life) newPaper() {
	l.paper = new(paper)
	l.facts, l.rows = l.paper.facts[:0], l.paper.rows[:]
}

// row is room for a row of its own.
func (l *life) row() []events.Row {
	if len(l.rows) == 0 {
		l.rows = make([]events.Row, 1)
	}
	r := l.rows[:1:1]
	l.rows = l.rows[1:]
	return r
}

// completed is the end of most requests, on its paper.
func (l *life) completed(t *tried) *request.Settled {
	s := l.paper.settled.take()
	s.Outcome, s.Status = request.Completed, t.status
	return s
}
