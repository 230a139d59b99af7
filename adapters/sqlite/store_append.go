package sqlite

import (
	"context"
	"fmt"
	"math"

	"github.com/penstock/penstock/events"
)

// group is one commit under way. Nothing of it is in the file until all its appends are decided; then it is written as a page, or a few.
// Its memory is used again for the next one.
type group struct {
	s *Store
	c *conn
	gathered
	touched []touched // by the append under way
	trace   trace     // of the file as it was before the group
}

// gathered is what the appends of a group have come to so far.
type gathered struct {
	next             events.Position
	earliest, latest int64
	rows             []placed
	hashes           [][32]byte // of rows
	body             []byte     // of the pages, as if they were one
	listed           []listing
	secrets          []*events.Secret
	ended            []string // streams that nobody asks for again soon
}

// placed is a row of the group.
type placed struct {
	row     *events.Row
	at      events.Position
	version int64
	id      requestID
	regular bool // it has one
	end     int  // of it in the body
}

// listing is a row of the table of that name.
type listing struct {
	name string
	at   events.Position
}

// touched is what was known of a stream before the append under way.
type touched struct {
	stream string
	was    tail
	known  bool
}

// bodyMax bounds the memory that is kept for the next commit.
const bodyMax = 4 << 20

// begin makes the group an empty one behind the chain.
func (g *group) begin(s *Store, c *conn) {
	clear(g.rows) // they are the caller's
	clear(g.secrets)
	clear(g.ended)
	clear(g.listed)
	s.begun.shrink() // also where appends fail
	if cap(g.body) > bodyMax {
		g.body = nil
	}
	g.s, g.c, g.touched = s, c, g.touched[:0]
	g.gathered = gathered{
		next: s.chain.head + 1, earliest: math.MaxInt64, latest: s.chain.latest,
		rows: g.rows[:0], hashes: g.hashes[:0], body: append(g.body[:0], '['), listed: g.listed[:0], secrets: g.secrets[:0], ended: g.ended[:0],
	}
	g.trace = trace{cursor: cursor{c: c}, end: s.chain, under: g.under}
}

