package postgres

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"

	"github.com/penstock/penstock/events"
)

// Feed is the store as a topic (events.Feed). A consumer group is a subscriber of watermill-sql over the table of
// events, on a connection of its own; it holds a transaction while its messages are handled, 100 of them, of which none is
// handed out later than 30 s nor waited for longer, and keeps the same group of other processes waiting meanwhile. Readers without a group share the
// connections that read. Both are woken by the notifications of commits (and by the bell, which whoever commits in
// this process may ring, and which may be nil). log may be nil.
func (s *Store) Feed(bell *events.Bell, log *slog.Logger) events.Feed {
	if bell == nil {
		bell = &events.Bell{}
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := s.dialer.config.Copy()
	c.RuntimeParams["application_name"] = "penstock feed"
	c.RuntimeParams["idle_in_transaction_session_timeout"] = "0" // a consumer may take its time
	d := &dialer{config: c}
	return &feed{
		store: s, log: log, busy: map[string]bool{}, dialer: d, bell: bell,
		ear: &ear{dialer: d, bell: bell, log: log}, reads: events.NewPullFeed(feedSource{s}, bell, log),
	}
}

type feed struct {
	store  *Store
	dialer *dialer
	bell   *events.Bell
	ear    *ear
	reads  *events.PullFeed // of readers without a group
	log    *slog.Logger

	mu   sync.Mutex
	busy map[string]bool // groups with a subscription
}

// Subscriber is one consumer group.
func (f *feed) Subscriber(o events.FeedOptions) (message.Subscriber, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if o.Group != "" {
		return &groupSubscriber{feed: f, o: o, closing: make(chan struct{})}, nil
	}
	sub, err := f.reads.Subscriber(o)
	return &readerSubscriber{Subscriber: sub, ear: f.ear}, err
}

// readerSubscriber is a subscriber that is woken by notifications.
type readerSubscriber struct {
	message.Subscriber
	ear   *ear
	mu    sync.Mutex
	heard int
}

func (r *readerSubscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	r.ear.join()
	r.mu.Lock()
	r.heard++
	r.mu.Unlock()
	return r.Subscriber.Subscribe(ctx, topic)
}

func (r *readerSubscriber) Close() error {
	err := r.Subscriber.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	for ; r.heard > 0; r.heard-- {
		r.ear.leave()
	}
	return err
}

// ear listens for commits as long as somebody wants to hear of them.
type ear struct {
	dialer *dialer
	bell   *events.Bell
	log    *slog.Logger

	mu    sync.Mutex
	users int
	stop  context.CancelFunc
	done  chan struct{}
}

func (e *ear) join() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.users++; e.users == 1 {
		ctx, stop := context.WithCancel(context.Background())
		e.stop, e.done = stop, make(chan struct{})
		go e.listen(ctx, e.done)
	}
}

func (e *ear) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.users--; e.users == 0 {
		e.stop()
		<-e.done
	}
}

// listen rings the bell for each notification. A connection that is lost is opened again; what was missed meanwhile is
// found by the readers themselves.
func (e *ear) listen(ctx context.Context, done chan struct{}) {
	defer close(done)
	for lost := false; ctx.Err() == nil; {
		heard, err := e.connection(ctx)
		if ctx.Err() != nil {
			return
		}
		if heard || !lost {
			e.log.Warn("notifications of commits are cut off", "error", err)
		}
		lost = true
		pause(ctx, backoffMax)
	}
}

