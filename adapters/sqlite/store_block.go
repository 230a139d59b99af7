package sqlite

import (
	"context"

	"github.com/cockroachdb/errors"
	"github.com/ncruces/go-sqlite3"

	"github.com/penstock/penstock/events"
)

const (
	insertBlock = `INSERT INTO blocks (block, kind, value, offsets) VALUES (?, ?, ?, ?)`
	deleteBlock = `DELETE FROM blocks WHERE block = ?`
	selectBlock = `SELECT offsets FROM blocks WHERE block = ? AND kind = ? AND value = ?`
	selectTerms = `SELECT position, types, key, upstream FROM events WHERE position >= ? AND position <= ? ORDER BY position`
)

// blocks is the block under way, as far as this store has seen it. The zero value is that of an empty store.
type blocks struct {
	events.Block
	end    chain // up to which it was gathered; where the chain ends elsewhere it holds for nothing
	absent bool  // its rows before those were not gathered: they are read when it fills up
}

// index adds the rows of a commit to the block under way and stores the blocks that it fills. The results say which
// appends it stored: those that begin where the one before ended.
func (g *group) index(batch []events.Append, results []events.Result, end chain) error {
	w, was := &g.s.blocks, g.s.chain
	next := was.head + 1
	if w.end != was {
		w.Begin(events.BlockOf(next))
		w.absent = true
	}
	if w.absent && events.BlockOf(end.head+1) > w.Number {
		if err := readTerms(g.c, &w.Block, was.head); err != nil {
			return err
		}
		w.absent = false
	}
	w.end = end
	for i := range batch {
		if results[i].Err != nil || results[i].First != next {
			continue
		}
		for j := range batch[i].Rows {
			r := &batch[i].Rows[j]
			if err := w.turn(g.c, events.BlockOf(next)); err != nil {
				return err
			}
			if !w.absent {
				w.Add(next, r.Types, r.Key, r.Upstream)
			}
			next += events.Position(len(r.Facts))
		}
	}
	return w.turn(g.c, events.BlockOf(next))
}

// turn stores the block under way when another one has begun.
func (w *blocks) turn(c *conn, number int64) error {
	if number == w.Number {
		return nil
	}
	err := writeBlock(c, &w.Block)
	w.Begin(number)
	return err
}

func writeBlock(c *conn, b *events.Block) error {
	q, err := c.stmt(insertBlock)
	if err != nil {
		return err
	}
	for _, r := range b.Rows() {
		bind := binder{stmt: q}
		bind.integer(b.Number)
		bind.text(r.Kind)
		bind.text(r.Value)
		bind.text(r.Offsets)
		if bind.err != nil {
			return bind.err
		}
		if err := q.Exec(); err != nil {
			return errors.Wrapf(err, "search index, block %d", b.Number)
		}
	}
	return nil
}

// readTerms gathers the rows that are stored of a block, up to a position.
func readTerms(c *conn, b *events.Block, through events.Position) error {
	q, err := ranged(c, selectTerms, int64(events.BlockStart(b.Number)), int64(min(through, events.BlockStart(b.Number+1)-1)))
	if err != nil {
		return err
	}
	texts := interned{}
	for q.Step() {
		b.Add(events.Position(q.ColumnInt64(0)), texts.of(q.ColumnRawText(1)), texts.of(q.ColumnRawText(2)), texts.of(q.ColumnRawText(3)))
	}
	return errors.CombineErrors(q.Err(), q.Reset())
}

// reindex makes the index anew for some of the full blocks of which rows were removed, and says which.
func (s *Store) reindex(c *conn, removed []int64) (due []int64, err error) {
	s.blocks.end = chain{first: -1} // rows of the block under way may be gone
	for _, at := range removed {
		s.thinned.Note(events.Position(at))
	}
	due = s.thinned.Due(events.BlockOf(s.chain.head + 1))
	for _, n := range due {
		if _, err := c.integer(deleteBlock, n); err != nil {
			return nil, err
		}
		b := events.Block{Number: n}
		if err := readTerms(c, &b, s.chain.head); err != nil {
			return nil, err
		}
		if err := writeBlock(c, &b); err != nil {
			return nil, err
		}
	}
	return due, nil
}

const (
	// What a page of a search looks at in one snapshot at most: rows, and so many for each block.
	searchMax     = 8192
	searchedBlock = 8
)

// search is a reading through the index: block by block, and of each the rows that have all terms.
type search struct {
	query     events.Query
	terms     []events.Term
	low, high events.Position // what is left
	full      int64           // blocks before it are in the index
	offsets   events.Offsets
	found     []events.Position
}

