package proxy

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"github.com/penstock/penstock/domain/catalog"
)

func hashed(t testing.TB, secret string) string {
	t.Helper()
	b, err := bcrypt.GenerateFromPassword([]byte(secret), bcrypt.MinCost)
	require.NoError(t, err)
	return string(b)
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestAKeyIsFoundByItsSecret(t *testing.T) {
	long := strings.Repeat("x", 72)
	snap := snapshot(
		catalog.Key{ID: "random", Hash: sha("sk-pen-1")},
		catalog.Key{ID: "old", Hash: hashed(t, "sk-old-1"), Prefix: "sk-old"},
		catalog.Key{ID: "bare", Hash: hashed(t, "whatever")},
		catalog.Key{ID: "long", Hash: hashed(t, long)},
	)
	k := newKeyring()
	for secret, want := range map[string]string{
		"sk-pen-1": "random", "sk-old-1": "old", "whatever": "bare", long: "long",
		"sk-pen-2": "", "sk-old-2": "", "": "", long + "y": "", // bcrypt alone would take the last one
	} {
		for range 2 { // not remembered, remembered
			got := ""
			if key := k.find(snap, []byte(secret), noon); key != nil {
				got = key.ID
			}
			require.Equal(t, want, got, "%q", secret)
		}
	}
}

// compared says whether a find had to compare: it can not while all comparisons are taken.
func compared(t *testing.T, k *keyring, snap *catalog.Snapshot, secret string, now time.Time) bool {
	t.Helper()
	for range cap(k.work) {
		k.work <- struct{}{}
	}
	found := make(chan bool, 1)
	go func() { found <- k.find(snap, []byte(secret), now) != nil }()
	waits := false
	eventually(t, "found, or waiting for its turn", func() bool {
		for g := range strings.SplitSeq(goroutines(), "\n\n") {
			head, stack, _ := strings.Cut(g, "\n")
			waits = waits || strings.Contains(head, "chan send") && strings.Contains(stack, "proxy.(*keyring).compare")
		}
		return waits || len(found) > 0
	})
	for range cap(k.work) {
		<-k.work
	}
	require.True(t, <-found)
	return waits
}

// A20, A22, B43: the catalogue is in memory, and so is what was compared.
func TestAComparisonIsRememberedForFiveMinutes(t *testing.T) {
	snap := snapshot(catalog.Key{ID: "a", Hash: hashed(t, "secret")})
	k := newKeyring()
	require.True(t, compared(t, k, snap, "secret", noon), "the first request compares in full (A22)")
	require.False(t, compared(t, k, snap, "secret", noon.Add(cacheFor-time.Microsecond)))
	require.True(t, compared(t, k, snap, "secret", noon.Add(cacheFor)), "a use does not prolong it")
	require.False(t, compared(t, k, snap, "secret", noon.Add(cacheFor)))
	require.True(t, compared(t, newKeyring(), snap, "secret", noon), "each process has its own (A25)")
}

// A21, B45: the hash is part of what is remembered.
func TestAChangedHashIsComparedAnew(t *testing.T) {
	k := newKeyring()
	require.True(t, compared(t, k, snapshot(catalog.Key{ID: "a", Hash: hashed(t, "secret")}), "secret", noon))
	require.True(t, compared(t, k, snapshot(catalog.Key{ID: "a", Hash: hashed(t, "secret")}), "secret", noon))
	require.Nil(t, k.find(snapshot(catalog.Key{ID: "a", Hash: hashed(t, "other")}), []byte("secret"), noon))
}

func TestAWrongSecretIsNeverRemembered(t *testing.T) {
	snap := snapshot(catalog.Key{ID: "a", Hash: hashed(t, "secret")})
	k := newKeyring()
	for i := range 20 {
		require.Nil(t, k.find(snap, fmt.Appendf(nil, "guess-%d", i), noon))
	}
	require.Empty(t, k.known)
}

// A20: at most 2048 entries; A21: neither secret nor hash is kept.
func TestWhatIsRememberedIsBoundedAndHoldsNoSecret(t *testing.T) {
	k := newKeyring()
	full := func(until time.Time) {
		for i := len(k.known); i < cacheMax; i++ {
			var sum [32]byte
			sum[0], sum[1], sum[2] = byte(i), byte(i>>8), 1
			k.known[sum] = opened{until: until}
		}
	}
	hash := hashed(t, "a-secret-of-32-bytes-exactly-1234")
	key := &catalog.Key{ID: "a", Hash: hash}
	full(noon.Add(time.Minute))
	require.True(t, k.compare([]byte("a-secret-of-32-bytes-exactly-1234"), key, noon))
	require.Len(t, k.known, cacheMax, "one made room")
	full(noon)
	require.True(t, k.compare([]byte("a-secret-of-32-bytes-exactly-1234"), key, noon.Add(2*time.Minute)), "remembered or not")
	clear(k.known)
	full(noon)
	require.True(t, k.compare([]byte("a-secret-of-32-bytes-exactly-1234"), key, noon))
	require.Len(t, k.known, 1, "what has run out goes first")
	require.Equal(t, uintptr(32), unsafe.Sizeof(firstOf(k.known)))
	for sum := range k.known {
		of := k.known[sum].of
		require.False(t, bytes.Contains([]byte("a-secret-of-32-bytes-exactly-1234"+hash), sum[:8]))
		require.False(t, bytes.Contains([]byte("a-secret-of-32-bytes-exactly-1234"+hash), of[:8]))
	}
}

func firstOf(m map[[32]byte]opened) (sum [32]byte) {
	for s := range m {
		return s
	}
	return sum
}

func TestManyRequestsAtOnceFindTheirKey(t *testing.T) {
	var keys []catalog.Key
	for i := range 8 {
		keys = append(keys, catalog.Key{ID: itoa(i), Hash: hashed(t, "secret-"+itoa(i)), Prefix: "secret-" + itoa(i)})
	}
	snap, k := snapshot(keys...), newKeyring()
	var all sync.WaitGroup
	for g := range 32 {
		all.Go(func() {
			if key := k.find(snap, []byte("secret-"+itoa(g%8)), noon); key == nil || key.ID != itoa(g%8) {
				t.Errorf("%d found %v", g%8, key)
			}
		})
	}
	all.Wait()
	require.Len(t, k.known, 8)
}
