package events

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheHashOfARowSaysWhenAnythingStoredHasChanged(t *testing.T) {
	base := Row{
		Stream: "request/1", Version: 2, At: time.UnixMicro(1_772_000_000_000_000), Node: "n", Request: "1", Key: "k",
		Upstream: "u", Types: "request.settled", Payload: []byte(`[{}]`),
	}
	var h Hasher
	seen := map[[32]byte]string{h.Row(7, &base): "base"}
	for what, change := range map[string]func(*Row){
		"stream":                   func(r *Row) { r.Stream = "request/2" },
		"version":                  func(r *Row) { r.Version = 3 },
		"terminal":                 func(r *Row) { r.Terminal = true },
		"time":                     func(r *Row) { r.At = r.At.Add(time.Microsecond) },
		"node":                     func(r *Row) { r.Node = "m" },
		"request":                  func(r *Row) { r.Request = "2" },
		"key":                      func(r *Row) { r.Key = "l" },
		"upstream":                 func(r *Row) { r.Upstream = "v" },
		"types":                    func(r *Row) { r.Types = "request.settled@2" },
		"payload":                  func(r *Row) { r.Payload = []byte(`[{"a":1}]`) },
		"a byte to the next field": func(r *Row) { r.Key, r.Upstream = "ku", "" },
	} {
		r := base
		change(&r)
		sum := h.Row(7, &r)
		require.Empty(t, seen[sum], "%s is not in the hash", what)
		seen[sum] = what
	}
	require.Empty(t, seen[h.Row(8, &base)], "the position is not in the hash")

	same := base
	same.At = same.At.Add(999 * time.Nanosecond)
	require.Equal(t, h.Row(7, &base), h.Row(7, &same), "what is not stored is not hashed")
}

func TestTheHashOfACommitLinksAllBeforeIt(t *testing.T) {
	var h Hasher
	a, b := [32]byte{1}, [32]byte{2}
	base := h.Commit(a, 1, 2, Bounds{1, 2, 3}, [][32]byte{a, b})
	require.NotEqual(t, base, h.Commit(b, 1, 2, Bounds{1, 2, 3}, [][32]byte{a, b}))
	require.NotEqual(t, base, h.Commit(a, 2, 2, Bounds{1, 2, 3}, [][32]byte{a, b}))
	require.NotEqual(t, base, h.Commit(a, 1, 3, Bounds{1, 2, 3}, [][32]byte{a, b}))
	require.NotEqual(t, base, h.Commit(a, 1, 2, Bounds{1, 2, 3}, [][32]byte{b, a}))
	require.NotEqual(t, base, h.Commit(a, 1, 2, Bounds{1, 2, 3}, [][32]byte{a}))
	for _, other := range []Bounds{{2, 2, 3}, {1, 3, 3}, {1, 2, 4}} {
		require.NotEqual(t, base, h.Commit(a, 1, 2, other, [][32]byte{a, b}))
	}
}

func TestHashingAllocatesNothing(t *testing.T) {
	first, _ := sampleRows()
	require.NoError(t, Encode(&first))
	var h Hasher
	rows := make([][32]byte, 1)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		rows[0] = h.Row(1, &first)
		h.Commit(rows[0], 1, 2, Bounds{1, 2, 3}, rows)
	}))
}

// The form of the hash is for ever: a change here makes every stored chain look tampered with.
func TestTheFormOfTheHashIsPinned(t *testing.T) {
	var h Hasher
	row := h.Row(1, &Row{
		Stream: "request/1", At: time.UnixMicro(1), Node: "n", Request: "1", Types: "request.resumed",
		Payload: []byte(`[{"upstream":"u","waited_us":1}]`),
	})
	require.Equal(t, "d0c3201ee42219d33c5f52c19672e4ba487b163ae4ca734fcafec37ec75673e9", hexOf(row))
	require.Equal(t, "13ca7e03febe6bb27854216c56b1dc9c6e3f85502e4d59913791bfbec6033d70", hexOf(h.commit1([32]byte{}, 1, 1, [][32]byte{row})))
	require.Equal(t, "79b57234b09fc3bbf21bcbb5fba8e7e09b7ec2b5d90699c5f896cb3f1364106c", hexOf(h.Commit([32]byte{}, 1, 1, Bounds{1, 2, 3}, [][32]byte{row})))
}

func hexOf(sum [32]byte) string { return hex.EncodeToString(sum[:]) }
