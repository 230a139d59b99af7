package sqlite

import (
	"slices"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/events"
)

const (
	insertBlock = `INSERT INTO blocks (block, kind, value, offsets) VALUES (?, ?, ?, ?)`
	deleteBlock = `DELETE FROM blocks WHERE block = ?`
	selectBlock = `SELECT offsets FROM blocks WHERE block = ? AND kind = ? AND value = ?`
)

// blockRow binds the key of a row of the index.
func blockRow(number int64, t events.Term) func(*binder) {
	return func(b *binder) {
		b.integer(number)
		b.text(t.Kind)
		b.text(t.Value)
	}
}

// block gathers what the index says of a block.
type block struct {
	events.Block
	streams []uint64 // of requests with a UUIDv7: mark and offset, see appendEntry
}

func (b *block) begin(number int64) {
	b.Begin(number)
	b.streams = b.streams[:0]
}

func (b *block) note(at events.Position, id requestID) {
	b.streams = append(b.streams, uint64(id.mark())<<12|uint64(at%events.BlockSize))
}

// blocks is the block under way, as far as this store has seen it. The zero value is that of an empty store.
type blocks struct {
	block
	end    chain // up to which it was gathered; where the chain ends elsewhere it holds for nothing
	absent bool  // its rows before those were not gathered: they are read when it fills up, or a stream is looked up in it
}

// at turns to the block where the chain ends, unless it was gathered up to there.
func (w *blocks) at(end chain) {
	if w.end != end {
		w.begin(events.BlockOf(end.head + 1))
		w.end, w.absent = end, true
	}
}

// gather makes the block under way known as the file has it, up to the end of the chain.
func (w *blocks) gather(c *conn, end chain) error {
	w.at(end)
	if !w.absent {
		return nil
	}
	w.begin(w.Number)
	if err := readTerms(c, &w.block, end.head); err != nil {
		return err
	}
	w.absent = false
	return nil
}

// under finds rows of a stream in the block under way.
func (g *group) under(mark uint32, into []int64) ([]int64, error) {
	w := &g.s.blocks
	if err := w.gather(g.c, g.s.chain); err != nil {
		return nil, err
	}
	for _, entry := range w.streams {
		if uint32(entry>>12) == mark {
			into = append(into, int64(entry%events.BlockSize))
		}
	}
	return into, nil
}

// index adds the rows of the group to the block under way and stores the blocks that it fills.
func (g *group) index(end chain) error {
	w, was := &g.s.blocks, g.s.chain
	w.at(was)
	if w.absent && events.BlockOf(end.head+1) > w.Number {
		if err := w.gather(g.c, was); err != nil {
			return err
		}
	}
	w.end = end
	for i := range g.rows {
		p := &g.rows[i]
		if err := w.turn(g.c, events.BlockOf(p.at)); err != nil {
			return err
		}
		if w.absent {
			continue
		}
		w.Add(p.at, p.row.Types, p.row.Key, p.row.Upstream)
		if p.regular {
			w.note(p.at, p.id)
		}
	}
	return w.turn(g.c, events.BlockOf(g.next))
}

// turn stores the block under way when another one has begun.
func (w *blocks) turn(c *conn, number int64) error {
	if number == w.Number {
		return nil
	}
	err := writeBlock(c, &w.block)
	w.begin(number)
	return err
}

func writeBlock(c *conn, b *block) error {
	for _, r := range b.Rows() {
		if err := writeBlockRow(c, b.Number, r); err != nil {
			return err
		}
	}
	return writeStreams(c, b)
}

// writeStreams writes where the block's requests are.
func writeStreams(c *conn, b *block) error {
	if len(b.streams) == 0 {
		return nil
	}
	slices.Sort(b.streams)
	entries := make([]byte, 0, entrySize*len(b.streams))
	for _, entry := range b.streams {
		entries = appendEntry(entries, entry)
	}
	return writeBlockRow(c, b.Number, events.BlockRow{Term: events.Term{Kind: streamKind}, Offsets: string(entries)})
}

func writeBlockRow(c *conn, number int64, r events.BlockRow) error {
	err := c.exec(insertBlock, func(b *binder) {
		b.integer(number)
		b.text(r.Kind)
		b.text(r.Value)
		b.text(r.Offsets)
	})
	return errors.Wrapf(err, "search index, block %d", number)
}

// readTerms gathers the rows that are stored of a block, up to a position.
func readTerms(c *conn, b *block, through events.Position) error {
	start := events.BlockStart(b.Number)
	through = min(through, events.BlockStart(b.Number+1)-1)
	texts := interned{}
	return eachPage(c, start, through, false, func(p page) bool {
		rows, r := p.rows(), row{}
		for rows.row(&r) {
			at := events.Position(r.position)
			if at < start || at > through || r.damaged {
				continue
			}
			b.Add(at, texts.of(r.types), texts.of(r.key), texts.of(r.upstream))
			if id, ok := idOf(r.stream); ok {
				b.note(at, id)
			}
		}
		return true
	})
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
		b := block{}
		b.begin(n)
		if err := readTerms(c, &b, s.chain.head); err != nil {
			return nil, err
		}
		if err := writeBlock(c, &b); err != nil {
			return nil, err
		}
	}
	return due, nil
}
