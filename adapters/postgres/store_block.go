package postgres

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/cockroachdb/errors"
	"github.com/jackc/pgx/v5"

	"github.com/penstock/penstock/events"
)

const insertBlock = `INSERT INTO blocks (block, kind, value, offsets)
	SELECT $1, kind, value, offsets FROM unnest($2::text[], $3::text[], $4::text[]) AS r (kind, value, offsets)`

const selectOffsets = `SELECT block, offsets FROM blocks WHERE block = ANY($1) AND kind = $2 AND value = $3`

// blocks is the block under way, as far as this store has seen it. The zero value is that of an empty store.
type blocks struct {
	events.Block
	end    chain // up to which it was gathered; where the chain ends elsewhere it holds for nothing
	absent bool  // its rows before those were not gathered: they are read when it fills up
}

// index adds the rows of the commit to the block under way, and to the batch the blocks that they fill.
func (g *group) index(ctx context.Context, c *pgx.Conn, b *pgx.Batch, end chain) error {
	w, was := &g.s.blocks, g.s.chain
	next := was.head + 1
	if w.end != was {
		w.Begin(events.BlockOf(next))
		w.absent = true
	}
	if w.absent && events.BlockOf(end.head+1) > w.Number {
		if err := readTerms(ctx, c, &w.Block, was.head); err != nil {
			return err
		}
		w.absent = false
	}
	w.end = end
	for i := range g.rows {
		r := &g.rows[i]
		w.turn(b, events.BlockOf(r.position))
		if !w.absent {
			w.Add(r.position, text(r.Types), text(r.Key), text(r.Upstream)) // as they are stored
		}
	}
	w.turn(b, events.BlockOf(end.head+1))
	return nil
}

// turn queues the block under way when another one has begun.
func (w *blocks) turn(b *pgx.Batch, number int64) {
	if number != w.Number {
		queueBlock(b, &w.Block)
		w.Begin(number)
	}
}

func queueBlock(b *pgx.Batch, block *events.Block) {
	rows := block.Rows()
	kinds, values, offsets := make([]string, len(rows)), make([]string, len(rows)), make([]string, len(rows))
	for i, r := range rows {
		kinds[i], values[i], offsets[i] = r.Kind, r.Value, r.Offsets
	}
	b.Queue(insertBlock, block.Number, kinds, values, offsets)
}

// readTerms gathers the rows that are stored of a block, up to a position.
func readTerms(ctx context.Context, c *pgx.Conn, b *events.Block, through events.Position) error {
	const sql = `SELECT position, types, coalesce(key, ''), coalesce(upstream, '') FROM events
		WHERE position >= $1 AND position <= $2 AND day = ANY($3) ORDER BY position`
	low, high := events.BlockStart(b.Number), min(through, events.BlockStart(b.Number+1)-1)
	if low > high {
		return nil
	}
	days, err := daysBetween(ctx, c, low, high)
	if err != nil {
		return err
	}
	rows, err := c.Query(ctx, sql, int64(low), int64(high), days)
	if err != nil {
		return err
	}
	var at events.Position
	var types, key, upstream string
	_, err = pgx.ForEachRow(rows, []any{&at, &types, &key, &upstream}, func() error {
		b.Add(at, types, key, upstream)
		return nil
	})
	return err
}

// reindex makes the index anew for some of the full blocks of which rows were removed, and says which.
func (s *Store) reindex(ctx context.Context, c *pgx.Conn, removed []int64) (due []int64, err error) {
	s.blocks.end = chain{first: -1} // rows of the block under way may be gone
	for _, at := range removed {
		s.thinned.Note(events.Position(at))
	}
	due = s.thinned.Due(events.BlockOf(s.chain.head + 1))
	b := &pgx.Batch{}
	for _, n := range due {
		block := events.Block{Number: n}
		if err := readTerms(ctx, c, &block, s.chain.head); err != nil {
			return nil, err
		}
		b.Queue(`DELETE FROM blocks WHERE block = $1`, n)
		queueBlock(b, &block)
	}
	if len(due) == 0 {
		return nil, nil
	}
	return due, c.SendBatch(ctx, b).Close()
}

const (
	// What one round of a search looks at: blocks, at first few of them, for most searches end there, and rows.
	blocksFirst = 4
	blocksMax   = 512
	foundMax    = 512

	roundsMax = 32 // of a page
)

// search is a reading through the index: some blocks at a time, and of these the rows that have all terms.
type search struct {
	filter    events.Query
	terms     []events.Term
	days      []span
	low, high events.Position   // what is left
	found     []events.Position // before it: rows that have the terms, in the order of reading
	full      int64             // blocks before it are in the index
	step      int64             // blocks of the next round
}

func newSearch(ctx context.Context, c *pgx.Conn, f events.Query, terms []events.Term) (*search, error) {
	head, days, err := readDays(ctx, c)
	if err != nil {
		return nil, err
	}
	if d, one := dayOfPrefix(f.StreamPrefix); one {
		days = slices.DeleteFunc(days, func(s span) bool { return s.day != d })
	}
	q := &search{filter: f, terms: terms, days: days, full: events.BlockOf(head + 1), step: blocksFirst}
	q.low, q.high, err = bounds(ctx, c, f, head)
	return q, err
}

func (q *search) more() bool { return len(q.found) > 0 || q.low <= q.high }

// page reads at most so many rows. It may find none though more are left.
func (q *search) page(ctx context.Context, c *pgx.Conn, page []events.Stored, most int) (_ []events.Stored, err error) {
	for round := 0; round < roundsMax && len(page) < most && q.more(); round++ {
		block, _, _ := events.BlockSpan(q.low, q.high, q.filter.Newest)
		switch {
		case len(q.found) > 0:
			page, err = q.take(ctx, c, page, most)
		case block >= q.full:
			page, err = q.under(ctx, c, page, most)
		default:
			err = q.look(ctx, c)
		}
		if err != nil {
			return nil, err
		}
	}
	return page, nil
}

