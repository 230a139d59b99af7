package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/jackc/pgx/v5"

	"github.com/penstock/penstock/projections"
)

// Bounds of one statement, and of the buffers that outlive it.
const (
	chunkRows     = 4096
	chunkBytes    = 8 << 20
	chunkKeptSize = 1 << 20
)

// readWriter writes row changes on one connection: one statement per table and kind of change, with an array per
// column, as often as the bounds of a statement ask for.
type readWriter struct {
	conn     *pgx.Conn
	wire     wire // over the same connection
	schema   string
	known    map[string]*readTable
	prepared map[string]string // names of statements by their SQL
	batches  []*readBatch
	shadow   bool
}

func newReadWriter(c *pgx.Conn, schema string, known map[string]*readTable) *readWriter {
	return &readWriter{conn: c, wire: newWire(c), schema: schema, known: known, prepared: map[string]string{}}
}

// readBatch are changes of one kind to one table, as the arrays that are sent.
type readBatch struct {
	table   *readTable
	op      projections.Op
	columns [][]byte
	nulls   []bool
	rows    int
	bytes   int
	copy    *copying // nil: by the statement only
}

// arrayHeader is the room for what stands before the elements: the length of all that follows, dimensions, whether there
// are NULLs, the type of the elements, their number, the index of the first.
const arrayHeader = 24

func (b *readBatch) add(values []projections.Value) error {
	b.bytes = 0
	if b.copy != nil {
		if err := b.copy.add(b, values); err != nil {
			return errors.Wrapf(err, "row %v of %s", values[:b.table.Key], b.table.Name)
		}
	}
	for i, v := range values {
		column := b.columns[i]
		if len(column) == 0 {
			column = append(column, make([]byte, arrayHeader)...)
		}
		column, err := appendField(column, b.table.kinds[i], b.table.names[i], v)
		if err != nil {
			return errors.Wrapf(err, "row %v of %s: column %s", values[:b.table.Key], b.table.Name, b.table.Columns[i].Name)
		}
		b.columns[i] = column
		b.nulls[i] = b.nulls[i] || v.IsNull()
		b.bytes += len(column)
	}
	b.rows++
	return nil
}

// arrays are the parameters of the statement, each behind its length.
func (b *readBatch) arrays() [][]byte {
	for i, column := range b.columns {
		head := [...]uint32{uint32(len(column) - 4), 1, 0, b.table.kinds[i].oid, uint32(b.rows), 1}
		if b.nulls[i] {
			head[2] = 1
		}
		for at, n := range head {
			binary.BigEndian.PutUint32(column[4*at:], n)
		}
	}
	return b.columns
}

func (b *readBatch) reset() {
	for i, column := range b.columns {
		if b.columns[i] = column[:0]; cap(column) > chunkKeptSize {
			b.columns[i] = nil
		}
		b.nulls[i] = false
	}
	b.rows, b.bytes = 0, 0
	if b.copy != nil {
		b.copy.rows = 0
	}
}

