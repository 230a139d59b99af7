package actors

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// Errors of repricing, beside events.ErrUnavailable.
var (
	ErrScope         = errors.New("bad scope")                         // the text names the field
	ErrRepricing     = errors.New("a repricing is under way already")  // there is one at a time
	ErrPricesChanged = errors.New("it is not what the preview showed") // the text says what differs
)

// RepriceScope says which requests are priced anew. The zero value is every request of a day that is not closed.
type RepriceScope struct {
	Since    time.Time // by the time at which they were admitted, which is the one that prices are found by
	Until    time.Time // exclusive
	Model    string    // exact name or glob: attempts whose model, as it was resolved or asked for, matches
	Upstream string    // attempts there
	Key      string
	Unpriced bool // attempts without a price only
}

// Check refuses what can not be. The error wraps ErrScope.
func (s *RepriceScope) Check() error {
	if !s.Since.IsZero() && !s.Until.IsZero() && !s.Since.Before(s.Until) {
		return fmt.Errorf("%w: until: is not after since", ErrScope)
	}
	return nil
}

// holds says that an attempt is one of them.
func (s *RepriceScope) holds(asked string, p *pricing.Posted) bool {
	return (s.Upstream == "" || s.Upstream == p.Call.Upstream) && (!s.Unpriced || p.Charge.Unpriced) &&
		(s.Model == "" || catalog.Glob(s.Model, p.Call.Model) || catalog.Glob(s.Model, asked))
}

// RepriceExpect is what a preview has shown: a repricing that would be another one is refused. Prices "" and nil sums are not
// compared. To compare the sums, all is read once more before anything is written.
type RepriceExpect struct {
	Prices       string
	Cost         *money.Amount
	UpstreamCost *money.Amount
}

// PriceBook is what prices are found in, at one moment.
type PriceBook struct {
	pricing.Book
	Version  string          // the same for the same prices
	Revision events.Position // of the catalogue
}

// Repricer compares what requests are booked at with what they cost by the prices in force, by the multipliers of then, and books the
// difference. Its arithmetic is that of a difference: what was cut short is gone on with by the next run, and one that follows
// changes nothing.
type Repricer struct {
	Store   events.Store
	Journal interface {
		Start(a events.Append, mode events.Mode) *events.Pending
		Diverted() error
		Sync(ctx context.Context) error
	}
	Prices func() PriceBook
	// Books runs something while no day is closed. What it is told of the books holds until it returns.
	Books    func(ctx context.Context, do func(*books.Ledger) error) error
	System   *System
	Node     string
	Now      func() time.Time
	Logger   *slog.Logger
	Progress func(ctx context.Context, from, at, to events.Position)

	turn sync.Mutex
}

// repriceBatch bounds the requests that are booked before others have their turn.
const repriceBatch = 128

// Preview says what a run would change, and changes nothing. The error wraps ErrScope or ErrRepricing, or is that of the store.
func (r *Repricer) Preview(ctx context.Context, s RepriceScope) (*Repricing, error) {
	return r.run(ctx, s, nil, nil)
}

// Apply books the difference, one fact for each request, under the id of the run. With an error comes what was booked before it:
// the same run, or another one, books the rest. The error may also wrap ErrPricesChanged.
func (r *Repricer) Apply(ctx context.Context, run string, s RepriceScope, expect RepriceExpect) (*Repricing, error) {
	if run == "" {
		return nil, fmt.Errorf("%w: run: is empty", ErrScope)
	}
	return r.run(ctx, s, &run, &expect)
}

func (r *Repricer) run(ctx context.Context, s RepriceScope, id *string, expect *RepriceExpect) (*Repricing, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if !r.turn.TryLock() {
		return nil, ErrRepricing
	}
	defer r.turn.Unlock()
	if err := r.Journal.Diverted(); err != nil {
		return nil, err
	}
	if err := r.Journal.Sync(ctx); err != nil {
		return nil, err
	}
	book := r.Prices()
	if expect != nil {
		if err := r.compare(ctx, s, &book, expect); err != nil {
			return nil, err
		}
	}
	p := newPass(r, s, &book)
	if id != nil {
		p.id, p.apply, p.out.Run, p.out.Applied = *id, true, *id, true
	}
	err := p.do(ctx)
	return p.finish(), err
}

// compare refuses a repricing that is not what was expected.
func (r *Repricer) compare(ctx context.Context, s RepriceScope, book *PriceBook, expect *RepriceExpect) error {
	if expect.Prices != "" && expect.Prices != book.Version {
		return fmt.Errorf("%w: prices: they were changed since (they are %s, not %s)", ErrPricesChanged, book.Version, expect.Prices)
	}
	if expect.Cost == nil && expect.UpstreamCost == nil {
		return nil
	}
	p := newPass(r, s, book)
	if err := p.do(ctx); err != nil {
		return err
	}
	for _, sum := range []struct {
		name string
		want *money.Amount
		have money.Amount
	}{{"difference", expect.Cost, p.out.Difference}, {"upstream_difference", expect.UpstreamCost, p.out.UpstreamDifference}} {
		if sum.want != nil && *sum.want != sum.have {
			return fmt.Errorf("%w: %s: it would be %s, not %s", ErrPricesChanged, sum.name, sum.have, *sum.want)
		}
	}
	return nil
}

