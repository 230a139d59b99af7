package actors

import (
	"context"
	"hash/maphash"
	"maps"
	"strings"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/events"
)

// pass reads the requests of a scope once, in the order in which they ended, and weighs each. What it holds are the requests that
// are open where it stands, and sums.
type pass struct {
	r     *Repricer
	scope RepriceScope
	book  *PriceBook
	id    string
	apply bool
	out   *Repricing
	begun time.Time

	rested  time.Time    // when it has last let others have their turn
	closed  books.Ledger // as the pass began
	span    span
	open    map[string]*repriceCase
	decoder *events.Decoder
	late    repricedSet
	batch   []*repriceFound
	failed  error
}

// repriceShare: for so many moments of reading there is one of rest.
const repriceShare = 4

// span is where the rows lie: requests that begin in [first, last], until they have ended or the head is reached.
type span struct{ first, last, head events.Position }

// pricedBy are the facts that say what a request costs.
var pricedBy = []string{"request.admitted", "attempt.dispatched", "attempt.failed", "request.settled", "request.repriced"}

func newPass(r *Repricer, s RepriceScope, book *PriceBook) *pass {
	return &pass{
		r: r, scope: s, book: book, begun: r.Now(), open: map[string]*repriceCase{}, decoder: events.NewDecoder(pricedBy),
		out: &Repricing{Prices: book.Version, Revision: book.Revision}, rested: time.Now(),
	}
}

// do reads and weighs, and books where it is to.
func (p *pass) do(ctx context.Context) error {
	err := p.r.Books(ctx, func(ledger *books.Ledger) error {
		p.closed = *ledger
		p.closed.Removed = maps.Clone(ledger.Removed) // that one goes on
		return nil
	})
	if err != nil {
		return err
	}
	if err := p.place(ctx); err != nil {
		return errors.Wrap(err, "find the requests")
	}
	p.out.From, p.out.To = p.span.first, p.span.head
	p.removed()
	if p.span.first > p.span.last {
		return nil
	}
	if err := p.late.fill(ctx, p.r.Store, p.span); err != nil {
		return errors.Wrap(err, "find earlier repricings")
	}
	if p.scope.Key != "" {
		err = p.ofKey(ctx)
	} else {
		err = p.all(ctx)
	}
	if err == nil {
		err = p.flush(ctx)
	}
	for _, c := range p.open {
		if !c.beyond {
			p.out.Open++
		}
	}
	return err
}

// place finds where the requests of the scope begin. Without a time they are those behind the last closing.
func (p *pass) place(ctx context.Context) (err error) {
	s := &p.span
	if s.head, err = p.r.Store.Head(ctx); err != nil {
		return err
	}
	s.first, s.last = 1, s.head
	find := func(q events.Query) (at events.Position, err error) {
		q.StreamPrefix, q.Limit = events.RequestStreams, 1
		err = p.r.Store.Find(ctx, q, func(c *events.Committed) bool { at = c.Position; return true })
		return at, err
	}
	if last := p.closed.Last(); last != nil && p.scope.Since.IsZero() {
		s.first = events.Position(last.Last) + 1
		p.out.ClosedThrough = last.Day
	}
	if !p.scope.Since.IsZero() {
		if s.first, err = find(events.Query{Since: p.scope.Since}); err != nil {
			return err
		}
		if s.first == 0 { // there is none since
			s.first = s.head + 1
		}
	}
	if !p.scope.Until.IsZero() {
		s.last, err = find(events.Query{Until: p.scope.Until, Newest: true})
	}
	return err
}

// removed names the days of the scope whose events are gone.
func (p *pass) removed() {
	if p.scope.Since.IsZero() {
		return
	}
	for i := range p.closed.Closed {
		c := &p.closed.Closed[i]
		begun, err := books.ParseDay(c.Day)
		if err == nil && p.closed.Removed[c.Day] && p.scope.Since.Before(begun.Add(24*time.Hour)) &&
			(p.scope.Until.IsZero() || begun.Before(p.scope.Until)) {
			p.out.day(c.Day, p.closed.Refusal(c.First).Error())
		}
	}
}

