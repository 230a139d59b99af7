package proxy

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/domain/access"
)

// Whoever asks while nobody is blocked is not looked up; that must never let in one who is.
func TestTheGuardBlocksWhomTheThrottleBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	p := access.ThrottlePolicy{Failures: 3, Window: 10 * time.Second, Block: 20 * time.Second}
	var g guard
	want := access.NewThrottle(p)
	now := time.Unix(1_800_000_000, 0)
	blocked, free := 0, 0
	for range 20_000 {
		a := netip.AddrFrom4([4]byte{10, 0, 0, byte(r.IntN(4))})
		if r.IntN(3) == 0 {
			g.failed(a, p, now)
			want.Failed(a, now)
		}
		until := want.Blocked(a, now)
		require.Equal(t, until, g.blocked(a, p, now))
		if until.IsZero() {
			free++
		} else {
			blocked++
		}
		now = now.Add(time.Duration(r.IntN(3000)) * time.Millisecond)
		if !until.IsZero() && r.IntN(20) == 0 {
			now = until.Add(time.Duration(r.IntN(3)-1) * time.Microsecond)
		}
	}
	require.Greater(t, min(blocked, free), 1000, "both happen")
}
