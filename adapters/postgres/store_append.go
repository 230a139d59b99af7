package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/penstock/penstock/events"
)

// tailsMax bounds the streams whose versions are kept in memory; when they are more, all are forgotten.
const tailsMax = 1 << 15

// stride is how many commits of the same size the last position in table days is moved ahead for, so that it is written
// rarely, and the days of a quiet gateway still do not reach far into one another.
const stride = 16

// Append stores a batch in one commit (events.Store). Rows that came with AnyVersion carry their version afterwards.
// After an error that is events.ErrInDoubt the next append finds out; one that repeats what was stored is then answered with
// the positions that it has.
func (s *Store) Append(ctx context.Context, batch []events.Append, lowWater events.Position) ([]events.Result, error) {
	if err := events.Encoded(batch); err != nil {
		return nil, err
	}
	g := &group{s: s, batch: batch, lowWater: lowWater}
	if err := s.write(ctx, g.run); err != nil {
		return nil, err
	}
	for i := range batch {
		for j, v := range g.numbers[i] {
			if r := &batch[i].Rows[j]; r.Version == events.AnyVersion {
				r.Version = v
			}
		}
	}
	return g.results, nil
}

// run stores the group. At first it takes it that streams which should be new are new, as nearly always; when a
// unique index or its own reckoning objects, it looks everything up and decides again. The same for payloads: that
// they are JSON is checked when the server has found one that is not.
func (g *group) run(ctx context.Context, w *session) error {
	if err := g.s.lookAhead(ctx, w); err != nil {
		return err
	}
	err := g.try(ctx, w, false)
	switch codeOf(err) {
	case uniqueViolation, invalidText, invalidBytes:
	case undefinedTable: // somebody has removed a day
		w.days = nil
	default:
		return err
	}
	if _, err := w.conn.Exec(ctx, `ROLLBACK`); err != nil {
		return err
	}
	clear(g.s.tails)
	if w.days == nil {
		if err := w.loadDays(ctx); err != nil {
			return err
		}
	}
	return g.try(ctx, w, true)
}

// try is one transaction. thorough looks everything up before it decides.
func (g *group) try(ctx context.Context, w *session, thorough bool) error {
	if err := g.openDays(ctx, w); err != nil {
		return err
	}
	defer g.leave()
	moved, err := g.s.begin(ctx, w, func(b *pgx.Batch) { g.ask(b, thorough) })
	if err != nil {
		return err
	}
	if moved && !thorough || !g.decide() {
		b := &pgx.Batch{}
		g.ask(b, true)
		if err := w.conn.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		g.decide()
	}
	return g.store(ctx, w)
}

// openDays makes the partitions that the batch begins streams in. One that it only goes on in is there, unless its day was
// removed.
func (g *group) openDays(ctx context.Context, w *session) error {
	begun := g.readDays()
	if err := g.s.makeDays(ctx, w, "0", begun...); err != nil {
		return err
	}
	if slices.ContainsFunc(g.days, func(d day) bool { _, there := w.days[d]; return !there }) { // or another process has made it
		if err := w.loadDays(ctx); err != nil {
			return err
		}
	}
	g.there = w.days
	return w.prepareCopies(ctx, g.days)
}

// store writes what was decided and commits.
func (g *group) store(ctx context.Context, w *session) error {
	if len(g.rows) == 0 {
		_, err := w.conn.Exec(ctx, `ROLLBACK`)
		if err == nil {
			g.remember()
		}
		return err
	}
	end := g.seal()
	if err := g.storeRare(ctx, w, end); err != nil {
		return err
	}
	bounds := g.queueRows(w)
	x := &w.wire
	x.bind(stmtLink, 7)
	x.int8(end.first)
	x.int8(int64(end.head) - end.first + 1)
	x.int8(int64(g.lowWater))
	x.moment(g.earliest)
	x.moment(end.latest)
	x.bytes(g.s.chain.hash[:])
	x.bytes(end.hash[:])
	x.execute()
	x.plain(stmtCommit)
	if err := x.trip(ctx, nil); err != nil {
		if !refused(err) {
			g.s.doubt = &doubt{end: end, appends: g.unnumbered()}
		}
		return err
	}
	g.s.chain = end
	for _, b := range bounds {
		w.days[b.day] = b.last
	}
	g.remember()
	return nil
}

// storeRare writes what few commits have: full blocks of the index, secrets.
func (g *group) storeRare(ctx context.Context, w *session, end chain) error {
	b := &pgx.Batch{}
	if err := g.index(ctx, w.conn, b, end); err != nil {
		return err
	}
	for _, v := range g.secrets {
		queueSecret(b, v)
	}
	if b.Len() == 0 {
		return nil
	}
	return w.conn.SendBatch(ctx, b).Close()
}

// bound is what table days says of a partition.
type bound struct {
	day  day
	last events.Position
}

// queueRows has the rows of each partition copied, and returns the bounds that move with that.
func (g *group) queueRows(w *session) (bounds []bound) {
	x := &w.wire
	for _, d := range g.days {
		var first, last *placed
		for i := range g.rows {
			r := &g.rows[i]
			if r.day != d {
				continue
			}
			if last = r; first == nil {
				first = r
				x.beginCopy(w.copies[d])
			}
			x.out = appendTuple(x.out, r, int64(len(r.Facts)))
			x.nextRow()
		}
		if first == nil {
			continue
		}
		x.endCopy()
		if end := last.last(); end > w.days[d] {
			end += stride * (g.next - g.rows[0].position)
			bounds = append(bounds, bound{d, end})
			x.bind(stmtDays, 3)
			x.int4(int32(d))
			x.int8(int64(first.position))
			x.int8(int64(end))
			x.execute()
		}
	}
	return bounds
}

// seal is the commit's link of the chain.
func (g *group) seal() chain {
	first := g.rows[0].position
	end := chain{first: int64(first), head: g.next - 1, latest: g.latest}
	hashes := g.s.spare.hashes[:0]
	for i := range g.rows {
		hashes = append(hashes, g.rows[i].hash)
	}
	g.s.spare.hashes = hashes
	bounds := events.Bounds{LowWater: g.lowWater, Earliest: g.earliest, Latest: g.latest}
	end.hash = g.s.hasher.Commit(g.s.chain.hash, first, int64(g.next-first), bounds, hashes)
	return end
}

// remember keeps the versions that the streams have now, and forgets the appends that have been repeated.
func (g *group) remember() {
	if len(g.s.tails) > tailsMax {
		clear(g.s.tails)
	}
	for stream, t := range g.tails {
		if t.ended {
			delete(g.s.tails, stream) // rarely asked for again
		} else {
			g.s.tails[stream] = t.version
		}
	}
	for _, p := range g.recalled {
		g.s.forget(p)
	}
}

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func conflictOf(r *events.Row, tail int64) error {
	return fmt.Errorf("%w: %s is at version %d, the append expects %d", events.ErrConflict, r.Stream, tail, r.Version)
}
