package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/adapters/postgres"
	"github.com/penstock/penstock/adapters/postgres/pgtest"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// A request whose dispatch is in doubt is refused. Whether the server had committed or not, its stream ends as refused and with
// nothing sent, and nothing is left that the next start would take for an attempt of a dead node.
func TestARequestWhoseDispatchIsInDoubtEndsAsRefused(t *testing.T) {
	w := newCable(t, pgtest.Shared(t).NewDatabase(t))
	s := openStore(t, w.dsn, postgres.StoreOptions{})
	j := events.NewJournal(events.JournalOptions{Store: s})
	row := func(id string, version int64, terminal bool, facts ...events.Fact) events.Append {
		return events.Append{Rows: []events.Row{{
			Stream: "request/" + id, Version: version, Terminal: terminal, Request: id, At: time.Now().UTC(), Facts: facts,
		}}}
	}
	refused := func(id string) events.Append {
		return row(id, 0, true, &request.Rejected{Status: 503, Code: "STORE_UNAVAILABLE"})
	}
	well := func() bool { return j.Fault() == nil }
	require.NoError(t, j.Commit(row("first", 0, true, &request.Rejected{Status: 503}), events.May))

	said := map[string]error{}
	for step := range 160 {
		require.Eventually(t, func() bool { return j.Room() == nil }, time.Minute, time.Millisecond)
		id := uuid.Must(uuid.NewV7()).String()
		w.cutAfter(step%16, true)
		err := j.Commit(row(id, 0, false, &request.Admitted{}, &request.Dispatched{N: 1, Upstream: "u", Account: "a"}), events.May)
		said[id] = err
		switch {
		case err == nil:
			j.Put(row(id, 2, true, &request.Settled{Outcome: request.Completed, Status: 200, Sent: true, Attempts: 1, UsageSource: pricing.None}), events.Last)
		case errors.Is(err, events.ErrInDoubt):
			j.PutEither(row(id, 2, true, &request.Settled{Outcome: request.RejectedOut, Status: 503, UsageSource: pricing.None}), refused(id))
		default:
			require.ErrorIs(t, err, events.ErrUnavailable)
			j.Put(refused(id), events.Last)
		}
		w.mend()
		require.Eventually(t, well, time.Minute, time.Millisecond)
	}
	require.NoError(t, j.Close(t.Context()))
	require.Zero(t, j.Stats().Rooms)

	told := map[string]request.Story{}
	require.NoError(t, s.After(context.Background(), 0, func(c *events.Committed) bool {
		story := told[c.Request]
		for _, f := range c.Facts {
			story.Evolve(f, c.At)
		}
		told[c.Request] = story
		return true
	}))
	kinds := map[string]int{}
	for id, err := range said {
		story := told[id]
		require.True(t, story.Ended(), "%s (%v) is left open", id, err)
		switch {
		case err == nil:
			require.Equal(t, request.Completed, story.Settled.Outcome)
			kinds["stored"]++
		case story.Rejected != nil:
			require.Nil(t, story.Admitted)
			kinds["refused: "+map[bool]string{true: "in doubt", false: "not stored"}[errors.Is(err, events.ErrInDoubt)]]++
		default:
			require.ErrorIs(t, err, events.ErrInDoubt)
			require.Equal(t, request.RejectedOut, story.Settled.Outcome)
			require.False(t, story.Settled.Sent)
			kinds["refused though stored"]++
		}
	}
	t.Log(kinds)
	require.Positive(t, kinds["stored"])
	require.Positive(t, kinds["refused though stored"])
	require.Positive(t, kinds["refused: not stored"])
	open, err := actors.FindOpen(t.Context(), s)
	require.NoError(t, err)
	require.Empty(t, open)
	report, err := events.Audit{}.Verify(t.Context(), s)
	require.NoError(t, err)
	require.True(t, report.Equal, "%+v", report)
}
