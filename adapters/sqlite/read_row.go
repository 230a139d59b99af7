package sqlite

import (
	"context"
	"fmt"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/ncruces/go-sqlite3"

	"github.com/penstock/penstock/projections"
)

// rowWriter writes row changes through prepared statements. It looks one up per run of changes of the same kind. A
// statement keeps what was bound to it, so what a row has in common with the one before it is not bound again: most of
// the texts.
type rowWriter struct {
	c     *conn
	table *projections.Table
	op    projections.Op
	stmt  *sqlite3.Stmt
	bound []projections.Value // to the statement; nothing before its first row
}

func (w *rowWriter) change(c *projections.Change) error {
	if w.stmt == nil || w.table != c.Table || w.op != c.Op {
		s, err := w.c.stmt(writeRow(c.Table, c.Op))
		if err != nil {
			return err
		}
		w.stmt, w.table, w.op, w.bound = s, c.Table, c.Op, w.bound[:0]
	}
	if err := w.bind(c.Values); err != nil {
		return err
	}
	return w.stmt.Exec()
}

func (w *rowWriter) bind(values []projections.Value) error {
	if len(w.bound) != len(values) {
		w.bound = append(w.bound[:0], values...)
		return bindValues(w.stmt, values)
	}
	for i, v := range values {
		if v == w.bound[i] {
			continue
		}
		w.bound[i] = v
		if err := bindValue(w.stmt, i, v); err != nil {
			return err
		}
	}
	return nil
}

// cutRows takes rows away.
func cutRows(c *conn, cut *projections.Cut) error {
	sql := "DELETE FROM " + quoted(cut.Table.Name) + " WHERE " + quoted(cut.Table.Columns[0].Name) + " BETWEEN ? AND ?"
	args := []int64{cut.From, cut.To}
	if cut.Column != "" {
		sql += " AND " + quoted(cut.Column) + " BETWEEN ? AND ?"
		args = append(args, cut.Low, cut.High)
	}
	_, err := c.integer(sql, args...)
	return err
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
	return errors.CombineErrors(scan.Err(), scan.Close())
}

func bindValues(s *sqlite3.Stmt, values []projections.Value) error {
	for i, v := range values {
		if err := bindValue(s, i, v); err != nil {
			return err
		}
	}
	return nil
}

func bindValue(s *sqlite3.Stmt, i int, v projections.Value) error {
	switch {
	case v.IsNull():
		return s.BindNull(i + 1)
	case v.IsText():
		return s.BindText(i+1, v.Text())
	default:
		return s.BindInt64(i+1, v.Int())
	}
}

// columnValues appends the columns of the statement's current row to row.
func columnValues(s *sqlite3.Stmt, row []projections.Value) []projections.Value {
	for i := range s.DataCount() {
		switch s.ColumnType(i) {
		case sqlite3.NULL:
			row = append(row, projections.Null())
		case sqlite3.INTEGER:
			row = append(row, projections.Int(s.ColumnInt64(i)))
		default:
			row = append(row, projections.Text(s.ColumnText(i)))
		}
	}
	return row
}

// createTable is the SQL of a declaration. A key of one number is the row id; other keys are the table's own order.
func createTable(t *projections.Table) string {
	var b strings.Builder
	fmt.Fprintf(&b, "CREATE TABLE IF NOT EXISTS %s (", quoted(t.Name))
	rowid := t.Key == 1 && t.Columns[0].Number()
	for i, c := range t.Columns {
		kind := "TEXT"
		if c.Number() {
			kind = "INTEGER"
		}
		fmt.Fprintf(&b, "%s %s", quoted(c.Name), kind)
		switch {
		case rowid && i == 0:
			b.WriteString(" PRIMARY KEY")
		case i < t.Key:
			b.WriteString(" NOT NULL")
		}
		b.WriteString(", ")
	}
	if rowid {
		return strings.TrimSuffix(b.String(), ", ") + ") STRICT"
	}
	return b.String() + "PRIMARY KEY (" + columns(t.Columns[:t.Key]) + ")) STRICT, WITHOUT ROWID"
}

func createIndex(t *projections.Table, names []string) string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = quoted(name)
	}
	return fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s ON %s (%s)",
		quoted(t.Name+"_"+strings.Join(names, "_")), quoted(t.Name), strings.Join(list, ", "))
}

// writeRow is the SQL of one kind of change.
func writeRow(t *projections.Table, op projections.Op) string {
	var b strings.Builder
	fmt.Fprintf(&b, "INSERT INTO %s (%s) VALUES (?%s) ON CONFLICT (%s) DO ",
		quoted(t.Name), columns(t.Columns), strings.Repeat(", ?", len(t.Columns)-1), columns(t.Columns[:t.Key]))
	if op == projections.Append || t.Key == len(t.Columns) {
		return b.String() + "NOTHING"
	}
	b.WriteString("UPDATE SET ")
	for i, c := range t.Columns[t.Key:] {
		if i > 0 {
			b.WriteString(", ")
		}
		name := quoted(c.Name)
		if op == projections.Add {
			fmt.Fprintf(&b, "%s = %s + excluded.%s", name, name, name)
		} else {
			fmt.Fprintf(&b, "%s = excluded.%s", name, name)
		}
	}
	return b.String()
}

// selectRows is the start of a query for whole rows.
func selectRows(t *projections.Table) string {
	return "SELECT " + columns(t.Columns) + " FROM " + quoted(t.Name)
}

func columns(list []projections.Column) string {
	names := make([]string, len(list))
	for i, c := range list {
		names[i] = quoted(c.Name)
	}
	return strings.Join(names, ", ")
}

func quoted(name string) string { return sqlite3.QuoteIdentifier(name) }
