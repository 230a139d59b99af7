package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
)

const copyColumns = `COPY %s (position, version, at, day, n, terminal, hash, payload, stream, types, request, key, upstream, node)
	FROM STDIN BINARY`

// copiesMax bounds the statements that a session keeps prepared for partitions, but for those of one batch.
const copiesMax = 16

// prepareCopies prepares a COPY into each of the partitions. Whether there is such a partition matters only when it is
// executed.
func (w *session) prepareCopies(ctx context.Context, days []day) error {
	for _, d := range days {
		if w.copies[d] != "" {
			continue
		}
		if len(w.copies) >= copiesMax {
			if err := w.forgetCopies(ctx, days); err != nil {
				return err
			}
		}
		name := "penstock_copy_" + strconv.Itoa(int(d))
		if _, err := w.conn.Prepare(ctx, name, fmt.Sprintf(copyColumns, d.table())); err != nil {
			return err
		}
		w.copies[d] = name
	}
	return nil
}

// forgetCopies gives up all but some.
func (w *session) forgetCopies(ctx context.Context, but []day) error {
	for d, name := range w.copies {
		if slices.Contains(but, d) {
			continue
		}
		if err := w.conn.Deallocate(ctx, name); err != nil {
			return err
		}
		delete(w.copies, d)
	}
	return nil
}

// names are the row's texts: stream, types, request, key, upstream, node.
func (p *placed) names() [6]string {
	return [6]string{p.Stream, p.Types, p.Request, p.Key, p.Upstream, p.Node}
}

// epoch is PostgreSQL's year zero in microseconds since 1970.
const epoch = 946_684_800_000_000

// appendTuple appends a row of n facts in the binary form that COPY has for the types of the columns. Empty texts of the last four
// are NULL.
func appendTuple(b []byte, r *placed, n int64) []byte {
	b = append(b, 0, 14)
	b = appendInt8(b, int64(r.position))
	b = appendInt8(b, r.version)
	b = appendInt8(b, r.At.UnixMicro()-epoch)
	b = appendInt4(b, int32(r.day))
	b = appendInt4(b, int32(n))
	b = append(b, 0, 0, 0, 1, 0)
	if r.Terminal {
		b[len(b)-1] = 1
	}
	b = appendBytes(b, r.hash[:])
	b = appendBytes(b, r.payload)
	for i, name := range r.names() {
		if name == "" && i >= 2 {
			b = binary.BigEndian.AppendUint32(b, 0xffffffff) // NULL
			continue
		}
		b = appendBytes(b, text(name))
	}
	return b
}
