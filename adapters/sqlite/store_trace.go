package sqlite

import (
	"bytes"
	"math"
	"slices"
	"sort"
	"strconv"

	"github.com/cockroachdb/errors"
	"github.com/ncruces/go-sqlite3"

	"github.com/penstock/penstock/events"
)

const (
	selectPage = `SELECT first, hashes, body FROM pages WHERE first <= ? ORDER BY first DESC LIMIT 1`
	// Parts of the list, for streams of which it has all rows.
	selectSome   = `SELECT position FROM listed WHERE name = ? AND position >= ? AND position <= ? ORDER BY position LIMIT ?`
	selectLatest = `SELECT position FROM listed WHERE name = ? AND position >= ? AND position <= ? ORDER BY position DESC LIMIT ?`
	selectBefore = `SELECT latest FROM commits WHERE first < (SELECT max(first) FROM commits WHERE first <= ?)
		ORDER BY first DESC LIMIT 1`

	pageAt = `coalesce((SELECT first FROM pages WHERE first <= ?1 ORDER BY first DESC LIMIT 1), ?1)`
	// The pages with rows between ?1 and ?2; the first one may begin before ?1.
	selectPages  = `SELECT first, hashes, body FROM pages WHERE first >= ` + pageAt + ` AND first <= ?2 ORDER BY first`
	selectNewest = `SELECT first, hashes, body FROM pages WHERE first >= ` + pageAt + ` AND first <= ?2 ORDER BY first DESC`
)

// eachPage visits the pages with rows between two positions, both included. What a page has is valid until visit returns, which
// may not use the connection; false ends it.
func eachPage(c *conn, from, through events.Position, newest bool, visit func(page) bool) error {
	sql := selectPages
	if newest {
		sql = selectNewest
	}
	return c.each(sql, between(int64(from), int64(through)), func(q *sqlite3.Stmt) bool {
		return visit(page{first: q.ColumnInt64(0), hashes: q.ColumnRawBlob(1), body: q.ColumnRawText(2)})
	})
}

// cursor reads single rows. It keeps the page of the last one, for the next is mostly there, too; it is for one snapshot.
type cursor struct {
	c    *conn
	page page // its own copy; none: first is 0
	rows reading
	at   row // the last one that was read of the page
}

// row is the row at a position, nil when there is none. It is valid until the next call.
func (k *cursor) row(at events.Position) (*row, error) {
	if k.page.first > 0 && int64(at) >= k.page.first {
		if r, behind := k.seek(int64(at)); !behind {
			return r, nil
		}
	}
	k.rows = reading{}
	if some, err := k.page.read(k.c, int64(at)); !some || err != nil {
		k.page.first = 0
		return nil, err
	}
	r, _ := k.seek(int64(at))
	return r, nil
}

// seek looks for a position in the page. behind: all its rows are before it.
func (k *cursor) seek(at int64) (r *row, behind bool) {
	if !k.rows.begun || k.at.position > at {
		k.rows, k.at.position = k.page.rows(), 0
	}
	for k.at.position < at {
		if !k.rows.row(&k.at) {
			return nil, true
		}
	}
	if k.at.position > at || k.at.damaged {
		return nil, false
	}
	return &k.at, false
}

// read reads the page that holds a position, or ends before it; false: there is none.
func (p *page) read(c *conn, at int64) (some bool, err error) {
	err = c.each(selectPage, func(b *binder) { b.integer(at) }, func(q *sqlite3.Stmt) bool {
		some = true
		p.first = q.ColumnInt64(0)
		p.hashes = append(p.hashes[:0], q.ColumnRawBlob(1)...)
		p.body = append(p.body[:0], q.ColumnRawText(2)...)
		return false
	})
	return some, err
}

// trace finds where the rows of a stream are, and those of other streams about its request.
type trace struct {
	cursor
	end    chain                                            // of the snapshot
	under  func(mark uint32, into []int64) ([]int64, error) // offsets in the block under way; nil: its pages are read
	places []events.Position
}

// of are the positions of all rows of a stream, in order, among others.
func (t *trace) of(stream string) ([]events.Position, error) {
	if err := t.listed(stream); err != nil {
		return nil, err
	}
	return t.further(stream, nil)
}

// further adds to the positions that are listed those of the rows that are found by their id. Past the first row for which until
// says so there may be more that are not in it; nil: all.
func (t *trace) further(stream string, until func(*row) bool) ([]events.Position, error) {
	if id, ok := idOf(stream); ok && id.reached(t.end.latest) {
		listed := len(t.places)
		if err := t.walk(stream, id, until); err != nil {
			return nil, err
		}
		if listed > 0 {
			slices.Sort(t.places)
			t.places = slices.Compact(t.places)
		}
	}
	return t.places, nil
}

