package requestlog

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/penstock/penstock/projections"
)

// Lines is a read model as a page sees it: one state of it, or states of which none is older than the one before.
type Lines interface {
	// Marked says whether all lines have their marks.
	Marked() (bool, error)
	// Having are blocks that have all marks, and those that are unsure, at most n.
	Having(marks []Mark, n int) ([]int64, error)
	// Spans are at most n in blocks that may have lines that match, in descending order, all behind the one named, none that ends
	// before the time from, and none that begins behind the time to. Both are microseconds since 1970.
	Spans(in Sought, behind Span, from, to int64, n int) ([]Span, error)
	// Newest hands on the newest lines of blocks that match, newest first, as rows of Requests that are valid until yield
	// returns, at most as many as the query's limit.
	Newest(blocks []int64, yield func(row []projections.Value) error) error
}

// Sought says by their marks which blocks may have lines that match. The zero value knows of none: each may.
type Sought struct {
	Marks, Areas []Mark  // that such a block has, and its area
	Few          bool    // those that have them are listed
	Blocks       []int64 // all of them, where they are few
}

// seek asks the marks, unless the query wants nothing that is marked or lines are still being marked.
func seek(q *Query, from Lines) (in Sought, err error) {
	marks := q.Marks()
	if len(marks) == 0 {
		return in, nil
	}
	if whole, err := from.Marked(); err != nil || !whole {
		return in, err
	}
	in.Marks, in.Areas = marks, q.AreaMarks()
	in.Blocks, err = from.Having(marks, MarksMax+1)
	in.Few = len(in.Blocks) <= MarksMax
	return in, err
}

// blocksMax bounds the blocks that are looked at in one go.
const blocksMax = 256

// Page reads the lines that match a checked query, newest first. It looks at blocks of lines from that with the newest line
// on, until all that are left are older than the page's last line.
func Page(q *Query, from Lines) ([]Entry, error) {
	in, err := seek(q, from)
	if err != nil {
		return nil, err
	}
	p := page{limit: q.Limit, seen: map[int64]bool{}}
	oldest, newest := q.times()
	unsure, err := from.Spans(in, Span{math.MaxInt64, math.MaxInt64, math.MaxInt64}, math.MaxInt64, newest, math.MaxInt32)
	if err != nil {
		return nil, err
	}
	blocks := p.unseen(unsure)
	behind := Span{High: endOfMinute(newest), Block: math.MaxInt64, Minute: math.MaxInt64}
	for n := 2 + q.Limit/64; ; n = min(2*n, blocksMax) { // a block has about 85 lines of usual requests
		spans, err := from.Spans(in, behind, oldest, newest, n+1)
		if err != nil {
			return nil, err
		}
		ahead := int64(math.MinInt64) // what is left is not newer
		if len(spans) > n {
			behind, ahead, spans = spans[n-1], spans[n].High, spans[:n]
		}
		if blocks = append(blocks, p.unseen(spans)...); len(blocks) > 0 {
			if err := from.Newest(blocks, p.take); err != nil {
				return nil, err
			}
			p.order()
		}
		if ahead == math.MinInt64 || p.ends(ahead) {
			return p.entries()
		}
		blocks = blocks[:0]
	}
}

// times are those of the oldest and of the newest line that may match, in microseconds since 1970.
func (q *Query) times() (oldest, newest int64) {
	oldest, newest = math.MinInt64, math.MaxInt64-1
	up := func(t time.Time) int64 { return t.Add(time.Microsecond - 1).UnixMicro() } // lines have no finer times
	if !q.Since.IsZero() {
		oldest = up(q.Since)
	}
	if !q.Until.IsZero() {
		newest = up(q.Until) - 1
	}
	if !q.Before.IsZero() {
		newest = min(newest, q.Before.At.UnixMicro())
	}
	return oldest, newest
}

// endOfMinute is the highest time that a span with this one in it may have.
func endOfMinute(us int64) int64 {
	if us >= math.MaxInt64-minuteMicros {
		return math.MaxInt64 - 1 // but for the unsure
	}
	return (minuteOf(us)+1)*minuteMicros - 1
}

// page are the newest lines of the blocks that have been looked at.
type page struct {
	limit int
	seen  map[int64]bool
	rows  [][]projections.Value
}

// unseen are the blocks of spans that have not been looked at.
func (p *page) unseen(spans []Span) (blocks []int64) {
	for _, s := range spans {
		if !p.seen[s.Block] {
			p.seen[s.Block] = true
			blocks = append(blocks, s.Block)
		}
	}
	return blocks
}

func (p *page) take(row []projections.Value) error {
	p.rows = append(p.rows, slices.Clone(row))
	return nil
}

// order puts the newest line first and forgets what is beyond the page.
func (p *page) order() {
	slices.SortFunc(p.rows, func(a, b []projections.Value) int {
		return cmp.Or(b[colAt].Compare(a[colAt]), b[colPosition].Compare(a[colPosition]))
	})
	if len(p.rows) > p.limit {
		clear(p.rows[p.limit:])
		p.rows = p.rows[:p.limit]
	}
}

// ends says that no line that is not newer than the time belongs to the page. One of the same time may.
func (p *page) ends(ahead int64) bool {
	return len(p.rows) == p.limit && p.rows[p.limit-1][colAt].Int() > ahead
}

func (p *page) entries() ([]Entry, error) {
	entries := make([]Entry, 0, len(p.rows))
	for _, row := range p.rows {
		e, err := FromRow(row)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}
