package projections

import (
	"iter"
	"math"
)

// Op is what a Change does to its row.
type Op uint8

const (
	// Put writes the whole row, whether or not there was one of this key.
	Put Op = iota
	// Append writes the row unless there is one of this key.
	Append
	// Add adds the columns behind the key to those of the row of this key, which starts at 0.
	Add
	// Widen reads the columns behind the key as pairs of a lowest and a highest number, and moves those of the row of this
	// key apart as far as those of the change; without such a row it writes it.
	Widen
)

// Change is one row change. Values has one value per column of the table.
type Change struct {
	Table  *Table
	Op     Op
	Values []Value
	later  func([]Value) []Value // appends the values, of which only the key is there; nil: they are
}

// Changes gathers row changes and joins those of one row: the last Put wins, additions are summed. Its size is bounded
// by the rows that are touched, not by the facts that touched them. The zero value is empty. One goroutine may use it.
type Changes struct {
	tables []*touched
	cuts   []Cut
	rows   int
	chunks [][]Value // arena of the rows' values; the one at full is being filled
	full   int
	key    []byte
	row    []Value // being made
}

// touched are the changed rows of one table.
type touched struct {
	table   *Table
	changes []Change
	numbers map[int64]int32  // by key, for tables whose key is one number
	keys    map[string]int32 // by AppendKey, for the others
	recent  int32            // place of the row of those that was found last
	told    map[Told]struct{}
}

// Told is what a fold has made rows of: all that they depend on.
type Told struct {
	N     int64
	Texts [5]string
}

// chunk is how many values are allocated at once; at most chunksKept of them outlive a Reset.
const (
	chunk      = 8192
	chunksKept = 32
)

// Put writes a whole row.
func (c *Changes) Put(t *Table, values ...Value) { c.change(t, Put, values) }

// PutLater is Put for a row that may change many times before it is stored: row, which appends its values, is called
// when the changes are read. The table's key is one number.
func (c *Changes) PutLater(t *Table, key int64, row func([]Value) []Value) {
	rows := c.touched(t)
	c.row = append(c.row[:0], Int(key))
	at, known := rows.find(c, c.row)
	if !known {
		values := c.room(len(t.Columns))
		values[0] = Int(key)
		rows.changes = append(rows.changes, Change{Table: t, Op: Put, Values: values, later: row})
		c.rows++
		return
	}
	rows.changes[at].Op, rows.changes[at].later = Put, row
}

// settle fills in the values that were left for later.
func (c *Changes) settle(change *Change) {
	if change.later == nil {
		return
	}
	c.row = change.later(c.row[:0])
	c.mustFit(change.Table, c.row)
	copy(change.Values, c.row)
	change.later = nil
}

// Append writes a row once.
func (c *Changes) Append(t *Table, values ...Value) { c.change(t, Append, values) }

// Add adds to a row; the values behind the key are numbers.
func (c *Changes) Add(t *Table, values ...Value) { c.change(t, Add, values) }

// Widen moves the bounds of a row apart; the values behind the key are pairs of a lowest and a highest number.
func (c *Changes) Widen(t *Table, values ...Value) { c.change(t, Widen, values) }

// Again says that rows of the table have been made of the same before, and are still there: most folds of a projection that
// tells few things apart can end here. The first time it notes it.
func (c *Changes) Again(t *Table, of Told) bool {
	rows := c.touched(t)
	if _, told := rows.told[of]; told {
		return true
	}
	if rows.told == nil {
		rows.told = map[Told]struct{}{}
	}
	rows.told[of] = struct{}{}
	return false
}

// Len is the number of rows and cuts.
func (c *Changes) Len() int { return c.rows }

// All yields the changes, table by table, in the order in which rows were first touched.
func (c *Changes) All() iter.Seq[*Change] {
	return func(yield func(*Change) bool) {
		for _, t := range c.tables {
			for i := range t.changes {
				c.settle(&t.changes[i])
				if !yield(&t.changes[i]) {
					return
				}
			}
		}
	}
}