// connection listens until its end; heard says that it has come to that.
func (e *ear) connection(ctx context.Context) (heard bool, err error) {
	c, err := e.dialer.connect(ctx)
	if err != nil {
		return false, err
	}
	defer drop(c)
	if _, err := c.Exec(ctx, `LISTEN penstock_feed`); err != nil {
		return false, err
	}
	for {
		e.bell.Ring() // at first for what was committed before
		if _, err := c.WaitForNotification(ctx); err != nil {
			return true, err
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Head is the position of the last stored fact.
func (f *feed) Head(ctx context.Context) (events.Position, error) { return f.store.Head(ctx) }

// Since is the position behind which the facts from a time on begin.
func (f *feed) Since(ctx context.Context, t time.Time) (events.Position, error) {
	return f.reads.Since(ctx, t)
}

// Checkpoints lists the groups.
func (f *feed) Checkpoints(ctx context.Context) ([]events.FeedCheckpoint, error) {
	return feedSource{f.store}.Checkpoints(ctx)
}

// Forget removes the checkpoint of a group that has no subscription here.
func (f *feed) Forget(ctx context.Context, group string) error {
	if err := f.take(group); err != nil {
		return err
	}
	defer f.giveBack(group)
	return feedSource{f.store}.ForgetCheckpoint(ctx, group)
}

// feedSource reads rows for readers without a group (events.FeedSource).
type feedSource struct{ *Store }

// FeedPage reads rows.
func (s feedSource) FeedPage(ctx context.Context, after events.Position, f *events.FeedFilter, limit int) (p events.FeedPage, err error) {
	p.Through = after
	err = s.read(ctx, func(ctx context.Context, c *pgx.Conn) error {
		q, head, err := behind(ctx, c, after)
		if err != nil {
			return err
		}
		page, err := q.rows(ctx, c, nil, limit)
		if err != nil {
			return err
		}
		p = events.FeedPage{Through: after, More: len(page) == limit}
		for i := range page {
			p.Saw(page[i].Position, page[i].End())
			if f.Row(&page[i].Committed) {
				p.Rows = append(p.Rows, page[i].Committed)
			}
		}
		if !p.More {
			p.Through = max(p.Through, head)
		}
		return nil
	})
	return p, err
}

// Checkpoint is where a group is.
func (s feedSource) Checkpoint(ctx context.Context, group string) (at events.Position, ok bool, err error) {
	err = s.read(ctx, func(ctx context.Context, c *pgx.Conn) error {
		err := c.QueryRow(ctx, `SELECT position FROM feed_checkpoints WHERE name = $1`, text(group)).Scan(&at)
		if ok = err == nil; err == pgx.ErrNoRows {
			return nil
		}
		return err
	})
	return at, ok, err
}

// saveCheckpoint moves a group forward.
const saveCheckpoint = `INSERT INTO feed_checkpoints (name, position, at) VALUES ($1, $2, now()) ON CONFLICT (name)
	DO UPDATE SET position = excluded.position, at = excluded.at WHERE excluded.position > feed_checkpoints.position`

// SaveCheckpoint moves a group forward.
func (s feedSource) SaveCheckpoint(ctx context.Context, group string, at events.Position) error {
	return s.write(ctx, func(ctx context.Context, w *session) error {
		_, err := w.conn.Exec(ctx, saveCheckpoint, text(group), int64(at))
		return err
	})
}

// ForgetCheckpoint removes a group.
func (s feedSource) ForgetCheckpoint(ctx context.Context, group string) error {
	return s.write(ctx, func(ctx context.Context, w *session) error {
		_, err := w.conn.Exec(ctx, `DELETE FROM feed_checkpoints WHERE name = $1`, text(group))
		return err
	})
}

// Checkpoints lists all groups.
func (s feedSource) Checkpoints(ctx context.Context) (list []events.FeedCheckpoint, err error) {
	err = s.read(ctx, func(ctx context.Context, c *pgx.Conn) error {
		list, err = readGroups(ctx, c)
		return err
	})
	return list, err
}

func readGroups(ctx context.Context, c *pgx.Conn) (list []events.FeedCheckpoint, err error) {
	rows, err := c.Query(ctx, `SELECT name, position, at FROM feed_checkpoints ORDER BY name`)
	if err != nil {
		return nil, err
	}
	var name []byte
	var one events.FeedCheckpoint
	_, err = pgx.ForEachRow(rows, []any{&name, &one.Position, &one.At}, func() error {
		one.Group, one.At = plain(name), one.At.UTC()
		list = append(list, one)
		return nil
	})
	return list, err
}
