package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

var reads = map[string]func(*testing.T, events.Store){
	"a stream is read from a version on, in order": func(t *testing.T, s events.Store) {
		put(t, s, one(row(t, "a", 0, 1, 2)), one(row(t, "b", 0, 9)), one(row(t, "a", 2, 3)), one(row(t, "a", 3, 4)))
		for from, want := range map[int64]string{0: "a@1 a@4 a@5", 1: "a@4 a@5", 2: "a@4 a@5", 3: "a@5", 4: ""} {
			var got []committed
			require.NoError(t, s.Stream(context.Background(), "a", from, collect(&got)))
			require.Equal(t, want, places(got), "from %d", from)
		}
	},
	"after a position come all rows with a later fact": func(t *testing.T, s events.Store) {
		put(t, s, one(row(t, "a", 0, 1, 2, 3)), one(row(t, "b", 0, 4)), one(row(t, "c", 0, 5, 6)))
		for after, want := range map[events.Position]string{
			0: "a@1 b@4 c@5", 1: "a@1 b@4 c@5", 2: "a@1 b@4 c@5", 3: "b@4 c@5", 4: "c@5", 5: "c@5", 6: "", 99: "",
		} {
			var got []committed
			require.NoError(t, s.After(context.Background(), after, collect(&got)))
			require.Equal(t, want, places(got), "after %d", after)
		}
	},
	"a scan reads what is read after a position, and decodes what is asked for": func(t *testing.T, s events.Store) {
		scanner, ok := s.(events.Scanner)
		if !ok {
			t.Skip("it is no Scanner")
		}
		fill(t, s)
		var batch []events.Append
		for i := range 2500 { // more than one page of any store
			batch = append(batch, one(row(t, fmt.Sprintf("s%d", i), 0, 1, 2)))
		}
		put(t, s, batch...)
		for _, after := range []events.Position{0, 1, 2, 6, 3000, head(t, s) - 1, head(t, s)} {
			var want []committed
			require.NoError(t, s.After(context.Background(), after, collect(&want)))
			every, none := events.NewDecoder(nil), events.NewDecoder([]string{"books.closed"})
			n := 0
			require.NoError(t, scanner.Scan(context.Background(), after, every.Wants, func(page []events.Stored) bool {
				for i := range page {
					r := &page[i]
					require.NoError(t, every.Decode(r))
					w := want[n]
					require.Equal(t, []any{w.Position, w.Last(), w.Stream, w.Version, w.At, w.Types, w.Node, w.Facts},
						[]any{r.Position, r.End(), r.Stream, r.Version, r.At, r.Types, r.Node, r.Facts})
					n++
				}
				return true
			}))
			require.Equal(t, len(want), n, "after %d", after)
			require.NoError(t, scanner.Scan(context.Background(), after, none.Wants, func(page []events.Stored) bool {
				for i := range page {
					require.Empty(t, page[i].Payload)
					n--
				}
				return true
			}))
			require.Zero(t, n, "after %d", after)
		}
		pages := 0
		require.NoError(t, scanner.Scan(context.Background(), 0, events.NewDecoder(nil).Wants, func([]events.Stored) bool { pages++; return false }))
		require.Equal(t, 1, pages)
	},
	"reading ends when the reader has had enough": func(t *testing.T, s events.Store) {
		put(t, s, one(row(t, "a", 0, 1)), one(row(t, "a", 1, 2)), one(row(t, "a", 2, 3)))
		ctx := context.Background()
		for what, read := range map[string]func(func(*committed) bool) error{
			"after":  func(y func(*committed) bool) error { return s.After(ctx, 0, y) },
			"stream": func(y func(*committed) bool) error { return s.Stream(ctx, "a", 0, y) },
			"find":   func(y func(*committed) bool) error { return s.Find(ctx, events.Query{}, y) },
		} {
			n := 0
			require.NoError(t, read(func(*committed) bool { n++; return n < 2 }))
			require.Equal(t, 2, n, what)
		}
	},
	"a reader may use the store while it reads, and sees nothing that came after its start": func(t *testing.T, s events.Store) {
		var batch []events.Append
		for i := range 1300 { // more than one page of any store
			batch = append(batch, one(row(t, fmt.Sprintf("s%d", i), 0, 1)))
		}
		put(t, s, batch...)
		n := 0
		require.NoError(t, s.After(context.Background(), 0, func(c *committed) bool {
			if n++; n%100 == 1 {
				put(t, s, one(row(t, "during", events.AnyVersion, 1)))
				require.NotZero(t, head(t, s))
			}
			require.NotEqual(t, "during", c.Stream)
			require.Equal(t, events.Position(n), c.Position)
			return true
		}))
		require.Equal(t, 1300, n)
	},
	"long streams and long finds are read to the end": func(t *testing.T, s events.Store) {
		var batch []events.Append
		for i := range int64(1100) {
			batch = append(batch, one(row(t, "a", i, i)), one(row(t, "b", i, i)))
		}
		put(t, s, batch...)
		var stream, found, newest []committed
		require.NoError(t, s.Stream(context.Background(), "a", 3, collect(&stream)))
		require.Len(t, stream, 1097)
		require.NoError(t, s.Find(context.Background(), events.Query{Stream: "b"}, collect(&found)))
		require.Len(t, found, 1100)
		require.NoError(t, s.Find(context.Background(), events.Query{Newest: true, Limit: 1050}, collect(&newest)))
		require.Len(t, newest, 1050)
		for i := range newest {
			require.Equal(t, events.Position(2200-i), newest[i].Position)
		}
	},
	"a row that cannot be decoded is named, and reading goes on after it": func(t *testing.T, s events.Store) {
		bad := row(t, "catalog/key/k", 0, 1, 2)
		bad.Types = "key.vanished key.vanished"
		put(t, s, one(row(t, "a", 0, 1)), one(bad), one(row(t, "b", 0, 2)))
		ctx := context.Background()
		var got []committed
		err := s.After(ctx, 0, collect(&got))
		var broken *events.DecodeError
		require.ErrorAs(t, err, &broken)
		require.ErrorIs(t, err, events.ErrFact)
		require.NotErrorIs(t, err, events.ErrUnavailable)
		require.Equal(t, "a@1", places(got))
		require.Equal(t, events.Position(2), broken.Position)
		require.Equal(t, events.Position(3), broken.Last)
		require.ErrorContains(t, err, "catalog/key/k")
		require.NoError(t, s.After(ctx, broken.Last, collect(&got)))
		require.Equal(t, "a@1 b@4", places(got))
	},
	"readers beside a writer never see half an append": func(t *testing.T, s events.Store) {
		const rounds = 60
		done := make(chan error, 1)
		go func() {
			for i := range int64(rounds) {
				_, err := s.Append(context.Background(), []events.Append{{Rows: []events.Row{
					row(t, "a", i, i), row(t, "b", i, i), row(t, "c", events.AnyVersion, i),
				}}}, 0)
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		for last := 0; last < 3*rounds; {
			rows := all(t, s)
			require.Zero(t, len(rows)%3, "half an append was seen")
			require.GreaterOrEqual(t, len(rows), last)
			for i := range rows {
				require.Equal(t, events.Position(i+1), rows[i].Position)
			}
			if last = len(rows); last == 3*rounds {
				break
			}
			select {
			case err := <-done:
				require.NoError(t, err)
				done <- nil
			default:
			}
		}
		require.NoError(t, <-done)
	},
	"appends of many goroutines are each stored once": func(t *testing.T, s events.Store) {
		const writers, each = 8, 25
		failures := make(chan error, writers*each)
		for w := range writers {
			go func() {
				for i := range int64(each) {
					r, err := s.Append(context.Background(), []events.Append{
						one(row(t, fmt.Sprintf("own/%d", w), i, i)), one(row(t, "shared", events.AnyVersion, i)),
					}, 0)
					for _, r := range r {
						if err == nil {
							err = r.Err
						}
					}
					failures <- err
				}
			}()
		}
		for range writers * each {
			require.NoError(t, <-failures)
		}
		require.Equal(t, events.Position(2*writers*each), head(t, s))
		var shared []committed
		require.NoError(t, s.Stream(context.Background(), "shared", 0, collect(&shared)))
		require.Len(t, shared, writers*each)
		for i := range shared {
			require.Equal(t, int64(i), shared[i].Version)
		}
	},
}

var finds = map[string]func(*testing.T, events.Store){
	"find filters by all its fields": func(t *testing.T, s events.Store) {
		fill(t, s)
		minute := func(n int) time.Time { return start.Add(time.Duration(n) * time.Minute) }
		for _, c := range []struct {
			what string
			q    events.Query
			want string
		}{
			{"nothing: all", events.Query{}, "request/r1@1 upstream/u1@3 request/r2@4 request/r1@5 request/r1@6 account/a1@7"},
			{"a stream", events.Query{Stream: "request/r1"}, "request/r1@1 request/r1@5 request/r1@6"},
			{"streams by their beginning", events.Query{StreamPrefix: "request/"}, "request/r1@1 request/r2@4 request/r1@5 request/r1@6"},
			{"a request, also in other streams", events.Query{Request: "r1"}, "request/r1@1 upstream/u1@3 request/r1@5 account/a1@7"},
			{"a key", events.Query{Key: "k2"}, "request/r2@4"},
			{"an upstream", events.Query{Upstream: "u1"}, "upstream/u1@3 request/r1@5"},
			{"a type, also beside another one", events.Query{Type: "attempt.dispatched"}, "request/r1@1"},
			{"a type with a schema number", events.Query{Type: "attempt.failed", After: 90}, ""},
			{"the start of a type's name is none", events.Query{Type: "attempt"}, ""},
			{"the end of a type's name is none", events.Query{Type: "dispatched"}, ""},
			{"since", events.Query{Since: minute(3)}, "request/r1@6 account/a1@7"},
			{"until is exclusive", events.Query{Until: minute(1)}, "request/r1@1 request/r1@5"},
			{"a row that was committed late", events.Query{Since: minute(0), Until: minute(1)}, "request/r1@1 request/r1@5"},
			{"since between two microseconds", events.Query{Since: minute(3).Add(time.Nanosecond)}, "account/a1@7"},
			{"since between two microseconds of one commit", events.Query{Since: minute(1).Add(time.Nanosecond), Until: minute(3)}, "request/r2@4"},
			{"until between two microseconds", events.Query{Until: minute(0).Add(time.Nanosecond)}, "request/r1@1 request/r1@5"},
			{"since the future", events.Query{Since: minute(99)}, ""},
			{"until long ago", events.Query{Until: minute(-99)}, ""},
			{"after", events.Query{After: 5}, "request/r1@6 account/a1@7"},
			{"limit", events.Query{Limit: 2}, "request/r1@1 upstream/u1@3"},
			{"limit with a filter", events.Query{Request: "r1", Limit: 3}, "request/r1@1 upstream/u1@3 request/r1@5"},
			{"newest", events.Query{Newest: true, Limit: 2}, "account/a1@7 request/r1@6"},
			{"newest before a position", events.Query{Newest: true, After: 6, Limit: 2}, "request/r1@5 request/r2@4"},
			{"newest of a stream", events.Query{Newest: true, Stream: "request/r1"}, "request/r1@6 request/r1@5 request/r1@1"},
			{"newest of a time", events.Query{Newest: true, Until: minute(3)}, "request/r1@5 request/r2@4 upstream/u1@3 request/r1@1"},
			{"through", events.Query{Through: 4}, "request/r1@1 upstream/u1@3 request/r2@4"},
			{"a range", events.Query{After: 1, Through: 5}, "upstream/u1@3 request/r2@4 request/r1@5"},
			{"newest through", events.Query{Newest: true, After: 6, Through: 3}, "request/r1@5 request/r2@4 upstream/u1@3"},
			{"a text that is in no fact", events.Query{Text: "no such word"}, ""},
			{"filters together", events.Query{Request: "r1", Upstream: "u1", Since: minute(1)}, "upstream/u1@3"},
			{"a quote is only a quote", events.Query{Stream: "x' OR 1=1 --", Type: "%"}, ""},
		} {
			var got []committed
			require.NoError(t, s.Find(context.Background(), c.q, collect(&got)))
			require.Equal(t, c.want, places(got), c.what)
		}
	},
	"find reads whole rows": func(t *testing.T, s events.Store) {
		fill(t, s)
		var found []committed
		require.NoError(t, s.Find(context.Background(), events.Query{}, collect(&found)))
		require.Equal(t, all(t, s), found)
	},
}

// fill stores a small history in several commits.
func fill(t *testing.T, s events.Store) {
	t.Helper()
	add := func(stream, requestID, key, upstream string, minute int, facts ...events.Fact) events.Append {
		r := events.Row{
			Stream: stream, Version: events.AnyVersion, Request: requestID, Key: key, Upstream: upstream,
			At: start.Add(time.Duration(minute) * time.Minute), Facts: facts,
		}
		require.NoError(t, events.Encode(&r))
		return one(r)
	}
	put(t, s, add("request/r1", "r1", "k1", "", 0, &request.Admitted{}, &request.Dispatched{N: 1}))
	put(t, s, add("upstream/u1", "r1", "", "u1", 1, &request.Resumed{}), add("request/r2", "r2", "k2", "u2", 2, &request.Rejected{}))
	put(t, s, add("request/r1", "r1", "k1", "u1", 0, &request.Resumed{}))
	put(t, s, add("request/r1", "", "k1", "", 3, &request.Settled{}))
	put(t, s, add("account/a1", "r1", "", "", 4, &request.Resumed{}))
}
