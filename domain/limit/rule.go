package limit

import (
	"slices"
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
	spent money.Amount // Total and Rolling: all that counts
	parts []part       // Daily, Monthly, Fixed: by their time, at most partsMost
	width int64        // of a cell
	cells ring[cell]   // Rolling
	since int64        // what was spent before is told by Fill; MinInt64: nothing is missing
}

// part is what was spent in one period [start, end), in microseconds.
type part struct {
	start, end int64
	spent      money.Amount
}

// partsMost is how many periods are known, the newest ones: a clock that went ahead is in newer ones, and finds again what was
// spent when it is set back.
const partsMost = 4

func newSum(r Rule, since int64) sum {
	s := sum{Rule: r, since: since}
	if r.Kind == Rolling {
		s.width = int64((r.Hours*60+cellsMost-1)/cellsMost) * time.Minute.Microseconds()
	}
	return s
}

func (s *sum) length() int64 { return int64(s.Hours) * time.Hour.Microseconds() }

// leaves is when a cell does not count any more.
func (s *sum) leaves(c *cell) int64 { return (c.index+1)*s.width + s.length() }

// at is what counts at a time, and when the period of that ends: 0 for one that does not.
func (s *sum) at(now int64) (spent money.Amount, end int64) {
	switch s.Kind {
	case Rolling:
		s.slide(now)
		return s.spent, 0
	case Total:
		return s.spent, 0
	}
	p := s.part(now, true)
	return p.spent, p.end
}

// slide lets go what has left a rolling period. A clock that was set back changes nothing.
func (s *sum) slide(now int64) {
	for s.cells.n > 0 && s.leaves(s.cells.at(0)) <= now {
		s.spent -= s.cells.at(0).sum
		s.cells.drop()
	}
}

// part is the period of a time. One that is older than all that are known, when no more can be, is known when it is the present
// one, and else empty.
func (s *sum) part(at int64, present bool) *part {
	i := len(s.parts)
	for i > 0 && at < s.parts[i-1].start {
		i--
	}
	if i > 0 && at < s.parts[i-1].end {
		return &s.parts[i-1]
	}
	var begun part
	begun.start, begun.end = s.bounds(at)
	switch full := len(s.parts) == partsMost; {
	case full && i > 0:
		s.parts = slices.Delete(s.parts, 0, 1)
		i--
	case full && present:
		s.parts = s.parts[:partsMost-1]
	case full:
		return &begun
	}
	s.parts = slices.Insert(s.parts, i, begun)
	return &s.parts[i]
}

// add counts a spend, or a correction of one, at the time of its settlement.
func (s *sum) add(at int64, a money.Amount) {
	switch s.Kind {
	case Total:
		s.spent += a
		return
	case Daily, Monthly, Fixed:
		s.part(at, false).spent += a
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
	spent, end := s.at(now)
	switch {
	case spent <= most:
		return now
	case s.Kind == Rolling:
		for i := range s.cells.n {
			c := s.cells.at(i)
			if spent -= c.sum; spent <= most {
				return s.leaves(c)
			}
		}
	case most >= 0:
		return end
	}
	return 0
}
