package storetest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/events"
)

// read asks both stores the same questions.
func (l *lives) read(questions int) {
	ctx := context.Background()
	h := head(l, l.oracle)
	require.Equal(l, h, head(l, l.other))
	var rows []committed
	require.NoError(l, l.oracle.After(ctx, 0, collect(&rows)))
	l.equal("after 0", rows, func(y func(*committed) bool) error { return l.other.After(ctx, 0, y) })
	border := func() events.Position { // at, before and behind the ends of rows and blocks
		at := events.Position(l.Int64N(int64(h) + 3))
		if len(rows) > 0 && l.IntN(2) == 0 {
			c := &rows[l.IntN(len(rows))]
			at = []events.Position{c.Position, c.Last()}[l.IntN(2)]
		}
		if l.IntN(4) == 0 {
			at = events.BlockStart(events.BlockOf(at))
		}
		return max(0, at+events.Position(l.IntN(3)-1))
	}
	line := func() (t time.Time) {
		if len(l.lines) > 0 && l.IntN(3) == 0 {
			t = time.UnixMicro(l.lines[l.IntN(len(l.lines))] + l.Int64N(3) - 1).Add(time.Duration(l.IntN(2)) * time.Duration(l.IntN(1000)))
		}
		return t
	}
	for range questions {
		at, from := border(), l.Int64N(4)*l.Int64N(9)
		var a *life
		if a = l.list[l.IntN(len(l.list))]; l.IntN(30) == 0 {
			a = &life{}
			a.name = "request/" + l.uuid(a)
		}
		l.ask(fmt.Sprint("after ", at), func(s events.Store, y func(*committed) bool) error { return s.After(ctx, at, y) })
		l.ask(fmt.Sprintf("stream %q from %d", a.name, from), func(s events.Store, y func(*committed) bool) error { return s.Stream(ctx, a.name, from, y) })
		q := events.Query{Since: line(), Until: line(), Newest: l.IntN(2) == 0, Limit: l.IntN(2) * (1 + l.IntN(40)),
			Through: border() * events.Position(l.IntN(2)), After: border() * events.Position(l.IntN(2))}
		switch own, is := strings.CutPrefix(a.name, events.RequestStreams); l.IntN(4) {
		case 0:
			if q.Request = a.name; is {
				q.Request = own
			}
		case 1:
			q.Stream = a.name
		case 2:
			q.Key, q.Upstream = l.pick("", "k1", "k2", l.odd()), l.pick("", "", "u1", l.odd())
			q.Type = l.pick("", "", "request.resumed", "request.progressed")
		default:
			q.StreamPrefix, q.Text = l.pick("", "request/", "upstream/\xff", "\x00"), l.pick("", "", "größe", `"ticket"`)
		}
		l.ask(fmt.Sprintf("find %+v", q), func(s events.Store, y func(*committed) bool) error { return s.Find(ctx, q, y) })
		if l.IntN(4) == 0 {
			l.turn(q)
		}
		wantLow, err := l.oracle.LowWater(ctx, at)
		require.NoError(l, err)
		gotLow, err := l.other.LowWater(ctx, at)
		require.NoError(l, err)
		require.Equal(l, wantLow, gotLow, "low water at %d", at)
	}
}

func (l *lives) ask(what string, read func(events.Store, func(*committed) bool) error) {
	var want []committed
	require.NoError(l, read(l.oracle, collect(&want)), what)
	l.equal(what, want, func(y func(*committed) bool) error { return read(l.other, y) })
}

// equal compares rows one by one: what is told of thousands that differ helps nobody.
func (l *lives) equal(what string, want []committed, read func(func(*committed) bool) error) {
	n := 0
	require.NoError(l, read(func(c *committed) bool {
		require.Less(l, n, len(want), "%s: more than there are: %q@%d", what, c.Stream, c.Position)
		if w := &want[n]; w.Position != c.Position || w.Hash != c.Hash || l.IntN(8) == 0 {
			require.Equal(l, w.Position, c.Position, "%s: row %d, %q", what, n, w.Stream)
			require.Equal(l, *w, *c, "%s: row %d", what, n)
		}
		n++
		return true
	}), what)
	require.Len(l, want, n, "%s: rows are missing", what)
}

// turn goes through the pages of a search, each from the last row of the one before.
func (l *lives) turn(q events.Query) {
	whole, pages := q, []committed{}
	whole.Limit = 0
	for q.Limit = 1 + l.IntN(200); ; {
		var page []committed
		require.NoError(l, l.other.Find(context.Background(), q, collect(&page)))
		if pages = append(pages, page...); len(page) < q.Limit {
			break
		}
		q.After = page[len(page)-1].Last()
		if q.Newest {
			q.After = page[len(page)-1].Position
		}
	}
	l.equal(fmt.Sprintf("pages of %+v", whole), pages, func(y func(*committed) bool) error {
		return l.oracle.Find(context.Background(), whole, y)
	})
}

// chains compares the links, and what is stored of their rows.
func (l *lives) chains() {
	type link struct {
		events.Commit
		rows []events.RawRow
	}
	read := func(s events.Store, after events.Position) (links []link) {
		require.NoError(l, s.Chain(context.Background(), after, func(c *events.Commit, rows []events.RawRow) bool {
			copied := make([]events.RawRow, len(rows))
			for i := range rows {
				copied[i] = rows[i]
				copied[i].Payload = append([]byte(nil), rows[i].Payload...)
			}
			links = append(links, link{*c, copied})
			return true
		}))
		return links
	}
	h := head(l, l.oracle)
	for _, after := range []events.Position{0, events.Position(l.Int64N(int64(h))), h - 1, h, h + 1} {
		want, got := read(l.oracle, after), read(l.other, after)
		require.Len(l, got, len(want), "links after %d", after)
		for i := range want {
			require.Equal(l, want[i].Commit, got[i].Commit, "links after %d", after)
			require.Len(l, got[i].rows, len(want[i].rows), "rows of %+v", want[i].Commit)
			for j := range want[i].rows {
				require.Equal(l, want[i].rows[j], got[i].rows[j], "links after %d", after)
			}
		}
	}
	report, err := events.Audit{}.Verify(context.Background(), l.other)
	require.NoError(l, err)
	require.True(l, report.Equal, "%+v", report)
}
