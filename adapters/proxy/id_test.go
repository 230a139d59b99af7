package proxy

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestRequestIDsAreUUIDsOfVersion7InTheOrderOfTime(t *testing.T) {
	at := time.Date(2026, 11, 29, 22, 59, 59, 999_999_750, time.UTC)
	seen := map[string]bool{}
	last := ""
	for range 1000 {
		text := newID(at)
		id, err := uuid.Parse(text)
		require.NoError(t, err)
		require.Equal(t, id.String(), text)
		require.Equal(t, uuid.Version(7), id.Version())
		require.Equal(t, uuid.RFC4122, id.Variant())
		require.False(t, seen[text])
		seen[text] = true
		sec, ns := id.Time().UnixTime()
		require.Less(t, at.Sub(time.Unix(sec, ns)).Abs(), time.Millisecond)
		require.Less(t, last, text)
		last, at = text, at.Add(250*time.Nanosecond)
	}
}
