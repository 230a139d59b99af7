package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/events"
)

// While retention takes rows out of pages, deletes pages and makes the index anew, and a second process appends, every reading has each
// row that stays once and in order: by position, by key through the index, newest first, of a stream, in the feed and in the chain.
func TestReadingsBesideRemovalAndAppendsMissNothing(t *testing.T) {
	t.Cleanup(sqlite.Small())
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "events.db")
	o := sqlite.StoreOptions{BusyTimeout: time.Minute}
	s, beside := openStore(t, path, o), openStore(t, path, o)
	born := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	named := func(stream, key string, facts int) events.Append {
		r := row(t, stream, 0)
		r.Key, r.At = key, born
		for len(r.Facts) < facts {
			r.Facts = append(r.Facts, r.Facts[0])
		}
		require.NoError(t, events.Encode(&r))
		return one(r)[0]
	}
	type kept struct {
		facts int
		key   string
	}
	var stay sync.Map // rows by position
	put := func(to *sqlite.Store, batch []events.Append, which func(i int) bool) {
		results, err := to.Append(ctx, batch, 1)
		if err != nil {
			t.Error(err)
			return
		}
		for i, r := range results {
			if which(i) {
				stay.Store(r.First, kept{len(batch[i].Rows[0].Facts), batch[i].Rows[0].Key})
			}
		}
	}
	for i := range 120 { // two blocks and a half; every fourth row goes, and whole commits
		var batch []events.Append
		for j := range 20 {
			name := fmt.Sprintf("request/gone-%d-%d", i, j)
			if j%2 == 0 {
				name = "request/" + idAt(born, 100*i+j)
			}
			if j%4 > 0 && i%10 > 0 {
				name = fmt.Sprintf("kept/%d-%d", i, j)
			}
			batch = append(batch, named(name, []string{"k1", "k2"}[j%2], 1+j%9))
		}
		put(s, batch, func(j int) bool { return j%4 > 0 && i%10 > 0 })
	}
	removal := events.Removal{First: 1, Last: head(t, s), Through: head(t, s)}
	var working atomic.Int64
	var done sync.WaitGroup
	work := func(f func(round int) (more bool)) {
		working.Add(1)
		done.Go(func() {
			defer working.Add(-1)
			for round := 0; f(round); round++ {
			}
		})
	}
	work(func(int) bool {
		n, err := s.Remove(ctx, removal, 3)
		if err != nil {
			t.Error(err)
		}
		return n > 0
	})
	work(func(round int) bool {
		put(beside, []events.Append{named(fmt.Sprintf("kept/%d", round), "k1", 1+round%5), named(fmt.Sprintf("kept/x%d", round), "k2", 1)}, func(int) bool { return true })
		return round < 60
	})
	readings := map[string]func(y func(at events.Position, n int) bool) error{
		"after": func(y func(events.Position, int) bool) error {
			return s.After(ctx, 0, func(c *events.Committed) bool { return y(c.Position, len(c.Facts)) })
		},
		"keys": func(y func(events.Position, int) bool) error {
			return s.Find(ctx, events.Query{Key: "k2"}, func(c *events.Committed) bool { return y(c.Position, len(c.Facts)) })
		},
		"newest": func(y func(events.Position, int) bool) error {
			return s.Find(ctx, events.Query{Key: "k1", Newest: true}, func(c *events.Committed) bool { return y(-c.Position, len(c.Facts)) })
		},
		"scan": func(y func(events.Position, int) bool) error {
			return s.Scan(ctx, 0, func(string) bool { return true }, func(page []events.Stored) bool {
				for i := range page {
					y(page[i].Position, int(page[i].N))
				}
				return true
			})
		},
		"feed": func(y func(events.Position, int) bool) error {
			for after := events.Position(0); ; {
				p, err := s.FeedPage(ctx, after, &events.FeedFilter{}, 5)
				for i := range p.Rows {
					y(p.Rows[i].Position, strings.Count(p.Rows[i].Types, " ")+1)
				}
				if err != nil || !p.More {
					return err
				}
				after = p.Through
			}
		},
	}
	rounds := 0
	for more := true; more; rounds++ {
		more = working.Load() > 0
		for what, read := range readings {
			want := map[events.Position]kept{}
			stay.Range(func(at, is any) bool { want[at.(events.Position)] = is.(kept); return true })
			seen, last := map[events.Position]int{}, events.Position(-1<<62)
			require.NoError(t, read(func(at events.Position, n int) bool {
				require.Greater(t, at, last, what)
				last = at
				seen[max(at, -at)] = n
				return true
			}))
			for at, is := range want {
				if (what != "keys" || is.key == "k2") && (what != "newest" || is.key == "k1") {
					require.Equal(t, is.facts, seen[at], "%s: the row at %d", what, at)
				}
			}
		}
		report, err := events.Audit{}.Verify(ctx, beside)
		require.NoError(t, err)
		require.True(t, report.Equal, "%+v", report)
	}
	done.Wait()
	require.Greater(t, rounds, 2)
	require.NoError(t, s.After(ctx, 0, func(c *events.Committed) bool {
		_, stays := stay.LoadAndDelete(c.Position)
		require.True(t, stays, "%s is removed", c.Stream)
		return true
	}))
	stay.Range(func(at, _ any) bool { t.Errorf("the row at %d is gone", at); return true })
}
