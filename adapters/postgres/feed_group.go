package postgres

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"

	"github.com/penstock/penstock/events"
)

// Figures of a consumer group.
const (
	feedRecheck    = 2 * time.Second // for notifications that were lost
	feedBackoffMax = 5 * time.Second // between tries of a server that fails
	feedCloseMax   = 3 * time.Second // for the last transaction
)

func (f *feed) take(group string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy[group] {
		return fmt.Errorf("%w: %s", events.ErrGroupBusy, group)
	}
	f.busy[group] = true
	return nil
}

func (f *feed) giveBack(group string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.busy, group)
}

// groupSubscriber is a message.Subscriber: one of watermill-sql for each subscription, on a connection of its own.
type groupSubscriber struct {
	feed *feed
	o    events.FeedOptions

	told, toldFrom events.Position // the consumer knows of what is not there any more; of the one subscription that runs

	closeOnce sync.Once
	closing   chan struct{}
	mu        sync.Mutex
	running   sync.WaitGroup
	closed    bool
}

// Subscribe begins behind the checkpoint of the group, which is made when there is none.
func (g *groupSubscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if topic != events.Topic {
		return nil, fmt.Errorf("%w: topic: %q is not %q", events.ErrFeed, topic, events.Topic)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, events.ErrClosed
	}
	if err := g.feed.take(g.o.Group); err != nil {
		return nil, err
	}
	g.feed.ear.join()
	ctx, cancel := context.WithCancel(ctx)
	w := &wakeful{ended: ctx.Done(), closing: g.closing, log: g.feed.log, group: g.o.Group}
	rings, deaf := g.feed.bell.Listen()
	w.rings = rings
	conn := &feedConn{dialer: g.feed.dialer, saved: make(chan struct{}, 1)}
	release := func() {
		cancel()
		conn.close()
		deaf()
		g.feed.ear.leave()
		g.feed.giveBack(g.o.Group)
	}
	inner, err := wsql.NewSubscriber(conn, wsql.SubscriberConfig{
		ConsumerGroup: g.o.Group, AckDeadline: new(time.Duration), BackoffManager: w.watching(conn), // hand has deadlines
		SchemaAdapter: feedSchema{}, OffsetsAdapter: feedOffsets{g.o.From, conn},
	}, quiet(g.feed.log))
	if err != nil {
		release()
		return nil, err
	}
	messages, err := inner.Subscribe(ctx, topic)
	if err != nil {
		release()
		return nil, g.feed.store.unavailable(fmt.Errorf("consumer group %q: %w", g.o.Group, err))
	}
	out := make(chan *message.Message)
	g.running.Go(func() {
		g.forward(ctx, conn, messages, out)
		limit := time.AfterFunc(feedCloseMax, cancel) // of what a server that hangs may hold up
		_ = inner.Close()                             // never fails
		limit.Stop()
		release()
		close(out)
	})
	return out, nil
}

