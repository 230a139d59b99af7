package penstock_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock"
	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/projections/lawtest"
)

// What was closed stays: it is refused by day, with the reason and with what it would come to.
func TestClosedDaysAreNotRepriced(t *testing.T) {
	r, first := aged(t, map[string]string{"retention.events": "6"})
	r.open()
	ask[items[json.RawMessage]](r, "POST", "/api/v1/books/close", map[string]any{"until": midnight(time.Now()).AddDate(0, 0, -1).Format(time.DateOnly)})
	then := bill(t, r, midnight(time.Now()))
	r.apply(map[string]any{"kind": "price", "id": "all", "model": "*", "input": "1", "output": "1"})
	whole := r.reprice(map[string]any{})
	require.Zero(t, whole.Read)
	require.NotEmpty(t, whole.ClosedThrough)

	for _, apply := range []bool{false, true} {
		out := r.reprice(map[string]any{"since": first, "apply": apply})
		require.Zero(t, out.Requests)
		require.Empty(t, out.Lines)
		require.GreaterOrEqual(t, len(out.Refused), 3)
		gone, closed := 0, 0
		for _, d := range out.Refused {
			require.Contains(t, d.Reason, d.Day)
			if strings.Contains(d.Reason, "archive") {
				gone++
				require.Zero(t, d.Requests)
			} else if d.Requests > 0 {
				closed++
				require.NotZero(t, d.Difference)
			}
		}
		require.Positive(t, gone)
		require.Positive(t, closed)
	}
	require.Equal(t, then, bill(t, r, midnight(time.Now())))
	require.Empty(t, ask[items[json.RawMessage]](r, "GET", "/api/v1/events?type=request.repriced", nil).Items)
	equal(t, r)
}

// A day that is closed after it was repriced has the new amounts on the day of use, and says by how much they were moved and when;
// what told so goes with the day, into the archive first, and no figure changes.
func TestClosingsHaveWhatWasRepricedBefore(t *testing.T) {
	first := midnight(time.Now()).AddDate(0, 0, -8).Add(12 * time.Hour)
	r := newRig(t, func(c *penstock.Config) {
		history, err := lawtest.History{Seed: 11, Requests: 220, Start: first, Step: 8 * time.Minute, Repriced: true}.Appends()
		require.NoError(t, err)
		s, err := sqlite.OpenStore(filepath.Join(c.DataDir, "events.db"), sqlite.StoreOptions{})
		require.NoError(t, err)
		lawtest.Commits(t, s, history, 5, 1, 9)
		require.NoError(t, s.Close())
	})
	until := midnight(time.Now())
	then := bill(t, r, until)
	var moved, owed, reposted, upstream, lines, rows money.Amount
	told := ask[items[struct{ Data request.Repriced }]](r, "GET", "/api/v1/events?limit=1000&type=request.repriced", nil).Items
	require.Greater(t, len(told), 20)
	for _, e := range told {
		moved, owed = moved+e.Data.Cost, owed+e.Data.UpstreamCost
	}
	day := until.AddDate(0, 0, -1).Format(time.DateOnly)
	ask[items[books.Closed]](r, "POST", "/api/v1/books/close", map[string]any{"until": day})
	for _, f := range bookOf[books.Closed](r, "books.closed") {
		for _, x := range f.Reposted {
			reposted, upstream = reposted+x.Cost, upstream+x.UpstreamCost
			require.True(t, x.Day >= x.Of && strings.HasPrefix(x.Reprice, "run-"), "%+v", x)
		}
		for _, l := range f.Lines {
			lines += l.Cost
		}
	}
	require.Equal(t, moved, reposted)
	require.Equal(t, owed, upstream)
	for _, l := range ask[items[struct{ Cost money.Amount }]](r, "GET", "/api/v1/billing?by=key&until="+until.Format(time.RFC3339), nil).Items {
		rows += l.Cost
	}
	require.Equal(t, rows, lines)
	require.Equal(t, then, bill(t, r, until))

	for name, value := range map[string]string{"books.archive": "archive", "retention.events": "5"} {
		r.apply(map[string]any{"kind": "setting", "name": name, "value": value})
	}
	ask[items[books.Closed]](r, "POST", "/api/v1/books/close", map[string]any{"until": day})
	archived := equal(t, r)
	require.Positive(t, archived)
	left := ask[items[struct{ Data request.Repriced }]](r, "GET", "/api/v1/events?limit=1000&type=request.repriced", nil).Items
	require.Less(t, len(left), len(told), "they go with their requests")
	require.Equal(t, then, bill(t, r, until))
	r.close()
	for _, name := range []string{"read.db", "read.db-wal", "read.db-shm"} {
		_ = os.Remove(filepath.Join(r.config.DataDir, name)) // the last two are not there after a clean end
	}
	r.open()
	require.Equal(t, archived, equal(t, r))
	require.Equal(t, then, bill(t, r, until))
}
