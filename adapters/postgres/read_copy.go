package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/penstock/penstock/projections"
)

// copying brings appended rows into a table of a shadow by COPY, which costs the server a fraction of an INSERT that
// looks for conflicts. It is for tables whose key is one rising number, and does without looking because every new key
// lies behind the highest one that is there.
type copying struct {
	high  int64 // highest key of the table
	low   int64 // lowest and highest key that wait
	last  int64
	known bool // high is
	rows  int
	text  []byte
}

// copiesInto is the copying of a table, nil where it is not for it.
func (w *readWriter) copiesInto(t *readTable, op projections.Op) *copying {
	if !w.shadow || op != projections.Append || t.Key != 1 || !t.Columns[0].Number() {
		return nil
	}
	return &copying{}
}

// add makes a row of the batch ready to be copied, too.
func (c *copying) add(b *readBatch, values []projections.Value) (err error) {
	key := values[0].Int()
	if c.rows == 0 {
		c.text = append(c.text[:0], copyHead...)
		c.low, c.last = key, key
	}
	c.low, c.last = min(c.low, key), max(c.last, key)
	c.rows++
	c.text, err = b.table.appendRow(c.text, values)
	return err
}

// send copies what waits; false: some of it may be there already.
func (c *copying) send(ctx context.Context, w *readWriter, t *readTable) (bool, error) {
	if !c.known {
		c.high = math.MinInt64
		sql := "SELECT coalesce((SELECT " + quote(t.Columns[0].Name) + "::bigint FROM " + w.table(t.Name) +
			" ORDER BY " + quote(t.Columns[0].Name) + " DESC LIMIT 1), $1)"
		if err := w.conn.QueryRow(ctx, sql, pgx.QueryExecModeExec, c.high).Scan(&c.high); err != nil {
			return false, err
		}
		c.known = true
	}
	rising := c.low > c.high
	c.high = max(c.high, c.last) // also of a transaction that fails: then there is less copying, not more
	if !rising {
		return false, nil
	}
	text := binary.BigEndian.AppendUint16(c.text, math.MaxUint16) // no further row
	_, err := w.conn.PgConn().CopyFrom(ctx, bytes.NewReader(text), "COPY "+w.table(t.Name)+" FROM STDIN (FORMAT binary)")
	return true, err
}