// repriceCase is a request that has ended, as far as its rows are read.
type repriceCase struct {
	request.Booked
	stream  string
	first   events.Position
	version int64 // of its stream
	beyond  bool  // it was admitted at another time
}

// take folds a row whose facts are decoded, as far as they matter.
func (c *repriceCase) take(row *events.Committed, facts int64) {
	for i, f := range row.Facts {
		if f != nil {
			c.Take(f, int64(row.Position)+int64(i), row.At)
		}
	}
	c.version = row.Version + facts
}

// errNotWhole: a part of what was told of a request is not there.
var errNotWhole = errors.New("its beginning or its end is not stored")

// reread reads all that is told of a request.
func (r *Repricer) reread(ctx context.Context, stream string) (*repriceCase, error) {
	var c *repriceCase
	err := r.Store.Stream(ctx, stream, 0, func(row *events.Committed) bool {
		if row.Version == 0 {
			c = &repriceCase{stream: stream, first: row.Position}
			c.ID = row.Request
		}
		if c != nil {
			c.take(row, int64(len(row.Facts)))
		}
		return true
	})
	if err == nil && (c == nil || c.Settled == nil) {
		err = errNotWhole
	}
	return c, errors.Wrapf(err, "read %s", stream)
}

// repriceFound is a request with what its price comes to.
type repriceFound struct {
	*repriceCase
	pricing.Repriced
}

// weigh compares one request with the prices; nil: nothing changes.
func (p *pass) weigh(c *repriceCase) (*repriceFound, error) {
	list, err := c.Posted()
	if err != nil {
		return nil, err
	}
	asked, kept := c.Ask().Model, list[:0]
	for _, x := range list {
		if p.scope.holds(asked, &x) {
			kept = append(kept, x)
		}
	}
	found, err := pricing.Reprice(p.book.Book, kept)
	if err != nil {
		return nil, err
	}
	for _, n := range found.Missing {
		d := c.Sent(n)
		p.out.missing(d.PricedModel(asked), d.Upstream)
	}
	if len(found.Changes) == 0 {
		return nil, nil
	}
	return &repriceFound{c, found}, nil
}

// row is the append that books what was found.
func (f *repriceFound) row(r *Repricer, run string) (events.Row, *request.Repriced) {
	fact := f.Reprice(run, &f.Repriced)
	return events.Row{
		Stream: f.stream, Version: f.version, At: r.Now().UTC(), Node: r.Node, Request: f.ID, Key: f.Ask().Key,
		Upstream: f.Sent(0).Upstream, Facts: []events.Fact{fact},
	}, fact
}

// follow tells the limits.
func (f *repriceFound) follow(s *System, fact *request.Repriced) {
	ask := f.Ask()
	var upstreams []UsedUpstream
	for _, c := range fact.Changes {
		if by := c.Is.UpstreamCost - c.Was.UpstreamCost; by != 0 {
			upstreams = append(upstreams, UsedUpstream{f.Sent(c.N).Upstream, by})
		}
	}
	s.Repriced(ask.Key, ask.User, ask.Group, f.PaidBy(), f.EndedAt, fact.Cost, upstreams)
}

// post books what was found, all of it while no day is closed, and tells the limits. Those that have changed meanwhile are read
// and weighed again.
func (p *pass) post(ctx context.Context, list []*repriceFound) (again []*repriceFound, err error) {
	r := p.r
	err = r.Books(ctx, func(ledger *books.Ledger) error {
		if err := r.Journal.Diverted(); err != nil {
			return err
		}
		return r.System.Steady(func() error {
			type sent struct {
				*repriceFound
				fact    *request.Repriced
				pending *events.Pending
			}
			var all []sent
			for _, f := range list {
				if no := ledger.Refusal(int64(f.first)); no != nil {
					p.refuse(ledger, f)
					continue
				}
				row, fact := f.row(r, p.id)
				all = append(all, sent{f, fact, r.Journal.Start(events.Append{Rows: []events.Row{row}}, events.May)})
			}
			var failed error
			for _, s := range all {
				switch err := s.pending.Wait(); {
				case err == nil:
					s.follow(r.System, s.fact)
					p.out.count(s.repriceFound)
				case errors.Is(err, events.ErrConflict):
					again = append(again, s.repriceFound)
				default:
					failed = errors.CombineErrors(failed, errors.Wrapf(err, "book %s", s.stream))
				}
			}
			return failed
		})
	})
	return again, err
}

// note counts a request that stays as it is because it can not be read or reckoned.
func (p *pass) note(what string, err error) {
	if p.out.Unreadable++; p.out.Unreadable <= 10 && p.r.Logger != nil {
		p.r.Logger.Warn("a request was not priced anew", "request", what, "error", fmt.Sprint(err))
	}
}

// unless is note for an error that is the request's own; any other comes back.
func (p *pass) unless(what string, err error) error {
	var bad *events.DecodeError
	if errors.As(err, &bad) || errors.Is(err, errNotWhole) {
		p.note(what, err)
		return nil
	}
	return err
}
