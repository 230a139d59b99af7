package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

var appends = map[string]func(*testing.T, events.Store){
	"an empty store has no rows, head 0 and low water 0": func(t *testing.T, s events.Store) {
		require.Zero(t, head(t, s))
		require.Empty(t, all(t, s))
		low, err := s.LowWater(context.Background(), 0)
		require.NoError(t, err)
		require.Zero(t, low)
	},
	"a row reads back as it was appended": func(t *testing.T, s events.Store) {
		want := events.Row{
			Stream: "request/r1", Terminal: true, Node: "node-a", Request: "r1", Key: "key-a", Upstream: "openai",
			At: time.Date(2026, 3, 1, 13, 0, 0, 123456789, time.FixedZone("east", 3600)),
			Facts: []events.Fact{
				&request.Admitted{Ask: request.Ask{Model: "größe \"x\" \x00 🙂"}, Plan: []request.Candidate{{Upstream: "openai"}}},
				&request.Settled{Outcome: request.Completed, Cost: 5},
			},
		}
		require.NoError(t, events.Encode(&want))
		put(t, s, one(want))
		rows := all(t, s)
		require.Len(t, rows, 1)
		got := rows[0]
		require.Equal(t, want.Facts, got.Facts)
		require.Equal(t, time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC), got.At, "UTC, microseconds")
		var h events.Hasher
		require.Equal(t, h.Row(1, &want), got.Hash)
		require.Equal(t, events.Position(2), got.Last())
		got.At, want.At = time.Time{}, time.Time{}
		require.Equal(t, want, got.Row)
	},
	"index columns that were empty come back empty": func(t *testing.T, s events.Store) {
		want := row(t, "node/a", 0, 1)
		want.Node = ""
		put(t, s, one(want))
		require.Equal(t, want, all(t, s)[0].Row)
	},
	"every fact has its own position, from 1, without gaps": func(t *testing.T, s events.Store) {
		r := put(t, s, one(row(t, "a", 0, 1, 2)), one(row(t, "b", 0, 3)))
		require.Equal(t, []events.Result{{First: 1}, {First: 3}}, r)
		refused(t, s, one(row(t, "a", 7, 1)))
		r = put(t, s, events.Append{Rows: []events.Row{row(t, "c", 0, 4, 5, 6), row(t, "d", 0, 7)}}, one(row(t, "e", 0, 8)))
		require.Equal(t, []events.Result{{First: 4}, {First: 8}}, r)
		require.Equal(t, "a@1 b@3 c@4 d@7 e@8", places(all(t, s)))
		require.Equal(t, events.Position(8), head(t, s))
	},
	"a stream goes on at its version": func(t *testing.T, s events.Store) {
		put(t, s, one(row(t, "a", 0, 1, 2)))
		put(t, s, one(row(t, "a", 2, 3)))
		put(t, s, one(row(t, "a", 3, 4, 5)), one(row(t, "a", 5, 6))) // the batch sees its own rows
		require.Equal(t, events.Position(6), head(t, s))
	},
	"AnyVersion is numbered by the store, and the row says how": func(t *testing.T, s events.Store) {
		put(t, s, one(row(t, "a", events.AnyVersion, 1, 2)))
		batch := []events.Append{
			{Rows: []events.Row{row(t, "b", 0, 9), row(t, "a", events.AnyVersion, 3), row(t, "a", events.AnyVersion, 4)}},
			one(row(t, "a", events.AnyVersion, 5)),
		}
		put(t, s, batch...)
		require.Equal(t, int64(0), batch[0].Rows[0].Version)
		require.Equal(t, int64(2), batch[0].Rows[1].Version)
		require.Equal(t, int64(3), batch[0].Rows[2].Version)
		require.Equal(t, int64(4), batch[1].Rows[0].Version)
		var versions []int64
		for _, c := range all(t, s) {
			if c.Stream == "a" {
				versions = append(versions, c.Version)
			}
		}
		require.Equal(t, []int64{0, 2, 3, 4}, versions)
	},
	"AnyVersion never counts as a retry": func(t *testing.T, s events.Store) {
		put(t, s, one(row(t, "a", events.AnyVersion, 1)))
		put(t, s, one(row(t, "a", events.AnyVersion, 1)))
		require.Equal(t, events.Position(2), head(t, s))
	},
	"an empty batch stores nothing": func(t *testing.T, s events.Store) {
		put(t, s)
		require.Zero(t, head(t, s))
	},
	"low water is what the commit of a position was told": func(t *testing.T, s events.Store) {
		commit := func(low events.Position, streams ...string) {
			var batch []events.Append
			for _, name := range streams {
				batch = append(batch, one(row(t, name, 0, 1, 2)))
			}
			_, err := s.Append(context.Background(), batch, low)
			require.NoError(t, err)
		}
		commit(1, "a", "b") // positions 1-4
		commit(3, "c")      // 5-6
		commit(5)           // stores nothing and says nothing
		commit(5, "d")      // 7-8
		for at, want := range map[events.Position]events.Position{1: 1, 4: 1, 5: 3, 6: 3, 7: 5, 8: 5, 99: 5, 0: 5} {
			got, err := s.LowWater(context.Background(), at)
			require.NoError(t, err)
			require.Equal(t, want, got, "at %d", at)
		}
	},
}