// all reads every row of the span.
func (p *pass) all(ctx context.Context) error {
	after := p.span.first - 1
	for {
		err := events.ScanAll(ctx, p.r.Store, after, p.decoder.Wants, func(rows []events.Stored) bool {
			for i := range rows {
				r := &rows[i]
				if after = r.End(); r.Position > p.span.head || !p.row(ctx, r) {
					return false
				}
			}
			return p.page(ctx, after)
		})
		bad, err := p.bad(err)
		if bad == nil {
			return errors.CombineErrors(p.failed, err)
		}
		after = bad.Last
	}
}

// ofKey reads the rows of one key, by the search index.
func (p *pass) ofKey(ctx context.Context) error {
	q := events.Query{Key: p.scope.Key, StreamPrefix: events.RequestStreams, After: p.span.first - 1, Through: p.span.head}
	for {
		n := 0
		err := p.r.Store.Find(ctx, q, func(c *events.Committed) bool {
			q.After = c.Last()
			if n++; !p.row(ctx, &events.Stored{Committed: *c, N: int64(len(c.Facts))}) {
				return false
			}
			return n%512 > 0 || p.page(ctx, q.After)
		})
		bad, err := p.bad(err)
		if bad == nil {
			return errors.CombineErrors(p.failed, err)
		}
		q.After = bad.Last
	}
}

// bad notes a row that can not be read: what its request costs is not known.
func (p *pass) bad(err error) (*events.DecodeError, error) {
	var bad *events.DecodeError
	if p.failed != nil || !errors.As(err, &bad) {
		return nil, err
	}
	p.lose(bad)
	return bad, nil
}

func (p *pass) lose(bad *events.DecodeError) {
	if _, open := p.open[bad.Stream]; open {
		delete(p.open, bad.Stream)
		p.note(bad.Stream, bad)
	}
}

// page has the changes of a page booked; false ends the reading.
func (p *pass) page(ctx context.Context, at events.Position) bool {
	if p.failed = ctx.Err(); p.failed != nil {
		return false
	}
	if p.r.Progress != nil {
		p.r.Progress(ctx, p.span.first-1, at, p.span.head)
	}
	if p.failed = p.rest(ctx, time.Since(p.rested)/repriceShare); p.failed != nil {
		return false
	}
	return at <= p.span.last || len(p.open) > 0
}

// row takes one row; false ends the reading.
func (p *pass) row(ctx context.Context, r *events.Stored) bool {
	c := p.open[r.Stream]
	if c == nil {
		if r.Version != 0 || r.Position > p.span.last || !strings.HasPrefix(r.Stream, events.RequestStreams) {
			return true
		}
		c = &repriceCase{stream: r.Stream, first: r.Position}
		c.ID = strings.TrimPrefix(r.Stream, events.RequestStreams)
	}
	if r.Facts == nil {
		if !p.decoder.Wants(r.Types) {
			c.version = r.Version + r.N
			return true
		}
		if err := p.decoder.Decode(r); err != nil {
			var bad *events.DecodeError
			if errors.As(err, &bad) {
				p.lose(bad)
			}
			return true
		}
	}
	if r.Version == 0 {
		p.open[r.Stream] = c
	}
	c.take(&r.Committed, r.N)
	if r.Version == 0 {
		at := c.AdmittedAt
		c.beyond = !p.scope.Since.IsZero() && at.Before(p.scope.Since) || !p.scope.Until.IsZero() && !at.Before(p.scope.Until)
	}
	if c.Settled == nil && c.Rejected == nil {
		return true
	}
	delete(p.open, r.Stream)
	if c.beyond || c.Settled == nil || !c.Settled.Sent {
		return true
	}
	p.out.Read++
	p.failed = p.ended(ctx, c)
	return p.failed == nil
}

