package storetest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/events"
)

// link is a copy of a link with its rows.
type link struct {
	events.Commit
	rows []events.RawRow
}

// links is a chain that was read, to be forged.
type links []link

// Chain implements events.Chain.
func (l links) Chain(_ context.Context, after events.Position, yield func(*events.Commit, []events.RawRow) bool) error {
	for _, x := range l {
		if x.First+events.Position(x.N) > after+1 && !yield(&x.Commit, x.rows) {
			return nil
		}
	}
	return nil
}

func chainOf(t testing.TB, s events.Chain, after events.Position) (found links) {
	t.Helper()
	require.NoError(t, s.Chain(context.Background(), after, func(c *events.Commit, rows []events.RawRow) bool {
		x := link{Commit: *c, rows: slices.Clone(rows)}
		for i := range x.rows {
			x.rows[i].Payload = bytes.Clone(x.rows[i].Payload)
		}
		found = append(found, x)
		return true
	}))
	return found
}

func audit(t testing.TB, c events.Chain, a events.Audit) events.Report {
	t.Helper()
	report, err := a.Verify(context.Background(), c)
	require.NoError(t, err)
	require.Equal(t, report.Fault == "", report.Equal)
	require.Equal(t, report.Fault == "", report.FirstBroken == nil)
	return report
}

// history stores commits of several rows with several facts: positions 1-3, 4-8, 9, 10-12, 13.
func history(t testing.TB, s events.Store) {
	t.Helper()
	end := func(stream string, version, n int64) events.Append {
		r := row(t, stream, version, n)
		r.Terminal, r.Request, r.Key, r.Upstream = true, stream, "key-a", "up"
		return one(r)
	}
	put(t, s, one(row(t, "request/a", 0, 1, 2)), one(row(t, "request/b", 0, 3)))
	put(t, s, end("request/a", 2, 4), one(row(t, "node/x", events.AnyVersion, 5)), one(row(t, "request/c", 0, 6, 7)), end("request/b", 1, 8))
	put(t, s, end("request/c", 2, 9))
	put(t, s, one(row(t, "request/d", 0, 10)), one(row(t, "upstream/u", events.AnyVersion, 11, 12)))
	put(t, s, end("request/d", 1, 13))
}

