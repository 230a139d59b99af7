package projections

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// ErrArchived refuses to make rows from the start that need events which retention has taken away: they are in the
// archive only.
var ErrArchived = errors.New("its events were taken away by retention")

// Opener is a Projection that can begin without the events that retention has taken away: before others are folded from
// the start, it is given the closings that stand for them, in order. What it needs and no closing says is an error. A
// projection that is no Opener can not be rebuilt once anything was taken away (ErrArchived).
type Opener interface {
	Projection
	Open(c *books.Closed, out *Changes) error
}

// gone is what retention had begun to take away at a position: rows that may be there no more, or still be there.
type gone struct {
	days  map[string]bool
	spans []books.Span // in order; they do not overlap in First and Last
}

// removedBy reads what retention had begun to take away at the position.
func removedBy(ctx context.Context, store events.Store, at events.Position) (gone, error) {
	g := gone{days: map[string]bool{}}
	err := events.EachRemoved(ctx, store, func(f *books.Removed, position events.Position) {
		if position <= at {
			g.days[f.Day] = true
			g.spans = append(g.spans, f.Span)
		}
	})
	slices.SortFunc(g.spans, func(a, b books.Span) int { return cmp.Compare(a.First, b.First) })
	return g, err
}

// eachClosed visits the closings.
func eachClosed(ctx context.Context, store events.Store, visit func(*books.Closed)) error {
	err := store.Stream(ctx, books.Stream, 0, func(c *events.Committed) bool {
		for _, f := range c.Facts {
			if f, ok := f.(*books.Closed); ok {
				visit(f)
			}
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("read the closings of the books: %w", err)
	}
	return nil
}

// holds says that a request whose first fact lies at the position is gone, or about to be.
func (g *gone) holds(first events.Position) bool {
	i := sort.Search(len(g.spans), func(i int) bool { return g.spans[i].Last >= int64(first) })
	return i < len(g.spans) && g.spans[i].Holds(int64(first))
}

// half says that rows which tell the events up to the position can not be brought up to date any more: of what they do
// not tell yet, something may be gone.
func (g *gone) half(done events.Position) bool {
	for i := range g.spans {
		if s := &g.spans[i]; done > 0 && int64(done) < s.Through {
			return true
		}
	}
	return false
}

// begin lets the projections of the folder start from what is gone: closings take the place of their events, and what
// may still be there of these is passed over.
func (f *folder) begin(ctx context.Context, g gone) error {
	f.gone = g
	if len(g.days) == 0 {
		return nil
	}
	var failed error
	err := eachClosed(ctx, f.store, func(closed *books.Closed) {
		if !g.days[closed.Day] {
			return
		}
		for i := range f.projections {
			if p := &f.projections[i]; p.done == 0 && failed == nil {
				failed = openWith(p.Projection, closed, &f.out)
			}
		}
	})
	return cmp.Or(err, failed)
}

func openWith(p Projection, closed *books.Closed, out *Changes) error {
	opener, ok := p.(Opener)
	if !ok {
		return fmt.Errorf("%w: %s needs those of %s", ErrArchived, p.Name(), closed.Day)
	}
	if err := opener.Open(closed, out); err != nil {
		return fmt.Errorf("%w: %s needs more than the closing of %s: %w", ErrArchived, p.Name(), closed.Day, err)
	}
	return nil
}

// Extent is what FoldSpan has folded.
type Extent struct {
	Through               events.Position // of the last fact
	Requests, Rows, Facts int64
}

// FoldSpan folds all requests whose first fact lies in [first, last], from the first fact to the last one, and hands on
// the changes from time to time; they are valid until each returns. Where one has not ended yet, the error wraps
// books.ErrOpen. A row that can not be decoded is an error, too: what it says would be lost. What repricings have told behind
// the ends comes last, wherever it stands.
func FoldSpan(ctx context.Context, store events.Store, first, last events.Position, list []Projection, each func(*Changes) error) (Extent, error) {
	tracked := make([]tracked, len(list))
	for i, p := range list {
		tracked[i].Projection = p
	}
	s := spanFold{folder: newFolder(store, tracked), first: first, last: last, open: map[string]bool{}, each: each}
	s.folder.at = first - 1
	for {
		more, err := s.page(ctx)
		if err != nil {
			return s.extent, err
		}
		if !more || s.folder.at >= last && len(s.open) == 0 {
			break
		}
	}
	for stream := range s.open {
		return s.extent, fmt.Errorf("%w: %s has not ended", books.ErrOpen, stream)
	}
	return s.extent, s.repriced(ctx)
}

// spanRows is how many rows are read before they are folded: no read stays open meanwhile.
const spanRows = 512

type spanFold struct {
	folder *folder
	first  events.Position
	last   events.Position
	open   map[string]bool // streams that have begun in the span and not ended
	extent Extent
	each   func(*Changes) error
}

// page folds one page; false: there was no more.
func (s *spanFold) page(ctx context.Context) (more bool, err error) {
	var rows []events.Committed
	err = s.folder.store.After(ctx, s.folder.at, func(c *events.Committed) bool {
		rows = append(rows, *c)
		return len(rows) < spanRows
	})
	if err != nil {
		return false, err
	}
	for i := range rows {
		c := &rows[i]
		if c.Position > s.last && len(s.open) == 0 {
			s.folder.at = c.Position
			break
		}
		if err := s.row(ctx, c); err != nil {
			return false, err
		}
	}
	if err := s.each(&s.folder.out); err != nil {
		return false, err
	}
	s.folder.out.Reset()
	return len(rows) == spanRows, nil
}

func (s *spanFold) row(ctx context.Context, c *events.Committed) error {
	s.folder.at = c.Position - 1
	began := c.Version == 0 && s.first <= c.Position && c.Position <= s.last
	if !strings.HasPrefix(c.Stream, events.RequestStreams) || !began && !s.open[c.Stream] {
		s.folder.at = c.Last()
		return nil
	}
	s.open[c.Stream] = true
	if err := s.folder.row(ctx, c); err != nil {
		return err
	}
	if c.Terminal {
		delete(s.open, c.Stream)
	}
	if began {
		s.extent.Requests++
	}
	s.count(c)
	return nil
}

func (s *spanFold) count(c *events.Committed) {
	s.extent.Rows++
	s.extent.Facts += int64(len(c.Facts))
	s.extent.Through = max(s.extent.Through, c.Last())
}

// repriced folds what was told behind the ends of the span's requests.
func (s *spanFold) repriced(ctx context.Context) error {
	through := int64(s.extent.Through)
	q := events.Query{Type: repricedType, After: s.first - 1, Limit: spanRows}
	for {
		var rows []events.Committed
		n := 0
		err := s.folder.store.Find(ctx, q, func(c *events.Committed) bool {
			if n++; s.about(c, through) {
				rows = append(rows, *c)
			}
			q.After = c.Last()
			return true
		})
		if err != nil {
			return err
		}
		for i := range rows {
			if err := s.late(ctx, &rows[i]); err != nil {
				return err
			}
		}
		if err := s.each(&s.folder.out); err != nil {
			return err
		}
		s.folder.out.Reset()
		if n < spanRows {
			return nil
		}
	}
}

// repricedType is the name of the facts that are told behind the ends of requests.
const repricedType = "request.repriced"

// about says that a row may be about a request of the span, as far as the row itself tells: it costs less than to read all that
// was told of the request.
func (s *spanFold) about(c *events.Committed, through int64) bool {
	return slices.ContainsFunc(c.Facts, func(fact events.Fact) bool {
		f, ok := fact.(*request.Repriced)
		return ok && slices.ContainsFunc(f.Changes, func(x request.Repricing) bool {
			return int64(s.first) <= x.Position && x.Position <= through
		})
	})
}

// late folds a row behind the end of its request, if that is one of the span.
func (s *spanFold) late(ctx context.Context, c *events.Committed) error {
	s.folder.at = c.Position - 1
	o, err := s.folder.request(ctx, c)
	if err != nil {
		return err
	}
	if o.first < s.first || s.last < o.first {
		s.folder.forget(c.Stream, o)
		return nil
	}
	s.count(c)
	return s.folder.row(ctx, c)
}
