package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASlotIsFreedByHand(t *testing.T) {
	d := newDesk(t)
	require.Equal(t, "request r9: attempt 1 of key team-a at account a-1 is cut; its slot is free\n", d.ok("upstream", "free", "a", "r9"))
	require.Contains(t, d.ok("upstream", "free", "a", "r9", "--attempt", "1", "--reason", "stuck"), "free as soon as that has ended")
	require.Contains(t, d.ok("upstream", "free", "a", "r9", "--json"), `"request_id":"r9","attempt":1,"key":"team-a"`)
	require.Contains(t, d.fails(1, "upstream", "free", "a", "r8"), "request r8 holds no slot of upstream a")
	require.Contains(t, d.fails(1, "upstream", "free", "a", "r9", "--attempt", "2"), "holds no slot")
	require.Contains(t, d.fails(1, "upstream", "free", "nobody", "r9"), "nobody")
	require.Contains(t, d.fails(2, "upstream", "free", "a"), "takes ID REQUEST_ID")
	require.Contains(t, d.fails(2, "upstream", "free", "a", "r9", "--attempt", "0"), "--attempt")
}

func TestAKeyIsMadeWithItsPlaceInQueues(t *testing.T) {
	d := newDesk(t)
	d.ok("key", "create", "--id", "urgent", "--priority", "high", "--weight", "4")
	d.ok("key", "create", "--id", "plain")
	got := d.ok("get", "key", "urgent")
	require.Contains(t, got, "priority: high")
	require.Contains(t, got, "weight: 4")
	require.NotContains(t, d.ok("get", "key", "plain"), "priority")
	require.Contains(t, d.fails(1, "key", "create", "--id", "x", "--priority", "urgent"), "priority: must be high, normal or low")
	require.Contains(t, d.fails(1, "key", "create", "--id", "x", "--weight", "0"), "weight: must be")
}
