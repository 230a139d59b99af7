package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/penstock/penstock/events"
)

// Bounds of the links that are read at once; one link may have more facts.
const (
	chainLinks = 256
	chainFacts = 4096
)

// Chain reads the links of the chain with what is stored of their rows (events.Chain).
func (s *Store) Chain(ctx context.Context, after events.Position, yield func(*events.Commit, []events.RawRow) bool) error {
	head, err := s.Head(ctx)
	if err != nil || after > 0 && head <= after {
		return err
	}
	p := chainPage{from: after + 1, head: head, whole: after <= 0}
	for !p.done {
		if err := s.read(ctx, p.read); err != nil {
			return err
		}
		p.from, p.whole = p.end, false
		for i := range p.links {
			if !yield(&p.links[i].Commit, p.links[i].rows) {
				return nil
			}
		}
	}
	return nil
}

// chainPage is a run of links with their rows.
type chainPage struct {
	from  events.Position // the first that was not handed on
	head  events.Position // later links are not looked at
	whole bool            // rows before the first link are handed on, too, with a link that is zero
	done  bool
	links []link
	end   events.Position // where the rows of the last link end, exclusive
}

type link struct {
	events.Commit
	rows  []events.RawRow
	extra bool // has a row beyond its facts
}

const endOfAll = events.Position(1<<63 - 1)