var chains = map[string]func(*testing.T, events.Store){
	"the chain of an empty store holds": func(t *testing.T, s events.Store) {
		require.Empty(t, chainOf(t, s, 0))
		require.True(t, audit(t, s, events.Audit{}).Equal)
	},
	"the chain has every link and row as it is stored": func(t *testing.T, s events.Store) {
		history(t, s)
		whole := chainOf(t, s, 0)
		require.Len(t, whole, 5)
		var h events.Hasher
		var before [32]byte
		var rows []events.RawRow
		for _, l := range whole {
			require.Equal(t, before, l.Previous)
			var sums [][32]byte
			for i := range l.rows {
				require.Equal(t, h.Row(l.rows[i].Position, &l.rows[i].Row), l.rows[i].Hash)
				sums = append(sums, l.rows[i].Hash)
			}
			require.Equal(t, h.Commit(before, l.First, l.N, l.Bounds, sums), l.Hash)
			before, rows = l.Hash, append(rows, l.rows...)
		}
		stored := all(t, s)
		require.Len(t, rows, len(stored))
		for i := range stored {
			require.Equal(t, int64(len(stored[i].Facts)), rows[i].N)
			want := stored[i].Row
			want.Facts = nil
			require.Equal(t, want, rows[i].Row)
		}
	},
	"the chain is read from the link that holds a position": func(t *testing.T, s events.Store) {
		history(t, s)
		for after, want := range map[events.Position]int{0: 5, 2: 5, 3: 4, 7: 4, 8: 3, 11: 2, 12: 1, 13: 0, 99: 0} {
			require.Len(t, chainOf(t, s, after), want, "after %d", after)
		}
		report := audit(t, s, events.Audit{After: 8})
		require.True(t, report.Equal)
		require.Equal(t, events.Position(5), report.Positions)
	},
	"a long chain is read to the end, and no further than it was": func(t *testing.T, s events.Store) {
		for i := range int64(40) {
			var batch []events.Append
			for n := range int64(250) {
				batch = append(batch, one(row(t, fmt.Sprintf("a/%d", i), n, n)))
			}
			put(t, s, batch...)
		}
		n := 0
		require.NoError(t, s.Chain(context.Background(), 0, func(c *events.Commit, rows []events.RawRow) bool {
			require.Len(t, rows, 250)
			if n++; n%10 == 1 {
				put(t, s, one(row(t, "during", events.AnyVersion, 1)))
			}
			return true
		}))
		require.Equal(t, 40, n)
		report := audit(t, s, events.Audit{})
		require.True(t, report.Equal)
		require.Equal(t, events.Position(10004), report.Positions)
	},
	"the report says where the chain ends, and known heads are met": func(t *testing.T, s events.Store) {
		history(t, s)
		whole := chainOf(t, s, 0)
		heads := []events.Head{
			{Position: 13, Hash: whole[4].Hash}, {Position: 3, Hash: whole[0].Hash}, {Position: 9, Hash: whole[2].Hash},
		}
		report := audit(t, s, events.Audit{Heads: heads})
		require.Equal(t, events.Report{
			Positions: 13, Equal: true, Commits: 5, Rows: 10, Heads: 3, Head: events.Head{Position: 13, Hash: whole[4].Hash},
		}, report)
	},
	"an export is checked without the store, and says all that it does": func(t *testing.T, s events.Store) {
		history(t, s)
		odd := row(t, "node/y", 0, 1)
		odd.Types, odd.Payload = "request.resumed", []byte("[{\"upstream\":\n\"\xff\"} ]")
		put(t, s, one(odd))
		_, key, err := ed25519.GenerateKey(nil)
		require.NoError(t, err)
		at := time.UnixMicro(1_772_000_000_000_001)
		var file bytes.Buffer
		head, err := events.Export(context.Background(), s, 1, 14, func(h *events.Head) { h.Sign(key, at) }, &file)
		require.NoError(t, err)
		require.NoError(t, head.Check(events.Sum(key.Public().(ed25519.PublicKey))))
		read, err := events.ReadExport(bytes.NewReader(file.Bytes()))
		require.NoError(t, err)
		require.Equal(t, chainOf(t, s, 0), chainOf(t, read, 0))
		require.Equal(t, &head, read.Head())

		lines := bytes.SplitAfter(file.Bytes(), []byte("\n"))
		for n := range len(lines) - 1 {
			cut := bytes.Join(lines[:n], nil)
			if n == 0 {
				continue
			}
			read, err := events.ReadExport(bytes.NewReader(cut))
			require.NoError(t, err)
			report, err := events.VerifyExport(context.Background(), read, nil)
			require.NoError(t, err)
			require.False(t, report.Equal, "%d lines are an export", n)
			require.Contains(t, []events.Fault{events.Truncated, events.Missing}, report.Fault, "%d lines", n)
		}
		read, err = events.ReadExport(&file)
		require.NoError(t, err)
		report, err := events.VerifyExport(context.Background(), read, []events.Head{head})
		require.NoError(t, err)
		require.True(t, report.Equal, "%+v", report)
		require.Equal(t, events.Position(14), report.Positions)
	},
	"an export of the middle is checked by itself": func(t *testing.T, s events.Store) {
		history(t, s)
		var file bytes.Buffer
		_, err := events.Export(context.Background(), s, 5, 9, nil, &file)
		require.NoError(t, err)
		read, err := events.ReadExport(&file)
		require.NoError(t, err)
		require.Equal(t, events.Position(4), read.First(), "links stay whole")
		report, err := events.VerifyExport(context.Background(), read, []events.Head{{Position: 3}, {Position: 9, Hash: chainOf(t, s, 8)[0].Hash}})
		require.NoError(t, err)
		require.True(t, report.Equal, "%+v", report)
		require.Equal(t, events.Position(6), report.Positions)
		require.Equal(t, 1, report.Heads)
	},
	"removed rows are seen by nobody, and the chain holds over the gap": func(t *testing.T, s events.Store) {
		history(t, s)
		before := chainOf(t, s, 0)
		r := events.Removal{First: 1, Last: 3, Through: 8}
		n, err := s.Remove(context.Background(), r, 2)
		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.Equal(t, "request/a@1 request/b@3 node/x@5 request/c@6 request/c@9 request/d@10 upstream/u@11 request/d@13", places(all(t, s)),
			"ends go first")
		for want := 2; want >= 0; want -= 2 {
			n, err = s.Remove(context.Background(), r, 100)
			require.NoError(t, err)
			require.Equal(t, want, n)
		}
		require.Equal(t, "node/x@5 request/c@6 request/c@9 request/d@10 upstream/u@11 request/d@13", places(all(t, s)))
		require.Equal(t, events.Position(13), head(t, s))
		ctx := context.Background()
		var found []committed
		require.NoError(t, s.Stream(ctx, "request/a", 0, collect(&found)))
		require.NoError(t, s.Find(ctx, events.Query{Request: "request/a"}, collect(&found)))
		require.Empty(t, found)
		require.NoError(t, s.After(ctx, 2, collect(&found)))
		require.Equal(t, "node/x@5 request/c@6 request/c@9 request/d@10 upstream/u@11 request/d@13", places(found))

		report := audit(t, s, events.Audit{Removed: func(p events.Position) bool { return p < 9 }})
		require.True(t, report.Equal, "%+v", report)
		require.Equal(t, int64(4), report.Archived)
		require.Equal(t, events.Position(13), report.Positions)
		require.Equal(t, events.Head{Position: 13, Hash: before[4].Hash}, report.Head)
		report = audit(t, s, events.Audit{Removed: func(p events.Position) bool { return p > 3 }})
		require.Equal(t, events.Missing, report.Fault, "a row that retention did not remove")
		require.Equal(t, events.Position(1), *report.FirstBroken)

		put(t, s, one(row(t, "request/e", 0, 1)), one(row(t, "node/x", events.AnyVersion, 5)))
		require.Equal(t, events.Position(15), head(t, s))
		require.True(t, audit(t, s, events.Audit{}).Equal)
	},
	"a removal stays away from requests that began elsewhere, and from all other streams": func(t *testing.T, s events.Store) {
		history(t, s)
		n, err := s.Remove(context.Background(), events.Removal{First: 6, Last: 10, Through: 13}, 100)
		for n > 0 && err == nil {
			n, err = s.Remove(context.Background(), events.Removal{First: 6, Last: 10, Through: 13}, 100)
		}
		require.NoError(t, err)
		require.Equal(t, "request/a@1 request/b@3 request/a@4 node/x@5 request/b@8 upstream/u@11", places(all(t, s)))
		require.True(t, audit(t, s, events.Audit{}).Equal)
	},
	"appends go on beside a removal, which may be begun again": func(t *testing.T, s events.Store) {
		const requests = 300
		for i := range requests {
			a, b := row(t, fmt.Sprintf("request/%d", i), 0, 1), row(t, fmt.Sprintf("request/%d", i), 1, 2)
			b.Terminal = true
			put(t, s, one(a), one(b))
		}
		done := make(chan error, 1)
		go func() {
			removal := events.Removal{First: 1, Last: requests, Through: requests + 1}
			for {
				n, err := s.Remove(context.Background(), removal, 7)
				if n == 0 || err != nil {
					done <- err
					return
				}
			}
		}()
		for i := range int64(100) {
			put(t, s, one(row(t, "node/x", i, i)))
		}
		require.NoError(t, <-done)
		rows := all(t, s)
		require.Equal(t, requests+1, int(rows[0].Position), "the last of an even number began one before")
		report := audit(t, s, events.Audit{})
		require.True(t, report.Equal, "%+v", report)
		require.Equal(t, int64(requests), report.Archived)
	},
}

