package projections

import (
	"iter"
	"slices"
)

// Cut takes rows away: those whose first key column, a number, lies in [From, To] and whose Column, when it is named,
// holds a number in [Low, High].
type Cut struct {
	Table     *Table
	From, To  int64
	Column    string
	Low, High int64
}

// Takes says that a row is one of them.
func (c *Cut) Takes(row []Value) bool {
	if n := row[0].n; n < c.From || n > c.To {
		return false
	}
	if c.Column == "" {
		return true
	}
	n := row[c.Table.Column(c.Column)].n
	return c.Low <= n && n <= c.High
}

// Cut takes rows away. Changes that were gathered before and are of such rows are forgotten; those that come after it
// stay. A store makes the cuts first.
func (c *Changes) Cut(cut Cut) {
	if cut.Column != "" && cut.Table.Column(cut.Column) < 0 {
		panic("projections: " + cut.Table.Name + " has no column " + cut.Column)
	}
	c.cuts = append(c.cuts, cut)
	c.rows++
	for _, t := range c.tables {
		if t.table == cut.Table {
			c.rows -= len(t.changes)
			t.keep(c, &cut)
			c.rows += len(t.changes)
		}
	}
}

// Cuts yields the cuts in order.
func (c *Changes) Cuts() iter.Seq[*Cut] {
	return func(yield func(*Cut) bool) {
		for i := range c.cuts {
			if !yield(&c.cuts[i]) {
				return
			}
		}
	}
}

// keep forgets the changes of rows that are cut.
func (r *touched) keep(c *Changes, cut *Cut) {
	if cut.Column != "" {
		for i := range r.changes {
			c.settle(&r.changes[i])
		}
	}
	r.changes = slices.DeleteFunc(r.changes, func(x Change) bool { return cut.Takes(x.Values) })
	clear(r.numbers)
	clear(r.keys)
	clear(r.told)
	for i, x := range r.changes {
		if r.numbers != nil {
			r.numbers[x.Values[0].n] = int32(i)
			continue
		}
		c.key = r.table.AppendKey(c.key[:0], x.Values)
		r.keys[string(c.key)] = int32(i)
	}
}
