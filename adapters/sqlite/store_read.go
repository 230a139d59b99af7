package sqlite

import (
	"context"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/ncruces/go-sqlite3"

	"github.com/penstock/penstock/events"
)

// pageRows bounds the rows that are read in one snapshot. A read of many pages holds no snapshot between them, so a
// slow reader never keeps the write-ahead log from shrinking; rows do not change, and the head of its first page bounds
// what it sees, so that it is as consistent as one snapshot.
const pageRows = 512

const eventColumns = `position, n, stream, version, terminal, at, types, about, key, upstream, node, hash, payload`

// fromPosition are the rows with a fact at position ?1 or after it, which begin at ?2 or before it, at most ?3 of them. The first
// one may begin before ?1 and reach beyond it.
const fromPosition = ` FROM events
	WHERE position >= coalesce((SELECT position FROM events WHERE position <= ?1 ORDER BY position DESC LIMIT 1), ?1)
	AND position <= ?2 AND position + n > ?1 ORDER BY position LIMIT ?3`

// Stream reads the rows of one stream with version ≥ from, in order.
func (s *Store) Stream(ctx context.Context, stream string, from int64, yield func(*events.Committed) bool) error {
	const sql = `SELECT ` + eventColumns + ` FROM events WHERE stream = ? AND version >= ? AND position <= ? ORDER BY version LIMIT ?`
	return s.pages(ctx, 0, yield, func(q *pageQuery, head events.Position, last *events.Committed) error {
		if last != nil {
			from = last.Version + 1
		}
		q.ask(sql, stream, from, int64(head), int64(q.limit))
		return nil
	})
}

// After reads all rows with a fact after the position.
func (s *Store) After(ctx context.Context, after events.Position, yield func(*events.Committed) bool) error {
	const sql = `SELECT ` + eventColumns + fromPosition
	return s.pages(ctx, 0, yield, func(q *pageQuery, head events.Position, last *events.Committed) error {
		if last != nil {
			after = last.Last()
		}
		q.ask(sql, int64(after+1), int64(head), int64(q.limit))
		return nil
	})
}

// Find reads rows that match a filter. Stream and request have indexes, key, upstream and type that of blocks, and the
// times narrow the range of positions. A beginning of streams and a text look at every row that is left by the others,
// until the limit is reached.
func (s *Store) Find(ctx context.Context, f events.Query, yield func(*events.Committed) bool) error {
	if terms := f.Terms(); terms != nil {
		return s.search(ctx, f, terms, yield)
	}
	var low, high events.Position // of the range; set with the first page
	return s.pages(ctx, f.Limit, yield, func(q *pageQuery, head events.Position, last *events.Committed) (err error) {
		switch {
		case last == nil:
			if low, high, err = span(q.conn, f, head); err != nil {
				return err
			}
		case f.Newest:
			high = last.Position - 1
		default:
			low = last.Position + 1
		}
		q.find(f, low, high)
		return nil
	})
}

// span is the range of positions, both ends included, outside of which no row can match.
func span(c *conn, f events.Query, head events.Position) (low, high events.Position, err error) {
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
		first, err := firstReaching(c, micros(f.Since), head)
		if err != nil {
			return 0, 0, err
		}
		low = max(low, first)
	}
	if !f.Until.IsZero() {
		last, err := c.integer(`SELECT first + n - 1 FROM commits WHERE earliest < ? ORDER BY first DESC LIMIT 1`, micros(f.Until))
		if err != nil {
			return 0, 0, err
		}
		high = min(high, events.Position(last))
	}
	return low, high, nil
}

