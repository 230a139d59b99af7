package sqlite

import (
	"fmt"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/penstock/penstock/projections"
)

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
		fmt.Fprintf(&b, "%s %s", quoted(c.Name), typeOf(c))
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

// typeOf is how a column is declared.
func typeOf(c projections.Column) string {
	if c.Number() {
		return "INTEGER"
	}
	return "TEXT"
}

func createIndex(t *projections.Table, names []string) string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = quoted(name)
	}
	return fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s ON %s (%s)",
		quoted(t.Name+"_"+strings.Join(names, "_")), quoted(t.Name), strings.Join(list, ", "))
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
