package postgres

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/penstock/penstock/events"
)

// scanRows runs a query for eventColumns and appends what it finds.
func scanRows(ctx context.Context, c *pgx.Conn, page []events.Stored, sql string, args []any) ([]events.Stored, error) {
	binaryForm := pgx.QueryResultFormats{pgx.BinaryFormatCode}
	found, err := c.Query(ctx, sql, append([]any{binaryForm}, args...)...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	names := interned{}
	for found.Next() {
		page = append(page, events.Stored{})
		scanRow(&page[len(page)-1], found.RawValues(), names)
	}
	return page, found.Err()
}

// scanRow reads the binary form of the columns. What it keeps is copied: v is the connection's buffer.
func scanRow(r *events.Stored, v [][]byte, names interned) {
	be := binary.BigEndian
	r.Position = events.Position(be.Uint64(v[0]))
	r.N = int64(be.Uint32(v[1]))
	r.Stream = plain(v[2])
	r.Version = int64(be.Uint64(v[3]))
	r.Terminal = v[4][0] != 0
	r.At = time.UnixMicro(int64(be.Uint64(v[5])) + epoch).UTC()
	r.Types = names.of(v[6])
	r.Request = part(r.Stream, v[7])
	r.Key = names.of(v[8])
	r.Upstream = names.of(v[9])
	r.Node = names.of(v[10])
	copy(r.Hash[:], v[11])
	r.Payload = payloadOf(v[12])
}

// part is a column as a string, without a copy when the text ends with it.
func part(text string, b []byte) string {
	if i := len(text) - len(b); i >= 0 && text[i:] == string(b) {
		return text[i:]
	}
	return plain(b)
}

// interned keeps one string per text that the rows of a page repeat.
type interned map[string]string

func (m interned) of(b []byte) string {
	if s, ok := m[string(b)]; ok {
		return s
	}
	s := plain(b)
	m[string(b)] = s
	return s
}
