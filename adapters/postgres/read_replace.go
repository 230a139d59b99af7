package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/projections"
)

// Replace implements projections.ReadModel. The new rows are brought beside the old ones, and what differs is written
// in the same transaction: who reads meanwhile sees the old rows and waits for nothing, equal rows cost no space, and
// grants and views of the operator's stay. Tables of another version give way to new ones when those are complete.
func (m *ReadModel) Replace(ctx context.Context, p projections.Projection, with projections.Snapshot, at projections.Checkpoint) error {
	return m.transact(ctx, 0, func(ctx context.Context, w *readWriter) error {
		stored, err := w.locked(ctx, []string{p.Name()})
		if err != nil {
			return err
		}
		if stored[p.Name()].Version != p.Version() {
			if err := w.supersede(ctx, p, with); err != nil {
				return err
			}
			return w.setCheckpoint(ctx, at, p)
		}
		if err := w.create(ctx, p); err != nil {
			return err
		}
		for _, t := range p.Tables() {
			if err := w.replace(ctx, w.known[t.Name], with); err != nil {
				return errors.Wrapf(err, "replace rows of %s", t.Name)
			}
		}
		return w.setCheckpoint(ctx, at, p)
	})
}

// readGiveWayMax is how long the switch to new tables waits for those who read the old ones; who comes meanwhile waits
// behind it.
const readGiveWayMax = "2s"

// supersede makes the tables of a projection in a schema of their own, with the rows of the snapshot, and then puts them
// in the place of those of another version: only that needs the old ones for itself.
func (w *readWriter) supersede(ctx context.Context, p projections.Projection, with projections.Snapshot) error {
	tables, err := readTables(p)
	if err != nil {
		return err
	}
	incoming := readWriter{conn: w.conn, schema: w.schema + "_incoming"}
	if err := w.run(ctx, "CREATE SCHEMA "+quote(incoming.schema)); err != nil {
		return errors.Wrap(err, "make room for new tables")
	}
	for _, t := range tables {
		statements := incoming.createTable(t, p)
		err := w.run(ctx, statements[0])
		if err == nil {
			// Frozen: the pages are known at once to hold nothing but rows that everybody sees.
			err = incoming.bring(ctx, t, t.Name, with, "FREEZE")
		}
		if err == nil {
			err = w.run(ctx, append(statements[1:], "ANALYZE "+incoming.table(t.Name))...)
		}
		if err != nil {
			return errors.Wrapf(err, "make table %s anew", t.Name)
		}
	}
	if err := w.run(ctx, "SET LOCAL lock_timeout = '"+readGiveWayMax+"'"); err != nil {
		return err
	}
	if err := w.drop(ctx, p); err != nil {
		return err
	}
	w.batches = nil // of tables that are no more
	for _, t := range tables {
		if err := w.run(ctx, "ALTER TABLE "+incoming.table(t.Name)+" SET SCHEMA "+quote(w.schema)); err != nil {
			return errors.Wrapf(err, "put table %s in its place", t.Name)
		}
		w.known[t.Name] = t
	}
	return w.run(ctx, "DROP SCHEMA "+quote(incoming.schema))
}

// bring copies all rows of the snapshot's table into an empty one of the writer's schema. options are more ones of the COPY.
func (w *readWriter) bring(ctx context.Context, t *readTable, into string, with projections.Snapshot, options ...string) error {
	scan, err := with.Scan(ctx, t.Table)
	if err != nil {
		return err
	}
	rows := &copyText{table: t, rows: scan}
	_, err = w.conn.PgConn().CopyFrom(ctx, rows, "COPY "+w.table(into)+" FROM STDIN ("+strings.Join(append(options, "FORMAT binary"), ", ")+")")
	if rows.err != nil {
		err = rows.err
	}
	return errors.CombineErrors(err, scan.Close())
}

// replace makes the rows of one table those of the snapshot.
func (w *readWriter) replace(ctx context.Context, t *readTable, with projections.Snapshot) error {
	live, fresh := w.table(t.Name), w.table("incoming_"+t.Name)
	err := w.run(ctx, fmt.Sprintf("CREATE UNLOGGED TABLE %s (LIKE %s)", fresh, live))
	if err == nil {
		err = w.bring(ctx, t, "incoming_"+t.Name, with)
	}
	if err != nil {
		return err
	}
	var keys, same []string
	for i, c := range t.Columns {
		name := quote(c.Name)
		switch {
		case i < t.Key:
			keys = append(keys, fmt.Sprintf("have.%s = fresh.%s", name, name))
		case t.kinds[i] == kindJSON:
			same = append(same, fmt.Sprintf("have.%s::text IS NOT DISTINCT FROM fresh.%s::text", name, name))
		default:
			same = append(same, fmt.Sprintf("have.%s IS NOT DISTINCT FROM fresh.%s", name, name))
		}
	}
	names, key := quoteAll(columnNames(t.Table)), strings.Join(keys, " AND ")
	return w.run(ctx,
		"ANALYZE "+fresh,
		fmt.Sprintf("DELETE FROM %s AS have WHERE NOT EXISTS (SELECT FROM %s AS fresh WHERE %s)", live, fresh,
			strings.Join(append(keys, same...), " AND ")),
		fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s AS fresh WHERE NOT EXISTS (SELECT FROM %s AS have WHERE %s)",
			live, names, names, fresh, live, key),
		"DROP TABLE "+fresh,
	)
}

// copyText is the text of a binary COPY: a head, the rows, an end.
type copyText struct {
	table *readTable
	rows  projections.Rows
	ready []byte
	begun bool
	ended bool
	err   error
}

const (
	copyHead = "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	copySize = 32 << 10 // of what is made ready at once, about
)

// Read implements io.Reader.
func (c *copyText) Read(p []byte) (int, error) {
	if len(c.ready) == 0 {
		if c.ended {
			return 0, io.EOF
		}
		if c.err = c.more(); c.err != nil {
			return 0, c.err
		}
	}
	n := copy(p, c.ready)
	c.ready = c.ready[n:]
	return n, nil
}

// more makes some rows ready.
func (c *copyText) more() error {
	b := make([]byte, 0, copySize+copySize/2)
	if !c.begun {
		b, c.begun = append(b, copyHead...), true
	}
	for len(b) < copySize {
		row, more := c.rows.Next()
		if !more {
			c.ready, c.ended = binary.BigEndian.AppendUint16(b, math.MaxUint16), true // no further row
			return c.rows.Err()
		}
		var err error
		if b, err = c.table.appendRow(b, row); err != nil {
			return errors.Wrapf(err, "row %v", row[:c.table.Key])
		}
	}
	c.ready = b
	return nil
}

// appendRow appends a row of a binary COPY.
func (t *readTable) appendRow(b []byte, row []projections.Value) ([]byte, error) {
	b = binary.BigEndian.AppendUint16(b, uint16(len(row)))
	for i, v := range row {
		var err error
		if b, err = appendField(b, t.kinds[i], t.names[i], v); err != nil {
			return b, errors.Wrapf(err, "column %s", t.Columns[i].Name)
		}
	}
	return b, nil
}
