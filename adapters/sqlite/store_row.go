package sqlite

import (
	"fmt"
	"strings"
	"unsafe"

	"github.com/cockroachdb/errors"
	"github.com/ncruces/go-sqlite3"

	"github.com/penstock/penstock/events"
)

// tail is the version of a row's stream: from memory, else from the file. The first row of a stream costs no look-up:
// where it is not the first, the unique index says so.
func (g *group) tail(r *events.Row) (int64, error) {
	if t, ok := g.s.tails[r.Stream]; ok || r.Version == 0 {
		return t.version, nil
	}
	q, err := g.c.stmt(selectTail)
	if err != nil {
		return 0, err
	}
	if err := q.BindText(1, r.Stream); err != nil {
		return 0, err
	}
	var v int64
	if q.Step() {
		v = q.ColumnInt64(0)
	}
	return v, errors.CombineErrors(q.Err(), q.Reset())
}

// ended says that a row would be the second end of its stream. Only a stream that has begun before this store knew of it
// has to be looked up: no index is kept for what is rarely asked.
func (g *group) ended(r *events.Row) (ended bool, err error) {
	if !r.Terminal || r.Version == 0 || g.s.tails[r.Stream].open {
		return false, nil
	}
	q, err := g.c.stmt(selectEnd)
	if err != nil {
		return false, err
	}
	if err := q.BindText(1, r.Stream); err != nil {
		return false, err
	}
	ended = q.Step()
	return ended, errors.CombineErrors(q.Err(), q.Reset())
}

// usual is what is bound to those five parameters of a row that mostly are what they were in the row before. A statement
// keeps its bindings, so only changes are bound. The zero value is a statement to which nothing is bound.
type usual struct {
	bound                             bool
	types, about, key, upstream, node nullable
}

// nullable is a text or NULL.
type nullable struct {
	text string
	null bool
}

func orNull(s string) nullable { return nullable{s, s == ""} }

func usualOf(r *events.Row) usual {
	u := usual{true, nullable{text: r.Types}, orNull(r.Request), orNull(r.Key), orNull(r.Upstream), orNull(r.Node)}
	if request, known := aboutOf(r.Stream); known {
		u.about = nullable{r.Request, r.Request == request}
		if u.about.null {
			u.about.text = ""
		}
	}
	return u
}

// usual binds what differs from the row before.
func (b *binder) usual(was *usual, r *events.Row) {
	is := usualOf(r)
	pair := func(was, is nullable, bound bool) {
		switch {
		case bound && was == is:
			b.n++
		case is.null:
			b.null()
		default:
			b.text(is.text)
		}
	}
	pair(was.types, is.types, was.bound)
	pair(was.about, is.about, was.bound)
	pair(was.key, is.key, was.bound)
	pair(was.upstream, is.upstream, was.bound)
	pair(was.node, is.node, was.bound)
	is.bound = b.err == nil
	*was = is
}

func (g *group) insertSecret(v *events.Secret) (bool, error) {
	q, err := g.c.stmt(insertSecret)
	if err != nil {
		return false, err
	}
	b := binder{stmt: q}
	b.text(v.ID)
	b.integer(v.Version)
	b.blob(v.Sealed)
	b.blob(v.Digest)
	return b.insert()
}

// seal adds the commit's link to the chain; a commit that stored nothing has none.
func (g *group) seal(batch []events.Append, results []events.Result, lowWater events.Position) (chain, error) {
	was := g.s.chain
	if len(g.s.hashes) == 0 {
		return was, nil
	}
	first := was.head + 1
	n := int64(g.next - first)
	end := chain{first: int64(first), head: g.next - 1, latest: g.latest}
	bounds := events.Bounds{LowWater: lowWater, Earliest: g.earliest, Latest: g.latest}
	end.hash = g.s.hasher.Commit(was.hash, first, n, bounds, g.s.hashes)
	q, err := g.c.stmt(insertCommit)
	if err != nil {
		return chain{}, err
	}
	b := binder{stmt: q}
	b.integer(int64(first))
	b.integer(n)
	b.integer(int64(lowWater))
	b.integer(g.earliest)
	b.integer(g.latest)
	b.blob(was.hash[:])
	b.blob(end.hash[:])
	if b.err != nil {
		return chain{}, b.err
	}
	if err := q.Exec(); err != nil {
		return chain{}, err
	}
	return end, g.index(batch, results, end)
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
		v, err := readSecret(g.c, a.Secrets[i].ID, a.Secrets[i].Version)
		if err != nil || v == nil || !sameSecret(v, &a.Secrets[i]) {
			return 0, err
		}
	}
	return first, nil
}

// same is the position of the row that is stored at r's place in its stream, 0 when it says anything else than r.
func (g *group) same(r *events.Row) (at events.Position, err error) {
	q, err := g.c.stmt(selectVersion)
	if err != nil {
		return 0, err
	}
	b := binder{stmt: q}
	b.text(r.Stream)
	b.integer(r.Version)
	if b.err != nil {
		return 0, b.err
	}
	if q.Step() {
		position := events.Position(q.ColumnInt64(0))
		hash := g.s.hasher.Row(position, r)
		if string(hash[:]) == string(q.ColumnRawBlob(1)) {
			at = position
		}
	}
	return at, errors.CombineErrors(q.Err(), q.Reset())
}

// aboutOf is the request that a stream's name tells of. Rows of such a stream hold the name of another one only.
func aboutOf(stream string) (request string, known bool) {
	if request, known = strings.CutPrefix(stream, events.RequestStreams); !known {
		return "", false
	}
	return request, true
}

func conflictOf(r *events.Row, why string) error {
	return fmt.Errorf("%w: %s %s, the append expects %d", events.ErrConflict, r.Stream, why, r.Version)
}

// binder binds parameters in order and keeps the first error.
type binder struct {
	stmt *sqlite3.Stmt
	n    int
	err  error
}

func (b *binder) next(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *binder) integer(v int64) { b.n++; b.next(b.stmt.BindInt64(b.n, v)) }
func (b *binder) text(v string)   { b.n++; b.next(b.stmt.BindText(b.n, v)) }
func (b *binder) null()           { b.n++; b.next(b.stmt.BindNull(b.n)) }

// rawText binds bytes as a text without making a string of them first.
func (b *binder) rawText(v []byte) { b.text(unsafe.String(unsafe.SliceData(v), len(v))) }

// blob binds nil as an empty blob, not as NULL.
func (b *binder) blob(v []byte) {
	b.n++
	if v == nil {
		v = []byte{}
	}
	b.next(b.stmt.BindBlob(b.n, v))
}

// insert executes; false: a unique index refused the row, which undid this statement only.
func (b *binder) insert() (bool, error) {
	if b.err != nil {
		return false, b.err
	}
	err := b.stmt.Exec()
	if errors.Is(err, sqlite3.CONSTRAINT_UNIQUE) || errors.Is(err, sqlite3.CONSTRAINT_PRIMARYKEY) {
		return false, nil
	}
	return err == nil, err
}
