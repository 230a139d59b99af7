package sqlite

import (
	"context"

	"github.com/cockroachdb/errors"
	"github.com/ncruces/go-sqlite3"

	"github.com/penstock/penstock/events"
)

// chainFacts bounds the facts of the links that are read in one snapshot; one link may be longer.
const chainFacts = 4096

const (
	// A page and the link after it, which says where its last rows end.
	selectLinks = `SELECT first, n, previous, hash, low_water, earliest, latest FROM commits
		WHERE first >= coalesce((SELECT first FROM commits WHERE first <= ?1 ORDER BY first DESC LIMIT 1), ?1)
		ORDER BY first LIMIT 257`
	selectRaw = `SELECT ` + eventColumns + ` FROM events WHERE position >= ? AND position < ? ORDER BY position`
	selectArc = `SELECT position, n, hash FROM archived WHERE position >= ? AND position < ? ORDER BY position`
)

// Chain reads the links of the chain with what is stored of their rows (events.Chain).
func (s *Store) Chain(ctx context.Context, after events.Position, yield func(*events.Commit, []events.RawRow) bool) error {
	head, err := s.Head(ctx)
	if err != nil || after > 0 && head <= after {
		return err
	}
	p := chainPage{from: int64(after) + 1, head: int64(head), whole: after <= 0}
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
	bytes []byte // of payloads
	texts interned
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
	if p.links[0].N == 0 && p.links[0].First == 0 && len(p.links[0].rows) == 0 {
		p.links = p.links[1:]
	}
	return nil
}

func (p *chainPage) readLinks(c *conn) error {
	p.end = 1<<63 - 1
	q, err := c.stmt(selectLinks)
	if err != nil {
		return err
	}
	if err := q.BindInt64(1, p.from); err != nil {
		return err
	}
	for q.Step() {
		first := q.ColumnInt64(0)
		if first > p.head {
			p.end, p.done = first, true
			break
		}
		if n := len(p.links); n == 256 || n > 0 && first-int64(p.links[0].First) >= chainFacts {
			p.end = first
			break
		}
		l := link{Commit: events.Commit{First: events.Position(first), N: q.ColumnInt64(1)}}
		copy(l.Previous[:], q.ColumnRawBlob(2))
		copy(l.Hash[:], q.ColumnRawBlob(3))
		l.Bounds = events.Bounds{LowWater: events.Position(q.ColumnInt64(4)), Earliest: q.ColumnInt64(5), Latest: q.ColumnInt64(6)}
		p.links = append(p.links, l)
	}
	if p.end == 1<<63-1 {
		p.done = true
	}
	return errors.CombineErrors(q.Err(), q.Reset())
}

// readRows reads the rows from begin to the end of the page and deals them out to the links. Payloads stand in one
// buffer, which may move while it grows: they are cut out of it at the end.
func (p *chainPage) readRows(c *conn, begin int64) error {
	raw, err := ranged(c, selectRaw, begin, p.end)
	if err != nil {
		return err
	}
	arc, err := ranged(c, selectArc, begin, p.end)
	if err != nil {
		return err
	}
	d := dealer{p: p}
	more, gone := raw.Step(), arc.Step()
	for more || gone {
		if gone && (!more || arc.ColumnInt64(0) < raw.ColumnInt64(0)) {
			if d.wanted(arc.ColumnInt64(0)) {
				r := events.RawRow{Position: events.Position(arc.ColumnInt64(0)), N: arc.ColumnInt64(1), Archived: true}
				copy(r.Hash[:], arc.ColumnRawBlob(2))
				d.add(r, nil)
			}
			gone = arc.Step()
			continue
		}
		if d.wanted(raw.ColumnInt64(0)) {
			r, payload := p.scan(raw)
			d.add(r, payload)
		}
		more = raw.Step()
	}
	d.finish()
	return errors.CombineErrors(errors.CombineErrors(raw.Err(), raw.Reset()), errors.CombineErrors(arc.Err(), arc.Reset()))
}

func ranged(c *conn, sql string, begin, end int64) (*sqlite3.Stmt, error) {
	q, err := c.stmt(sql)
	if err != nil {
		return nil, err
	}
	return q, errors.CombineErrors(q.BindInt64(1, begin), q.BindInt64(2, end))
}

// scan reads a row; the payload aliases the statement's.
func (p *chainPage) scan(q *sqlite3.Stmt) (r events.RawRow, payload []byte) {
	var s events.Stored
	scanColumns(&s, q, p.texts)
	r = events.RawRow{Position: s.Position, N: s.N, Hash: s.Hash, Row: s.Row}
	return r, q.ColumnRawText(12)
}

// dealer gives rows to links in order. Of a link it takes one row more than its facts allow.
type dealer struct {
	p     *chainPage
	at    int // the link
	from  int // its first row
	extra bool
	ends  []int // of the payload of each row in the buffer
}

// wanted moves on to the link that a position belongs to and says whether the row is worth reading.
func (d *dealer) wanted(position int64) bool {
	links := d.p.links
	for d.at+1 < len(links) && int64(links[d.at+1].First) <= position {
		d.close()
	}
	if d.extra {
		return false
	}
	l := &links[d.at]
	d.extra = position >= int64(l.First)+max(l.N, 0)
	return true
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

const (
	// Ends go first, so that what is left of a stream always has its beginning, by which it is known. The unary plus
	// keeps the search on the range of positions.
	selectRemovable = `SELECT position FROM events WHERE position > ?3 AND position <= ?4
		AND +stream >= 'request/' AND +stream < 'request0'
		AND EXISTS (SELECT 1 FROM events AS beginning WHERE beginning.stream = events.stream
			AND beginning.version = 0 AND beginning.position BETWEEN ?1 AND ?2)
		ORDER BY position DESC LIMIT ?5`
	archiveRow = `INSERT INTO archived (position, n, hash) SELECT position, n, hash FROM events WHERE position = ?`
	deleteRow  = `DELETE FROM events WHERE position = ?`
)

// Remove takes away rows of a removal (events.Store). Between two calls appends have their turn.
func (s *Store) Remove(ctx context.Context, r events.Removal, limit int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	removed := 0
	var indexed []int64
	err := s.write(ctx, func(c *conn) error {
		var gone []int64
		var err error
		if s.swept != r { // what lies behind the last beginning is a part of what is there
			if gone, err = removable(c, r, r.Last, r.Through, limit); err != nil {
				return err
			}
		}
		if len(gone) == 0 {
			s.swept = r
			if gone, err = removable(c, r, r.First-1, r.Last, limit); err != nil {
				return err
			}
		}
		for _, position := range gone {
			for _, sql := range []string{archiveRow, deleteRow} {
				if _, err := c.integer(sql, position); err != nil {
					return err
				}
			}
		}
		removed = len(gone)
		indexed, err = s.reindex(c, gone)
		return err
	})
	if err != nil {
		return 0, err
	}
	s.thinned.Done(indexed)
	return removed, nil
}

// removable are positions of rows of a removal in (after, through], from the end.
func removable(c *conn, r events.Removal, after, through events.Position, limit int) (list []int64, err error) {
	q, err := c.stmt(selectRemovable)
	if err != nil {
		return nil, err
	}
	b := binder{stmt: q}
	for _, n := range []int64{int64(r.First), int64(r.Last), int64(after), int64(through), int64(limit)} {
		b.integer(n)
	}
	if b.err != nil {
		return nil, b.err
	}
	for q.Step() {
		list = append(list, q.ColumnInt64(0))
	}
	return list, errors.CombineErrors(q.Err(), q.Reset())
}