// forward hands on page after page, until the end. It returns when the place of the last one is about to be stored.
func (g *groupSubscriber) forward(ctx context.Context, conn *feedConn, in <-chan *message.Message, out chan<- *message.Message) {
	for open := true; open; {
		select {
		case m, more := <-in:
			if !more {
				return
			}
			var through events.Position
			through, open = g.hand(ctx, conn.held(), out)
			conn.reached(through)
			m.Ack()
			select {
			case <-conn.saved:
			case <-ctx.Done():
				return
			}
		case <-g.closing:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Close ends the subscriptions and returns when their checkpoints are stored.
func (g *groupSubscriber) Close() error {
	g.closeOnce.Do(func() {
		g.mu.Lock()
		g.closed = true
		g.mu.Unlock()
		close(g.closing)
	})
	g.running.Wait()
	return nil
}

// wakeful waits for commits in place of polling (wsql.BackoffManager). It is called between two transactions.
type wakeful struct {
	rings          <-chan struct{}
	ended, closing <-chan struct{}
	conn           *feedConn
	log            *slog.Logger
	group          string
	backoff        time.Duration
}

func (w *wakeful) watching(c *feedConn) *wakeful {
	w.conn = c
	return w
}

// HandleError waits until there may be more to read.
func (w *wakeful) HandleError(_ watermill.LoggerAdapter, none bool, err error) time.Duration {
	if hidden := w.conn.takeFault(); err == nil {
		err = hidden
	}
	if err != nil {
		if w.backoff == 0 && !w.over() {
			w.log.Warn("feed is held up", "group", w.group, "error", err)
		}
		w.backoff = min(max(2*w.backoff, backoffMin), feedBackoffMax)
		w.wait(nil, w.backoff)
		return 0
	}
	w.backoff = 0
	if none {
		w.wait(w.rings, feedRecheck)
	}
	return 0
}

func (w *wakeful) wait(rings <-chan struct{}, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-rings:
	case <-timer.C:
	case <-w.ended:
	case <-w.closing:
	}
}

func (w *wakeful) over() bool {
	select {
	case <-w.ended:
		return true
	case <-w.closing:
		return true
	default:
		return false
	}
}

// quiet is the log of watermill without its diary.
func quiet(log *slog.Logger) watermill.LoggerAdapter {
	return watermill.NewSlogLoggerWithLevelMapping(log, map[slog.Level]slog.Level{
		slog.LevelInfo: slog.LevelDebug, slog.LevelError: slog.LevelDebug, // what matters is told by wakeful
	})
}

// feedConn is the connection of a subscription (wsql.Beginner); a lost one is opened again.
type feedConn struct {
	dialer *dialer

	mu    sync.Mutex
	conn  *pgx.Conn
	fault error           // of a query, which watermill takes for an empty answer
	page  []feedFact      // that is handed on
	at    events.Position // up to which it is done with
	saved chan struct{}   // capacity 1: at was asked for
}

// hold keeps the page that goes to the consumer now.
func (f *feedConn) hold(page []feedFact) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.page = page
}

func (f *feedConn) held() []feedFact {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.page
}

func (f *feedConn) reached(at events.Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = at
}

// come is how far the consumer has come, which is stored next.
func (f *feedConn) come() events.Position {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.saved <- struct{}{}
	return f.at
}

func (f *feedConn) open(ctx context.Context) (*pgx.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conn != nil && !f.conn.IsClosed() {
		return f.conn, nil
	}
	c, err := f.dialer.connect(ctx)
	if err == nil {
		f.conn = c
	}
	return c, err
}

func (f *feedConn) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conn != nil {
		drop(f.conn)
	}
}

func (f *feedConn) failed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = err
}

func (f *feedConn) takeFault() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.fault
	f.fault = nil
	return err
}

// BeginTx starts a transaction on the connection.
func (f *feedConn) BeginTx(ctx context.Context, o *stdsql.TxOptions) (wsql.Tx, error) {
	c, err := f.open(ctx)
	if err != nil {
		return nil, err
	}
	tx, err := wsql.BeginnerFromPgx(c).BeginTx(ctx, o)
	if err != nil {
		return nil, err
	}
	return feedTx{tx, f}, nil
}

// ExecContext is not used outside of transactions.
func (f *feedConn) ExecContext(ctx context.Context, query string, args ...any) (wsql.Result, error) {
	c, err := f.open(ctx)
	if err != nil {
		return nil, err
	}
	return wsql.BeginnerFromPgx(c).ExecContext(ctx, query, args...)
}

// QueryContext is not used outside of transactions.
func (f *feedConn) QueryContext(ctx context.Context, query string, args ...any) (wsql.Rows, error) {
	c, err := f.open(ctx)
	if err != nil {
		return nil, err
	}
	return wsql.BeginnerFromPgx(c).QueryContext(ctx, query, args...)
}

// feedTx reads pages.
type feedTx struct {
	wsql.Tx
	conn *feedConn
}

// QueryContext reads rows.
func (t feedTx) QueryContext(ctx context.Context, query string, args ...any) (wsql.Rows, error) {
	rows, err := t.Tx.QueryContext(ctx, query, args...)
	return &feedRows{Rows: rows, conn: t.conn}, err
}