// Append stores a batch in one commit (events.Store). Rows that came with AnyVersion carry their version afterwards.
func (s *Store) Append(ctx context.Context, batch []events.Append, lowWater events.Position) ([]events.Result, error) {
	if err := events.Encoded(batch); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	results := make([]events.Result, len(batch))
	g := &s.group
	var end chain
	err := s.write(ctx, func(c *conn) (err error) {
		if err := s.catchUp(c); err != nil {
			return err
		}
		g.begin(s, c)
		for i := range batch {
			if results[i], err = g.append(&batch[i]); err != nil {
				return err
			}
		}
		end, err = g.seal(lowWater)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.chain = end
	for i := range g.rows {
		g.rows[i].row.Version = g.rows[i].version
	}
	s.settle(g.ended)
	return results, nil
}

// append takes one append into the group, or finds that it is stored already, or reports a conflict. An error ends the whole
// batch.
func (g *group) append(a *events.Append) (r events.Result, err error) {
	before := g.gathered
	g.touched = g.touched[:0]
	conflict, err := g.add(a)
	if err != nil {
		return r, err
	}
	if conflict == nil {
		return events.Result{First: before.next}, nil
	}
	g.takeBack(before)
	first, err := g.stored(a)
	if first != 0 || err != nil {
		return events.Result{First: first}, err
	}
	return events.Result{Err: conflict}, nil
}

// takeBack undoes what an append that met a conflict has added.
func (g *group) takeBack(before gathered) {
	for i := len(g.touched) - 1; i >= 0; i-- {
		if t := &g.touched[i]; t.known {
			g.s.tails[t.stream] = t.was
		} else {
			delete(g.s.tails, t.stream)
		}
	}
	g.gathered = before
}

// add places rows and secrets. conflict wraps events.ErrConflict and leaves behind what was placed so far.
func (g *group) add(a *events.Append) (conflict error, err error) {
	for i := range a.Rows {
		r := &a.Rows[i]
		p := placed{row: r, at: g.next, version: r.Version}
		p.id, p.regular = idOf(r.Stream)
		t, err := g.tail(&p)
		if err != nil {
			return nil, err
		}
		switch {
		case r.Version == events.AnyVersion:
			p.version = t.version
		case r.Version != t.version:
			return conflictOf(r, fmt.Sprintf("is at version %d", t.version)), nil
		}
		if r.Terminal && t.end == hasEnded {
			return conflictOf(r, "has ended"), nil
		}
		g.place(&p, t)
	}
	for i := range a.Secrets {
		v := &a.Secrets[i]
		was, err := g.secret(v)
		if err != nil {
			return nil, err
		}
		if was != nil {
			return fmt.Errorf("%w: secret %s has version %d already", events.ErrConflict, v.ID, v.Version), nil
		}
		g.secrets = append(g.secrets, v)
	}
	return nil, nil
}

// place puts a row behind the others. t is what is known of its stream.
func (g *group) place(p *placed, t tail) {
	r := p.row
	if p.version != r.Version {
		numbered := *r // the version is the caller's until the commit
		numbered.Version = p.version
		g.hashes = append(g.hashes, g.s.hasher.Row(p.at, &numbered))
	} else {
		g.hashes = append(g.hashes, g.s.hasher.Row(p.at, r))
	}
	if len(g.rows) > 0 {
		g.body = append(g.body, ",\n"...)
	}
	g.body = appendRow(g.body, p.at, int64(len(r.Facts)), p.version, r)
	p.end = len(g.body)
	g.rows = append(g.rows, *p)
	g.next += events.Position(len(r.Facts))
	at := r.At.UnixMicro()
	g.earliest, g.latest = min(g.earliest, at), max(g.latest, at)
	for _, name := range p.id.names(p.regular, t.end == hasEnded, r.Stream, r.Request, at, g.s.chain.latest) {
		if name != "" {
			g.listed = append(g.listed, listing{name, p.at})
		}
	}
	g.follow(p, t)
}

// stored finds an append that was stored before with the same content in all its rows: its caller could not know
// whether the first try had succeeded. 0: it is another one. Rows that the store was to number are never found.
func (g *group) stored(a *events.Append) (first events.Position, err error) {
	next := events.Position(0)
	for i := range a.Rows {
		at, err := g.same(&a.Rows[i])
		if err != nil || at == 0 || i > 0 && at != next {
			return 0, err
		}
		if i == 0 {
			first = at
		}
		next = at + events.Position(len(a.Rows[i].Facts))
	}
	for i := range a.Secrets {
		v, err := g.secret(&a.Secrets[i])
		if err != nil || v == nil || !sameSecret(v, &a.Secrets[i]) {
			return 0, err
		}
	}
	return first, nil
}

// same is the position of the row that is stored at r's place in its stream, 0 when it says anything else than r.
func (g *group) same(r *events.Row) (events.Position, error) {
	if r.Version == events.AnyVersion {
		return 0, nil
	}
	for i := range g.rows {
		if p := &g.rows[i]; p.row.Stream == r.Stream && p.version == r.Version {
			if g.s.hasher.Row(p.at, r) == g.hashes[i] {
				return p.at, nil
			}
			return 0, nil
		}
	}
	t := &g.trace
	places, err := t.of(r.Stream)
	if err != nil {
		return 0, err
	}
	for _, at := range places {
		is, err := t.row(at)
		if err != nil {
			return 0, err
		}
		if is != nil && string(is.stream) == r.Stream && is.version == r.Version {
			if is.sum() != g.s.hasher.Row(at, r) {
				return 0, nil
			}
			return at, nil
		}
	}
	return 0, nil
}

// secret is a version of a secret that is stored, or will be with the group; nil when there is none.
func (g *group) secret(v *events.Secret) (*events.Secret, error) {
	for _, is := range g.secrets {
		if is.ID == v.ID && is.Version == v.Version {
			return is, nil
		}
	}
	return readSecret(g.c, v.ID, v.Version)
}

func conflictOf(r *events.Row, why string) error {
	return fmt.Errorf("%w: %s %s, the append expects %d", events.ErrConflict, r.Stream, why, r.Version)
}