var conflicts = map[string]func(*testing.T, events.Store){
	"a version that is not the stream's is a conflict": func(t *testing.T, s events.Store) {
		put(t, s, one(row(t, "a", 0, 1, 2)), one(row(t, "a", 2, 3)))
		for _, version := range []int64{0, 1, 2, 4} {
			refused(t, s, one(row(t, "a", version, 9)))
		}
		refused(t, s, one(row(t, "b", 1, 9))) // a stream that does not exist is at 0
		require.Equal(t, events.Position(3), head(t, s))
	},
	"a conflict does not touch its neighbours": func(t *testing.T, s events.Store) {
		put(t, s, one(row(t, "a", 0, 1)))
		results, err := s.Append(context.Background(), []events.Append{
			one(row(t, "b", 0, 2)), one(row(t, "a", 0, 9)), one(row(t, "c", 5, 9)), one(row(t, "c", 0, 3)),
		}, 0)
		require.NoError(t, err)
		require.NoError(t, results[0].Err)
		require.ErrorIs(t, results[1].Err, events.ErrConflict)
		require.ErrorIs(t, results[2].Err, events.ErrConflict)
		require.NoError(t, results[3].Err)
		require.Equal(t, "a@1 b@2 c@3", places(all(t, s)))
	},
	"a conflict names the stream": func(t *testing.T, s events.Store) {
		put(t, s, one(row(t, "request/a", 0, 1)))
		results, err := s.Append(context.Background(), []events.Append{one(row(t, "request/a", 0, 9))}, 0)
		require.NoError(t, err)
		require.ErrorContains(t, results[0].Err, "request/a")
	},
	"an append of several rows is stored as one or not at all": func(t *testing.T, s events.Store) {
		put(t, s, one(row(t, "a", 0, 1)))
		refused(t, s, events.Append{
			Rows:    []events.Row{row(t, "b", 0, 2), row(t, "c", events.AnyVersion, 3), row(t, "a", 0, 9)},
			Secrets: []events.Secret{{ID: "acc", Version: 1, Sealed: []byte("x"), Digest: []byte("y")}},
		})
		require.Equal(t, "a@1", places(all(t, s)))
		v, err := s.Secret(context.Background(), "acc", 0)
		require.NoError(t, err)
		require.Nil(t, v)
		put(t, s, one(row(t, "b", 0, 2)), one(row(t, "c", 0, 3))) // as if nothing had happened
		require.Equal(t, "a@1 b@2 c@3", places(all(t, s)))
	},
	"an append that meets itself is refused": func(t *testing.T, s events.Store) {
		refused(t, s, events.Append{Rows: []events.Row{row(t, "a", 0, 1), row(t, "a", 0, 2)}})
		put(t, s, events.Append{Rows: []events.Row{row(t, "a", 0, 1), row(t, "a", 1, 2)}})
	},
	"a request ends once": func(t *testing.T, s events.Store) {
		end := func(version int64, n int64) events.Append {
			r := row(t, "request/a", version, n)
			r.Terminal = true
			return one(r)
		}
		put(t, s, one(row(t, "request/a", 0, 1)), end(1, 2))
		refused(t, s, end(2, 3))
		put(t, s, one(row(t, "request/a", 2, 4))) // a late correction is no end
		refused(t, s, end(3, 5))
		refused(t, s, end(events.AnyVersion, 6))
		require.Equal(t, events.Position(3), head(t, s))
	},
	"what a request cost may be told anew behind its end": func(t *testing.T, s events.Store) {
		later := func(version int64, reprice string) events.Append {
			r := row(t, "request/a", version, 1)
			r.Facts = []events.Fact{&request.Repriced{Reprice: reprice, Cost: 5, Changes: []request.Repricing{{N: 1, Position: 2, At: start}}}}
			require.NoError(t, events.Encode(&r))
			return one(r)
		}
		end := row(t, "request/a", 1, 2)
		end.Terminal = true
		put(t, s, one(row(t, "request/a", 0, 1)), one(end), one(row(t, "request/b", 0, 3)))
		put(t, s, later(2, "run-1"), one(row(t, "request/b", 1, 4))) // in one group with a request that goes on
		refused(t, s, later(2, "run-2"))                             // another run has been faster
		put(t, s, later(2, "run-1"))                                 // the answer was lost
		put(t, s, later(3, "run-2"), later(4, "run-3"))
		require.Equal(t, "request/a@1 request/a@2 request/b@3 request/a@4 request/b@5 request/a@6 request/a@7", places(all(t, s)))
		var told []committed
		require.NoError(t, s.Find(context.Background(), events.Query{Type: "request.repriced"}, collect(&told)))
		require.Equal(t, "request/a@4 request/a@6 request/a@7", places(told))
		// They go with their request.
		for n := 1; n > 0; {
			var err error
			n, err = s.Remove(context.Background(), events.Removal{First: 1, Last: 2, Through: 7}, 2)
			require.NoError(t, err)
		}
		require.Equal(t, "request/b@3 request/b@5", places(all(t, s)))
		require.True(t, audit(t, s, events.Audit{}).Equal)
		refused(t, s, later(5, "run-4"))
	},
	"two ends in one batch: the first wins": func(t *testing.T, s events.Store) {
		a, b := row(t, "request/a", 0, 1), row(t, "request/a", 1, 2)
		a.Terminal, b.Terminal = true, true
		results, err := s.Append(context.Background(), []events.Append{one(a), one(b)}, 0)
		require.NoError(t, err)
		require.NoError(t, results[0].Err)
		require.ErrorIs(t, results[1].Err, events.ErrConflict)
	},
}

