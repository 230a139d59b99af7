package sqlite

import (
	"context"
	"time"

	"github.com/penstock/penstock/events"
)

// pageRows bounds the rows that are read in one snapshot, but for those of one commit, which are read together. A read holds no
// snapshot between two pages, so a slow reader never keeps the write-ahead log from shrinking; rows do not change, and the head
// of its first page bounds what it sees, so that it is as consistent as one snapshot.
var pageRows = 512

// Stream reads the rows of one stream with version ≥ from, in order.
func (s *Store) Stream(ctx context.Context, stream string, from int64, yield func(*events.Committed) bool) error {
	return s.search(ctx, events.Query{Stream: stream}, from, yield)
}

// After reads all rows with a fact after the position.
func (s *Store) After(ctx context.Context, after events.Position, yield func(*events.Committed) bool) error {
	for head, room := events.Position(0), 16; ; room = pageRows + 256 { // the last page brings some more
		page := make([]events.Stored, 0, room)
		err := s.readFrom(ctx, after, &head, func(c *conn) error {
			texts := interned{}
			return eachRow(c, after, head, func(r *row) { page = append(page, r.whole(texts)) }, func() bool { return len(page) < pageRows })
		})
		if err != nil || len(page) == 0 {
			return err
		}
		if more, err := events.HandOn(page, yield); !more || err != nil {
			return err
		}
		after = page[len(page)-1].End()
	}
}

// readFrom runs f in a read snapshot. head is where the chain ends in the first one, and f is not run when nothing is left
// up to there.
func (s *Store) readFrom(ctx context.Context, after events.Position, head *events.Position, f func(*conn) error) error {
	if *head > 0 && after >= *head {
		return ctx.Err()
	}
	return s.read(ctx, func(c *conn) error {
		if *head == 0 {
			end, err := readChain(c)
			if *head = end.head; err != nil || after >= end.head {
				return err
			}
		}
		return f(c)
	})
}

// eachRow visits the rows with a fact after a position that begin up to another one, page by page. more is asked between two pages.
func eachRow(c *conn, after, through events.Position, visit func(*row), more func() bool) error {
	return eachPage(c, after+1, through, false, func(p page) bool {
		rows, r := p.rows(), row{}
		for rows.row(&r) {
			if r.end() > int64(after) {
				visit(&r)
			}
		}
		return more()
	})
}

// Find reads rows that match a filter. Stream and request have an index, key, upstream and type that of blocks, and the
// times narrow the range of positions. A beginning of streams and a text look at every row that is left by the others,
// until the limit is reached.
func (s *Store) Find(ctx context.Context, f events.Query, yield func(*events.Committed) bool) error {
	return s.search(ctx, f, 0, yield)
}

// span is the range of positions, both ends included, outside of which no row can match.
func span(c *conn, f *events.Query, head events.Position) (low, high events.Position, err error) {
	low, high = 1, head
	switch {
	case f.Newest && f.After > 0:
		high = min(high, f.After-1)
	case !f.Newest:
		low = f.After + 1
	}
	switch {
	case f.Newest:
		low = max(low, f.Through)
	case f.Through > 0:
		high = min(high, f.Through)
	}
	if !f.Since.IsZero() {
		first, err := firstReaching(c, micros(f.Since), head)
		if err != nil {
			return 0, 0, err
		}
		low = max(low, first)
	}
	if !f.Until.IsZero() {
		last, err := c.integer(`SELECT first + n - 1 FROM commits WHERE earliest < ? ORDER BY first DESC LIMIT 1`, micros(f.Until))
		if err != nil {
			return 0, 0, err
		}
		high = min(high, events.Position(last))
	}
	return low, high, nil
}

// firstReaching is the first position whose commit has reached a time in its column latest, which never falls: by
// bisection.
func firstReaching(c *conn, at int64, head events.Position) (events.Position, error) {
	low, high := int64(1), int64(head)+1 // the answer is in [low, high]; the end means that none has
	for low < high {
		mid := low + (high-low)/2
		latest, err := latestAt(c, mid)
		if err != nil {
			return 0, err
		}
		if latest >= at {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return events.Position(low), nil
}

// latestAt is the time of the latest row up to the commit that holds a position.
func latestAt(c *conn, at int64) (int64, error) {
	return c.integer(`SELECT latest FROM commits WHERE first <= ? ORDER BY first DESC LIMIT 1`, at)
}

// micros is a filter's time in the unit of the column; what is stored was cut down to it, so a bound is cut up.
func micros(t time.Time) int64 { return t.Add(time.Microsecond - 1).UnixMicro() }

// between binds a range.
func between(begin, end int64) func(*binder) {
	return func(b *binder) {
		b.integer(begin)
		b.integer(end)
	}
}

// interned keeps one string per text that the rows of a page repeat.
type interned map[string]string

func (m interned) of(b []byte) string {
	if s, ok := m[string(b)]; ok {
		return s
	}
	s := string(b)
	m[s] = s
	return s
}
