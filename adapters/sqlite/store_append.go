package sqlite

import (
	"context"
	"fmt"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/events"
)

const (
	insertCommit = `INSERT INTO commits (first, n, low_water, earliest, latest, previous, hash)
		VALUES (?, ?, ?, ?, ?, ?, ?)`
	insertSecret  = `INSERT INTO secrets (id, version, sealed, digest) VALUES (?, ?, ?, ?)`
	selectTail    = `SELECT version + n FROM events WHERE stream = ? ORDER BY version DESC LIMIT 1`
	selectEnd     = `SELECT 1 FROM events WHERE stream = ? AND terminal = 1 LIMIT 1`
	selectVersion = `SELECT position, hash FROM events WHERE stream = ? AND version = ?`
)

// tailsMax bounds the streams whose versions are kept in memory; when they are more, all are forgotten.
const tailsMax = 1 << 15

// group is one commit under way.
type group struct {
	s                *Store
	c                *conn
	next             events.Position
	earliest, latest int64
	saved            int // rows before the append under way
}

// Append stores a batch in one commit (events.Store). Rows that came with AnyVersion carry their version afterwards.
func (s *Store) Append(ctx context.Context, batch []events.Append, lowWater events.Position) ([]events.Result, error) {
	if err := encoded(batch); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	results := make([]events.Result, len(batch))
	numbers := make([][]int64, len(batch))
	var end chain
	err := s.write(ctx, func(c *conn) (err error) {
		if err := s.catchUp(c); err != nil {
			return err
		}
		s.hashes = s.hashes[:0]
		g := group{s: s, c: c, next: s.chain.head + 1, earliest: 1<<63 - 1, latest: s.chain.latest}
		if err := g.appendAll(batch, results, numbers); err != nil {
			return err
		}
		end, err = g.seal(batch, results, lowWater)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.chain = end
	if len(s.tails) > tailsMax {
		clear(s.tails)
	}
	for i := range batch {
		for j, v := range numbers[i] {
			if r := &batch[i].Rows[j]; r.Version == events.AnyVersion {
				r.Version = v
			}
		}
	}
	return results, nil
}

// encoded refuses a batch that was never encoded: a fault of the program, not of the store.
func encoded(batch []events.Append) error {
	for i := range batch {
		if len(batch[i].Rows) == 0 {
			return errors.Newf("append %d has no rows", i)
		}
		for j := range batch[i].Rows {
			r := &batch[i].Rows[j]
			if r.Stream == "" || len(r.Facts) == 0 || r.Types == "" || len(r.Payload) == 0 {
				return errors.Newf("append %d, row %d (stream %q) is not encoded", i, j, r.Stream)
			}
		}
	}
	return nil
}

// catchUp reads the end of the chain again when another process has written to the file.
func (s *Store) catchUp(c *conn) error {
	last, err := c.integer(`SELECT first FROM commits ORDER BY first DESC LIMIT 1`)
	if err != nil || last == s.chain.first {
		return err
	}
	clear(s.tails)
	s.chain, err = readChain(c)
	return err
}

// append stores one append, or finds that it is stored already, or reports a conflict. numbers are the versions of
// its rows. An error ends the whole batch.
func (g *group) append(a *events.Append) (r events.Result, numbers []int64, err error) {
	g.saved = len(g.s.hashes)
	before := *g
	single := len(a.Rows) == 1 && len(a.Secrets) == 0
	if !single { // a single statement takes itself back
		if err := g.c.run(`SAVEPOINT append`); err != nil {
			return r, nil, err
		}
	}
	conflict, numbers, err := g.insert(a)
	if err != nil {
		return r, nil, err
	}
	if conflict == nil {
		if !single {
			err = g.c.run(`RELEASE append`)
		}
		return events.Result{First: before.next}, numbers, err
	}
	if err := g.takeBack(before, a, single); err != nil {
		return r, nil, err
	}
	first, err := g.stored(a)
	if first != 0 || err != nil {
		return events.Result{First: first}, nil, err
	}
	return events.Result{Err: conflict}, nil, nil
}

// takeBack undoes the rows and secrets of an append that met a conflict.
func (g *group) takeBack(before group, a *events.Append, single bool) error {
	*g = before
	g.s.hashes = g.s.hashes[:g.saved]
	for i := range a.Rows {
		delete(g.s.tails, a.Rows[i].Stream)
	}
	if single {
		return nil
	}
	if err := g.c.run(`ROLLBACK TO append`); err != nil {
		return err
	}
	return g.c.run(`RELEASE append`)
}

// insert writes rows and secrets. conflict wraps events.ErrConflict and leaves behind what was written so far.
func (g *group) insert(a *events.Append) (conflict error, numbers []int64, err error) {
	for i := range a.Rows {
		r := a.Rows[i] // a copy: the version is the caller's until the commit
		tail, err := g.tail(&r)
		if err != nil {
			return nil, nil, err
		}
		if a.Rows[i].Version == events.AnyVersion {
			r.Version = tail
			if numbers == nil {
				numbers = make([]int64, len(a.Rows))
			}
		} else if r.Version != tail {
			return conflictOf(&r, fmt.Sprintf("is at version %d", tail)), nil, nil
		}
		if ended, err := g.ended(&r); ended || err != nil {
			return conflictOf(&r, "has ended"), nil, err
		}
		if numbers != nil {
			numbers[i] = r.Version
		}
		ok, err := g.insertRow(&r)
		if err != nil {
			return nil, nil, err
		}
		if !ok {
			return conflictOf(&r, "has that version already"), nil, nil
		}
	}
	for i := range a.Secrets {
		ok, err := g.insertSecret(&a.Secrets[i])
		if err != nil {
			return nil, nil, err
		}
		if !ok {
			return fmt.Errorf("%w: secret %s has version %d already", events.ErrConflict, a.Secrets[i].ID, a.Secrets[i].Version), nil, nil
		}
	}
	return nil, numbers, nil
}
