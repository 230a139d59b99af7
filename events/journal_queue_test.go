package events

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnAppendAllocatesNothingOfItsOwn(t *testing.T) {
	j := &Journal{batchMax: 512, wake: make(chan struct{}, 1)} // nobody writes
	_, last := sampleRows()
	last.Stream = "request/1"
	a := Append{Rows: []Row{last}}
	j.Put(a, Must)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		j.queue = j.queue[:0]
		j.Put(a, Must)
	}), "many payloads share an allocation")
}

func TestTheQueueDoesNotKeepTheMemoryThatAnOutageTook(t *testing.T) {
	j := &Journal{backlog: make([]entry, 0, queueKept+1)}
	j.take()
	require.Zero(t, cap(j.queue))
	j.backlog = make([]entry, 0, queueKept)
	j.take()
	require.Equal(t, queueKept, cap(j.queue), "what busy hours take is kept")
}
