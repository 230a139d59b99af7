package events

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/penstock/penstock/domain/catalog"
)

// Feed is the event store as a topic of Watermill, for everything that is not a hot read model: the live feed,
// webhooks, alerts, other services. SQLite and PostgreSQL pass the suite in events/feedtest.
//
// A message is one fact: its payload is the fact's JSON object, its metadata are the names below. Messages come in the
// order of their positions, at least once. A consumer group has a checkpoint of its own, stored beside the events, and
// resumes behind it after any end of its process; groups do not know of each other. Readers are woken by commits.
//
// Retention waits for no consumer. In the place of facts that would have passed its filter and were taken away before it has read
// them it gets one message of type TypeRemoved, which is no fact but says so (Gap).
type Feed interface {
	// Subscriber is one consumer group. It does no IO; Subscribe does, and takes the topic Topic only. A group has one
	// subscription at a time. Close of the subscriber ends its subscriptions and stores how far they came.
	Subscriber(o FeedOptions) (message.Subscriber, error)
	// Head is the position of the last stored fact.
	Head(ctx context.Context) (Position, error)
	// Since is the position behind which the facts from a time on begin, also those that were taken away: whoever begins there is
	// told of them. It is the head when there are none.
	Since(ctx context.Context, t time.Time) (Position, error)
	// Checkpoints lists the groups and how far they are, by name.
	Checkpoints(ctx context.Context) ([]FeedCheckpoint, error)
	// Forget removes the checkpoint of a group; a group that is not there is no error.
	Forget(ctx context.Context, group string) error
}

// Topic is the one topic of a Feed.
const Topic = "events"

// FeedHead as FeedOptions.From starts a new group at the end of the store: it gets what is committed from now on.
const FeedHead Position = -1

// Names of the metadata of a message. Those of a row's index columns are absent where they do not apply.
const (
	MetaPosition = "position" // of the fact, decimal; also the message's UUID
	MetaStream   = "stream"
	MetaVersion  = "version" // of the stream with this fact, from 1
	MetaType     = "type"    // name of the fact
	MetaSchema   = "schema"
	MetaAt       = "at" // RFC 3339, UTC, microseconds
	MetaNode     = "node"
	MetaRequest  = "request"
	MetaKey      = "key"
	MetaUpstream = "upstream"
)

// Errors of a feed.
var (
	// ErrFeed refuses options or a topic that make no sense.
	ErrFeed = errors.New("no such subscription")
	// ErrGroupBusy refuses a second subscription of a group.
	ErrGroupBusy = errors.New("consumer group has a subscription already")
)

// FeedOptions of one consumer group; the zero value of a field means its default.
type FeedOptions struct {
	// Group names the checkpoint. "" is a reader without one: each of its subscriptions begins at From.
	Group string
	// From is the position behind which a group without a checkpoint begins: 0 is the first fact, FeedHead the end.
	From Position
	// Filter leaves out facts before they become messages.
	Filter FeedFilter
	// Window is how many messages may be out without an Ack (default 1, Watermill's rule). A Nack re-delivers its
	// message and all behind it.
	Window int
	// ResendAfter is the wait before what was refused with a Nack comes again (default 1 s).
	ResendAfter time.Duration
}

// Check fills in defaults and says what is wrong.
func (o *FeedOptions) Check() error {
	switch {
	case o.From < FeedHead:
		return fmt.Errorf("%w: from: %d is no position", ErrFeed, o.From)
	case o.Window < 0:
		return fmt.Errorf("%w: window: must not be negative", ErrFeed)
	case o.ResendAfter < 0:
		return fmt.Errorf("%w: resend after: must not be negative", ErrFeed)
	}
	if o.Window == 0 {
		o.Window = 1
	}
	if o.ResendAfter == 0 {
		o.ResendAfter = time.Second
	}
	return nil
}

// FeedCheckpoint is how far a group is: everything up to the position was acknowledged.
type FeedCheckpoint struct {
	Group    string    `json:"group"`
	Position Position  `json:"position"`
	At       time.Time `json:"at"` // when it was stored
}

// FeedFilter selects facts. Zero fields do not filter.
type FeedFilter struct {
	Types    []string // names, or globs with * and ?; one must match
	Stream   string
	Request  string
	Key      string
	Upstream string
}