// write writes all changes. They touch every row once, so their order does not matter.
func (w *readWriter) write(ctx context.Context, changes *projections.Changes) error {
	for _, b := range w.batches {
		b.reset() // of a write that failed
	}
	for c := range changes.Cuts() {
		if err := w.cut(ctx, c); err != nil {
			return errors.Wrapf(err, "take rows away from %s", c.Table.Name)
		}
	}
	var b *readBatch
	for c := range changes.All() {
		if b == nil || b.op != c.Op || b.table.Table != c.Table {
			if b = w.batch(c.Table, c.Op); b == nil {
				return errors.Newf("read model has no table %q", c.Table.Name)
			}
		}
		if err := b.add(c.Values); err != nil {
			return err
		}
		if b.rows == chunkRows || b.bytes >= chunkBytes {
			if err := w.send(ctx, b); err != nil {
				return err
			}
		}
	}
	for _, b := range w.batches {
		if err := w.send(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// cut takes rows away.
func (w *readWriter) cut(ctx context.Context, c *projections.Cut) error {
	t := w.known[c.Table.Name]
	if t == nil || t.Table != c.Table {
		return errors.New("read model has no such table")
	}
	sql := "DELETE FROM " + w.table(t.Name) + " WHERE " + quote(t.Columns[0].Name) + " BETWEEN $1 AND $2"
	columns, borders := []int{0, 0}, []int64{c.From, c.To}
	if c.Column != "" {
		sql += " AND " + quote(c.Column) + " BETWEEN $3 AND $4"
		at := t.Column(c.Column)
		columns, borders = append(columns, at, at), append(borders, c.Low, c.High)
	}
	name, err := w.prepare(ctx, sql)
	if err != nil {
		return err
	}
	parameters := make([][]byte, len(borders))
	for i, n := range borders {
		field, err := appendField(nil, t.kinds[columns[i]], false, projections.Int(n))
		if err != nil {
			return errors.Wrapf(err, "column %s", t.Columns[columns[i]].Name)
		}
		parameters[i] = field[4:] // without its length
	}
	return w.conn.PgConn().ExecPrepared(ctx, name, parameters, []int16{pgx.BinaryFormatCode}, nil).Read().Err
}

// batch is the one of this table and kind of change, nil when the table is not known.
func (w *readWriter) batch(t *projections.Table, op projections.Op) *readBatch {
	known := w.known[t.Name]
	if known == nil || known.Table != t {
		return nil
	}
	for _, b := range w.batches {
		if b.table == known && b.op == op {
			return b
		}
	}
	b := &readBatch{table: known, op: op, copy: w.copiesInto(known, op), columns: make([][]byte, len(t.Columns)), nulls: make([]bool, len(t.Columns))}
	w.batches = append(w.batches, b)
	return b
}

func (w *readWriter) send(ctx context.Context, b *readBatch) error {
	if b.rows == 0 {
		return nil
	}
	if b.copy != nil {
		copied, err := b.copy.send(ctx, w, b.table)
		if err != nil || copied {
			b.reset()
			return errors.Wrapf(err, "copy rows into %s", b.table.Name)
		}
	}
	name, err := w.prepare(ctx, writeRows(w.schema, b.table, b.op))
	if err != nil {
		return errors.Wrapf(err, "write rows of %s", b.table.Name)
	}
	w.wire.arrays(name, b.arrays())
	err = w.wire.trip(ctx, nil)
	b.reset()
	return errors.Wrapf(err, "write rows of %s", b.table.Name)
}

func (w *readWriter) prepare(ctx context.Context, sql string) (string, error) {
	if name, done := w.prepared[sql]; done {
		return name, nil
	}
	name := fmt.Sprintf("read_%d", len(w.prepared)+1)
	if _, err := w.conn.Prepare(ctx, name, sql); err != nil {
		return "", err
	}
	w.prepared[sql] = name
	return name, nil
}

// writeRows is the SQL of one kind of change, for any number of rows.
func writeRows(schema string, t *readTable, op projections.Op) string {
	arrays := make([]string, len(t.Columns))
	for i, k := range t.kinds {
		kind, _, _ := strings.Cut(k.sql, " ") // an array needs no collation
		arrays[i] = fmt.Sprintf("unnest($%d::%s[])", i+1, kind)
	}
	var sets []string
	for i, c := range t.Columns[t.Key:] {
		if set := assign(c.Name, t.kinds[t.Key+i], op, i); set != "" {
			sets = append(sets, set)
		}
	}
	do := "NOTHING"
	if len(sets) > 0 {
		do = "UPDATE SET " + strings.Join(sets, ", ")
	}
	return fmt.Sprintf("INSERT INTO %s AS have (%s) SELECT %s ON CONFLICT (%s) DO %s",
		tableIn(schema, t.Name), quoteAll(columnNames(t.Table)), strings.Join(arrays, ", "), quoteAll(keyOf(t.Table)), do)
}

// assign is what a change does to the i-th column behind the key of a row that is there.
func assign(column string, k *readKind, op projections.Op, i int) string {
	name := quote(column)
	switch {
	case op == projections.Put:
		return name + " = excluded." + name
	case op == projections.Widen:
		return fmt.Sprintf("%s = %s(have.%s, excluded.%s)", name, [...]string{"least", "greatest"}[i%2], name, name)
	case op == projections.Add && k == kindMoment: // a number all the same; the session's zone has no leaps
		return fmt.Sprintf("%s = have.%s + (excluded.%s - timestamptz 'epoch')", name, name, name)
	case op == projections.Add && k != kindText && k != kindJSON:
		return fmt.Sprintf("%s = have.%s + excluded.%s", name, name, name)
	}
	return ""
}

// run runs statements without parameters.
func (w *readWriter) run(ctx context.Context, statements ...string) error {
	for _, sql := range statements {
		if _, err := w.conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
			return err
		}
	}
	return nil
}
