package sqlite

import (
	"context"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/events"
)

var _ events.Scanner = (*Store)(nil)

// scanPage bounds the rows of a page of Scan.
const scanPage = 2048

// Scan implements events.Scanner. As with After, no snapshot is held between two pages.
func (s *Store) Scan(ctx context.Context, after events.Position, need func(string) bool, yield func([]events.Stored) bool) error {
	head := events.Position(0)
	for first := true; first || after < head; first = false {
		page := make([]events.Stored, 0, scanPage)
		err := s.read(ctx, func(c *conn) (err error) {
			if first {
				end, err := readChain(c)
				if err != nil {
					return err
				}
				head = end.head
			}
			page, err = scanRows(c, page, after, head, need)
			return err
		})
		if err != nil || len(page) == 0 {
			return err
		}
		after = page[len(page)-1].End()
		if !yield(page) {
			return nil
		}
	}
	return nil
}

// scanRows appends the next rows, without what Scan leaves out: each column that is read costs.
func scanRows(c *conn, page []events.Stored, after, head events.Position, need func(string) bool) ([]events.Stored, error) {
	q, err := c.stmt(`SELECT position, n, stream, version, at, types, node, payload` + fromPosition)
	if err != nil {
		return nil, err
	}
	b := binder{stmt: q}
	b.integer(int64(after + 1))
	b.integer(int64(head))
	b.integer(scanPage)
	if b.err != nil {
		return nil, b.err
	}
	texts := interned{}
	wanted := map[string]bool{}
	for q.Step() {
		page = append(page, events.Stored{})
		r := &page[len(page)-1]
		r.Position = events.Position(q.ColumnInt64(0))
		r.N = q.ColumnInt64(1)
		r.Stream = q.ColumnText(2)
		r.Version = q.ColumnInt64(3)
		r.At = time.UnixMicro(q.ColumnInt64(4)).UTC()
		r.Types = texts.of(q.ColumnRawText(5))
		r.Node = texts.of(q.ColumnRawText(6))
		want, asked := wanted[r.Types]
		if !asked {
			want = need(r.Types)
			wanted[r.Types] = want
		}
		if want {
			r.Payload = q.ColumnBlob(7, nil)
		}
	}
	return page, errors.CombineErrors(q.Err(), q.Reset())
}
