package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/penstock/penstock/events"
)

// eventsMax bounds the rows that are read in one statement. A read of many pages holds neither a connection nor a
// snapshot between them, so a slow reader keeps nothing from being cleaned up; rows do not change, and the head of
// its first page bounds what it sees, so that it is as consistent as one snapshot.
const eventsMax = 512

// scanMax bounds the positions among which one statement searches, so that one that finds little ends in time.
const scanMax = 200_000

// daysMax bounds the partitions that are merged for one page.
const daysMax = 8

const eventColumns = `position, n, stream, version, terminal, at, types, request, key, upstream, node, hash, payload`

// Stream reads the rows of one stream with version ≥ from, in order.
func (s *Store) Stream(ctx context.Context, stream string, from int64, yield func(*events.Committed) bool) error {
	return s.pages(ctx, 0, yield, func(ctx context.Context, c *pgx.Conn) (*question, error) {
		head, err := readHead(ctx, c)
		q := ofStream(stream, 1, head)
		q.from = from
		return q, err
	})
}

// After reads all rows with a fact after the position.
func (s *Store) After(ctx context.Context, after events.Position, yield func(*events.Committed) bool) error {
	return s.pages(ctx, 0, yield, func(ctx context.Context, c *pgx.Conn) (*question, error) {
		q, _, err := behind(ctx, c, after)
		return q, err
	})
}

// behind is the question for all rows with a fact after a position, up to the head.
func behind(ctx context.Context, c *pgx.Conn, after events.Position) (q *question, head events.Position, err error) {
	head, days, err := readDays(ctx, c)
	if err != nil {
		return nil, 0, err
	}
	low, err := firstReaching(ctx, c, days, after+1)
	if err != nil {
		return nil, 0, err
	}
	return &question{segments: segments(days, low, head, daysMax)}, head, nil
}

// firstReaching is the position of the row that holds a position, or the position itself when none does.
func firstReaching(ctx context.Context, c *pgx.Conn, days []span, at events.Position) (events.Position, error) {
	var around []int32
	for _, d := range days {
		if d.first < at && at <= d.last {
			around = append(around, int32(d.day))
		}
	}
	if len(around) == 0 {
		return at, nil
	}
	const sql = `SELECT coalesce((SELECT CASE WHEN position + n > $2 THEN position END FROM events
		WHERE day = ANY($1) AND position < $2 ORDER BY position DESC LIMIT 1), $2)`
	var low events.Position
	err := c.QueryRow(ctx, sql, around, int64(at)).Scan(&low)
	return low, err
}

// span is where the rows of a day lie.
type span struct {
	day         day
	first, last events.Position // both included
}

// readDays reads the head and where the rows of each day lie, in order of their first positions.
func readDays(ctx context.Context, c *pgx.Conn) (head events.Position, days []span, err error) {
	if head, err = readHead(ctx, c); err != nil { // before the days, so that they are not older
		return 0, nil, err
	}
	rows, err := c.Query(ctx, `SELECT day, first, last FROM days WHERE first > 0 AND first <= $1 ORDER BY first, day`, head)
	if err != nil {
		return 0, nil, err
	}
	var d span
	_, err = pgx.ForEachRow(rows, []any{&d.day, &d.first, &d.last}, func() error {
		days = append(days, d)
		return nil
	})
	return head, days, err
}

// segment is a range of positions, both ends included, and the only partitions that have rows in it.
type segment struct {
	low, high events.Position
	days      []int32
}

// segments cuts a range so that each part meets at most so many days; where more than half as many overlap anyway, at
// most twice as many as do. Days come in the order of their first positions.
func segments(days []span, low, high events.Position, most int) (list []segment) {
	for low <= high {
		part, room := segment{low: low, high: high}, most
		for _, d := range days {
			if d.first <= low && d.last >= low {
				room = max(room, 2*(len(part.days)+1))
			}
			if d.first > low && len(part.days) >= room {
				part.high = min(high, d.first-1)
				break
			}
			if d.first <= high && d.last >= low {
				part.days = append(part.days, int32(d.day))
			}
		}
		if len(part.days) > 0 {
			list = append(list, part)
		}
		low = part.high + 1
	}
	return list
}

// split cuts segments so that each is at most so long.
func split(list []segment, most events.Position) (parts []segment) {
	for _, s := range list {
		for ; s.high-s.low >= most; s.low += most {
			parts = append(parts, segment{s.low, s.low + most - 1, s.days})
		}
		parts = append(parts, s)
	}
	return parts
}

// pages reads page after page of a question and hands on at most limit rows (0: all). start puts the question. Rows
// are handed on when the connection is free again.
func (s *Store) pages(ctx context.Context, limit int, yield func(*events.Committed) bool,
	start func(context.Context, *pgx.Conn) (*question, error),
) error {
	var q *question
	left, room := limit, 16
	for q == nil || len(q.segments) > 0 {
		page := make([]events.Stored, 0, room) // a new one: who has been handed a row may keep it
		err := s.read(ctx, func(ctx context.Context, c *pgx.Conn) (err error) {
			if q == nil {
				begun, err := start(ctx, c)
				if err != nil {
					return err
				}
				if q = begun; len(q.segments) == 0 {
					return nil
				}
			}
			most := eventsMax
			if limit > 0 {
				most = min(most, left)
			}
			page, err = q.next(ctx, c, page[:0], most)
			room = len(page)
			return err
		})
		if err != nil {
			return err
		}
		if more, err := events.HandOn(page, yield); !more || err != nil {
			return err
		}
		if left -= len(page); limit > 0 && left <= 0 {
			return nil
		}
	}
	return nil
}
