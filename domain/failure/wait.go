package failure

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// waitMax bounds what is believed of an upstream's own words: no limit that anybody sells is longer than a month.
const waitMax = 31 * 24 * time.Hour

// ParseWait reads how long an upstream asks to wait, in any of the forms that providers use: seconds ("7", "0.5"), a
// duration ("6m0s", "20ms", "1h 5m", "10 seconds"), a time (RFC 3339, an HTTP date, seconds or milliseconds since 1970).
// 0 is what cannot be read, is not positive or is in the past; nothing is longer than 31 days. A zero now leaves times
// unread.
func ParseWait(text string, now time.Time) time.Duration {
	text = strings.TrimSpace(text)
	if text == "" || len(text) > 64 {
		return 0
	}
	if n, ok := number(text); ok {
		return fromNumber(n, now)
	}
	if d, ok := duration(text); ok {
		return d
	}
	if at, ok := instant(text); ok {
		return until(at, now)
	}
	return 0
}

// number reads a plain decimal; words that Go takes for numbers, such as "inf" and "0x1p2", are none.
func number(text string) (float64, bool) {
	if strings.Trim(text, "0123456789.+-eE") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(n, 0) {
		return 0, false
	}
	return n, true
}

// fromNumber tells seconds from points in time by their size.
func fromNumber(n float64, now time.Time) time.Duration {
	switch {
	case n >= 1e9 && n < 1e10:
		return until(time.Unix(int64(n), 0), now)
	case n >= 1e12 && n < 1e13:
		return until(time.UnixMilli(int64(n)), now)
	}
	return bounded(n * float64(time.Second))
}

func until(at, now time.Time) time.Duration {
	if now.IsZero() {
		return 0
	}
	return bounded(float64(at.Sub(now)))
}

// bounded is a number of nanoseconds from 0 to the most that is believed; 0 for what is no number.
func bounded(ns float64) time.Duration {
	switch {
	case !(ns > 0):
		return 0
	case ns >= float64(waitMax):
		return waitMax
	}
	return time.Duration(ns)
}

// units are the words for lengths of time. The longest that fits counts.
var units = map[string]time.Duration{
	"ms": time.Millisecond, "msec": time.Millisecond, "msecs": time.Millisecond, "millisecond": time.Millisecond, "milliseconds": time.Millisecond,
	"s": time.Second, "sec": time.Second, "secs": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "mins": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hr": time.Hour, "hrs": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour,
}

// duration reads numbers with units, one after the other: "1h2m3.5s", "1 hour 2 minutes".
func duration(text string) (time.Duration, bool) {
	var sum float64
	rest := text
	for rest != "" {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789."))
		n, err := strconv.ParseFloat(rest[:digits], 64)
		if digits == 0 || err != nil && !math.IsInf(n, 0) {
			return 0, false
		}
		rest = strings.TrimLeft(rest[digits:], " ")
		letters := len(rest) - len(strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"))
		unit, known := units[strings.ToLower(rest[:letters])]
		if !known {
			return 0, false
		}
		sum += n * float64(unit)
		rest = strings.TrimLeft(rest[letters:], " ,")
	}
	return bounded(sum), true
}

// instantForms are the ways to write a time: that which comes with every answer of some, then the three of HTTP, then others.
var instantForms = []string{time.RFC3339Nano, time.RFC1123, "Monday, 02-Jan-06 15:04:05 MST", time.ANSIC, time.RFC1123Z, "2006-01-02 15:04:05Z07:00"}

func instant(text string) (time.Time, bool) {
	for _, form := range instantForms {
		if at, err := time.Parse(form, text); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}