// search reads rows that match a filter with terms, as Find does.
func (s *Store) search(ctx context.Context, f events.Query, terms []events.Term, yield func(*events.Committed) bool) error {
	var q *search
	given := 0
	for q == nil || q.low <= q.high {
		var page []events.Stored
		err := s.read(ctx, func(c *conn) (err error) {
			if q == nil {
				if q, err = newSearch(c, f, terms); err != nil {
					return err
				}
			}
			most := pageRows
			if f.Limit > 0 {
				most = min(most, f.Limit-given)
			}
			page, err = q.page(c, most)
			return err
		})
		if err != nil {
			return err
		}
		if more, err := events.HandOn(page, yield); !more || err != nil {
			return err
		}
		if given += len(page); f.Limit > 0 && given == f.Limit {
			return nil
		}
	}
	return nil
}

func newSearch(c *conn, f events.Query, terms []events.Term) (*search, error) {
	end, err := readChain(c)
	if err != nil {
		return nil, err
	}
	q := &search{query: f, terms: terms, full: events.BlockOf(end.head + 1)}
	q.low, q.high, err = span(c, f, end.head)
	return q, err
}

// page reads at most so many rows. It may find none though more are left.
func (q *search) page(c *conn, most int) (page []events.Stored, err error) {
	texts := interned{}
	for looked := 0; q.low <= q.high && len(page) < most && looked < searchMax; {
		block, first, last := events.BlockSpan(q.low, q.high, q.query.Newest)
		before := len(page)
		if block >= q.full {
			first, last = max(q.low, events.BlockStart(q.full)), q.high // whatever is under way
			if page, err = q.under(c, page, first, last, most); err != nil {
				return nil, err
			}
			looked += int(last - first)
		} else {
			n := 0
			if page, n, err = q.block(c, page, texts, block, first, last, most); err != nil {
				return nil, err
			}
			looked += searchedBlock + n
		}
		if len(page) == most && len(page) > before { // there may be more behind it
			first, last = page[len(page)-1].Position, page[len(page)-1].Position
		}
		if q.query.Newest {
			q.high = first - 1
		} else {
			q.low = last + 1
		}
	}
	return page, nil
}

// under looks at the rows that are in no full block.
func (q *search) under(c *conn, page []events.Stored, first, last events.Position, most int) ([]events.Stored, error) {
	p := pageQuery{conn: c, limit: most - len(page)}
	p.find(q.query, first, last)
	return p.rows(page)
}

// block appends the rows of a full block that match, and says at how many it has looked.
func (q *search) block(c *conn, page []events.Stored, texts interned, block int64, first, last events.Position, most int) ([]events.Stored, int, error) {
	if err := q.narrow(c, block); err != nil || q.offsets.Len() == 0 {
		return page, 0, err
	}
	q.found = q.offsets.Positions(q.found[:0], block, first, last, q.query.Newest)
	if len(q.found) == 0 {
		return page, 0, nil
	}
	p := pageQuery{conn: c, limit: 1}
	p.find(q.query, q.found[0], q.found[0])
	stmt, err := p.bound()
	if err != nil {
		return nil, 0, err
	}
	for i, at := range q.found {
		if err := errors.CombineErrors(stmt.BindInt64(1, int64(at)), stmt.BindInt64(2, int64(at))); err != nil {
			return nil, 0, err
		}
		if stmt.Step() {
			page = append(page, events.Stored{})
			scanRow(&page[len(page)-1], stmt, texts)
		}
		if err := errors.CombineErrors(stmt.Err(), stmt.Reset()); err != nil {
			return nil, 0, err
		}
		if len(page) == most {
			return page, i + 1, nil
		}
	}
	return page, len(q.found), nil
}

// narrow finds the rows of a full block that have all terms.
func (q *search) narrow(c *conn, block int64) error {
	q.offsets.Reset()
	for _, t := range q.terms {
		stmt, err := c.stmt(selectBlock)
		if err != nil {
			return err
		}
		b := binder{stmt: stmt}
		b.integer(block)
		b.text(t.Kind)
		b.text(t.Value)
		if b.err != nil {
			return b.err
		}
		text := ""
		if stmt.Step() {
			text = stmt.ColumnText(0)
		}
		if err := errors.CombineErrors(stmt.Err(), stmt.Reset()); err != nil {
			return err
		}
		if err := q.offsets.Narrow(text); err != nil {
			return errors.Wrapf(err, "block %d", block)
		}
		if q.offsets.Len() == 0 {
			return nil
		}
	}
	return nil
}

// bound is the statement with its arguments.
func (q *pageQuery) bound() (*sqlite3.Stmt, error) {
	stmt, err := q.conn.stmt(q.sql)
	if err != nil {
		return nil, err
	}
	b := binder{stmt: stmt}
	for _, a := range q.args {
		switch a := a.(type) {
		case string:
			b.text(a)
		case int64:
			b.integer(a)
		}
	}
	return stmt, b.err
}
