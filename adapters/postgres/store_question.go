package postgres

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/penstock/penstock/events"
)

// question is a read of many pages: what is left to read, and what is wanted of it.
type question struct {
	segments []segment // in the order of reading
	newest   bool
	columns  string       // "" is eventColumns
	filter   events.Query // Stream, StreamPrefix, Request, Key, Upstream, Type, Since, Until
	from, to int64        // versions, both included; for one stream, whose pages go by version
}

// ofStream is a question about one stream.
func ofStream(stream string, low, high events.Position) *question {
	return &question{
		segments: []segment{{low, high, []int32{int32(dayOf(stream))}}},
		filter:   events.Query{Stream: stream}, to: math.MaxInt64,
	}
}

// rows appends the next rows and moves on: fewer than so many only when no more are left.
func (q *question) rows(ctx context.Context, c *pgx.Conn, page []events.Stored, most int) (_ []events.Stored, err error) {
	for most -= len(page); most > 0 && len(q.segments) > 0; {
		before := len(page)
		if page, err = q.next(ctx, c, page, most); err != nil {
			return nil, err
		}
		most -= len(page) - before
	}
	return page, nil
}

// next appends what one statement finds, at most so many rows, and moves on. It may find none though more are left.
func (q *question) next(ctx context.Context, c *pgx.Conn, page []events.Stored, most int) ([]events.Stored, error) {
	before := len(page)
	sql, args := q.sql(most)
	page, err := scanRows(ctx, c, page, sql, args)
	switch {
	case err != nil:
		return nil, err
	case len(page)-before < most:
		q.segments = q.segments[1:]
	default:
		q.passed(&page[len(page)-1])
	}
	return page, nil
}

// passed moves on behind a row.
func (q *question) passed(last *events.Stored) {
	switch s := &q.segments[0]; {
	case q.filter.Stream != "" && q.newest:
		q.to = last.Version - 1
	case q.filter.Stream != "":
		q.from = last.Version + 1
	case q.newest:
		s.high = last.Position - 1
	default:
		s.low = last.End() + 1
	}
	if s := q.segments[0]; s.low > s.high || q.from > q.to && q.filter.Stream != "" {
		q.segments = q.segments[1:]
	}
}

// sql is the statement of the next page.
func (q *question) sql(limit int) (string, []any) {
	var args []any
	arg := func(v any) string {
		args = append(args, v)
		return "$" + strconv.Itoa(len(args))
	}
	s := q.segments[0]
	near := ` AND day = ANY(` + arg(s.days) + `)`
	if len(s.days) == 1 {
		args = nil
		near = ` AND day = ` + arg(s.days[0])
	}
	common := q.conditions(arg)
	order := ` ORDER BY position`
	if q.filter.Stream != "" {
		order = ` ORDER BY version` // the same order within a stream, and that of its index
	}
	if q.newest {
		order += ` DESC`
	}
	selectEvents := `SELECT ` + cmp.Or(q.columns, eventColumns) + ` FROM events WHERE `
	end := order + ` LIMIT ` + arg(limit)
	if q.filter.Request == "" || q.filter.Stream != "" {
		return selectEvents + common + near + end, args
	}
	// Two parts, so that each has its index: the request's own stream, and what other streams say about it. They are few
	// rows: the fence keeps the order from being a reason to look through all others.
	stream := events.RequestStreams + q.filter.Request
	return `WITH found AS MATERIALIZED (` + selectEvents + common + ` AND day = ` + arg(int32(dayOf(stream))) + ` AND stream = ` + arg(text(stream)) +
		` UNION ALL ` + selectEvents + common + near + ` AND stream <> 'request/' || request) SELECT ` +
		eventColumns + ` FROM found` + end, args
}

