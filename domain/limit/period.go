package limit

import (
	"math"
	"time"
)

// Kind is how the sums of a spending rule begin anew.
type Kind uint8

// The kinds of period.
const (
	Total   Kind = iota // never
	Daily               // at midnight
	Monthly             // at midnight of the first
	Rolling             // each spend leaves by itself after so many hours
	Fixed               // every so often from a beginning on, as the windows of a subscription
)

var kinds = [...]string{"TOTAL", "DAILY", "MONTHLY", "ROLLING", "FIXED"}

// Period is a kind with what it needs. The zero value never begins anew.
type Period struct {
	Kind  Kind
	Zone  *time.Location // Daily, Monthly; nil is UTC
	Hours int            // Rolling; 0 is 24
	From  time.Time      // Fixed: its windows are [From + i × Every, From + (i+1) × Every)
	Every time.Duration  // Fixed: at least a second
}

const (
	day  = 24 * time.Hour
	week = 7 * day
	// month is the month of a subscription: 30 days, so that one of 30 days has exactly one window (pain 25).
	month = 30 * day

	hoursDefault = 24
)

// String is the reason of a refusal: TOTAL, DAILY, MONTHLY, ROLLING; WEEKLY and the like for windows of a subscription.
func (p Period) String() string {
	if p.Kind != Fixed {
		return kinds[min(p.Kind, Fixed)]
	}
	switch p.Every {
	case day:
		return "DAILY"
	case week:
		return "WEEKLY"
	case month:
		return "MONTHLY"
	}
	return kinds[Fixed]
}

// same says that two periods have the same sums.
func (p Period) same(q Period) bool {
	return p.Kind == q.Kind && p.Hours == q.Hours && p.Every == q.Every && p.From.Equal(q.From) && zone(p.Zone).String() == zone(q.Zone).String()
}

func zone(z *time.Location) *time.Location {
	if z == nil {
		return time.UTC
	}
	return z
}

// bounds is the calendar or fixed period that a time lies in, [start, end), in microseconds since 1970.
func (p Period) bounds(at int64) (start, end int64) {
	switch p.Kind {
	case Daily:
		y, m, d := time.UnixMicro(at).In(zone(p.Zone)).Date()
		return midnight(y, m, d, p.Zone), after(at, y, m, d, 1, p.Zone)
	case Monthly:
		y, m, _ := time.UnixMicro(at).In(zone(p.Zone)).Date()
		return midnight(y, m, 1, p.Zone), after(at, y, m+1, 1, 0, p.Zone)
	case Fixed:
		from, every := p.From.UnixMicro(), max(p.Every, time.Second).Microseconds()
		i := (at - from) / every
		if at < from && (at-from)%every != 0 {
			i--
		}
		return from + i*every, from + (i+1)*every
	}
	return math.MinInt64, math.MaxInt64
}

// after is the first midnight from the day on that is later than at: a zone may have left a day out.
func after(at int64, y int, m time.Month, d, more int, z *time.Location) int64 {
	for {
		if end := midnight(y, m, d+more, z); end > at {
			return end
		}
		more++
	}
}

// midnight is the first moment of a day in a zone. It is seen from noon: where clocks change at night, midnight may be
// left out or come twice.
func midnight(y int, m time.Month, d int, z *time.Location) int64 {
	noon := time.Date(y, m, d, 12, 0, 0, 0, zone(z))
	y, m, d = noon.Date()
	wall := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	_, offset := noon.Zone()
	first := wall.Add(-time.Duration(offset) * time.Second)
	changed, _ := noon.ZoneBounds()
	if changed.IsZero() || first.After(changed) {
		return first.UnixMicro()
	}
	_, before := changed.Add(-time.Second).Zone()
	if first = wall.Add(-time.Duration(before) * time.Second); first.Before(changed) {
		return first.UnixMicro()
	}
	return changed.UnixMicro()
}
