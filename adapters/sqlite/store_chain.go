package sqlite

import (
	"context"
	"math"

	"github.com/ncruces/go-sqlite3"

	"github.com/penstock/penstock/events"
)

// chainFacts bounds the facts of the links that are read in one snapshot; one link may be longer.
var chainFacts = int64(4096)

const (
	// A page and the link after it, which says where its last rows end.
	selectLinks = `SELECT first, n, previous, hash, low_water, earliest, latest FROM commits
		WHERE first >= coalesce((SELECT first FROM commits WHERE first <= ?1 ORDER BY first DESC LIMIT 1), ?1)
		ORDER BY first LIMIT 257`
	selectArc = `SELECT position, n, hash FROM archived WHERE position >= ? AND position < ? ORDER BY position`
)

// Chain reads the links of the chain with what is stored of their rows (events.Chain).
func (s *Store) Chain(ctx context.Context, after events.Position, yield func(*events.Commit, []events.RawRow) bool) error {
	head, err := s.Head(ctx)
	if err != nil || after > 0 && head <= after {
		return err
	}
	p := chainPage{from: int64(after) + 1, head: int64(head), whole: after <= 0}
	p.check.full = events.BlockOf(head + 1)
	for !p.done {
		if err := s.read(ctx, p.read); err != nil {
			return err
		}
		for i := range p.links {
			if !yield(&p.links[i].Commit, p.links[i].rows) {
				return nil
			}
		}
	}
	return nil
}

// chainPage is a run of links with their rows. Its memory is used again for the next one.
type chainPage struct {
	from  int64 // the first position that was not handed on
	head  int64 // later links are not looked at
	whole bool  // rows before the first link are handed on, too
	done  bool
	links []link
	end   int64 // where the rows of the last link end, exclusive
	rows  []events.RawRow
	gone  []events.RawRow // archived
	bytes []byte          // of payloads
	texts interned
	check check
}

type link struct {
	events.Commit
	rows []events.RawRow
}

// read fills the page from one snapshot.
func (p *chainPage) read(c *conn) error {
	p.links, p.rows, p.bytes, p.texts = p.links[:0], p.rows[:0], p.bytes[:0], interned{}
	if err := p.readLinks(c); err != nil {
		return err
	}
	if len(p.links) == 0 {
		p.done = true
		if !p.whole {
			return nil
		}
	}
	if p.whole { // what stands before all links belongs to none
		p.links = append([]link{{}}, p.links...)
		p.whole = false
	}
	begin := int64(p.links[0].First)
	if err := p.readRows(c, begin); err != nil {
		return err
	}
	p.from = p.end
	if err := p.look(c); err != nil {
		return err
	}
	if p.links[0].N == 0 && p.links[0].First == 0 && len(p.links[0].rows) == 0 {
		p.links = p.links[1:]
	}
	return nil
}

func (p *chainPage) readLinks(c *conn) error {
	p.end = math.MaxInt64
	err := c.each(selectLinks, func(b *binder) { b.integer(p.from) }, func(q *sqlite3.Stmt) bool {
		first := q.ColumnInt64(0)
		if first > p.head {
			p.end, p.done = first, true
			return false
		}
		if n := len(p.links); n == 256 || n > 0 && first-int64(p.links[0].First) >= chainFacts {
			p.end = first
			return false
		}
		l := link{Commit: events.Commit{First: events.Position(first), N: q.ColumnInt64(1)}}
		copy(l.Previous[:], q.ColumnRawBlob(2))
		copy(l.Hash[:], q.ColumnRawBlob(3))
		l.Bounds = events.Bounds{LowWater: events.Position(q.ColumnInt64(4)), Earliest: q.ColumnInt64(5), Latest: q.ColumnInt64(6)}
		p.links = append(p.links, l)
		return true
	})
	if p.end == math.MaxInt64 {
		p.done = true
	}
	return err
}

