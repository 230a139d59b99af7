package projections_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/closing"
	"github.com/penstock/penstock/projections/requestlog"
)

// spoken is a store with three requests and what was said about the books.
func spoken(t *testing.T, facts ...events.Fact) events.Store {
	t.Helper()
	s := memory.NewStore()
	add := func(stream string, version int64, terminal bool, facts ...events.Fact) {
		r := events.Row{Stream: stream, Version: version, Terminal: terminal, At: time.Date(2026, 3, 1, 23, 0, 0, 0, time.UTC), Facts: facts}
		require.NoError(t, events.Encode(&r))
		results, err := s.Append(context.Background(), []events.Append{{Rows: []events.Row{r}}}, 0)
		require.NoError(t, err)
		require.NoError(t, results[0].Err)
	}
	add("request/a", 0, false, &request.Admitted{Ask: request.Ask{Key: "k", Model: "m"}}, &request.Dispatched{N: 1, Upstream: "u", Account: "u-1"})
	add("request/b", 0, true, &request.Rejected{Code: "X"})
	add("request/a", 2, true, &request.Settled{Outcome: request.Completed, Status: 200, Sent: true, Cost: 7, Attempts: 1})
	add("request/c", 0, false, &request.Admitted{})
	for i, f := range facts {
		add(books.Stream, int64(i), false, f)
	}
	return s
}

func TestAClosingSumsUpWholeRequestsAndWaitsForTheirEnd(t *testing.T) {
	s := spoken(t)
	f, err := closing.Of(context.Background(), s, "2026-03-01", 1, 3)
	require.NoError(t, err)
	require.Equal(t, &books.Closed{
		Day: "2026-03-01", Span: books.Span{First: 1, Last: 3, Through: 4}, Requests: 2, Rows: 3, Facts: 4,
		Lines: []books.Line{{Day: "2026-03-01", Key: "k", Model: "m", Upstream: "u", Account: "u-1", Requests: 1, Attempts: 1, Cost: 7}},
	}, f)
	_, err = closing.Of(context.Background(), s, "2026-03-01", 4, 5)
	require.ErrorIs(t, err, books.ErrOpen)
	require.ErrorContains(t, err, "request/c")
	f, err = closing.Of(context.Background(), s, "2026-03-01", 2, 3)
	require.NoError(t, err)
	require.Equal(t, int64(1), f.Requests, "a row that only reaches into the span began before it")
}

// plainBilling is billing by a projection that knows nothing of closings.
type plainBilling struct{ billing.Projection }

// Open has another form, so that it is no Opener.
func (plainBilling) Open() {}

func TestRowsThatNeedMoreThanAClosingAreNotMadeFromTheStart(t *testing.T) {
	span := books.Span{First: 1, Last: 3, Through: 4}
	s := spoken(t, &books.Closed{Day: "2026-03-01", Span: span, Lines: []books.Line{{Day: "tomorrow"}}}, &books.Removed{Day: "2026-03-01", Span: span})
	for _, c := range []struct {
		p    projections.Projection
		says string
	}{
		{plainBilling{}, "billing needs those of 2026-03-01"},
		{billing.Projection{}, "billing needs more than the closing of 2026-03-01"},
	} {
		m := memory.NewReadModel(c.p)
		shadow := func() (projections.ReadModel, error) { return memory.NewReadModel(c.p), nil }
		_, err := projections.Rebuild(context.Background(), s, m, c.p, shadow)
		require.ErrorIs(t, err, projections.ErrArchived)
		require.ErrorContains(t, err, c.says)
		r := projections.NewRunner(projections.Options{Store: s, Model: m, Projections: []projections.Projection{c.p}})
		require.ErrorIs(t, r.Start(context.Background()), projections.ErrArchived)
	}
	m := memory.NewReadModel(requestlog.Projection{})
	shadow := func() (projections.ReadModel, error) { return memory.NewReadModel(requestlog.Projection{}), nil }
	report, err := projections.Rebuild(context.Background(), s, m, requestlog.Projection{}, shadow)
	require.NoError(t, err)
	require.Equal(t, int64(2), report.Rows, "what remains: a line and its span")
}