// listed begins with the positions that are listed under a name.
func (t *trace) listed(name string) (err error) {
	t.places, err = some(t.c, t.places[:0], name, 0, math.MaxInt64, false, -1)
	return err
}

// some appends positions between two others, both included, that are listed under a name: so many at most; negative: all.
func some(c *conn, into []events.Position, name string, low, high events.Position, newest bool, most int) ([]events.Position, error) {
	sql := selectSome
	if newest {
		sql = selectLatest
	}
	err := c.each(sql, func(b *binder) {
		b.text(name)
		b.integer(int64(low))
		b.integer(int64(high))
		b.integer(int64(most))
	}, func(q *sqlite3.Stmt) bool {
		into = append(into, events.Position(q.ColumnInt64(0)))
		return true
	})
	return into, err
}

// walk looks through the blocks from the time of the id on, up to the row that ends the request or the end of the window: those
// behind it are listed.
func (t *trace) walk(stream string, id requestID, until func(*row) bool) error {
	low, err := firstReaching(t.c, id.at-slack, t.end.head)
	if err != nil {
		return err
	}
	full := events.BlockOf(t.end.head + 1)
	var offsets []int64
	for block := events.BlockOf(low); block <= full; block++ {
		before, err := t.c.integer(selectBefore, int64(max(low, events.BlockStart(block))))
		if err != nil || before > id.at+window {
			return err
		}
		switch {
		case block < full:
			offsets, err = t.offsets(block, id.mark(), offsets[:0])
		case t.under != nil:
			offsets, err = t.under(id.mark(), offsets[:0])
		default:
			offsets, err = t.underWay(stream, block, offsets[:0])
		}
		if err != nil {
			return err
		}
		for _, offset := range offsets {
			at := events.BlockStart(block) + events.Position(offset)
			r, err := t.row(at)
			if err != nil {
				return err
			}
			if r == nil || string(r.stream) != stream {
				continue
			}
			t.places = append(t.places, at)
			if r.terminal || until != nil && until(r) {
				return nil
			}
		}
	}
	return nil
}

// offsets are those of the rows of a full block that may be of a stream.
func (t *trace) offsets(block int64, mark uint32, into []int64) ([]int64, error) {
	var wrong error
	err := t.c.each(selectBlock, blockRow(block, events.Term{Kind: streamKind}), func(q *sqlite3.Stmt) bool {
		into, wrong = findMarks(q.ColumnRawText(0), mark, into)
		return false
	})
	return into, errors.CombineErrors(errors.Wrapf(wrong, "search index, block %d", block), err)
}

// streamKind is the kind of the row of a block that tells of its requests: entries of 8 hex digits, the mark, and 3, the offset,
// in order.
const (
	streamKind = "stream"
	entrySize  = 11
)

func findMarks(text []byte, mark uint32, into []int64) ([]int64, error) {
	want := appendEntry(nil, uint64(mark)<<12)[:8]
	entry := func(i int) []byte { return text[i*entrySize : (i+1)*entrySize] }
	n := len(text) / entrySize
	i := sort.Search(n, func(i int) bool { return string(entry(i)[:8]) >= string(want) })
	for ; i < n && string(entry(i)[:8]) == string(want); i++ {
		offset, err := strconv.ParseInt(string(entry(i)[8:]), 16, 64)
		if err != nil {
			return nil, err
		}
		into = append(into, offset)
	}
	return into, nil
}

// appendEntry appends an entry, which is the mark and the offset in 12 bits as a number.
func appendEntry(b []byte, entry uint64) []byte {
	for shift := 4 * (entrySize - 1); shift >= 0; shift -= 4 {
		b = append(b, "0123456789abcdef"[entry>>shift&15])
	}
	return b
}

// underWay finds the rows of a stream in the block that no index knows yet: it reads the pages, but looks closely only where the
// name occurs.
func (t *trace) underWay(stream string, block int64, into []int64) ([]int64, error) {
	start, name := events.BlockStart(block), []byte(stream)
	err := eachPage(t.c, start, t.end.head, false, func(p page) bool {
		if !bytes.Contains(p.body, name) {
			return true
		}
		rows, r := p.rows(), row{}
		for rows.row(&r) {
			if at := events.Position(r.position); at >= start && string(r.stream) == stream {
				into = append(into, int64(at-start))
			}
		}
		return true
	})
	return into, err
}
