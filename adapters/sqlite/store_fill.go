package sqlite

import (
	"context"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/penstock/penstock/events"
)

var _ events.Movable = (*Store)(nil)

const (
	selectSecrets = `SELECT id, version, sealed, digest FROM secrets ORDER BY id, version`
	selectGroups  = `SELECT name, position, at FROM feed_checkpoints ORDER BY name`
	insertGroup   = `INSERT INTO feed_checkpoints (name, position, at) VALUES (?, ?, ?)`
	selectAny     = `SELECT EXISTS (SELECT 1 FROM commits) OR EXISTS (SELECT 1 FROM pages) OR EXISTS (SELECT 1 FROM archived)
		OR EXISTS (SELECT 1 FROM secrets) OR EXISTS (SELECT 1 FROM feed_checkpoints)`
)

// Belongings implements events.Movable.
func (s *Store) Belongings(ctx context.Context) (b *events.Belongings, err error) {
	err = s.read(ctx, func(c *conn) error {
		end, err := readChain(c)
		if err != nil {
			return err
		}
		b = &events.Belongings{Head: end.head}
		if err := c.each(selectSecrets, nil, func(q *sqlite3.Stmt) bool {
			b.Secrets = append(b.Secrets, events.Secret{
				ID: q.ColumnText(0), Version: q.ColumnInt64(1), Sealed: q.ColumnBlob(2, []byte{}), Digest: q.ColumnBlob(3, []byte{}),
			})
			return true
		}); err != nil {
			return err
		}
		b.Groups, err = readGroups(c)
		return err
	})
	return b, err
}

func readGroups(c *conn) (list []events.FeedCheckpoint, err error) {
	err = c.each(selectGroups, nil, func(q *sqlite3.Stmt) bool {
		list = append(list, events.FeedCheckpoint{
			Group: q.ColumnText(0), Position: events.Position(q.ColumnInt64(1)), At: time.UnixMicro(q.ColumnInt64(2)).UTC(),
		})
		return true
	})
	return list, err
}

// Fill implements events.Movable, in one transaction: what a process leaves behind that ends in the middle is in the log only, and no
// reader sees it. The next append finds the end of the chain as if another process had written it.
func (s *Store) Fill(ctx context.Context, b *events.Belongings, chain events.Chain) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	empty := true
	err := s.write(ctx, func(c *conn) error {
		n, err := c.integer(selectAny)
		if empty = n == 0; err != nil || !empty {
			return err
		}
		for i := range b.Secrets {
			if err := c.writeSecret(&b.Secrets[i]); err != nil {
				return err
			}
		}
		for _, g := range b.Groups {
			if err := c.exec(insertGroup, func(b *binder) {
				b.text(g.Group)
				b.integer(int64(g.Position))
				b.integer(g.At.UnixMicro())
			}); err != nil {
				return err
			}
		}
		return newFiller(c).all(ctx, chain)
	})
	if !empty {
		return events.ErrNotEmpty
	}
	return err
}

// filler writes the links of a chain, in order.
type filler struct {
	pager
	head events.Position
}

func newFiller(c *conn) *filler { return &filler{pager: pager{c: c}} }

func (m *filler) all(ctx context.Context, chain events.Chain) (err error) {
	failed := chain.Chain(ctx, 0, func(c *events.Commit, rows []events.RawRow) bool {
		err = m.link(c, rows)
		return err == nil
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return err
	}
	return m.turn(events.BlockOf(m.head + 1))
}

// link writes a link with its rows.
func (m *filler) link(c *events.Commit, rows []events.RawRow) error {
	for i := range rows {
		r := &rows[i]
		if err := m.turn(events.BlockOf(r.Position)); err != nil {
			return err
		}
		write := m.row
		if r.Archived {
			write = m.gone
		}
		if err := write(r); err != nil {
			return err
		}
	}
	if err := m.flush(); err != nil {
		return err
	}
	m.head, m.before = c.First+events.Position(c.N)-1, c.Latest
	return m.c.writeCommit(c)
}

func (m *filler) row(r *events.RawRow) error {
	m.block.Add(r.Position, r.Types, r.Key, r.Upstream)
	return m.add(r.Position, r.N, &r.Row, r.Hash)
}

func (m *filler) gone(r *events.RawRow) error {
	return m.c.writeGone(int64(r.Position), r.N, r.Hash)
}

// turn stores the block under way when another one has begun.
func (m *filler) turn(number int64) error {
	if number == m.block.Number {
		return nil
	}
	err := writeBlock(m.c, &m.block)
	m.block.begin(number)
	return err
}