// read fills the page. It may run again after a fault. It sees one moment, and no day goes meanwhile: a row that is removed is
// found in one of its two places. The lock comes first, for what is seen begins behind it.
func (p *chainPage) read(ctx context.Context, c *pgx.Conn) error {
	const begin = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; LOCK TABLE ONLY events IN ACCESS SHARE MODE`
	_, err := c.Exec(ctx, begin, pgx.QueryExecModeSimpleProtocol)
	if err == nil {
		err = p.fill(ctx, c)
	}
	if _, ended := c.Exec(ctx, `ROLLBACK`); err == nil {
		err = ended
	}
	return err
}

func (p *chainPage) fill(ctx context.Context, c *pgx.Conn) error {
	p.links, p.done = nil, false
	if p.whole {
		p.links = []link{{}}
	}
	if err := p.readLinks(ctx, c); err != nil || len(p.links) == 0 {
		return err
	}
	if err := p.readRows(ctx, c, p.links[0].First); err != nil {
		return err
	}
	if p.whole && len(p.links[0].rows) == 0 {
		p.links = p.links[1:]
	}
	return nil
}

// readLinks reads the links of the page, and the one after it, which says where the last rows end.
func (p *chainPage) readLinks(ctx context.Context, c *pgx.Conn) error {
	const sql = `SELECT first, n, previous, hash, low_water, earliest, latest FROM commits
		WHERE first >= coalesce((SELECT first FROM commits WHERE first <= $1 ORDER BY first DESC LIMIT 1), $1)
		ORDER BY first LIMIT $2`
	rows, err := c.Query(ctx, sql, int64(p.from), chainLinks+1)
	if err != nil {
		return err
	}
	defer rows.Close()
	p.end = endOfAll
	var begin events.Position
	for n := 0; rows.Next(); n++ {
		var l link
		var previous, hash []byte
		var earliest, latest time.Time
		if err := rows.Scan(&l.First, &l.N, &previous, &hash, &l.LowWater, &earliest, &latest); err != nil {
			return err
		}
		if n == 0 {
			begin = l.First
		}
		if p.done = l.First > p.head; p.done || n == chainLinks || n > 0 && l.First-begin >= chainFacts {
			p.end = l.First
			break
		}
		copy(l.Previous[:], previous)
		copy(l.Hash[:], hash)
		l.Earliest, l.Latest = earliest.UnixMicro(), latest.UnixMicro()
		p.links = append(p.links, l)
	}
	rows.Close()
	p.done = p.done || p.end == endOfAll
	return rows.Err()
}

// readRows deals the rows from begin to the end of the page out to the links, and what is left of removed ones.
func (p *chainPage) readRows(ctx context.Context, c *pgx.Conn, begin events.Position) error {
	removed, err := p.readArchived(ctx, c, begin)
	if err != nil {
		return err
	}
	const days = `SELECT coalesce(array_agg(day), '{}') FROM days WHERE first > 0 AND first < $2 AND last >= $1`
	var near []int32
	if err := c.QueryRow(ctx, days, int64(begin), int64(p.end)).Scan(&near); err != nil {
		return err
	}
	const sql = `SELECT ` + eventColumns + ` FROM events WHERE day = ANY($1) AND position >= $2 AND position < $3 ORDER BY position`
	rows, err := c.Query(ctx, sql, pgx.QueryResultFormats{pgx.BinaryFormatCode}, near, int64(begin), int64(p.end))
	if err != nil {
		return err
	}
	defer rows.Close()
	names, at := interned{}, 0
	for rows.Next() {
		var r events.Stored
		scanRow(&r, rows.RawValues(), names)
		for len(removed) > 0 && removed[0].Position < r.Position {
			at = p.deal(at, removed[0])
			removed = removed[1:]
		}
		at = p.deal(at, events.RawRow{Position: r.Position, N: r.N, Hash: r.Hash, Row: r.Row})
	}
	for _, r := range removed {
		at = p.deal(at, r)
	}
	return rows.Err()
}

func (p *chainPage) readArchived(ctx context.Context, c *pgx.Conn, begin events.Position) (list []events.RawRow, err error) {
	rows, err := c.Query(ctx, `SELECT position, n, hash FROM archived WHERE position >= $1 AND position < $2 ORDER BY position`,
		int64(begin), int64(p.end))
	if err != nil {
		return nil, err
	}
	r := events.RawRow{Archived: true}
	var hash []byte
	_, err = pgx.ForEachRow(rows, []any{&r.Position, &r.N, &hash}, func() error {
		copy(r.Hash[:], hash)
		list = append(list, r)
		return nil
	})
	return list, err
}

// deal gives a row to the last link that begins at or before it; at is the link of the row before. Of the rows beyond
// its facts a link keeps the first.
func (p *chainPage) deal(at int, r events.RawRow) int {
	for at+1 < len(p.links) && p.links[at+1].First <= r.Position {
		at++
	}
	l := &p.links[at]
	if !l.extra {
		l.rows = append(l.rows, r)
		l.extra = r.Position >= l.First+events.Position(max(l.N, 0))
	}
	return at
}

// removeRows takes rows of a removal away from a partition. Ends go first, so that what is left of a stream always has
// its beginning, by which it is known. Where there are other streams beside requests, these are found by their names.
const removeRows = `WITH gone AS (
		DELETE FROM %[1]s WHERE position IN (
			SELECT position FROM %[1]s e WHERE position >= $1 AND position <= $3 AND %[3]s
			AND EXISTS (SELECT FROM %[1]s beginning WHERE beginning.day = %[2]d AND beginning.stream = e.stream
				AND beginning.version = 0 AND beginning.position BETWEEN $1 AND $2)
			ORDER BY %[4]s DESC LIMIT $4)
		RETURNING position, n, hash)
	INSERT INTO archived (position, n, hash) SELECT position, n, hash FROM gone RETURNING position`

// Remove takes away rows of a removal (events.Store). Between two calls appends have their turn. A past day of which many rows
// go is dropped with its partition, beside them; what is left goes in chunks, and the partition when it has become empty.
func (s *Store) Remove(ctx context.Context, r events.Removal, limit int) (removed int, err error) {
	if removed, err = s.dropDays(ctx, r, limit); removed > 0 || err != nil {
		return removed, err
	}
	err = s.write(ctx, func(ctx context.Context, w *session) error {
		if _, err := s.begin(ctx, w, nil); err != nil {
			return err
		}
		days, err := daysBetween(ctx, w.conn, r.First, r.Through)
		if err != nil {
			return err
		}
		var gone []int64
		for _, d := range days {
			if d == actors {
				continue
			}
			if gone, err = w.remove(ctx, d, r, limit); len(gone) > 0 || err != nil {
				break
			}
		}
		if err != nil {
			return err
		}
		removed = len(gone)
		indexed, err := s.reindex(ctx, w.conn, gone)
		if err != nil {
			return err
		}
		if _, err := w.conn.Exec(ctx, `COMMIT`); err != nil {
			return err
		}
		if s.thinned.Done(indexed); removed > 0 {
			return nil
		}
		return s.dropEmpty(ctx, w, days)
	})
	if err != nil {
		return 0, err
	}
	return removed, nil
}

func daysBetween(ctx context.Context, c *pgx.Conn, first, last events.Position) (days []day, err error) {
	rows, err := c.Query(ctx, `SELECT day FROM days WHERE first > 0 AND first <= $2 AND last >= $1 ORDER BY day`,
		int64(first), int64(last))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[day])
}

func (w *session) remove(ctx context.Context, d day, r events.Removal, limit int) (gone []int64, err error) {
	which, order := "true", "position"
	if d == always {
		which = "day = 0 AND stream >= 'request/' AND stream < 'request0'"
		order = "position + 0" // keeps the search on the names
	}
	rows, err := w.conn.Query(ctx, fmt.Sprintf(removeRows, d.table(), d, which, order), int64(r.First), int64(r.Last), int64(r.Through), limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

// dropEmpty drops partitions of days before yesterday that have no rows left. One that somebody is reading stays for the next time.
func (s *Store) dropEmpty(ctx context.Context, w *session, days []day) error {
	now := time.Now()
	for _, d := range days {
		if !d.past(now) {
			continue
		}
		if _, err := s.begin(ctx, w, nil); err != nil {
			return err
		}
		var used bool
		if err := w.conn.QueryRow(ctx, fmt.Sprintf(`SELECT EXISTS (SELECT FROM %s)`, d.table())).Scan(&used); err != nil {
			return err
		}
		end := []string{`SET LOCAL lock_timeout = '200ms'`, `DROP TABLE ` + d.table(), fmt.Sprintf(`DELETE FROM days WHERE day = %d`, d), `COMMIT`}
		if used {
			end = []string{`ROLLBACK`}
		}
		for _, sql := range end {
			_, err := w.conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
			if codeOf(err) == lockNotAvailable {
				_, err = w.conn.Exec(ctx, `ROLLBACK`)
				return err
			}
			if err != nil {
				return err
			}
		}
		if !used {
			delete(w.days, d)
		}
	}
	return nil
}
