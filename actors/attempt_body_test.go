package actors

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARoomIsLentAgainUnlessWhatItIsForIsLong(t *testing.T) {
	var r Room
	first := r.take(300)
	require.Zero(t, len(first))
	require.Equal(t, roomStep, cap(first))
	same := func(a, b []byte) bool { return &a[:1][0] == &b[:1][0] }
	require.True(t, same(first, r.take(roomStep)), "a little longer")
	require.False(t, same(first, r.take(roomStep+1)), "it has grown")
	second := r.take(1)
	require.Equal(t, 2*roomStep, cap(second))
	long := r.take(roomMax + 1)
	require.Equal(t, roomMax+1, cap(long))
	require.False(t, same(second, long))
	require.True(t, same(second, r.take(1)), "what is long does not stay")
	require.Equal(t, 300, cap((*Room)(nil).take(300)))
}