// readRows reads the rows from begin to the end of the page and deals them out to the links. Payloads stand in one
// buffer, which may move while it grows: they are cut out of it at the end.
func (p *chainPage) readRows(c *conn, begin int64) error {
	if err := p.readArchived(c, begin); err != nil {
		return err
	}
	d := dealer{p: p}
	gone := p.gone
	last := int64(0) // of the rows so far
	err := eachPage(c, events.Position(begin), events.Position(p.end-1), false, func(stored page) bool {
		if stored.first < begin { // it belongs to a link before
			return true
		}
		if stored.first <= last && d.wanted(stored.first, stored.first) { // hides rows that stand before it
			d.add(events.RawRow{Position: events.Position(stored.first), N: 1, Row: events.Row{Types: damagedTypes}}, nil)
		}
		rows, r := stored.rows(), row{}
		for rows.row(&r) {
			for ; len(gone) > 0 && int64(gone[0].Position) < max(stored.first, r.position); gone = gone[1:] {
				d.archived(&gone[0])
			}
			if d.wanted(stored.first, r.position) {
				raw := p.raw(&r)
				if r.position < stored.first {
					raw.Lost = "it stands in a page that begins behind it"
				}
				d.add(raw, r.payload)
			}
			last = max(last, r.end())
		}
		return true
	})
	for i := range gone {
		d.archived(&gone[i])
	}
	d.finish()
	return err
}

// look finds out which rows of the page no reading would find.
func (p *chainPage) look(c *conn) error {
	before, err := c.integer(selectBefore, int64(p.links[0].First))
	if err != nil {
		return err
	}
	end, err := readChain(c)
	if err != nil {
		return err
	}
	for i := range p.links {
		l := &p.links[i]
		for j := range l.rows {
			r := &l.rows[j]
			if r.Archived || r.Lost != "" || r.Types == damagedTypes {
				continue
			}
			if r.Lost, err = p.check.lost(c, r, before, end); err != nil {
				return err
			}
		}
		if l.N > 0 {
			before = l.Latest
		}
	}
	return nil
}

// readArchived reads what is left of rows that retention has removed.
func (p *chainPage) readArchived(c *conn, begin int64) error {
	p.gone = p.gone[:0]
	return c.each(selectArc, between(begin, p.end), func(q *sqlite3.Stmt) bool {
		r := events.RawRow{Position: events.Position(q.ColumnInt64(0)), N: q.ColumnInt64(1), Archived: true}
		copy(r.Hash[:], q.ColumnRawBlob(2))
		p.gone = append(p.gone, r)
		return true
	})
}

func (p *chainPage) raw(r *row) events.RawRow {
	s := r.stored(p.texts)
	return events.RawRow{Position: s.Position, N: s.N, Hash: s.Hash, Row: s.Row}
}

// dealer gives rows to links in order. Of a link it takes one row more than its facts allow.
type dealer struct {
	p     *chainPage
	at    int // the link
	from  int // its first row
	extra bool
	ends  []int // of the payload of each row in the buffer
}

// wanted moves on to the link that a row at a place belongs to, that of its page, and says whether it is worth reading.
func (d *dealer) wanted(place, position int64) bool {
	links := d.p.links
	for d.at+1 < len(links) && int64(links[d.at+1].First) <= place {
		d.close()
	}
	if d.extra {
		return false
	}
	l := &links[d.at]
	d.extra = position >= int64(l.First)+max(l.N, 0)
	return true
}

func (d *dealer) archived(r *events.RawRow) {
	if at := int64(r.Position); d.wanted(at, at) {
		d.add(*r, nil)
	}
}

func (d *dealer) add(r events.RawRow, payload []byte) {
	d.p.rows = append(d.p.rows, r)
	d.p.bytes = append(d.p.bytes, payload...)
	d.ends = append(d.ends, len(d.p.bytes))
}

// close ends the rows of the link; where they lie is known at the end only.
func (d *dealer) close() {
	d.p.links[d.at].rows = d.p.rows[d.from:len(d.p.rows):len(d.p.rows)]
	d.at, d.from, d.extra = d.at+1, len(d.p.rows), false
}

func (d *dealer) finish() {
	p := d.p
	from, counted := 0, 0
	for d.at < len(p.links) {
		d.close()
	}
	for i, end := range d.ends {
		if !p.rows[i].Archived {
			p.rows[i].Payload = p.bytes[from:end:end]
		}
		from = end
	}
	for i := range p.links { // the rows may have moved while they were gathered
		n := len(p.links[i].rows)
		p.links[i].rows = p.rows[counted : counted+n : counted+n]
		counted += n
	}
}
