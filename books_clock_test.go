package penstock_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections/lawtest"
)

// A clock that was years ahead for a moment and was set right: what was stored in that moment must not keep all days behind it open
// until then.
func TestAClockThatWasAheadForAMomentDoesNotKeepTheBooksOpen(t *testing.T) {
	r, _ := aged(t, nil)
	s, err := sqlite.OpenStore(filepath.Join(r.config.DataDir, "events.db"), sqlite.StoreOptions{})
	require.NoError(t, err)
	put := func(id string, at time.Time) {
		row := events.Row{Stream: "request/" + id, At: at, Request: id, Facts: []events.Fact{&request.Rejected{Code: "X"}}, Terminal: true}
		require.NoError(t, events.Encode(&row))
		_, err := s.Append(context.Background(), []events.Append{{Rows: []events.Row{row}}}, 0)
		require.NoError(t, err)
	}
	yesterday := midnight(time.Now()).Add(-12 * time.Hour)
	put("ahead", yesterday.AddDate(4, 0, 0))
	put("right", yesterday)
	require.NoError(t, s.Close())
	o := offline(t, r)
	closed, err := o.CloseBooks(context.Background(), yesterday.AddDate(0, 0, -1).Format(time.DateOnly))
	require.NoError(t, err)
	require.NotEmpty(t, closed)
	closed, err = o.CloseBooks(context.Background(), yesterday.Format(time.DateOnly))
	require.NoError(t, err)
	require.Len(t, closed, 1)
	require.Equal(t, yesterday.Format(time.DateOnly), closed[0].Day)
	require.EqualValues(t, 2, closed[0].Requests, "it belongs to the day by its place")
	require.NoError(t, o.Close())
}

// What such a clock has billed in a far year is no reason to refuse bills of half a day until then, once it was taken away.
func TestAClockThatWasAheadForAMomentDoesNotSpoilTheBillsUntilThen(t *testing.T) {
	r := newRig(t, nil)
	r.apply(map[string]any{"kind": "setting", "name": "retention.events", "value": "5"})
	r.close()
	history, err := lawtest.History{Seed: 5, Requests: 6, Start: time.Now().AddDate(4, 0, 0), Step: time.Second}.Appends()
	require.NoError(t, err)
	for i := range history { // ids are those of other requests
		for k := range history[i].Rows {
			row := &history[i].Rows[k]
			if strings.HasPrefix(row.Stream, events.RequestStreams) {
				row.Stream, row.Request = row.Stream+"-ahead", row.Request+"-ahead"
			}
		}
	}
	s, err := sqlite.OpenStore(filepath.Join(r.config.DataDir, "events.db"), sqlite.StoreOptions{})
	require.NoError(t, err)
	lawtest.Commits(t, s, history, 3)
	require.NoError(t, s.Close())
	first := past(t, r.config.DataDir)
	r.open()
	ask[items[struct{}]](r, "POST", "/api/v1/books/close", map[string]any{"until": midnight(time.Now()).AddDate(0, 0, -1).Format(time.DateOnly)})
	require.NotZero(t, equal(t, r))
	for at, want := range map[time.Time]int{
		first.Add(6 * time.Hour):                             422,
		midnight(time.Now()).Add(-6 * time.Hour):             200,
		midnight(time.Now()).AddDate(4, 0, 0).Add(time.Hour): 422,
	} {
		status, body := r.admin("GET", "/api/v1/billing?since="+at.Format(time.RFC3339), nil)
		require.Equal(t, want, status, "%s: %s", at, body)
	}
}