// passed moves on behind a range of positions.
func (q *search) passed(first, last events.Position) {
	if q.filter.Newest {
		q.high = first - 1
	} else {
		q.low = last + 1
	}
}

// under reads rows that are in no full block.
func (q *search) under(ctx context.Context, c *pgx.Conn, page []events.Stored, most int) ([]events.Stored, error) {
	low, high := max(q.low, events.BlockStart(q.full)), q.high
	a := question{filter: q.filter, newest: q.filter.Newest, segments: segments(q.days, low, high, daysMax)}
	if a.newest {
		slices.Reverse(a.segments)
	}
	page, err := a.rows(ctx, c, page, most)
	if err != nil {
		return nil, err
	}
	if len(page) == most { // there may be more behind it
		low, high = page[most-1].Position, page[most-1].Position
	}
	q.passed(low, high)
	return page, nil
}

// look asks the index about some blocks.
func (q *search) look(ctx context.Context, c *pgx.Conn) error {
	blocks := make([]int64, 0, q.step)
	low, high := q.low, q.high
	for int64(len(blocks)) < q.step && q.low <= q.high {
		block, first, last := events.BlockSpan(q.low, q.high, q.filter.Newest)
		if block >= q.full {
			break
		}
		blocks = append(blocks, block)
		q.passed(first, last)
	}
	offsets, err := q.offsets(ctx, c, blocks)
	if err != nil {
		return err
	}
	var found []events.Position
	for _, n := range blocks {
		if o := offsets[n]; o != nil {
			found = o.Positions(found, n, low, high, q.filter.Newest)
		}
	}
	if len(found) < foundMax {
		q.step = min(2*q.step, blocksMax)
	}
	q.found = found
	return nil
}

// offsets are the rows of blocks that have all terms.
func (q *search) offsets(ctx context.Context, c *pgx.Conn, blocks []int64) (map[int64]*events.Offsets, error) {
	all := map[int64]*events.Offsets{}
	for i, t := range q.terms {
		rows, err := c.Query(ctx, selectOffsets, blocks, t.Kind, text(t.Value))
		if err != nil {
			return nil, err
		}
		having := map[int64]*events.Offsets{}
		blocks = blocks[:0:0]
		var n int64
		var list string
		_, err = pgx.ForEachRow(rows, []any{&n, &list}, func() error {
			o := all[n]
			if i == 0 {
				o = &events.Offsets{}
			}
			if err := o.Narrow(list); err != nil {
				return errors.Wrapf(err, "block %d", n)
			}
			if o.Len() > 0 {
				having[n] = o
				blocks = append(blocks, n)
			}
			return nil
		})
		if err != nil || len(having) == 0 {
			return nil, err
		}
		all = having
	}
	return all, nil
}

// take looks at rows that were found.
func (q *search) take(ctx context.Context, c *pgx.Conn, page []events.Stored, most int) ([]events.Stored, error) {
	f := &q.filter
	n := most - len(page)
	if f.Text != "" || f.StreamPrefix != "" || !f.Since.IsZero() || !f.Until.IsZero() { // some of them may not match
		n = foundMax
	}
	n = min(n, len(q.found))
	places := q.found[:n]
	sql, args := q.sql(places)
	rows, err := scanRows(ctx, c, nil, sql, args)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(rows, func(a, b events.Stored) int {
		if f.Newest {
			a, b = b, a
		}
		return cmp.Compare(a.Position, b.Position)
	})
	if room := most - len(page); len(rows) > room {
		rows = rows[:room]
		n = slices.Index(places, rows[room-1].Position) + 1
	}
	q.found = q.found[n:]
	return append(page, rows...), nil
}

// sql is the statement for rows at places, which may have been removed or not match the filter.
func (q *search) sql(places []events.Position) (string, []any) {
	list := make([]int64, len(places))
	for i, p := range places {
		list[i] = int64(p)
	}
	low, high := slices.Min(places), slices.Max(places)
	var days []int32
	for _, d := range q.days {
		if d.first <= high && d.last >= low {
			days = append(days, int32(d.day))
		}
	}
	args := []any{list, days}
	a := question{filter: q.filter, segments: []segment{{low: low, high: high}}}
	where := a.conditions(func(v any) string {
		args = append(args, v)
		return "$" + strconv.Itoa(len(args))
	})
	return `SELECT ` + eventColumns + ` FROM events WHERE position = ANY($1) AND day = ANY($2) AND ` + where, args
}

// search reads rows that match a filter with terms, as Find does.
func (s *Store) search(ctx context.Context, f events.Query, terms []events.Term, yield func(*events.Committed) bool) error {
	var q *search
	given := 0
	for q == nil || q.more() {
		var page []events.Stored
		err := s.read(ctx, func(ctx context.Context, c *pgx.Conn) (err error) {
			if q == nil {
				begun, err := newSearch(ctx, c, f, terms)
				if err != nil {
					return err
				}
				q = begun
			}
			most := eventsMax
			if f.Limit > 0 {
				most = min(most, f.Limit-given)
			}
			next := *q // the connection may turn out to be dead in the middle
			if page, err = next.page(ctx, c, nil, most); err == nil {
				*q = next
			}
			return err
		})
		if err != nil {
			return err
		}
		if more, err := events.HandOn(page, yield); !more || err != nil {
			return err
		}
		if given += len(page); f.Limit > 0 && given >= f.Limit {
			return nil
		}
	}
	return nil
}
