package access

import (
	"errors"
	"time"
)

const dayMinutes = 24 * 60

// Curfew is hours of every day in which nobody comes in, by the clock on the wall of a zone: from is the first minute of
// them, to the first one after them. They go over midnight when to comes before from.
type Curfew struct {
	from, to int // minutes since midnight
	zone     *time.Location
}

var (
	errClock = errors.New("must be an hour and a minute such as 22:00")
	errHours = errors.New("begins when it ends")
)

// ParseClock reads 00:00 to 24:00 as minutes since midnight.
func ParseClock(s string) (minutes int, err error) {
	if len(s) != 5 || s[2] != ':' {
		return 0, errClock
	}
	for _, i := range [...]int{0, 1, 3, 4} {
		if s[i] < '0' || s[i] > '9' {
			return 0, errClock
		}
	}
	h, m := int(s[0]-'0')*10+int(s[1]-'0'), int(s[3]-'0')*10+int(s[4]-'0')
	if m > 59 || h*60+m > dayMinutes {
		return 0, errClock
	}
	return h*60 + m, nil
}

// ParseCurfew reads both ends; a nil zone is UTC.
func ParseCurfew(from, to string, zone *time.Location) (Curfew, error) {
	a, wrong := ParseClock(from)
	b, err := ParseClock(to)
	if err = errors.Join(wrong, err); err != nil {
		return Curfew{}, err
	}
	if a, b = a%dayMinutes, b%dayMinutes; a == b {
		return Curfew{}, errHours
	}
	if zone == nil {
		zone = time.UTC
	}
	return Curfew{a, b, zone}, nil
}

// Closed says that nobody comes in at a time.
func (c *Curfew) Closed(now time.Time) bool {
	h, m, _ := now.In(c.zone).Clock()
	at := h*60 + m
	if c.from < c.to {
		return at >= c.from && at < c.to
	}
	return at >= c.from || at < c.to
}

// Opens is the first moment after now at which it is open: the end of the curfew by the clock on the wall. It is now when
// it is open.
func (c *Curfew) Opens(now time.Time) time.Time {
	if !c.Closed(now) {
		return now
	}
	y, mon, d := now.In(c.zone).Date()
	for i := 0; ; i++ {
		if at := time.Date(y, mon, d+i, 0, c.to, 0, 0, c.zone); at.After(now) {
			return at.UTC()
		}
	}
}
