package sqlite

import (
	"context"

	"github.com/penstock/penstock/events"
)

const (
	updatePage   = `UPDATE pages SET hashes = ?, body = ? WHERE first = ?`
	deletePage   = `DELETE FROM pages WHERE first = ?`
	insertGone   = `INSERT INTO archived (position, n, hash) VALUES (?, ?, ?)`
	deleteListed = `DELETE FROM listed WHERE name = ? AND position = ?`
)

// sweepPages bounds the pages that are looked at while appends wait.
var sweepPages = 32

// sweep is how far a removal has come. It goes from its end to its beginning, so that what is left of a stream always has its
// beginning, by which it is known.
type sweep struct {
	events.Removal
	at            int64 // what lies behind it is done
	before, until int64 // the time reached before First, and by Last
}

// Remove takes away rows of a removal (events.Store). Between two calls appends have their turn, and where it takes long to
// find rows, within one.
func (s *Store) Remove(ctx context.Context, r events.Removal, limit int) (int, error) {
	for {
		n, more, err := s.removeSome(ctx, r, limit)
		if n > 0 || !more || err != nil {
			return n, err
		}
	}
}

// removeSome looks at a few pages. more: there are others.
func (s *Store) removeSome(ctx context.Context, r events.Removal, limit int) (n int, more bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var after sweep
	var indexed []int64
	err = s.write(ctx, func(c *conn) error {
		if err := s.catchUp(c); err != nil {
			return err
		}
		m := remover{c: c, sweep: s.sweep, limit: limit, trace: trace{cursor: cursor{c: c}, end: s.chain}}
		if m.Removal != r {
			if err := m.begin(r); err != nil {
				return err
			}
		}
		if err := m.pages(); err != nil {
			return err
		}
		after, n = m.sweep, len(m.gone)
		indexed, err = s.reindex(c, m.gone)
		return err
	})
	if err != nil {
		return 0, false, err
	}
	s.sweep = after
	s.thinned.Done(indexed)
	return n, after.at >= int64(r.First), nil
}

// remover is one step of a sweep.
type remover struct {
	sweep
	c     *conn
	trace trace
	limit int
	gone  []int64 // positions
	page  page    // at hand, its own copy
	rows  []row
}

func (m *remover) begin(r events.Removal) (err error) {
	m.sweep = sweep{Removal: r, at: int64(r.Through)}
	if m.before, err = latestAt(m.c, int64(r.First)-1); err != nil {
		return err
	}
	m.until, err = latestAt(m.c, int64(r.Last))
	return err
}

// pages goes on through some pages, or until there are enough rows.
func (m *remover) pages() error {
	for n := 0; n < sweepPages && len(m.gone) < m.limit && m.at >= int64(m.First); n++ {
		some, err := m.page.read(m.c, m.at)
		if err != nil {
			return err
		}
		if !some {
			m.at = 0
			return nil
		}
		if err := m.thin(); err != nil {
			return err
		}
	}
	return nil
}

// thin takes rows out of the page at hand, from its end. One that is damaged stays as it is, for those who look into that.
func (m *remover) thin() error {
	m.rows = m.rows[:0]
	rows, r := m.page.rows(), row{}
	for rows.row(&r) {
		m.rows = append(m.rows, r)
	}
	last := len(m.rows) - 1
	if last < 0 || m.rows[last].damaged {
		m.at = m.page.first - 1
		return nil
	}
	taken := make([]bool, len(m.rows))
	some := false
	for i := last; i >= 0 && len(m.gone) < m.limit; i-- {
		r := &m.rows[i]
		if r.position > m.at {
			continue
		}
		ours, err := m.ours(r)
		if err != nil {
			return err
		}
		if ours {
			taken[i], some = true, true
			m.gone = append(m.gone, r.position)
		}
		m.at = r.position - 1
	}
	if len(m.gone) < m.limit {
		m.at = m.page.first - 1
	}
	if !some {
		return nil
	}
	return m.rewrite(taken)
}

// rewrite stores the page at hand without some of its rows; the others keep their bytes.
func (m *remover) rewrite(taken []bool) error {
	body, hashes := append(make([]byte, 0, len(m.page.body)), '['), []byte(nil)
	for i := range m.rows {
		r := &m.rows[i]
		if !taken[i] {
			if len(body) > 1 {
				body = append(body, ",\n"...)
			}
			sum := r.sum()
			body, hashes = append(body, r.raw...), append(hashes, sum[:]...)
			continue
		}
		if err := m.c.writeGone(r.position, r.n, r.sum()); err != nil {
			return err
		}
		if err := m.unlist(r); err != nil {
			return err
		}
	}
	if len(hashes) == 0 {
		return m.c.exec(deletePage, func(b *binder) { b.integer(m.page.first) })
	}
	return m.c.exec(updatePage, func(b *binder) {
		b.blob(hashes)
		b.rawText(append(body, ']'))
		b.integer(m.page.first)
	})
}

// writeGone writes what is left of a row.
func (c *conn) writeGone(at, n int64, sum [hashSize]byte) error {
	return c.exec(insertGone, func(b *binder) {
		b.integer(at)
		b.integer(n)
		b.blob(sum[:])
	})
}

// unlist forgets a row that may be listed.
func (m *remover) unlist(r *row) error {
	names := []string{string(r.stream)}
	if len(r.about) > 0 {
		names = append(names, events.RequestStreams+string(r.about))
	}
	for _, name := range names {
		if err := m.c.exec(deleteListed, func(b *binder) {
			b.text(name)
			b.integer(r.position)
		}); err != nil {
			return err
		}
	}
	return nil
}

// ours says that a row is of a request that began within the removal. Mostly the time in the id tells it: what began before a
// commit is not younger than the time that it has reached, but for rows that are listed.
func (m *remover) ours(r *row) (bool, error) {
	within := func(at int64) bool { return int64(m.First) <= at && at <= int64(m.Last) }
	stream := string(r.stream)
	if _, is := aboutOf(stream); !is {
		return false, nil
	}
	if r.version == 0 {
		return within(r.position), nil
	}
	if err := m.trace.listed(stream); err != nil {
		return false, err
	}
	if id, ok := idOf(stream); ok && len(m.trace.places) == 0 {
		switch {
		case r.position > int64(m.Last) && !id.reached(m.until): // began behind it
			return false, nil
		case r.position <= int64(m.Last) && !id.reached(m.before):
			return true, nil
		}
	}
	beginning := func(is *row) bool { return is.version == 0 }
	places, err := m.trace.further(stream, beginning)
	if err != nil {
		return false, err
	}
	for _, at := range places {
		is, err := m.trace.row(at)
		if err != nil {
			return false, err
		}
		if is != nil && string(is.stream) == stream && beginning(is) {
			return within(is.position), nil
		}
	}
	return false, nil
}
