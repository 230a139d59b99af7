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
		require.Contains(t, shown, "billing: 500000 of 1000000 events, 100000 events/s, 5s left")
		if terminal {
			require.Equal(t, 11, strings.Count(shown, "%"), "one bar for each second: %q", shown)
			require.Contains(t, shown, "\r\x1b[K[===============               ]  50%")
			require.True(t, strings.HasSuffix(shown, "\r\x1b[K"))
		} else {
			require.Equal(t, 2, strings.Count(shown, "\n"))
			require.NotContains(t, shown, "\r")
		}
	}
}
