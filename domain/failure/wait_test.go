package failure

import (
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/account"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestWaitsInEveryFormThatProvidersUse(t *testing.T) {
	for text, want := range map[string]time.Duration{
		// seconds
		"7": 7 * time.Second, "0.5": 500 * time.Millisecond, " 34 ": 34 * time.Second, "1e2": 100 * time.Second,
		// durations
		"20ms": 20 * time.Millisecond, "1s": time.Second, "6m0s": 6 * time.Minute, "34.5s": 34500 * time.Millisecond, "1h2m3s": 3723 * time.Second,
		"10 seconds": 10 * time.Second, "1 hour, 5 minutes": 65 * time.Minute, "2d": 48 * time.Hour, "1 Day": 24 * time.Hour,
		// times
		"2026-01-02T03:05:05Z": time.Minute, "2026-01-02T03:04:06.5Z": 1500 * time.Millisecond, "2026-01-02T04:04:05+00:00": time.Hour,
		"Fri, 02 Jan 2026 03:04:35 GMT": 30 * time.Second, "Friday, 02-Jan-26 03:04:35 GMT": 30 * time.Second, "Fri Jan  2 03:04:35 2026": 30 * time.Second,
		"1767323105": time.Minute, "1767323105000": time.Minute,
		// nothing that anybody should believe (pain 50)
		"": 0, "0": 0, "-1": 0, "-5s": 0, "soon": 0, "inf": 0, "NaN": 0, "0x10": 0, "1s2": 0, "5 parsecs": 0, "..": 0, "1.2.3s": 0,
		"2026-01-02T03:04:04Z": 0, "Fri, 02 Jan 2015 03:04:35 GMT": 0, "1500000000": 0, "0001-01-01T00:00:00Z": 0, "2026-13-45T99:00:00Z": 0,
		strings.Repeat("9", 65): 0,
		// bounded
		"1e300": waitMax, "1e999": waitMax, "99999999999999999999": waitMax, "9999-12-31T23:59:59Z": waitMax, "1e300s": 0,
		"9999999999": waitMax, strings.Repeat("9", 40) + "s": waitMax, "5000000": waitMax, "40d": waitMax, "-1e300": 0, "5e10": waitMax,
	} {
		if got := ParseWait(text, t0); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if got := ParseWait("2026-01-02T03:05:05Z", time.Time{}); got != 0 {
		t.Errorf("a time without a clock: %v", got)
	}
}

func FuzzNoTextMakesAWaitThatIsNegativeOrAbsurd(f *testing.F) {
	for _, seed := range []string{"7", "6m0s", "1e300", "Fri, 02 Jan 2026 03:04:35 GMT", "-1", "9999-12-31T23:59:59Z"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o := Observation{Status: 429, Now: t0, ErrorMessage: "Please try again in " + text, Body: []byte(`{"error":{"details":[{"retryDelay":"` + text + `"}]}}`),
			Header: func(string) string { return text }}
		for _, got := range []time.Duration{ParseWait(text, t0), ReadLimit(o).After} {
			if got < 0 || got > waitMax {
				t.Fatalf("%q: %v", text, got)
			}
		}
		if b := Classify(o, usual).Block; b.For < time.Second || b.For > account.AutomaticMax || b.Resets < 0 || b.Resets > waitMax {
			t.Fatalf("%q: %+v", text, b)
		}
	})
}
