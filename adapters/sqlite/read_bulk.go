package sqlite

import (
	"context"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/ncruces/go-sqlite3"

	"github.com/penstock/penstock/projections"
)

// bulkRows is how many rows one statement writes where there are so many: a statement that goes on to the next row need
// not find its place in the table and in each index again.
const bulkRows = 32

// rowWriter writes row changes, bulkRows at a time. flush must be called in the end.
type rowWriter struct {
	c     *conn
	kind  rowKind
	rows  []projections.Value // that wait, one behind the other
	count int
}

// rowKind is what a statement writes.
type rowKind struct {
	table *projections.Table
	op    projections.Op
	rows  int
}

// rowStmt is a prepared statement with what is bound to it. What its parameters have in common with those before is not
// bound again: most of the texts.
type rowStmt struct {
	*sqlite3.Stmt
	bound []projections.Value // nothing before its first use
}

// change writes a row now or later; its values are copied.
func (w *rowWriter) change(c *projections.Change) error {
	if w.kind.table != c.Table || w.kind.op != c.Op {
		if err := w.flush(); err != nil {
			return err
		}
		w.kind = rowKind{c.Table, c.Op, bulkRows}
	}
	w.rows = append(w.rows, c.Values...)
	if w.count++; w.count < bulkRows {
		return nil
	}
	return w.flush()
}

// flush writes what waits: the rows of a whole bulk at once, fewer one by one.
func (w *rowWriter) flush() error {
	kind, rows := w.kind, w.rows
	width := len(rows)
	if w.count < bulkRows {
		kind.rows = 1
		width /= max(w.count, 1)
	}
	w.rows, w.count = rows[:0], 0
	for len(rows) > 0 {
		if err := w.c.writeRows(kind, rows[:width]); err != nil {
			return errors.Wrapf(err, "write row %v of %s", rows[:kind.table.Key], kind.table.Name)
		}
		rows = rows[width:]
	}
	return nil
}

// writeRows writes as many rows as the kind says.
func (c *conn) writeRows(kind rowKind, values []projections.Value) error {
	if kind.table.Key == len(kind.table.Columns) {
		kind.op = projections.Append // one text for all changes, so one statement and one memory of what is bound to it
	}
	s := c.rows[kind]
	if s == nil {
		stmt, err := c.stmt(writeRow(kind.table, kind.op, kind.rows))
		if err != nil {
			return err
		}
		s = &rowStmt{Stmt: stmt}
		c.rows[kind] = s
	}
	if err := s.bind(values); err != nil {
		return err
	}
	return s.Exec()
}

func (s *rowStmt) bind(values []projections.Value) error {
	if len(s.bound) != len(values) {
		if err := bindValues(s.Stmt, values); err != nil {
			return err
		}
		s.bound = append(s.bound[:0], values...)
		return nil
	}
	for i, v := range values {
		if v == s.bound[i] {
			continue
		}
		if err := bindValue(s.Stmt, i, v); err != nil {
			return err
		}
		s.bound[i] = v
	}
	return nil
}

// copy writes all rows of another read model's table.
func (w *rowWriter) copy(ctx context.Context, t *projections.Table, from projections.Snapshot) error {
	scan, err := from.Scan(ctx, t)
	if err != nil {
		return err
	}
	c := projections.Change{Table: t, Op: projections.Put}
	more := true
	for c.Values, more = scan.Next(); more; c.Values, more = scan.Next() {
		if err := w.change(&c); err != nil {
			return errors.CombineErrors(err, scan.Close())
		}
	}
	return errors.CombineErrors(errors.CombineErrors(scan.Err(), w.flush()), scan.Close())
}

// writeRow is the SQL of one kind of change to some rows. OR FAIL: an error takes the whole transaction back, so a statement need
// not be able to take back its own part, for which SQLite copies each page first that one of many rows touches. (It does so
// all the same for tables whose key is the row id.)
func writeRow(t *projections.Table, op projections.Op, rows int) string {
	row := "(?" + strings.Repeat(", ?", len(t.Columns)-1) + ")"
	var b strings.Builder
	b.WriteString("INSERT OR FAIL INTO " + quoted(t.Name) + " (" + columns(t.Columns) + ") VALUES " + row +
		strings.Repeat(", "+row, rows-1) + " ON CONFLICT (" + columns(t.Columns[:t.Key]) + ") DO ")
	if op == projections.Append || t.Key == len(t.Columns) {
		return b.String() + "NOTHING"
	}
	b.WriteString("UPDATE SET ")
	for i, c := range t.Columns[t.Key:] {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(assign(quoted(c.Name), op, i))
	}
	return b.String()
}

// assign is what a change does to the i-th column behind the key of a row that is there.
func assign(name string, op projections.Op, i int) string {
	switch op {
	case projections.Add:
		return name + " = " + name + " + excluded." + name
	case projections.Widen:
		return name + " = " + [...]string{"min", "max"}[i%2] + "(" + name + ", excluded." + name + ")"
	}
	return name + " = excluded." + name
}