// Fact says whether facts of the name pass; the other fields are Row's.
func (f *FeedFilter) Fact(name string) bool {
	return len(f.Types) == 0 || slices.ContainsFunc(f.Types, func(glob string) bool { return catalog.Glob(glob, name) })
}

// Row says whether one of the facts of a row passes.
func (f *FeedFilter) Row(c *Committed) bool {
	if f.Stream != "" && f.Stream != c.Stream || f.Request != "" && f.Request != c.Request ||
		f.Key != "" && f.Key != c.Key || f.Upstream != "" && f.Upstream != c.Upstream {
		return false
	}
	if len(f.Types) == 0 {
		return true
	}
	for name := range EachType(c.Types) {
		if f.Fact(name) {
			return true
		}
	}
	return false
}

// Message says whether a message passes.
func (f *FeedFilter) Message(m *message.Message) bool {
	for _, field := range [...]struct{ want, name string }{
		{f.Stream, MetaStream}, {f.Request, MetaRequest}, {f.Key, MetaKey}, {f.Upstream, MetaUpstream},
	} {
		if field.want != "" && field.want != m.Metadata.Get(field.name) {
			return false
		}
	}
	return f.Fact(m.Metadata.Get(MetaType))
}

// CheckTypes says which of the names and globs match no fact of the catalogue, nor one of the other names.
func (f *FeedFilter) CheckTypes(others ...string) error {
	known := append(Names(), others...)
	for _, t := range f.Types {
		if !slices.ContainsFunc(known, func(name string) bool { return catalog.Glob(t, name) }) {
			return fmt.Errorf("%w: type: there is no event %q", ErrFeed, t)
		}
	}
	return nil
}

// Messages makes the messages of a stored row, one per fact, in order. Only its stored fields are read, not Facts.
func Messages(c *Committed) ([]*message.Message, error) {
	objects, err := Objects(c.Payload)
	if err != nil {
		return nil, &DecodeError{Position: c.Position, Last: LastOf(c), Stream: c.Stream, Err: err}
	}
	at := c.At.UTC().Format(timeLayout)
	list := make([]*message.Message, 0, len(objects))
	for name, schema := range EachType(c.Types) {
		i := len(list)
		if i == len(objects) {
			break
		}
		position := strconv.FormatInt(int64(c.Position)+int64(i), 10)
		m := message.NewMessage(position, message.Payload(objects[i]))
		m.Metadata = message.Metadata{
			MetaPosition: position, MetaStream: c.Stream, MetaVersion: strconv.FormatInt(c.Version+int64(i)+1, 10),
			MetaType: name, MetaSchema: strconv.Itoa(schema), MetaAt: at, MetaNode: c.Node,
		}
		for _, column := range [...]struct{ name, value string }{
			{MetaRequest, c.Request}, {MetaKey, c.Key}, {MetaUpstream, c.Upstream},
		} {
			if column.value != "" {
				m.Metadata[column.name] = column.value
			}
		}
		list = append(list, m)
	}
	if len(list) != len(objects) || len(list) != countTypes(c.Types) {
		return nil, &DecodeError{Position: c.Position, Last: LastOf(c), Stream: c.Stream,
			Err: fmt.Errorf("%w: %d objects for the types %q", ErrFact, len(objects), c.Types)}
	}
	return list, nil
}

// LastOf is the position of the last fact of a row that need not be decoded.
func LastOf(c *Committed) Position { return c.Position + Position(countTypes(c.Types)) - 1 }

func countTypes(types string) int { return strings.Count(types, " ") + 1 }

// PositionOf is the position of a message's fact, 0 when it has none.
func PositionOf(m *message.Message) Position {
	n, err := strconv.ParseInt(m.Metadata.Get(MetaPosition), 10, 64)
	if err != nil {
		return 0
	}
	return Position(n)
}

// FactOf decodes the fact of a message. An error wraps ErrFact.
func FactOf(m *message.Message) (Fact, error) {
	schema, err := strconv.Atoi(m.Metadata.Get(MetaSchema))
	if err != nil {
		return nil, fmt.Errorf("%w: message %s has no schema", ErrFact, m.UUID)
	}
	array := slices.Concat([]byte{'['}, m.Payload, []byte{']'})
	facts, err := Decode(tag(m.Metadata.Get(MetaType), schema), array)
	if err != nil {
		return nil, err
	}
	return facts[0], nil
}