// firstReaching is the first position whose commit has reached a time in its column latest, which never falls: by
// bisection.
func firstReaching(c *conn, at int64, head events.Position) (events.Position, error) {
	low, high := int64(1), int64(head)+1 // the answer is in [low, high]; the end means that none has
	for low < high {
		mid := low + (high-low)/2
		latest, err := c.integer(`SELECT latest FROM commits WHERE first <= ? ORDER BY first DESC LIMIT 1`, mid)
		if err != nil {
			return 0, err
		}
		if latest >= at {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return events.Position(low), nil
}

// pageQuery is a statement being put together for one page.
type pageQuery struct {
	conn  *conn
	limit int // rows
	sql   string
	args  []any // string or int64
}

func (q *pageQuery) ask(sql string, args ...any) { q.sql, q.args = sql, args }

// find builds the statement of a filter over a range of positions.
func (q *pageQuery) find(f events.Query, low, high events.Position) {
	var where strings.Builder
	where.WriteString(`position >= ? AND position <= ?`)
	args := []any{int64(low), int64(high)}
	filter := func(on bool, condition string, a ...any) {
		if on {
			where.WriteString(" AND " + condition)
			args = append(args, a...)
		}
	}
	filter(f.Stream != "", `stream = ?`, f.Stream)
	filter(f.StreamPrefix != "", `stream >= ? AND stream < ?`, f.StreamPrefix, f.StreamPrefix+"\U0010FFFF")
	// Two parts, so that each has its index: the request's own stream, and what other streams say about it.
	filter(f.Request != "", `position IN (
		SELECT position FROM events WHERE stream = ? AND about IS NULL
		UNION ALL SELECT position FROM events WHERE about = ?)`, events.RequestStreams+f.Request, f.Request)
	filter(f.Key != "", `key = ?`, f.Key)
	filter(f.Upstream != "", `upstream = ?`, f.Upstream)
	filter(f.Type != "", `(instr(' ' || types || ' ', ?) > 0 OR instr(' ' || types, ?) > 0)`, " "+f.Type+" ", " "+f.Type+"@")
	filter(f.Text != "", `instr(payload, ?) > 0`, f.Text)
	filter(!f.Since.IsZero(), `at >= ?`, micros(f.Since))
	filter(!f.Until.IsZero(), `at < ?`, micros(f.Until))
	order := `position`
	if f.Stream != "" {
		order = `version` // the same order within a stream, and that of its index
	}
	if f.Newest {
		order += ` DESC`
	}
	q.ask(`SELECT `+eventColumns+` FROM events WHERE `+where.String()+` ORDER BY `+order+` LIMIT ?`, append(args, int64(q.limit))...)
}

// micros is a filter's time in the unit of the column; what is stored was cut down to it, so a bound is cut up.
func micros(t time.Time) int64 { return t.Add(time.Microsecond - 1).UnixMicro() }

// pages reads page after page of a query and hands on at most limit rows (0: all). next puts the query of a page; last
// is the last row of the page before, nil for the first. Rows are handed on when the connection is free again.
func (s *Store) pages(ctx context.Context, limit int, yield func(*events.Committed) bool,
	next func(q *pageQuery, head events.Position, last *events.Committed) error,
) error {
	var head events.Position
	var last *events.Committed
	given, room := 0, 16
	for {
		most := pageRows
		if limit > 0 {
			most = min(most, limit-given)
		}
		page := make([]events.Stored, 0, room)
		err := s.read(ctx, func(c *conn) (err error) {
			if last == nil {
				end, err := readChain(c)
				if err != nil {
					return err
				}
				head = end.head
			}
			q := pageQuery{conn: c, limit: most}
			if err := next(&q, head, last); err != nil {
				return err
			}
			page, err = q.rows(page)
			return err
		})
		if err != nil {
			return err
		}
		if more, err := events.HandOn(page, yield); !more || err != nil {
			return err
		}
		if given += len(page); len(page) < most || given == limit {
			return nil
		}
		last, room = &page[len(page)-1].Committed, pageRows
	}
}

// rows runs the query and appends what it finds, not yet decoded.
func (q *pageQuery) rows(page []events.Stored) ([]events.Stored, error) {
	stmt, err := q.bound()
	if err != nil {
		return nil, err
	}
	texts := interned{}
	for stmt.Step() {
		page = append(page, events.Stored{})
		scanRow(&page[len(page)-1], stmt, texts)
	}
	return page, errors.CombineErrors(stmt.Err(), stmt.Reset())
}

func scanRow(c *events.Stored, q *sqlite3.Stmt, texts interned) {
	scanColumns(c, q, texts)
	c.Payload = q.ColumnBlob(12, nil)
}

// scanColumns reads all but the payload.
func scanColumns(c *events.Stored, q *sqlite3.Stmt, texts interned) {
	c.Position = events.Position(q.ColumnInt64(0))
	c.N = q.ColumnInt64(1)
	c.Stream = q.ColumnText(2)
	c.Version = q.ColumnInt64(3)
	c.Terminal = q.ColumnInt64(4) == 1
	c.At = time.UnixMicro(q.ColumnInt64(5)).UTC()
	c.Types = texts.of(q.ColumnRawText(6))
	if q.ColumnType(7) == sqlite3.NULL {
		c.Request, _ = aboutOf(c.Stream)
	} else {
		c.Request = q.ColumnText(7)
	}
	c.Key = texts.of(q.ColumnRawText(8))
	c.Upstream = texts.of(q.ColumnRawText(9))
	c.Node = texts.of(q.ColumnRawText(10))
	copy(c.Hash[:], q.ColumnRawBlob(11))
}

// interned keeps one string per text that the rows of a page repeat.
type interned map[string]string

func (m interned) of(b []byte) string {
	if s, ok := m[string(b)]; ok {
		return s
	}
	s := string(b)
	m[s] = s
	return s
}

// part is b as a string, without a copy when the text ends with it.
func part(text string, b []byte) string {
	if i := len(text) - len(b); i >= 0 && text[i:] == string(b) {
		return text[i:]
	}
	return string(b)
}
