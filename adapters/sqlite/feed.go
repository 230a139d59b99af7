package sqlite

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/penstock/penstock/events"
)

// Feed is the store as a topic (events.Feed). Whoever commits rings the bell. log may be nil.
func (s *Store) Feed(bell *events.Bell, log *slog.Logger) events.Feed {
	return events.NewPullFeed(feedSource{s}, bell, log)
}

// feedSource reads rows for a feed and keeps its checkpoints (events.FeedSource).
type feedSource struct{ *Store }

// FeedPage reads rows; what a filter leaves out is not copied.
func (s feedSource) FeedPage(ctx context.Context, after events.Position, f *events.FeedFilter, limit int) (p events.FeedPage, err error) {
	p.Through = after
	err = s.read(ctx, func(c *conn) error {
		seen := 0
		texts := interned{}
		return eachPage(c, after+1, math.MaxInt64, false, func(stored page) bool {
			rows, r := stored.rows(), row{}
			for seen < limit && rows.row(&r) {
				if r.end() <= int64(after) {
					continue
				}
				seen++
				p.Saw(events.Position(r.position), events.Position(r.end()))
				found := r.stored(texts).Committed
				if f.Row(&found) {
					found.Payload = bytes.Clone(r.payload)
					p.Rows = append(p.Rows, found)
				}
			}
			p.More = seen == limit
			return seen < limit
		})
	})
	return p, err
}

// Checkpoint is where a group is.
func (s feedSource) Checkpoint(ctx context.Context, group string) (at events.Position, ok bool, err error) {
	err = s.read(ctx, func(c *conn) error {
		return c.each(`SELECT position FROM feed_checkpoints WHERE name = ?`, func(b *binder) { b.text(group) }, func(q *sqlite3.Stmt) bool {
			at, ok = events.Position(q.ColumnInt64(0)), true
			return false
		})
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
	return s.write(ctx, func(c *conn) error { return c.exec(sql, bind) })
}

// Checkpoints lists all groups.
func (s feedSource) Checkpoints(ctx context.Context) (list []events.FeedCheckpoint, err error) {
	err = s.read(ctx, func(c *conn) error {
		list, err = readGroups(c)
		return err
	})
	return list, err
}