// forgeries are what is done to a chain, and what the audit must say. Positions are those of history.
var forgeries = []struct {
	what  string
	forge func(links) links
	fault events.Fault
	first events.Position
}{
	{"a flipped byte in a payload", func(l links) links { l[1].rows[2].Payload[4] ^= 1; return l }, events.Tampered, 6},
	{"a changed stream", func(l links) links { l[1].rows[1].Stream = "node/z"; return l }, events.Tampered, 5},
	{"a changed version", func(l links) links { l[0].rows[1].Version++; return l }, events.Tampered, 3},
	{"a mark taken off", func(l links) links { l[2].rows[0].Terminal = false; return l }, events.Tampered, 9},
	{"a changed time", func(l links) links { l[3].rows[0].At = start.Add(time.Microsecond); return l }, events.Tampered, 10},
	{"a changed key", func(l links) links { l[1].rows[0].Key = "key-b"; return l }, events.Tampered, 4},
	{"a changed upstream", func(l links) links { l[1].rows[0].Upstream = ""; return l }, events.Tampered, 4},
	{"a changed node", func(l links) links { l[4].rows[0].Node = "b"; return l }, events.Tampered, 13},
	{"another number of facts", func(l links) links { l[3].rows[1].N = 1; return l }, events.Tampered, 11},
	{"a row hashed again", func(l links) links {
		r := &l[1].rows[1]
		r.Payload = []byte(`[{"upstream":"x","waited_us":5}]`)
		r.Hash = new(events.Hasher).Row(r.Position, &r.Row)
		return l
	}, events.Tampered, 4},
	{"a row that no reading finds", func(l links) links { l[2].rows[0].Lost = "it is not listed"; return l }, events.Tampered, 9},
	{"a link hashed again", func(l links) links { l[1].Hash[0] ^= 1; return l }, events.Tampered, 4},
	{"a link with another number of facts", func(l links) links { l[4].N = 2; return l }, events.Missing, 14},
	{"a deleted row", func(l links) links { l[1].rows = slices.Delete(l[1].rows, 1, 2); return l }, events.Missing, 5},
	{"a deleted first row", func(l links) links { l[0].rows = l[0].rows[1:]; return l }, events.Missing, 1},
	{"a deleted last row", func(l links) links { l[4].rows = nil; return l }, events.Missing, 13},
	{"a deleted link with its rows", func(l links) links { return slices.Delete(l, 2, 3) }, events.Missing, 9},
	{"a deleted link without its rows", func(l links) links {
		l[1].rows = append(l[1].rows, l[2].rows...)
		return slices.Delete(l, 2, 3)
	}, events.Missing, 9},
	{"a low water that was moved", func(l links) links { l[2].LowWater++; return l }, events.Tampered, 9},
	{"an earliest time that was moved", func(l links) links { l[1].Earliest--; return l }, events.Tampered, 4},
	{"a latest time that was moved", func(l links) links { l[4].Latest++; return l }, events.Tampered, 13},
	{"a deleted first link", func(l links) links { l[0].Commit = events.Commit{}; return l }, events.Missing, 1},
	{"a deleted last link", func(l links) links { l[3].rows = append(l[3].rows, l[4].rows...); return l[:4] }, events.Missing, 13},
	{"two rows that changed places", func(l links) links {
		rows := l[1].rows
		rows[0], rows[3] = rows[3], rows[0]
		rows[0].Position, rows[3].Position = rows[3].Position, rows[0].Position
		return l
	}, events.Reordered, 4},
	{"two rows of different links that changed places", func(l links) links {
		a, b := &l[0].rows[1], &l[4].rows[0]
		*a, *b = *b, *a
		a.Position, b.Position = b.Position, a.Position
		return l
	}, events.Reordered, 3},
	{"two rows written in the wrong order", func(l links) links {
		rows := l[1].rows
		rows[0], rows[1] = rows[1], rows[0]
		return l
	}, events.Reordered, 4},
	{"two links in the wrong order", func(l links) links { l[1], l[2] = l[2], l[1]; return l }, events.Reordered, 4},
}

