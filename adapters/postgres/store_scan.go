package postgres

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/penstock/penstock/events"
)

var _ events.Scanner = (*Store)(nil)

// scanPage bounds the rows of a page of Scan.
const scanPage = 2048

// scanColumns are those that Scan reads, in the order of place.
const scanColumns = `position, n, stream, version, at, types, node, payload`

// Scan implements events.Scanner. As with After, neither a connection nor a snapshot is held between two pages.
func (s *Store) Scan(ctx context.Context, after events.Position, need func(string) bool, yield func([]events.Stored) bool) error {
	var q *question
	for q == nil || len(q.segments) > 0 {
		page := make([]events.Stored, 0, scanPage)
		err := s.read(ctx, func(ctx context.Context, c *pgx.Conn) (err error) {
			page = page[:0]
			if q == nil {
				begun, _, err := behind(ctx, c, after)
				if err != nil {
					return err
				}
				q = begun
				q.columns = scanColumns
			}
			if len(q.segments) == 0 {
				return nil
			}
			sql, args := q.sql(scanPage)
			page, err = scanStored(ctx, c, page, sql, args, need)
			return err
		})
		if err != nil {
			return err
		}
		if len(page) < scanPage && len(q.segments) > 0 {
			q.segments = q.segments[1:]
		} else if len(page) > 0 {
			q.passed(&page[len(page)-1])
		}
		if len(page) > 0 && !yield(page) {
			return nil
		}
	}
	return nil
}

// scanStored runs a query for scanColumns and appends what it finds.
func scanStored(ctx context.Context, c *pgx.Conn, page []events.Stored, sql string, args []any, need func(string) bool) ([]events.Stored, error) {
	binaryForm := pgx.QueryResultFormats{pgx.BinaryFormatCode}
	found, err := c.Query(ctx, sql, append([]any{binaryForm}, args...)...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	texts := interned{}
	wanted := map[string]bool{}
	be := binary.BigEndian
	for found.Next() {
		v := found.RawValues()
		page = append(page, events.Stored{})
		r := &page[len(page)-1]
		r.Position = events.Position(be.Uint64(v[0]))
		r.N = int64(be.Uint32(v[1]))
		r.Stream = plain(v[2])
		r.Version = int64(be.Uint64(v[3]))
		r.At = time.UnixMicro(int64(be.Uint64(v[4])) + epoch).UTC()
		r.Types = texts.of(v[5])
		r.Node = texts.of(v[6])
		want, asked := wanted[r.Types]
		if !asked {
			want = need(r.Types)
			wanted[r.Types] = want
		}
		if want {
			r.Payload = payloadOf(v[7])
		}
	}
	return page, found.Err()
}
