package sqlite

import (
	"context"
	"log/slog"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/ncruces/go-sqlite3"

	"github.com/penstock/penstock/events"
)

// Feed is the store as a topic (events.Feed). Whoever commits rings the bell. log may be nil.
func (s *Store) Feed(bell *events.Bell, log *slog.Logger) events.Feed {
	return events.NewPullFeed(feedSource{s}, bell, log)
}

// feedSource reads rows for a feed and keeps its checkpoints (events.FeedSource).
type feedSource struct{ *Store }

const feedPage = `SELECT position, n, types, stream, request, key, upstream, version, at, node, payload FROM events
	WHERE position >= coalesce((SELECT position FROM events WHERE position <= ?1 ORDER BY position DESC LIMIT 1), ?1)
	AND position + n > ?1 ORDER BY position LIMIT ?2`

// FeedPage reads rows; what a filter leaves out is not copied.
func (s feedSource) FeedPage(ctx context.Context, after events.Position, f *events.FeedFilter, limit int) (p events.FeedPage, err error) {
	p.Through = after
	err = s.read(ctx, func(c *conn) error {
		q, err := c.stmt(feedPage)
		if err != nil {
			return err
		}
		b := binder{stmt: q}
		b.integer(int64(after + 1))
		b.integer(int64(limit))
		if b.err != nil {
			return b.err
		}
		seen := 0
		texts := interned{}
		for q.Step() {
			seen++
			var row events.Committed
			row.Position = events.Position(q.ColumnInt64(0))
			p.Through = row.Position + events.Position(q.ColumnInt64(1)) - 1
			scanFeed(&row, q, texts)
			if f.Row(&row) {
				row.Payload = q.ColumnBlob(10, nil)
				p.Rows = append(p.Rows, row)
			}
		}
		p.More = seen == limit
		return errors.CombineErrors(q.Err(), q.Reset())
	})
	return p, err
}

// scanFeed reads all but position and payload.
func scanFeed(row *events.Committed, q *sqlite3.Stmt, texts interned) {
	row.Types = texts.of(q.ColumnRawText(2))
	row.Stream = q.ColumnText(3)
	row.Request = part(row.Stream, q.ColumnRawText(4))
	row.Key = texts.of(q.ColumnRawText(5))
	row.Upstream = texts.of(q.ColumnRawText(6))
	row.Version = q.ColumnInt64(7)
	row.At = time.UnixMicro(q.ColumnInt64(8)).UTC()
	row.Node = texts.of(q.ColumnRawText(9))
}

// Checkpoint is where a group is.
func (s feedSource) Checkpoint(ctx context.Context, group string) (at events.Position, ok bool, err error) {
	err = s.read(ctx, func(c *conn) error {
		q, err := c.stmt(`SELECT position FROM feed_checkpoints WHERE name = ?`)
		if err != nil {
			return err
		}
		if err := q.BindText(1, group); err != nil {
			return err
		}
		if ok = q.Step(); ok {
			at = events.Position(q.ColumnInt64(0))
		}
		return errors.CombineErrors(q.Err(), q.Reset())
	})
	return at, ok, err
}

// SaveCheckpoint moves a group forward.
func (s feedSource) SaveCheckpoint(ctx context.Context, group string, at events.Position) error {
	return s.change(ctx, `INSERT INTO feed_checkpoints (name, position, at) VALUES (?, ?, ?) ON CONFLICT (name)
		DO UPDATE SET position = excluded.position, at = excluded.at WHERE excluded.position > position`, func(b *binder) {
		b.text(group)
		b.integer(int64(at))
		b.integer(time.Now().UnixMicro())
	})
}

// ForgetCheckpoint removes a group.
func (s feedSource) ForgetCheckpoint(ctx context.Context, group string) error {
	return s.change(ctx, `DELETE FROM feed_checkpoints WHERE name = ?`, func(b *binder) { b.text(group) })
}

// change runs one statement of the writer.
func (s feedSource) change(ctx context.Context, sql string, bind func(*binder)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write(ctx, func(c *conn) error {
		q, err := c.stmt(sql)
		if err != nil {
			return err
		}
		b := binder{stmt: q}
		if bind(&b); b.err != nil {
			return b.err
		}
		return q.Exec()
	})
}

// Checkpoints lists all groups.
func (s feedSource) Checkpoints(ctx context.Context) (list []events.FeedCheckpoint, err error) {
	err = s.read(ctx, func(c *conn) error {
		q, err := c.stmt(`SELECT name, position, at FROM feed_checkpoints ORDER BY name`)
		if err != nil {
			return err
		}
		for q.Step() {
			list = append(list, events.FeedCheckpoint{
				Group: q.ColumnText(0), Position: events.Position(q.ColumnInt64(1)), At: time.UnixMicro(q.ColumnInt64(2)).UTC(),
			})
		}
		return errors.CombineErrors(q.Err(), q.Reset())
	})
	return list, err
}
