package penstock_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
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