// Reset forgets all changes and keeps the memory.
func (c *Changes) Reset() {
	for _, t := range c.tables {
		clear(t.changes)
		t.changes = t.changes[:0]
		clear(t.numbers)
		clear(t.keys)
		clear(t.told)
	}
	for i := range c.chunks {
		clear(c.chunks[i])
		c.chunks[i] = c.chunks[i][:0]
	}
	if len(c.chunks) > chunksKept {
		clear(c.chunks[chunksKept:])
		c.chunks = c.chunks[:chunksKept]
	}
	clear(c.cuts)
	c.cuts = c.cuts[:0]
	c.full, c.rows = 0, 0
}

func (c *Changes) change(t *Table, op Op, values []Value) {
	c.mustFit(t, values)
	rows := c.touched(t)
	at, known := rows.find(c, values)
	if !known {
		rows.changes = append(rows.changes, Change{Table: t, Op: op, Values: c.keep(values)})
		c.rows++
		return
	}
	have := &rows.changes[at]
	switch op {
	case Put:
		have.Op, have.later = Put, nil
		copy(have.Values, values)
	case Add:
		c.settle(have)
		for i := t.Key; i < len(values); i++ {
			have.Values[i] = Sum(have.Values[i], values[i])
		}
	case Widen:
		c.settle(have)
		WidenRow(t, have.Values, values)
	}
}

// WidenRow moves the bounds of a row apart as far as those of another one of the same key.
func WidenRow(t *Table, row, by []Value) {
	for i := t.Key; i+1 < len(row); i += 2 {
		row[i].n, row[i+1].n = min(row[i].n, by[i].n), max(row[i+1].n, by[i+1].n)
	}
}

// Sum adds two numbers. What no column holds becomes the largest or the smallest number: a sum that is wrong is seen to be, and
// never turns from much money into a debt. Databases refuse such a sum with an error.
func Sum(a, b Value) Value {
	n := a.n + b.n
	switch {
	case a.n > 0 && b.n > 0 && n < 0:
		n = math.MaxInt64
	case a.n < 0 && b.n < 0 && n >= 0:
		n = math.MinInt64
	}
	return Int(n)
}

func (c *Changes) mustFit(t *Table, values []Value) {
	if len(values) != len(t.Columns) {
		panic("projections: a row of " + t.Name + " has another number of values than the table has columns")
	}
}

func (c *Changes) touched(t *Table) *touched {
	for _, rows := range c.tables {
		if rows.table == t {
			return rows
		}
	}
	rows := &touched{table: t}
	if t.Key == 1 && t.Columns[0].Number() {
		rows.numbers = map[int64]int32{}
	} else {
		rows.keys = map[string]int32{}
	}
	c.tables = append(c.tables, rows)
	return rows
}

// find is the place of the change to the row of this key; an unknown key gets the next place.
func (r *touched) find(c *Changes, values []Value) (at int32, known bool) {
	next := int32(len(r.changes))
	if r.numbers != nil {
		if at, known = r.numbers[values[0].n]; !known {
			r.numbers[values[0].n] = next
		}
		return at, known
	}
	// Most facts of a moment are of the same sums and blocks: to compare costs less than to make a key of ten texts and hash it.
	if r.recent < next && r.table.sameKey(values, r.changes[r.recent].Values) {
		return r.recent, true
	}
	c.key = r.table.AppendKey(c.key[:0], values)
	if at, known = r.keys[string(c.key)]; !known {
		r.keys[string(c.key)] = next
		at = next
	}
	r.recent = at
	return at, known
}

// keep copies values into the arena.
func (c *Changes) keep(values []Value) []Value {
	kept := c.room(len(values))
	copy(kept, values)
	return kept
}

// room is a new part of the arena, of n zero values.
func (c *Changes) room(n int) []Value {
	if c.full < len(c.chunks) && len(c.chunks[c.full])+n > chunk {
		c.full++
	}
	if c.full == len(c.chunks) {
		c.chunks = append(c.chunks, make([]Value, 0, chunk))
	}
	into := c.chunks[c.full]
	from := len(into)
	c.chunks[c.full] = into[:from+n]
	return into[from : from+n : from+n]
}