// conditions are those that hold for every row, but for its day.
func (q *question) conditions(arg func(any) string) string {
	var where strings.Builder
	and := func(on bool, parts ...any) {
		if !on {
			return
		}
		if where.Len() > 0 {
			where.WriteString(` AND `)
		}
		for i, p := range parts {
			if i%2 == 0 {
				where.WriteString(p.(string))
			} else {
				where.WriteString(arg(p))
			}
		}
	}
	s, f := q.segments[0], q.filter
	and(true, `position >= `, int64(s.low), ` AND position <= `, int64(s.high))
	if f.Stream != "" {
		and(true, `stream = `, text(f.Stream), ` AND version >= `, q.from, ` AND version <= `, q.to)
	}
	and(f.StreamPrefix != "", `stream >= `, text(f.StreamPrefix), ` AND stream < `, text(f.StreamPrefix)+"\U0010FFFF")
	and(f.Request != "", `request = `, text(f.Request))
	and(f.Key != "", `key = `, text(f.Key))
	and(f.Upstream != "", `upstream = `, text(f.Upstream))
	and(f.Type != "", `(strpos(' ' || types || ' ', `, " "+text(f.Type)+" ", `) > 0 OR strpos(' ' || types, `, " "+text(f.Type)+"@", `) > 0)`)
	and(f.Text != "", `strpos(payload::text, `, strings.ToValidUTF8(f.Text, "\x00"), `) > 0`)
	and(!f.Since.IsZero(), `at >= `, ceil(f.Since))
	and(!f.Until.IsZero(), `at < `, ceil(f.Until))
	return where.String()
}

// ceil is a filter's time in the unit of the column; what is stored was cut down to it, so a bound is cut up.
func ceil(t time.Time) time.Time {
	return time.UnixMicro(t.Add(time.Microsecond - 1).UnixMicro()).UTC()
}

// Find reads rows that match a filter. Stream and request have indexes, key, upstream and type that of blocks (an index
// on key costs the server 2 µs a row, a seventh of an append; one on upstream a tenth), and the times narrow the range of
// positions and with it the days. A beginning of streams and a text look at every row that is left by the others, until
// the limit is reached.
func (s *Store) Find(ctx context.Context, f events.Query, yield func(*events.Committed) bool) error {
	if terms := f.Terms(); terms != nil {
		return s.search(ctx, f, terms, yield)
	}
	return s.pages(ctx, f.Limit, yield, func(ctx context.Context, c *pgx.Conn) (*question, error) {
		head, days, err := readDays(ctx, c)
		if err != nil {
			return nil, err
		}
		low, high, err := bounds(ctx, c, f, head)
		if err != nil {
			return nil, err
		}
		q := &question{filter: f, newest: f.Newest, to: math.MaxInt64}
		switch {
		case f.Stream != "":
			q.segments = ofStream(f.Stream, low, high).segments
		case f.Request != "":
			q.segments = segments(days, low, high, len(days))
		default:
			if d, one := dayOfPrefix(f.StreamPrefix); one {
				days = slices.DeleteFunc(days, func(s span) bool { return s.day != d })
			}
			q.segments = split(segments(days, low, high, daysMax), scanMax)
		}
		if f.Newest {
			slices.Reverse(q.segments)
		}
		return q, nil
	})
}

// bounds is the range of positions, both ends included, outside of which no row can match.
func bounds(ctx context.Context, c *pgx.Conn, f events.Query, head events.Position) (low, high events.Position, err error) {
	low, high = 1, head
	switch {
	case f.Newest && f.After > 0:
		high = min(high, f.After-1)
	case !f.Newest:
		low = f.After + 1
	}
	switch {
	case f.Newest:
		low = max(low, f.Through)
	case f.Through > 0:
		high = min(high, f.Through)
	}
	if !f.Since.IsZero() {
		// latest never falls: the first commit that has reached the time.
		const sql = `SELECT coalesce((SELECT first FROM commits WHERE latest >= $1 ORDER BY latest, first LIMIT 1), $2)`
		var first events.Position
		if err := c.QueryRow(ctx, sql, ceil(f.Since), int64(head)+1).Scan(&first); err != nil {
			return 0, 0, err
		}
		low = max(low, first)
	}
	if !f.Until.IsZero() {
		const sql = `SELECT coalesce((SELECT first + n - 1 FROM commits WHERE earliest < $1 ORDER BY first DESC LIMIT 1), 0)`
		var last events.Position
		if err := c.QueryRow(ctx, sql, ceil(f.Until)).Scan(&last); err != nil {
			return 0, 0, err
		}
		high = min(high, last)
	}
	return low, high, nil
}
