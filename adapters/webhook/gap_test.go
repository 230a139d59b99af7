package webhook_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// A webhook that rests longer than retention keeps events has missed them: nothing waits for it, and it was silent about that.
func TestAWebhookThatRestsLongerThanEventsAreKeptSaysWhatItMissed(t *testing.T) {
	h := newHouse(t, nil)
	box, ops := newReceiver(t, nil), newReceiver(t, nil)
	h.hook("ops", ops.URL, "alert.*")
	w := h.hook("w", box.URL, "request.*")
	h.many(1)
	box.gets(1, 1)
	resting := *w
	resting.Active = false
	h.configure(&resting, h.hooks[1])
	require.Eventually(t, func() bool { s, ok := h.manager.Status("w"); return ok && !s.Active }, patience, time.Millisecond)

	commit := func(stream string, facts ...events.Fact) {
		row := events.Row{Stream: stream, Version: events.AnyVersion, At: time.Unix(1, 0), Facts: facts}
		require.NoError(t, h.journal.Commit(events.Append{Rows: []events.Row{row}}, events.Must))
	}
	commit("request/r1", &request.Resumed{}, &request.Resumed{}, &request.Resumed{})
	commit(books.Stream, &books.Removed{Day: "1970-01-01", Span: books.Span{First: 2, Last: 2, Through: 4}})
	n, err := h.store.Remove(context.Background(), events.Removal{First: 2, Last: 2, Through: 4}, 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	h.many(1)

	h.configure(w, h.hooks[1])
	require.Eventually(t, func() bool { return len(box.positions()) == 2 && len(ops.types()) == 1 }, patience, time.Millisecond)
	require.Equal(t, []int64{1, 6}, box.positions(), "what is there still comes")
	require.Equal(t, "alert.webhook_missed", ops.types()[0])
	require.JSONEq(t, `{"webhook":"w","first_position":"2","last_position":"4","next_position":"5"}`, string(ops.taken[0].lines[0].Data))
	s, _ := h.manager.Status("w")
	require.EqualValues(t, 4, s.Missed)
	require.Contains(t, h.log.String(), `msg="webhook misses events that were removed" webhook=w first=2 last=4 next=5`)
	require.Empty(t, box.faults)
}
