package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/cockroachdb/errors"
	"github.com/jackc/pgx/v5"

	"github.com/penstock/penstock/events"
)

var _ events.Movable = (*Store)(nil)

// Belongings implements events.Movable.
func (s *Store) Belongings(ctx context.Context) (b *events.Belongings, err error) {
	err = s.read(ctx, func(ctx context.Context, c *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) (err error) {
			b = &events.Belongings{}
			if b.Head, err = readHead(ctx, tx.Conn()); err != nil {
				return err
			}
			if b.Secrets, err = readSecrets(ctx, tx.Conn()); err != nil {
				return err
			}
			b.Groups, err = readGroups(ctx, tx.Conn())
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	// Texts that the columns can not hold come in the order of their spelling.
	slices.SortFunc(b.Secrets, func(x, y events.Secret) int {
		return cmp.Or(cmp.Compare(x.ID, y.ID), cmp.Compare(x.Version, y.Version))
	})
	slices.SortFunc(b.Groups, func(x, y events.FeedCheckpoint) int { return cmp.Compare(x.Group, y.Group) })
	return b, nil
}

// Fill implements events.Movable, in one transaction, which takes the time that it takes. After it the session is given up, and the
// next write opens another, which reads what there is.
func (s *Store) Fill(ctx context.Context, b *events.Belongings, chain events.Chain) error {
	if err := s.begins(ctx); err != nil {
		return err
	}
	defer s.ends()
	err := s.tryWrite(ctx, func(ctx context.Context, w *session) error {
		f := &filler{s: s, w: w, rows: map[day][]byte{}, spans: map[day]*span{}}
		return f.run(ctx, b, chain)
	})
	s.dropSession()
	switch {
	case err == nil, errors.Is(err, events.ErrNotEmpty):
		return err
	case codeOf(err) == outOfMemory: // of locks, says the server: each day has some
		return errors.WithHint(s.unavailable(err), "for so many days the server needs a larger max_locks_per_transaction: a day takes eight locks")
	}
	return s.unavailable(err)
}

// fillPart bounds what is gathered before it is sent, in bytes.
const fillPart = 1 << 20

// filler writes a chain and what belongs to it. Rows, links and what is left of removed rows wait, as the tuples of a COPY, until there
// are many.
type filler struct {
	s *Store
	w *session

	rows        map[day][]byte
	links, gone []byte
	waiting     int // bytes
	spans       map[day]*span
	block       events.Block
	blocks      pgx.Batch // full ones
	head        events.Position
}

// COPY statements of a session that is filled.
const (
	stmtFillLinks = "penstock_fill_links"
	stmtFillGone  = "penstock_fill_gone"
)

const selectAny = `SELECT EXISTS (SELECT FROM commits) OR EXISTS (SELECT FROM events) OR EXISTS (SELECT FROM archived)
	OR EXISTS (SELECT FROM secrets) OR EXISTS (SELECT FROM feed_checkpoints)`

func (f *filler) run(ctx context.Context, b *events.Belongings, chain events.Chain) error {
	if _, err := f.s.begin(ctx, f.w, nil); err != nil {
		return err
	}
	// A file may come slowly, and a large one has many rows for one statement to look at in the end.
	for _, setting := range []string{"statement_timeout", "idle_in_transaction_session_timeout"} {
		if _, err := f.w.conn.Exec(ctx, `SET LOCAL `+setting+` = 0`); err != nil {
			return err
		}
	}
	var used bool
	if err := f.w.conn.QueryRow(ctx, selectAny).Scan(&used); err != nil {
		return err
	}
	if used {
		return events.ErrNotEmpty
	}
	if err := f.belongings(ctx, b); err != nil {
		return err
	}
	var err error
	failed := chain.Chain(ctx, 0, func(c *events.Commit, rows []events.RawRow) bool {
		err = f.link(ctx, c, rows)
		return err == nil
	})
	if err == nil {
		err = failed
	}
	if err == nil {
		err = f.end(ctx)
	}
	return err
}

func (f *filler) belongings(ctx context.Context, b *events.Belongings) error {
	for name, sql := range map[string]string{
		stmtFillLinks: `COPY commits (first, n, low_water, earliest, latest, previous, hash) FROM STDIN BINARY`,
		stmtFillGone:  `COPY archived (position, n, hash) FROM STDIN BINARY`,
	} {
		if _, err := f.w.conn.Prepare(ctx, name, sql); err != nil {
			return err
		}
	}
	batch := &pgx.Batch{}
	for i := range b.Secrets {
		queueSecret(batch, &b.Secrets[i])
	}
	for _, g := range b.Groups {
		batch.Queue(`INSERT INTO feed_checkpoints (name, position, at) VALUES ($1, $2, $3)`, text(g.Group), int64(g.Position), g.At)
	}
	if batch.Len() == 0 {
		return nil
	}
	return f.w.conn.SendBatch(ctx, batch).Close()
}

// link takes a link with its rows.
func (f *filler) link(ctx context.Context, c *events.Commit, rows []events.RawRow) error {
	for i := range rows {
		r := &rows[i]
		f.turn(events.BlockOf(r.Position))
		if r.Archived {
			f.gone = append(f.gone, 0, 3)
			f.gone = appendInt8(f.gone, int64(r.Position))
			f.gone = appendInt4(f.gone, int32(r.N))
			f.gone = appendBytes(f.gone, r.Hash[:])
			f.waiting += len(r.Hash)
			continue
		}
		if err := f.row(ctx, r); err != nil {
			return err
		}
	}
	f.links = append(f.links, 0, 7)
	f.links = appendInt8(f.links, int64(c.First))
	f.links = appendInt8(f.links, c.N)
	f.links = appendInt8(f.links, int64(c.LowWater))
	f.links = appendInt8(f.links, c.Earliest-epoch)
	f.links = appendInt8(f.links, c.Latest-epoch)
	f.links = appendBytes(f.links, c.Previous[:])
	f.links = appendBytes(f.links, c.Hash[:])
	f.waiting += 2 * len(c.Hash)
	f.head = c.First + events.Position(c.N) - 1
	if f.waiting < fillPart {
		return nil
	}
	return f.send(ctx)
}

// row takes a row, and makes the partition of its day where there is none.
func (f *filler) row(ctx context.Context, r *events.RawRow) error {
	if tooLong(r.Stream) || tooLong(r.Request) {
		return fmt.Errorf("the row at position %d has a stream or a request of more than %d bytes, which PostgreSQL does not index", r.Position, indexedMax)
	}
	d := dayOf(r.Stream)
	at := f.spans[d]
	if at == nil {
		if err := f.partition(ctx, d); err != nil {
			return err
		}
		at = &span{day: d, first: r.Position}
		f.spans[d] = at
	}
	at.last = r.Position + events.Position(r.N) - 1
	before := len(f.rows[d])
	p := placed{Row: &r.Row, version: r.Version, position: r.Position, day: d, hash: r.Hash, payload: odd(r.Payload)}
	f.rows[d] = appendTuple(f.rows[d], &p, r.N)
	f.waiting += len(f.rows[d]) - before
	f.block.Add(r.Position, text(r.Types), text(r.Key), text(r.Upstream)) // as they are stored
	return nil
}

// partition makes that of a day, in the same transaction.
func (f *filler) partition(ctx context.Context, d day) error {
	if _, there := f.w.days[d]; there {
		return nil
	}
	for _, sql := range d.making() {
		if _, err := f.w.conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			return errors.Wrapf(err, "make the partition of %d", d)
		}
	}
	f.w.days[d] = 0
	return nil
}

// turn queues the block under way when another one has begun.
func (f *filler) turn(number int64) {
	if number != f.block.Number {
		queueBlock(&f.blocks, &f.block)
		f.block.Begin(number)
	}
}

// send sends what waits.
func (f *filler) send(ctx context.Context) error {
	x := &f.w.wire
	days := make([]day, 0, len(f.rows))
	for d := range f.rows {
		days = append(days, d)
	}
	if err := f.w.prepareCopies(ctx, days); err != nil {
		return err
	}
	x.reset()
	for _, d := range days {
		x.copyOf(f.w.copies[d], f.rows[d])
	}
	clear(f.rows)
	x.copyOf(stmtFillLinks, f.links)
	x.copyOf(stmtFillGone, f.gone)
	f.links, f.gone, f.waiting = f.links[:0], f.gone[:0], 0
	if err := x.trip(ctx, nil); err != nil {
		return err
	}
	if f.blocks.Len() == 0 {
		return nil
	}
	full := f.blocks
	f.blocks = pgx.Batch{}
	return f.w.conn.SendBatch(ctx, &full).Close()
}

// end sends the rest, says where the rows of each day lie, and commits.
func (f *filler) end(ctx context.Context) error {
	f.turn(events.BlockOf(f.head + 1))
	if err := f.send(ctx); err != nil {
		return err
	}
	x := &f.w.wire
	for _, at := range f.spans {
		x.bind(stmtDays, 3)
		x.int4(int32(at.day))
		x.int8(int64(at.first))
		x.int8(int64(at.last))
		x.execute()
	}
	if err := x.trip(ctx, nil); err != nil {
		return err
	}
	if _, err := f.w.conn.Exec(ctx, `COMMIT`); err != nil {
		if !refused(err) {
			err = fmt.Errorf("%w: %w", events.ErrInDoubt, err)
		}
		return err
	}
	return nil
}
