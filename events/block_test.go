package events

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRowsOfManyKeysCostABlockNoMemoryPerRow(t *testing.T) {
	var b Block
	keys, at := []string{"a", "", "b", "c"}, Position(1)
	add := func() {
		b.Add(at, "request.settled@2", keys[at%4], "u")
		at++
	}
	for at < 2000 {
		add()
	}
	require.Zero(t, testing.AllocsPerRun(300, func() {
		for range keys {
			add()
		}
	}))
	rows := b.Rows()
	require.Len(t, rows, 5)
	require.Equal(t, Term{"key", "a"}, rows[0].Term)
	require.Equal(t, "4 8 12 ", rows[0].Offsets[:7])
	require.Equal(t, Term{"key", "c"}, rows[2].Term)
	require.Equal(t, "3 7 11 ", rows[2].Offsets[:7])
}
