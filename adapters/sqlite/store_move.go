package sqlite

import (
	"time"

	"github.com/cockroachdb/errors"
	"github.com/ncruces/go-sqlite3"

	"github.com/penstock/penstock/events"
)

// pagesMigration is done when the rows are moved, too.
const pagesMigration = "0006_pages"

const (
	countAppended  = `SELECT count(*) FROM sqlite_schema WHERE name = 'appended' AND type = 'table'`
	firstAppended  = `SELECT min(position) FROM appended`
	selectAppended = `SELECT position, n, stream, version, terminal, at, types, about, key, upstream, node, hash, payload
		FROM appended ORDER BY position`
	deleteAppended = `DELETE FROM appended WHERE position <= ?`
	selectCommits  = `SELECT first, latest FROM commits
		WHERE first >= coalesce((SELECT max(first) FROM commits WHERE first <= ?1), 0) ORDER BY first`
)

// movePart bounds what is moved in one transaction, in bytes of pages: so large the write-ahead log may grow. Tests make it small.
var movePart = 16 << 20

// moveAppended moves rows that were stored one per append to pages; see migration 0006. Each part is a transaction that also takes
// them away from where they were: their room is used for the next ones, and another start, or another process, goes on where this one
// has stopped. tell may be nil; see StoreOptions.Moving.
func moveAppended(c *conn, tell func(from, at, to events.Position)) error {
	if n, err := c.integer(countAppended); n == 0 || err != nil { // as nearly always: without the lock of those who write
		return err
	}
	first, err := c.integer(firstAppended)
	if err != nil {
		return err
	}
	end, err := readChain(c)
	if err != nil {
		return err
	}
	if tell == nil || first == 0 { // a new file
		tell = func(_, _, _ events.Position) {}
	}
	from := events.Position(first - 1)
	tell(from, from, end.head)
	m := mover{pager: pager{c: c}}
	for done := false; !done; {
		if err := c.GetInterrupt().Err(); err != nil {
			return err
		}
		if err := c.write(func() error {
			n, err := c.integer(countAppended)
			if done = n == 0; done || err != nil {
				return err
			}
			done, err = m.part()
			return err
		}); err != nil {
			return errors.Wrap(err, "move events to pages")
		}
		at := end.head
		if !done {
			at = events.Position(m.last)
		}
		tell(from, at, end.head)
	}
	return nil
}

// mover moves rows in order.
type mover struct {
	pager
	last    int64 // row that was moved
	commits *sqlite3.Stmt
	more    bool  // commits is at one that begins behind the row at hand
	latest  int64 // the time that the commit of the row at hand reaches
}

// part moves some rows; done: there are no more, and nor is the table.
func (m *mover) part() (done bool, err error) {
	if err := m.begin(); err != nil {
		return false, err
	}
	rows, err := m.c.stmt(selectAppended)
	if err != nil {
		return false, err
	}
	done = true
	for rows.Step() {
		at := rows.ColumnInt64(0)
		if err := m.reach(at); err != nil {
			return false, err
		}
		if m.size >= movePart {
			done = false
			break
		}
		if err := m.row(at, rows); err != nil {
			return false, err
		}
	}
	if err := errors.CombineErrors(errors.CombineErrors(rows.Err(), rows.Reset()), m.commits.Reset()); err != nil {
		return false, err
	}
	if err := m.flush(); err != nil {
		return false, err
	}
	if !done {
		_, err = m.c.integer(deleteAppended, m.last)
		return false, err
	}
	end, err := readChain(m.c)
	if err != nil {
		return false, err
	}
	if err := m.turn(events.BlockOf(end.head + 1)); err != nil {
		return false, err
	}
	return true, m.c.Exec(`DROP TABLE appended`)
}

// begin finds where the next row is.
func (m *mover) begin() error {
	from, err := m.c.integer(firstAppended)
	if err != nil {
		return err
	}
	moved, err := m.c.integer(`SELECT max(first) FROM pages`)
	if err != nil {
		return err
	}
	if moved > m.last { // by another process
		clear(m.open)
	}
	m.size = 0
	m.block.begin(events.BlockOf(events.Position(from)))
	if err := readTerms(m.c, &m.block, events.Position(from-1)); err != nil {
		return err
	}
	if m.latest, err = m.c.integer(selectBefore, from); err != nil {
		return err
	}
	if m.commits, err = m.c.stmt(selectCommits); err != nil {
		return err
	}
	if err := m.commits.BindInt64(1, from); err != nil {
		return err
	}
	m.more = m.commits.Step()
	return m.commits.Err()
}

// reach goes on to the commit and the block of a position.
func (m *mover) reach(at int64) error {
	for m.more && m.commits.ColumnInt64(0) <= at {
		if err := m.flush(); err != nil {
			return err
		}
		m.before, m.latest = m.latest, m.commits.ColumnInt64(1)
		m.more = m.commits.Step()
	}
	return errors.CombineErrors(m.commits.Err(), m.turn(events.BlockOf(events.Position(at))))
}

// row moves the row at which the statement is.
func (m *mover) row(at int64, q *sqlite3.Stmt) error {
	r := events.Row{
		Stream: q.ColumnText(2), Version: q.ColumnInt64(3), Terminal: q.ColumnInt64(4) == 1, At: time.UnixMicro(q.ColumnInt64(5)),
		Types: q.ColumnText(6), Request: q.ColumnText(7), Key: q.ColumnText(8), Upstream: q.ColumnText(9), Node: q.ColumnText(10),
		Payload: q.ColumnRawText(12), // valid until the statement goes on
	}
	if q.ColumnType(7) == sqlite3.NULL {
		r.Request, _ = aboutOf(r.Stream)
	}
	var sum [hashSize]byte
	copy(sum[:], q.ColumnRawBlob(11))
	m.last = at
	return m.add(events.Position(at), q.ColumnInt64(1), &r, sum)
}

// turn stores what the index lacks of the block under way when another one has begun.
func (m *mover) turn(number int64) error {
	if number == m.block.Number {
		return nil
	}
	err := writeStreams(m.c, &m.block)
	m.block.begin(number)
	return err
}