// ended weighs a request that has ended, with what repricings have told behind its end: that is known, or the request is read
// again.
func (p *pass) ended(ctx context.Context, c *repriceCase) error {
	if p.late.told != nil {
		for _, row := range p.late.told[c.stream] {
			c.take(row, int64(len(row.Facts)))
		}
	} else if p.late.has(c.stream) {
		again, err := p.r.reread(ctx, c.stream)
		if err != nil {
			return p.unless(c.stream, err)
		}
		c = again
	}
	f, err := p.weigh(c)
	if err != nil {
		p.note(c.stream, err)
		return nil
	}
	if f == nil {
		return nil
	}
	switch {
	case p.closed.Refusal(int64(c.first)) != nil:
		p.refuse(&p.closed, f)
	case !p.apply:
		p.out.count(f)
	default:
		if p.batch = append(p.batch, f); len(p.batch) >= repriceBatch {
			return p.flush(ctx)
		}
	}
	return nil
}

// flush books what is gathered, then rests as long as that took, so that those who wait for the store have their turn.
func (p *pass) flush(ctx context.Context) error {
	if len(p.batch) == 0 {
		return nil
	}
	begun := time.Now()
	again, err := p.post(ctx, p.batch)
	p.batch = p.batch[:0]
	for _, f := range again {
		if err == nil {
			err = p.retry(ctx, f.stream)
		}
	}
	if err != nil {
		return err
	}
	return p.rest(ctx, time.Since(begun))
}

// rest lets others have their turn for a while.
func (p *pass) rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		p.rested = time.Now()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// retry weighs a request again that somebody else has told more about meanwhile.
func (p *pass) retry(ctx context.Context, stream string) error {
	c, err := p.r.reread(ctx, stream)
	if err != nil {
		return p.unless(stream, err)
	}
	f, err := p.weigh(c)
	if err != nil {
		p.note(stream, err)
		return nil
	}
	if f == nil {
		return nil
	}
	again, err := p.post(ctx, []*repriceFound{f})
	if len(again) > 0 {
		p.note(stream, events.ErrConflict) // the next run finds it
	}
	return err
}

// refuse counts what a closed day keeps as it is.
func (p *pass) refuse(ledger *books.Ledger, f *repriceFound) {
	for i := range ledger.Closed {
		if c := &ledger.Closed[i]; c.Holds(int64(f.first)) {
			p.out.refused(c.Day, ledger.Refusal(int64(f.first)).Error(), f)
			return
		}
	}
}

// finish is the outcome.
func (p *pass) finish() *Repricing {
	p.out.finish(p.r.Now().Sub(p.begun))
	return p.out
}

// repricedSet has what earlier repricings have told. When they are more than repricedKept it only says of which requests there are
// some: of one in some hundreds it says so in vain, and its memory does not grow. The zero value is empty.
type repricedSet struct {
	told map[string][]*events.Committed // by stream, in order; nil when they are too many
	n    int
	seed maphash.Seed
	bits []uint64
}

const (
	repricedKept = 20_000
	repricedBits = 1 << 24 // 2 MiB
)

func (s *repricedSet) place(stream string) (word int, bit uint64) {
	h := maphash.String(s.seed, stream) % repricedBits
	return int(h / 64), 1 << (h % 64)
}

func (s *repricedSet) has(stream string) bool {
	if s.bits == nil {
		return false
	}
	word, bit := s.place(stream)
	return s.bits[word]&bit != 0
}

// fill finds the repricings of requests that begin in the span, by the search index.
func (s *repricedSet) fill(ctx context.Context, store events.Store, in span) error {
	return events.FindReadable(ctx, store, events.Query{Type: "request.repriced", After: in.first - 1}, s.add, nil)
}

func (s *repricedSet) add(c *events.Committed) {
	if s.bits == nil {
		s.seed, s.bits = maphash.MakeSeed(), make([]uint64, repricedBits/64)
		s.told = map[string][]*events.Committed{}
	}
	word, bit := s.place(c.Stream)
	s.bits[word] |= bit
	if s.n++; s.n > repricedKept {
		s.told = nil
	}
	if s.told != nil {
		kept := *c
		kept.Payload = nil
		s.told[c.Stream] = append(s.told[c.Stream], &kept)
	}
}