var retries = map[string]func(*testing.T, events.Store){
	"an append that is stored already counts as success": func(t *testing.T, s events.Store) {
		a := one(row(t, "a", 0, 1, 2))
		b := events.Append{
			Rows:    []events.Row{row(t, "b", 0, 3), row(t, "c", 0, 4, 5)},
			Secrets: []events.Secret{{ID: "acc", Version: 1, Sealed: []byte("x"), Digest: []byte("y")}},
		}
		first := put(t, s, a, b)
		before := all(t, s)
		require.Equal(t, first, put(t, s, a, b))
		require.Equal(t, first[1:], put(t, s, b))
		require.Equal(t, before, all(t, s))
		put(t, s, one(row(t, "a", 2, 6)))
		require.Equal(t, first[:1], put(t, s, a), "also when the stream has gone on")
		require.Equal(t, events.Position(6), head(t, s))
	},
	"an end that is stored already counts as success": func(t *testing.T, s events.Store) {
		end := row(t, "request/a", 1, 2)
		end.Terminal = true
		first := put(t, s, one(row(t, "request/a", 0, 1)), one(end))
		require.Equal(t, first[1:], put(t, s, one(end)))
	},
	"the same append twice in a batch is stored once": func(t *testing.T, s events.Store) {
		r := put(t, s, one(row(t, "a", 0, 1)), one(row(t, "a", 0, 1)))
		require.Equal(t, r[0], r[1])
		require.Equal(t, events.Position(1), head(t, s))
	},
	"an append that differs in anything is a conflict": func(t *testing.T, s events.Store) {
		put(t, s, one(row(t, "a", 0, 1)))
		for what, change := range map[string]func(*events.Row){
			"payload":  func(r *events.Row) { *r = row(t, "a", 0, 2) },
			"facts":    func(r *events.Row) { *r = row(t, "a", 0, 1, 2) },
			"time":     func(r *events.Row) { r.At = r.At.Add(time.Microsecond) },
			"node":     func(r *events.Row) { r.Node = "node-b" },
			"key":      func(r *events.Row) { r.Key = "k" },
			"request":  func(r *events.Row) { r.Request = "r" },
			"upstream": func(r *events.Row) { r.Upstream = "u" },
			"terminal": func(r *events.Row) { r.Terminal = true },
		} {
			t.Log(what)
			r := row(t, "a", 0, 1)
			change(&r)
			refused(t, s, one(r))
		}
	},
	"half of a stored append together with something new is a conflict": func(t *testing.T, s events.Store) {
		put(t, s, one(row(t, "a", 0, 1)))
		refused(t, s, events.Append{Rows: []events.Row{row(t, "a", 0, 1), row(t, "b", 0, 2)}})
		put(t, s, one(row(t, "b", 0, 2)), one(row(t, "c", 0, 3)))
		refused(t, s, events.Append{Rows: []events.Row{row(t, "a", 0, 1), row(t, "c", 0, 3)}}) // stored, but not as one
	},
	"rows with another secret are no retry": func(t *testing.T, s events.Store) {
		with := func(sealed string) events.Append {
			return events.Append{
				Rows:    []events.Row{row(t, "a", 0, 1)},
				Secrets: []events.Secret{{ID: "acc", Version: 1, Sealed: []byte(sealed), Digest: []byte("y")}},
			}
		}
		put(t, s, with("x"))
		refused(t, s, with("z"))
	},
}

