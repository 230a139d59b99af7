package events

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/penstock/penstock/domain/books"
)

// TypeRemoved is the type of the one message of a feed that is no fact: a Gap. A consumer gets it in the place of what
// retention has taken away before it was read, and acknowledges it as any other. FactOf refuses it.
const TypeRemoved = "events.removed"

// Gap says that of the facts from First to Last those of requests are not there any more. Other facts between them are,
// and follow. A consumer that has rested for long gets one, not one per hole; it may come again after a restart.
type Gap struct {
	First Position `json:"first"`
	Last  Position `json:"last"`
	Next  Position `json:"next"` // the first fact behind First that is still there
}

// Hole is a range of positions, both ends included, at which a store has no facts.
type Hole struct{ First, Last Position }

// Saw notes that the page goes on with a row of these positions. What lies before it and was not seen is not there.
func (p *FeedPage) Saw(first, last Position) {
	if first > p.Through+1 {
		p.Holes = append(p.Holes, Hole{p.Through + 1, first - 1})
	}
	p.Through = max(p.Through, last)
}

// RemovedThrough is the last position at which retention may have taken something away, 0 when it has taken nothing.
func RemovedThrough(ctx context.Context, s Finder) (last Position, err error) {
	err = EachRemoved(ctx, s, func(f *books.Removed, _ Position) { last = max(last, Position(f.Through)) })
	return last, err
}

// Message is what a consumer gets in the place of a hole. Where the books can not be read, it tells of this hole only.
// through is the position up to which it tells. The message's position is the end of the hole: who goes on there misses nothing more.
func (h Hole) Message(ctx context.Context, s Finder) (m *message.Message, through Position) {
	through = h.Last
	if last, err := RemovedThrough(ctx, s); err == nil {
		through = max(through, last)
	}
	payload, _ := json.Marshal(Gap{First: h.First, Last: through, Next: h.Last + 1}) // numbers only
	position := strconv.FormatInt(int64(h.Last), 10)
	m = message.NewMessage(position, payload)
	m.Metadata = message.Metadata{MetaPosition: position, MetaType: TypeRemoved, MetaSchema: "1", MetaAt: time.Now().UTC().Format(timeLayout)}
	return m, through
}

// GapOf is what a message tells if it is about a gap.
func GapOf(m *message.Message) (g Gap, is bool) {
	if m.Metadata.Get(MetaType) != TypeRemoved {
		return g, false
	}
	return g, json.Unmarshal(m.Payload, &g) == nil
}

// Removable says that facts which pass may be taken away by retention: facts of requests.
func (f *FeedFilter) Removable() bool {
	if f.Stream != "" && !strings.HasPrefix(f.Stream, RequestStreams) {
		return false
	}
	return slices.ContainsFunc(Names(), func(name string) bool {
		return (strings.HasPrefix(name, "request.") || strings.HasPrefix(name, "attempt.")) && f.Fact(name)
	})
}

// pastReader is what Since reads.
type pastReader interface {
	Finder
	Chain
	Head(ctx context.Context) (Position, error)
}

// since is the position behind which the facts from a time on begin, also those that were taken away; the head when there are none.
func since(ctx context.Context, s pastReader, t time.Time) (from Position, err error) {
	head, err := s.Head(ctx) // before the look-up: nothing falls between the two
	if err != nil {
		return 0, err
	}
	from = head
	if err := s.Find(ctx, Query{Since: t, Limit: 1}, func(c *Committed) bool { from = c.Position - 1; return false }); err != nil {
		return 0, err
	}
	removed, err := RemovedThrough(ctx, s)
	if err != nil || removed == 0 {
		return from, err
	}
	first, err := reaching(ctx, s, head, t)
	if first > removed {
		return from, err
	}
	return min(from, first-1), err
}

// reaching is the first position of the commit that has reached a time, by bisection: links stay when their rows go.
func reaching(ctx context.Context, chain Chain, head Position, t time.Time) (Position, error) {
	low, high := Position(1), head+1
	for low < high {
		mid := low + (high-low)/2
		next := mid + 1 // where there is no link
		late := false
		err := chain.Chain(ctx, mid-1, func(c *Commit, _ []RawRow) bool {
			if c.N > 0 && c.First <= mid {
				mid, next, late = c.First, c.First+Position(c.N), c.Latest >= t.UnixMicro()
			}
			return false
		})
		if err != nil {
			return 0, err
		}
		if late {
			high = max(low, mid)
		} else {
			low = next
		}
	}
	return low, nil
}
