package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
)

func TestAMeterDrawsABarOnATerminalAndRareLinesElsewhere(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		var out strings.Builder
		now := time.Unix(1000, 0)
		m := meter{out: &out, terminal: terminal, now: func() time.Time { return now }}
		for at := range 11 { // 100,000 events each second
			m.show(projections.Progress{Projection: "billing", Position: events.Position(100_000 * at), To: 1_000_000})
			m.show(projections.Progress{Projection: "billing", Position: events.Position(100_000 * at), To: 1_000_000})
			now = now.Add(time.Second)
		}
		m.end()
		shown := out.String()
		if terminal {
			require.Contains(t, shown, "billing: 500000 of 1000000 events, 100000 events/s, 5s left")
			require.Equal(t, 11, strings.Count(shown, "%"), "one bar for each second: %q", shown)
			require.Contains(t, shown, "\r\x1b[K[===============               ]  50%")
			require.True(t, strings.HasSuffix(shown, "\r\x1b[K"))
		} else {
			require.Equal(t, 1, strings.Count(shown, "\n"))
			require.Contains(t, shown, "billing: 1000000 of 1000000 events, 100000 events/s, 0s left")
			require.NotContains(t, shown, "\r")
		}
	}
}

func TestAMeterCountsTheRateFromWhereItBeganToLook(t *testing.T) {
	var out strings.Builder
	now := time.Unix(1000, 0)
	m := meter{out: &out, terminal: true, now: func() time.Time { return now }, patience: 3 * time.Second}
	for at := range 5 { // it goes on from 400,000, with 50,000 events each second
		m.show(projections.Progress{Projection: "billing", From: 400_000, Position: events.Position(400_000 + 50_000*at), To: 1_000_000})
		now = now.Add(time.Second)
	}
	m.end()
	require.Equal(t, 2, strings.Count(out.String(), "%"), "nothing before its patience ends: %q", out.String())
	require.Contains(t, out.String(), "billing: 600000 of 1000000 events, 50000 events/s, 8s left")
}

// What follows on something else within seconds, such as days, is in a log, too.
func TestAMeterTellsALogOfWhatHasManyShortParts(t *testing.T) {
	var out strings.Builder
	now := time.Unix(1000, 0)
	m := meter{out: &out, now: func() time.Time { return now }}
	for day := range 8 { // of three seconds each
		for _, name := range []string{"closing books", "writing archive"} {
			m.show(projections.Progress{Projection: name, Part: "day " + string(rune('1'+day)), Unit: "rows", Position: events.Position(day), To: 8})
			now = now.Add(1500 * time.Millisecond)
		}
	}
	require.Equal(t, 2, strings.Count(out.String(), "\n"), "%q", out.String())
	require.Contains(t, out.String(), "writing archive (day 4): 3 of 8 rows")
}
