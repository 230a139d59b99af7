package outbound

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestABoundIsNeverEarlyAndAtMostAnEighthLate(t *testing.T) {
	const d = 8 * time.Second
	now := time.Unix(1_800_000_000, 0)
	var b bound
	require.False(t, b.move(0, now), "none, and none is set")
	moved := 0
	for range 100 {
		if b.move(d, now) {
			moved++
		}
		left := b.at.Sub(now)
		require.GreaterOrEqual(t, left, d)
		require.LessOrEqual(t, left, d+d/8)
		now = now.Add(100 * time.Millisecond)
	}
	require.Equal(t, 10, moved, "once a second")
	require.True(t, b.move(d/2, now), "a shorter one")
	require.Equal(t, d/2+d/16, b.at.Sub(now))
	require.True(t, b.move(0, now))
	require.True(t, b.at.IsZero())
	require.True(t, b.move(d, now))
	require.True(t, b.move(d, now.Add(time.Hour)), "after it has passed")
}