var secrets = map[string]func(*testing.T, events.Store){
	"a secret is stored with its fact, one immutable version at a time": func(t *testing.T, s events.Store) {
		ctx := context.Background()
		v1 := events.Secret{ID: "acc", Version: 1, Sealed: []byte{0, 1, 2}, Digest: []byte("d1")}
		v2 := events.Secret{ID: "acc", Version: 2, Sealed: []byte{}, Digest: []byte("d2")}
		put(t, s, events.Append{Rows: []events.Row{row(t, "a", 0, 1)}, Secrets: []events.Secret{v1}})
		put(t, s, events.Append{Rows: []events.Row{row(t, "a", 1, 2)}, Secrets: []events.Secret{v2}})
		for version, want := range map[int64]*events.Secret{0: &v2, 1: &v1, 2: &v2, 3: nil} {
			got, err := s.Secret(ctx, "acc", version)
			require.NoError(t, err)
			require.Equal(t, want, got, "version %d", version)
		}
		none, err := s.Secret(ctx, "other", 0)
		require.NoError(t, err)
		require.Nil(t, none)

		refused(t, s, events.Append{Rows: []events.Row{row(t, "a", 2, 3)}, Secrets: []events.Secret{{ID: "acc", Version: 1, Sealed: []byte("new")}}})
		got, err := s.Secret(ctx, "acc", 1)
		require.NoError(t, err)
		require.Equal(t, &v1, got)
		require.Equal(t, events.Position(2), head(t, s), "the fact of a refused secret is not stored")
	},
}
