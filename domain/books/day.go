package books

import (
	"errors"
	"fmt"
	"time"
)

// Errors of closing the books.
var (
	ErrDay    = errors.New("not a day") // the text names what was asked for
	ErrOpen   = errors.New("the day is still open")
	ErrClosed = errors.New("the books of that day are closed")
)

// ParseDay reads a UTC day such as "2006-01-02". The error wraps ErrDay.
func ParseDay(text string) (time.Time, error) {
	day, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: %q (want YYYY-MM-DD)", ErrDay, text)
	}
	return day, nil
}

// DayOf is the UTC day of a time.
func DayOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// Ledger is what the facts have said so far. The zero value is: nothing was closed yet.
type Ledger struct {
	Closed  []Closed        // in order
	Removed map[string]bool // by day
	Trimmed string          // the last day whose lines of the request log are gone
}

// Evolve takes one fact; others are passed over.
func (l *Ledger) Evolve(fact any) {
	switch f := fact.(type) {
	case *Closed:
		l.Closed = append(l.Closed, *f)
	case *Removed:
		if l.Removed == nil {
			l.Removed = map[string]bool{}
		}
		l.Removed[f.Day] = true
	case *Trimmed:
		l.Trimmed = f.Day
	}
}

// Last is the newest closing, nil when there is none.
func (l *Ledger) Last() *Closed {
	if n := len(l.Closed); n > 0 {
		return &l.Closed[n-1]
	}
	return nil
}

// Refusal says why what a request cost can not be changed any more, nil when it can: the day of the request whose first
// fact lies at the position is closed. The error wraps ErrClosed.
func (l *Ledger) Refusal(first int64) error {
	for i := range l.Closed {
		c := &l.Closed[i]
		switch {
		case !c.Holds(first):
		case l.Removed[c.Day]:
			return fmt.Errorf("%w: %s, and its events were removed: what they say is in the archive only", ErrClosed, c.Day)
		default:
			return fmt.Errorf("%w: %s", ErrClosed, c.Day)
		}
	}
	return nil
}

// Forget names what retention allows to take away, oldest first: closed days that ended at least so many days before
// today. 0 keeps all. today is a UTC day.
func (l *Ledger) Forget(today time.Time, keep int) (days []Closed) {
	if keep <= 0 {
		return nil
	}
	limit := DayOf(today.AddDate(0, 0, -keep))
	for _, c := range l.Closed {
		if c.Day < limit && !l.Removed[c.Day] {
			days = append(days, c)
		}
	}
	return days
}

// Trim names the last closed day whose lines of the request log may go, nil when there is none. keep is in days, 0 keeps
// all.
func (l *Ledger) Trim(today time.Time, keep int) (last *Closed) {
	if keep <= 0 {
		return nil
	}
	limit := DayOf(today.AddDate(0, 0, -keep))
	for i := range l.Closed {
		if c := &l.Closed[i]; c.Day < limit && c.Day > l.Trimmed {
			last = c
		}
	}
	return last
}
