package sqlite

import (
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/ncruces/go-sqlite3"

	"github.com/penstock/penstock/events"
)

// bulks are the numbers of rows for which there is a statement: one that goes on to the next row need not find its place
// in the table and in each index again. The last is 1.
var bulks = [...]int{32, 8, 1}

// insertStmt inserts as many rows as its place in bulks says.
type insertStmt struct {
	*sqlite3.Stmt
	bound []usual // by row
}

// appendAll stores the appends of a batch, in order. Those of one row about whose stream nothing needs to be asked wait
// for each other, so that one statement writes many.
func (g *group) appendAll(batch []events.Append, results []events.Result, numbers [][]int64) (err error) {
	waiting := 0 // so many before i
	for i := range batch {
		if a := &batch[i]; g.plain(a) {
			r := &a.Rows[0]
			g.s.follow(r, r.Version)
			waiting++
			continue
		}
		if err := g.appendPlain(batch[i-waiting:i], results[i-waiting:i]); err != nil {
			return err
		}
		waiting = 0
		if results[i], numbers[i], err = g.append(&batch[i]); err != nil {
			return err
		}
	}
	from := len(batch) - waiting
	return g.appendPlain(batch[from:], results[from:])
}

// plain says that an append has one row, which follows on what is known of its stream, and is not its second end. That a
// stream is not new after all is what the unique index says.
func (g *group) plain(a *events.Append) bool {
	if len(a.Rows) != 1 || len(a.Secrets) > 0 {
		return false
	}
	r := &a.Rows[0]
	t, known := g.s.tails[r.Stream]
	return r.Version == t.version && (known && (t.open || !r.Terminal) || r.Version == 0)
}

// appendPlain stores plain appends, which have been noted in tails. Where a unique index refuses a statement, its rows and
// those behind it are stored one by one.
func (g *group) appendPlain(batch []events.Append, results []events.Result) (err error) {
	for len(batch) > 0 {
		size := 0
		for bulks[size] > len(batch) {
			size++
		}
		n := bulks[size]
		before, hashed := *g, len(g.s.hashes)
		ok, err := g.insertRows(size, batch[:n], results[:n])
		if err != nil {
			return err
		}
		if !ok {
			*g, g.s.hashes = before, g.s.hashes[:hashed]
			break
		}
		batch, results = batch[n:], results[n:]
	}
	for i := range batch {
		delete(g.s.tails, batch[i].Rows[0].Stream)
	}
	for i := range batch {
		if results[i], _, err = g.append(&batch[i]); err != nil {
			return err
		}
	}
	return nil
}

// insertRows writes the rows of appends that have one each; false: a unique index refused one of them, and none is written.
func (g *group) insertRows(size int, batch []events.Append, results []events.Result) (bool, error) {
	s, err := g.c.inserting(size)
	if err != nil {
		return false, err
	}
	b := binder{stmt: s.Stmt}
	for i := range batch {
		results[i] = events.Result{First: g.next}
		g.bindRow(&b, &s.bound[i], &batch[i].Rows[0])
	}
	return b.insert()
}

// insertRow writes one row at the next position; false: a unique index refused it.
func (g *group) insertRow(r *events.Row) (bool, error) {
	s, err := g.c.inserting(len(bulks) - 1)
	if err != nil {
		return false, err
	}
	b := binder{stmt: s.Stmt}
	g.bindRow(&b, &s.bound[0], r)
	if ok, err := b.insert(); !ok || err != nil {
		return false, err
	}
	g.s.follow(r, r.Version)
	return true, nil
}

// bindRow binds a row at the next position.
func (g *group) bindRow(b *binder, was *usual, r *events.Row) {
	hash, at := g.s.hasher.Row(g.next, r), r.At.UnixMicro()
	terminal := int64(0)
	if r.Terminal {
		terminal = 1
	}
	b.integer(int64(g.next))
	b.integer(int64(len(r.Facts)))
	b.text(r.Stream)
	b.integer(r.Version)
	b.integer(terminal)
	b.integer(at)
	b.usual(was, r)
	b.blob(hash[:])
	b.rawText(r.Payload)
	g.s.hashes = append(g.s.hashes, hash)
	g.next += events.Position(len(r.Facts))
	g.earliest, g.latest = min(g.earliest, at), max(g.latest, at)
}

// follow notes what is known of a row's stream behind the row.
func (s *Store) follow(r *events.Row, version int64) {
	t, known := s.tails[r.Stream]
	late := version > 0 && !known && strings.HasPrefix(r.Stream, events.RequestStreams) // behind the end of a request
	if r.Terminal || late {
		delete(s.tails, r.Stream) // rarely asked for again
		return
	}
	s.tails[r.Stream] = tail{version + int64(len(r.Facts)), version == 0 || t.open}
}

// inserting is the statement for so many rows, by the place in bulks.
func (c *conn) inserting(size int) (*insertStmt, error) {
	if s := c.inserts[size]; s != nil {
		return s, nil
	}
	const row = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
	stmt, err := c.stmt("INSERT INTO events (" + eventColumns + ") VALUES " + row + strings.Repeat(", "+row, bulks[size]-1))
	if err != nil {
		return nil, errors.Wrapf(err, "%d rows", bulks[size])
	}
	c.inserts[size] = &insertStmt{stmt, make([]usual, bulks[size])}
	return c.inserts[size], nil
}
