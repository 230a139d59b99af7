package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// FeedSource is what a store offers to a PullFeed.
type FeedSource interface {
	// FeedPage reads at most limit rows with a fact after the position, and keeps those that pass the filter. Facts are
	// not decoded. through is the position up to which was read, at least after; more says that the limit was reached.
	FeedPage(ctx context.Context, after Position, f *FeedFilter, limit int) (p FeedPage, err error)
	// Head, Stream, Find and Chain are those of the Store.
	pastReader
	// Checkpoint is where a group is; ok is false when it has none.
	Checkpoint(ctx context.Context, group string) (at Position, ok bool, err error)
	// SaveCheckpoint moves groups forward, and makes those that are not there; it never moves one back.
	SaveCheckpoint(ctx context.Context, group string, at Position) error
	// Checkpoints lists all, by group.
	Checkpoints(ctx context.Context) ([]FeedCheckpoint, error)
	// ForgetCheckpoint removes one.
	ForgetCheckpoint(ctx context.Context, group string) error
}

// FeedPage is part of the event store.
type FeedPage struct {
	Rows    []Committed
	Holes   []Hole // in order, of all that was read, whatever the filter says
	Through Position
	More    bool
}

// PullFeed is a Feed over a store on this machine: each subscription reads pages behind its own position, woken by a
// bell that the journal's Push rings.
type PullFeed struct {
	source FeedSource
	bell   *Bell
	log    *slog.Logger

	mu   sync.Mutex
	busy map[string]bool // groups with a subscription
}

var _ Feed = (*PullFeed)(nil)

// NewPullFeed does no IO. log may be nil.
func NewPullFeed(source FeedSource, bell *Bell, log *slog.Logger) *PullFeed {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &PullFeed{source: source, bell: bell, log: log, busy: map[string]bool{}}
}

// Head is the position of the last stored fact.
func (f *PullFeed) Head(ctx context.Context) (Position, error) { return f.source.Head(ctx) }

// Since is the position behind which the facts from a time on begin.
func (f *PullFeed) Since(ctx context.Context, t time.Time) (Position, error) {
	return since(ctx, f.source, t)
}

// Checkpoints lists the groups.
func (f *PullFeed) Checkpoints(ctx context.Context) ([]FeedCheckpoint, error) {
	return f.source.Checkpoints(ctx)
}

// Forget removes the checkpoint of a group that has no subscription (ErrGroupBusy).
func (f *PullFeed) Forget(ctx context.Context, group string) error {
	if err := f.take(group); err != nil {
		return err
	}
	defer f.giveBack(group)
	return f.source.ForgetCheckpoint(ctx, group)
}

// Subscriber is one consumer group.
func (f *PullFeed) Subscriber(o FeedOptions) (message.Subscriber, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	s := &pullSubscriber{feed: f, o: o}
	s.life, s.end = context.WithCancel(context.Background())
	return s, nil
}

func (f *PullFeed) take(group string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy[group] {
		return fmt.Errorf("%w: %s", ErrGroupBusy, group)
	}
	if group != "" {
		f.busy[group] = true
	}
	return nil
}

func (f *PullFeed) giveBack(group string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.busy, group)
}

// pullSubscriber is a message.Subscriber.
type pullSubscriber struct {
	feed *PullFeed
	o    FeedOptions
	life context.Context
	end  context.CancelFunc

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// Subscribe begins behind the group's checkpoint. A group that has none is given one at once, so that nothing that is
// committed from now on is missed whatever happens.
func (s *pullSubscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if topic != Topic {
		return nil, fmt.Errorf("%w: topic: %q is not %q", ErrFeed, topic, Topic)
	}
	if err := s.feed.take(s.o.Group); err != nil {
		return nil, err
	}
	at, err := s.begin(ctx)
	if err != nil {
		s.feed.giveBack(s.o.Group)
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		s.feed.giveBack(s.o.Group)
		return nil, ErrClosed
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.life, cancel)
	rings, deaf := s.feed.bell.Listen()
	p := &pull{
		source: s.feed.source, log: s.feed.log, o: s.o, ctx: ctx, rings: rings, out: make(chan *message.Message),
		read: at, saved: at,
	}
	s.running.Go(func() {
		p.run()
		deaf()
		stop()
		cancel()
		s.feed.giveBack(s.o.Group)
		close(p.out)
	})
	return p.out, nil
}

// begin is the position behind which to read.
func (s *pullSubscriber) begin(ctx context.Context) (Position, error) {
	if s.o.Group != "" {
		at, ok, err := s.feed.source.Checkpoint(ctx, s.o.Group)
		if err != nil || ok {
			return at, wrapGroup(s.o.Group, err)
		}
	}
	at := s.o.From
	if at == FeedHead {
		var err error
		if at, err = s.feed.source.Head(ctx); err != nil {
			return 0, wrapGroup(s.o.Group, err)
		}
	}
	if s.o.Group == "" {
		return at, nil
	}
	return at, wrapGroup(s.o.Group, s.feed.source.SaveCheckpoint(ctx, s.o.Group, at))
}

func wrapGroup(group string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("consumer group %q: %w", group, err)
}

// Close ends the subscriptions and returns when their checkpoints are stored.
func (s *pullSubscriber) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
	s.running.Wait()
	return nil
}

// Figures of a subscription.
const (
	feedPageRows    = 256
	feedGather      = 2 * time.Millisecond   // between two reads that find little, so that commits of a busy time share one
	feedRecheck     = time.Second            // for commits of other processes, which ring no bell here
	feedSaveSoon    = 100 * time.Millisecond // between two stored checkpoints of a busy group; a quiet one stores at once
	feedSaveLate    = 10 * time.Second       // the same when all that came was left out by the filter
	feedBackoffMax  = 5 * time.Second
	feedSaveTimeout = 3 * time.Second // of the last one
)

// errEnded ends a subscription.
var errEnded = errors.New("subscription ended")
