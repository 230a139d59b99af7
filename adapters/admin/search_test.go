package admin_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/events"
)

// looked counts the rows that a search may have looked at.
type looked struct {
	*memory.Store
	most events.Position
}

func (l *looked) Find(ctx context.Context, q events.Query, yield func(*events.Committed) bool) error {
	if q.Text != "" {
		from := q.After
		if q.Newest && from == 0 {
			from, _ = l.Head(ctx)
		}
		l.most = max(l.most, max(q.Through, from)-min(q.Through, from))
	}
	return l.Store.Find(ctx, q, yield)
}

// A search for a text goes through everything in pages of bounded work, in both directions, and meets each row once,
// also one that is stored between two pages.
func TestASearchForATextGoesThroughEverythingInPagesOfBoundedWork(t *testing.T) {
	const rows, each = 1500, 100 // 150,000 positions
	store := &looked{Store: memory.NewStore()}
	add := func(from, to int) {
		var batch []events.Append
		for n := from; n < to; n++ {
			r := events.Row{Stream: "upstream/u", Version: events.AnyVersion, At: time.Unix(int64(n), 0).UTC(), Upstream: "u"}
			for i := range each {
				by := "failures"
				if i == 40 && n%350 == 10 {
					by = fmt.Sprintf("the needle of %d", n)
				}
				r.Facts = append(r.Facts, &breaker.Opened{Upstream: "u", By: by})
			}
			require.NoError(t, events.Encode(&r))
			batch = append(batch, events.Append{Rows: []events.Row{r}})
		}
		results, err := store.Append(context.Background(), batch, 1)
		require.NoError(t, err)
		require.NoError(t, results[0].Err)
	}
	add(0, rows)
	search := func(newest bool, limit int, between func(page int)) (found []string, pages int) {
		q := events.Query{Text: "needle of", Upstream: "u", Newest: newest, Limit: limit}
		for {
			page, next, err := admin.FindEvents(context.Background(), store, q)
			require.NoError(t, err)
			for _, e := range page {
				found = append(found, strings.Split(strings.SplitN(string(e.Data), "needle of ", 2)[1], `"`)[0])
			}
			if pages++; next == 0 {
				return found, pages
			}
			between(pages)
			q.After = next
		}
	}
	quiet := func(int) {}
	want := []string{"10", "360", "710", "1060", "1410"}
	found, pages := search(false, 100, quiet)
	require.Equal(t, want, found)
	require.Equal(t, 3, pages)
	require.LessOrEqual(t, store.most, events.Position(51_000))
	found, _ = search(false, 1, quiet)
	require.Equal(t, want, found)
	backwards, pages := search(true, 2, quiet)
	require.Equal(t, []string{"1410", "1060", "710", "360", "10"}, backwards)
	require.Greater(t, pages, 2)
	found, _ = search(false, 100, func(page int) {
		if page == 2 {
			add(rows, rows+300)
		}
	})
	require.Equal(t, append(want, "1760"), found)
	none, next, err := admin.FindEvents(context.Background(), store, events.Query{Text: "needle of", Upstream: "nobody", Limit: 5})
	require.NoError(t, err)
	require.Zero(t, next)
	require.Empty(t, none)
	require.Error(t, admin.CheckText("a\x00b"))
	require.Error(t, admin.CheckText(strings.Repeat("x", 201)))
	require.NoError(t, admin.CheckText(`"code":"é`))
}
