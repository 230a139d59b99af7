package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// Whatever is read or appended, SQLite finds it by a key, in the order in which it lies there: so no reading grows with the file, but
// for those that ask for all of it.
func TestNoStatementOfTheStoreScansOrSortsATable(t *testing.T) {
	ctx := context.Background()
	s, err := OpenStore(filepath.Join(t.TempDir(), "events.db"), StoreOptions{})
	require.NoError(t, err)
	defer s.Close()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	id := "019d12d7-6a0f-731e-963d-27df638fce17"
	for n := range 6 {
		var batch []events.Append
		for i := range 800 {
			r := events.Row{Stream: fmt.Sprintf("request/%s%04d-731e-963d-27df638fce17", id[:9], 800*n+i), Key: "k", At: at, Terminal: i%2 == 0, Facts: []events.Fact{&request.Resumed{}}}
			require.NoError(t, events.Encode(&r))
			batch = append(batch, events.Append{Rows: []events.Row{r}})
		}
		other := events.Row{Stream: "upstream/u", Version: events.AnyVersion, Request: id, Upstream: "u", At: at, Facts: []events.Fact{&request.Resumed{}}}
		require.NoError(t, events.Encode(&other))
		batch = append(batch, events.Append{Rows: []events.Row{other}}, events.Append{Rows: []events.Row{other}, Secrets: []events.Secret{{ID: "a", Version: int64(n)}}})
		_, err := s.Append(ctx, batch, 0)
		require.NoError(t, err)
		clear(s.tails)
		_, err = s.Append(ctx, batch[len(batch)-3:], 0) // some of which are stored
		require.NoError(t, err)
	}
	for _, newest := range []bool{false, true} {
		for _, q := range []events.Query{
			{}, {Stream: "request/" + id}, {Stream: "upstream/u"}, {Request: id}, {Request: "other"}, {StreamPrefix: "up"}, {Key: "k", Upstream: "u"},
			{Type: "request.resumed"}, {Text: "x"}, {Since: at.Add(-time.Hour), Until: at.Add(time.Hour)}, {After: 40, Limit: 2},
		} {
			q.Newest = newest
			require.NoError(t, s.Find(ctx, q, func(*events.Committed) bool { return true }))
		}
	}
	require.NoError(t, s.After(ctx, 10, func(*events.Committed) bool { return true }))
	require.NoError(t, s.Scan(ctx, 10, func(string) bool { return true }, func([]events.Stored) bool { return true }))
	require.NoError(t, s.Chain(ctx, 10, func(*events.Commit, []events.RawRow) bool { return true }))
	_, err = feedSource{s}.FeedPage(ctx, 10, &events.FeedFilter{}, 20)
	require.NoError(t, err)
	_, err = s.LowWater(ctx, 0)
	require.NoError(t, err)
	_, err = s.Secret(ctx, "a", 0)
	require.NoError(t, err)
	require.NoError(t, s.Probe(ctx))
	removed, err := s.Remove(ctx, events.Removal{First: 1, Last: 100, Through: 4000}, 50)
	require.NoError(t, err)
	require.Positive(t, removed)

	require.Len(t, s.readers.idle, 1)
	seen := 0
	for _, c := range []*conn{s.writer, s.readers.idle[0]} {
		for sql := range c.stmts {
			if !strings.Contains(sql, "SELECT") || strings.Contains(sql, "sqlite_schema") || strings.Contains(sql, "schema_migrations") || strings.Contains(sql, "appended") {
				continue
			}
			seen++
			for _, step := range plan(t, c, sql) {
				if strings.HasPrefix(step, "SCAN CONSTANT ROW") || strings.HasSuffix(sql, "ORDER BY first DESC LIMIT 1") && step == "SCAN commits" {
					continue // no table; from the end up to the first that is right
				}
				require.NotRegexp(t, `^SCAN|TEMP B-TREE`, step, sql)
			}
		}
	}
	require.Greater(t, seen, 15)
}
