package limit

import (
	"math"
	"time"

	"github.com/penstock/penstock/domain/money"
)

// Rule allows so much spending per period. At the limit it is exceeded.
type Rule struct {
	Period
	Limit money.Amount
}

// whole has the hours of a rolling period that says none.
func (r Rule) whole() Rule {
	if r.Kind == Rolling && r.Hours <= 0 {
		r.Hours = hoursDefault
	}
	return r
}

// cellsMost is how finely a rolling period is kept: a cell is a 1440th of it in whole minutes. A spend counts for its
// whole period and for at most one cell longer (a minute of a day); it is never forgotten early.
const cellsMost = 1440

// cell is what was spent in one part of a rolling period.
type cell struct {
	index int64 // time / width
	sum   money.Amount
}

// sum is what was spent under one rule. A spend belongs to the moment of its settlement.
type sum struct {
	Rule
	spent      money.Amount
	start, end int64      // of the present period, microseconds; not of Rolling
	width      int64      // of a cell
	cells      ring[cell] // Rolling
	since      int64      // what was spent before is told by Fill; MinInt64: nothing is missing
}

func newSum(r Rule, since int64) sum {
	s := sum{Rule: r, since: since, start: math.MinInt64, end: math.MinInt64}
	if r.Kind == Rolling {
		s.width = int64((r.Hours*60+cellsMost-1)/cellsMost) * time.Minute.Microseconds()
	}
	return s
}

func (s *sum) length() int64 { return int64(s.Hours) * time.Hour.Microseconds() }

// leaves is when a cell does not count any more.
func (s *sum) leaves(c *cell) int64 { return (c.index+1)*s.width + s.length() }

// advance begins the period of now and lets go what has left it. A clock that was set back changes nothing.
func (s *sum) advance(now int64) {
	if s.Kind == Rolling {
		for s.cells.n > 0 && s.leaves(s.cells.at(0)) <= now {
			s.spent -= s.cells.at(0).sum
			s.cells.drop()
		}
	} else if now >= s.end {
		s.start, s.end = s.bounds(now)
		s.spent = 0
	}
}

// add counts a spend, or a correction of one, at the time of its settlement.
func (s *sum) add(at int64, a money.Amount) {
	if s.Kind != Rolling {
		if s.advance(at); at >= s.start {
			s.spent += a
		}
		return
	}
	index := at / s.width
	i := s.cells.n
	for i > 0 && s.cells.at(i-1).index > index {
		i--
	}
	s.spent += a
	if i > 0 && s.cells.at(i-1).index == index {
		s.cells.at(i - 1).sum += a
		return
	}
	s.cells.insert(i, cell{index, a})
}

// reopens is when no more than most is spent, if nothing else is; now when it is so already, 0 when that will not come.
func (s *sum) reopens(most money.Amount, now int64) int64 {
	switch s.advance(now); {
	case s.spent <= most:
		return now
	case s.Kind == Rolling:
		left := s.spent
		for i := range s.cells.n {
			c := s.cells.at(i)
			if left -= c.sum; left <= most {
				return s.leaves(c)
			}
		}
	case most >= 0 && s.end != math.MaxInt64:
		return s.end
	}
	return 0
}

// resets is when the present period ends, 0 for one that does not.
func (s *sum) resets() int64 {
	if s.Kind == Rolling || s.Kind == Total {
		return 0
	}
	return s.end
}