// forge does to the chain of a store what nobody should, and wants to be told where.
func forge(t *testing.T, s events.Store) {
	history(t, s)
	for _, f := range forgeries {
		t.Run(f.what, func(t *testing.T) {
			report := audit(t, f.forge(chainOf(t, s, 0)), events.Audit{})
			require.False(t, report.Equal)
			require.Equal(t, f.fault, report.Fault, report.Detail)
			require.Equal(t, f.first, *report.FirstBroken, report.Detail)
		})
	}
	whole := chainOf(t, s, 0)
	heads := []events.Head{{Position: 3, Hash: whole[0].Hash}, {Position: 13, Hash: whole[4].Hash}}
	t.Run("a cut-off end is seen through a known head only", func(t *testing.T) {
		cut := chainOf(t, s, 0)[:3]
		require.True(t, audit(t, cut, events.Audit{}).Equal)
		require.True(t, audit(t, cut, events.Audit{Heads: heads[:1]}).Equal)
		report := audit(t, cut, events.Audit{Heads: heads})
		require.Equal(t, events.Truncated, report.Fault)
		require.Equal(t, events.Position(10), *report.FirstBroken)
		require.Equal(t, 1, report.Heads)
		report = audit(t, links{}, events.Audit{Heads: heads})
		require.Equal(t, events.Truncated, report.Fault)
		require.Equal(t, events.Position(1), *report.FirstBroken)
	})
	t.Run("a chain made anew is seen through a known head only, behind the last one that holds", func(t *testing.T) {
		forged := rechain(chainOf(t, s, 0), func(r *events.RawRow) {
			if r.Position == 9 {
				r.Payload = bytes.Replace(r.Payload, []byte(`9`), []byte(`8`), 1)
			}
		})
		require.True(t, audit(t, forged, events.Audit{}).Equal)
		report := audit(t, forged, events.Audit{Heads: heads})
		require.Equal(t, events.Tampered, report.Fault)
		require.Equal(t, events.Position(4), *report.FirstBroken, "what the head at 3 vouches for holds")
		report = audit(t, forged, events.Audit{Heads: []events.Head{{Position: 12, Hash: whole[4].Hash}}})
		require.Equal(t, events.Tampered, report.Fault)
	})
}

// rechain changes rows and makes all hashes anew, as a forger with the whole store in his hands would.
func rechain(l links, change func(*events.RawRow)) links {
	var h events.Hasher
	var before [32]byte
	for i := range l {
		var sums [][32]byte
		for j := range l[i].rows {
			r := &l[i].rows[j]
			change(r)
			r.Hash = h.Row(r.Position, &r.Row)
			sums = append(sums, r.Hash)
		}
		l[i].Previous, l[i].Hash = before, h.Commit(before, l[i].First, l[i].N, l[i].Bounds, sums)
		before = l[i].Hash
	}
	return l
}
