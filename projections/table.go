package projections

import "fmt"

// Kind is what a column holds.
type Kind uint8

// The kinds. The last three are stored as integers, Text and JSON as text.
const (
	KindText   Kind = iota
	KindJSON        // text; a projection writes the same fact as the same bytes
	KindInt         // a whole number
	KindMoney       // units of 1e-10 USD
	KindMicros      // microseconds: since 1970 in UTC, or a duration
)

// Column is one field of the rows of a Table.
type Column struct {
	Name string
	Kind Kind
}

// Number says that the column holds an integer.
func (c Column) Number() bool { return c.Kind >= KindInt }

// Table declares the rows of a projection. Stores create their tables from it, so it is never migrated: a projection
// that changes a table raises its Version.
type Table struct {
	Name    string
	Columns []Column
	Key     int        // the first Key columns are the primary key; they are never NULL
	Indexes [][]string // secondary ones, by column names; each costs every write
}

// Column is the place of a column, -1 when there is none of that name.
func (t *Table) Column(name string) int {
	for i := range t.Columns {
		if t.Columns[i].Name == name {
			return i
		}
	}
	return -1
}

// Check refuses a declaration that no store can make a table of.
func (t *Table) Check() error {
	if t.Name == "" {
		return fmt.Errorf("table: name is missing")
	}
	if t.Key < 1 || t.Key > len(t.Columns) {
		return fmt.Errorf("table %s: key: %d of %d columns", t.Name, t.Key, len(t.Columns))
	}
	for i, c := range t.Columns {
		if c.Name == "" || t.Column(c.Name) != i {
			return fmt.Errorf("table %s: column %d: name %q is missing or taken", t.Name, i, c.Name)
		}
	}
	for _, index := range t.Indexes {
		for _, name := range index {
			if t.Column(name) < 0 {
				return fmt.Errorf("table %s: indexes: there is no column %q", t.Name, name)
			}
		}
	}
	return nil
}
