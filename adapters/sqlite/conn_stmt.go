package sqlite

import (
	"unsafe"

	"github.com/cockroachdb/errors"
	"github.com/ncruces/go-sqlite3"
)

// stmt is the prepared statement of an SQL text, compiled once per connection. It comes reset; its parameters keep
// what was last bound to them, so bind all of them.
func (c *conn) stmt(sql string) (*sqlite3.Stmt, error) {
	if s := c.stmts[sql]; s != nil {
		_ = s.Reset() // repeats the error of the last Step, which its caller has had
		return s, nil
	}
	s, tail, err := c.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT)
	if err != nil {
		return nil, errors.Wrapf(err, "prepare %s", sql)
	}
	if s == nil || tail != "" {
		return nil, errors.Newf("prepare %s: not one statement", sql)
	}
	c.stmts[sql] = s
	return s, nil
}

// integer runs a statement with integer parameters and returns the first column of its first row, 0 when there is
// no row or the column is NULL.
func (c *conn) integer(sql string, args ...int64) (int64, error) {
	s, err := c.stmt(sql)
	if err != nil {
		return 0, err
	}
	for i, a := range args {
		if err := s.BindInt64(i+1, a); err != nil {
			return 0, err
		}
	}
	var n int64
	if s.Step() {
		n = s.ColumnInt64(0)
	}
	return n, errors.CombineErrors(s.Err(), s.Reset())
}

// text runs a statement without parameters and returns the first column of its first row, "" when there is none.
func (c *conn) text(sql string) (v string, err error) {
	err = c.each(sql, nil, func(q *sqlite3.Stmt) bool {
		v = q.ColumnText(0)
		return false
	})
	return v, err
}

// each runs a statement and visits the rows that it gives, until visit says false. A row is valid until visit returns, which may
// not run the same statement. bind may be nil.
func (c *conn) each(sql string, bind func(*binder), visit func(row *sqlite3.Stmt) (more bool)) error {
	q, err := c.bound(sql, bind)
	if err != nil {
		return err
	}
	for q.Step() && visit(q) {
	}
	return errors.CombineErrors(q.Err(), q.Reset())
}

// run executes one prepared statement without parameters.
func (c *conn) run(sql string) error {
	s, err := c.stmt(sql)
	if err != nil {
		return err
	}
	return s.Exec()
}

// exec runs a statement that gives no rows.
func (c *conn) exec(sql string, bind func(*binder)) error {
	q, err := c.bound(sql, bind)
	if err != nil {
		return err
	}
	return q.Exec()
}

// bound is a prepared statement with its parameters.
func (c *conn) bound(sql string, bind func(*binder)) (*sqlite3.Stmt, error) {
	q, err := c.stmt(sql)
	if err != nil || bind == nil {
		return q, err
	}
	b := binder{stmt: q}
	bind(&b)
	return q, b.err
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
