package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// insertRows is one statement for any number of rows of a partition; empty texts of the last four become NULL.
const insertRows = `INSERT INTO %[1]s (position, version, at, day, n, terminal, stream, types, hash, payload, request, key, upstream, node)
	SELECT position, version, at, %[2]d, n, terminal, stream, types, hash, payload,
		nullif(request, ''), nullif(key, ''), nullif(upstream, ''), nullif(node, '')
	FROM unnest($1::bigint[], $2::bigint[], $3::timestamptz[], $4::integer[], $5::boolean[], $6::text[], $7::text[], $8::bytea[], $9::json[],
		$10::text[], $11::text[], $12::text[], $13::text[])
	AS r (position, version, at, n, terminal, stream, types, hash, payload, request, key, upstream, node)`

// queueEvents queues the INSERT of the rows of one partition.
func queueEvents(b *pgx.Batch, d day, rows []*placed) {
	n := len(rows)
	position, version, at, facts, terminal := make([]int64, n), make([]int64, n), make([]time.Time, n), make([]int32, n), make([]bool, n)
	hash, payload := make([][]byte, n), make([][]byte, n)
	var names [6][]string // stream, types, request, key, upstream, node
	all := make([]string, 6*n)
	for i := range names {
		names[i] = all[i*n : (i+1)*n]
	}
	for i, r := range rows {
		position[i], version[i], at[i], facts[i], terminal[i] = int64(r.position), r.version, r.At, int32(len(r.Facts)), r.Terminal
		hash[i], payload[i] = r.hash[:], r.payload
		for j, name := range r.names() {
			names[j][i] = text(name)
		}
	}
	b.Queue(fmt.Sprintf(insertRows, d.table(), d), position, version, at, facts, terminal, names[0], names[1], hash, payload,
		names[2], names[3], names[4], names[5])
}

// names are the row's texts: stream, types, request, key, upstream, node.
func (p *placed) names() [6]string {
	return [6]string{p.Stream, p.Types, p.Request, p.Key, p.Upstream, p.Node}
}

const copyColumns = `COPY %s (position, version, at, day, n, terminal, hash, payload, stream, types, request, key, upstream, node)
	FROM STDIN BINARY`

// copyEvents writes the rows of one partition by COPY, in the binary form that it has for the types of the columns.
func copyEvents(ctx context.Context, c *pgx.Conn, d day, rows []*placed) error {
	size := 64
	for _, r := range rows {
		size += len(r.payload) + 400
	}
	b := make([]byte, 0, size)
	b = append(b, copyHead...)
	for _, r := range rows {
		b = appendTuple(b, r)
	}
	b = binary.BigEndian.AppendUint16(b, 0xffff) // no more rows
	_, err := c.PgConn().CopyFrom(ctx, bytes.NewReader(b), fmt.Sprintf(copyColumns, d.table()))
	return err
}

// epoch is PostgreSQL's year zero in microseconds since 1970.
const epoch = 946_684_800_000_000

func appendTuple(b []byte, r *placed) []byte {
	be := binary.BigEndian
	b = be.AppendUint16(b, 14)
	b = be.AppendUint64(be.AppendUint32(b, 8), uint64(r.position))
	b = be.AppendUint64(be.AppendUint32(b, 8), uint64(r.version))
	b = be.AppendUint64(be.AppendUint32(b, 8), uint64(r.At.UnixMicro()-epoch))
	b = be.AppendUint32(be.AppendUint32(b, 4), uint32(r.day))
	b = be.AppendUint32(be.AppendUint32(b, 4), uint32(len(r.Facts)))
	b = be.AppendUint32(b, 1)
	if r.Terminal {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	b = append(be.AppendUint32(b, uint32(len(r.hash))), r.hash[:]...)
	b = append(be.AppendUint32(b, uint32(len(r.payload))), r.payload...)
	for i, name := range r.names() {
		if name == "" && i >= 2 {
			b = be.AppendUint32(b, 0xffffffff) // NULL
			continue
		}
		name = text(name)
		b = append(be.AppendUint32(b, uint32(len(name))), name...)
	}
	return b
}
