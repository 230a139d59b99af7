package actors

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections/history"
)

// anyBook is a price for everything but some models, by model and upstream.
type anyBook struct {
	factor  pricing.Price
	without []string
}

func (b anyBook) Sheets(model, _, upstream string, _ time.Time) pricing.Sheets {
	if slices.Contains(b.without, model) {
		return pricing.Sheets{}
	}
	rates := pricing.Rates{Input: b.factor * pricing.Price(len(upstream)), Output: 3 * b.factor, CachedInput: b.factor, PerRequest: money.Amount(b.factor)}
	return pricing.Sheets{Manual: &pricing.Sheet{Ladder: pricing.Ladder{Flat: rates}, Version: fmt.Sprint("book@", b.factor), Origin: pricing.Manual}}
}

// counter is a store with a random history, and what it takes to price it anew.
type counter struct {
	*testing.T
	store *memory.Store
	book  anyBook
	books books.Ledger
	full  *full
	fails int // so many batches are booked before the process dies; negative: it lives
}

var errDied = errors.New("the process has died")

func newCounter(t *testing.T, seed uint64, requests int) *counter {
	c := &counter{T: t, store: memory.NewStore(), fails: -1}
	list, err := history.History{Seed: seed, Requests: requests, Repriced: true, Unended: 3}.Appends()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		if _, err := c.store.Append(t.Context(), []events.Append{a}, 1); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// run is one process that prices anew.
func (c *counter) run(scope RepriceScope, apply bool) (*Repricing, error) {
	head, err := c.store.Head(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	var store events.Store = c.store
	if c.full != nil {
		store = c.full
	}
	j := events.NewJournal(events.JournalOptions{Store: store, Head: head})
	defer func() { _ = j.Close(context.Background()) }()
	s := NewSystem(Options{Now: time.Now, Recorder: j})
	defer func() { _ = s.Stop(context.Background()) }()
	r := &Repricer{
		Store: c.store, Journal: j, System: s, Node: "node-1", Now: time.Now,
		Prices: func() PriceBook { return PriceBook{Book: c.book, Version: fmt.Sprint(c.book.factor)} },
		Books: func(_ context.Context, do func(*books.Ledger) error) error {
			if c.fails == 0 {
				return errDied
			}
			c.fails--
			return do(&c.books)
		},
	}
	if apply {
		return r.Apply(c.Context(), "run", scope, RepriceExpect{})
	}
	return r.Preview(c.Context(), scope)
}

func (c *counter) must(scope RepriceScope, apply bool) *Repricing {
	c.Helper()
	out, err := c.run(scope, apply)
	if err != nil {
		c.Fatal(err)
	}
	return out
}

// owed is what every attempt costs by the book, in the plainest way, and what it is booked at: by request and number.
func (c *counter) owed(of func(*request.Booked, *pricing.Posted) bool) (booked, owed map[string]money.Amount, first map[string]events.Position) {
	stories := map[string]*request.Booked{}
	first = map[string]events.Position{}
	err := c.store.After(c.Context(), 0, func(row *events.Committed) bool {
		if row.Request == "" {
			return true
		}
		b := stories[row.Request]
		if b == nil {
			b = &request.Booked{}
			stories[row.Request], first[row.Request] = b, row.Position
		}
		for i, f := range row.Facts {
			b.Take(f, int64(row.Position)+int64(i), row.At)
		}
		return true
	})
	if err != nil {
		c.Fatal(err)
	}
	booked, owed = map[string]money.Amount{}, map[string]money.Amount{}
	for id, b := range stories {
		list, err := b.Posted()
		if err != nil {
			c.Fatal(err)
		}
		for _, p := range list {
			if !of(b, &p) {
				continue
			}
			at := fmt.Sprint(id, " ", p.N)
			booked[at] = p.Charge.Caller
			bill := pricing.Settle(c.book, p.Call, p.Usage, p.Multipliers)
			switch {
			case bill.Unpriced:
				owed[at] = p.Charge.Caller
			case !p.Free:
				owed[at] = bill.Caller.Total
			default:
				owed[at] = 0
			}
		}
	}
	return booked, owed, first
}

func sumOf(m map[string]money.Amount) (sum money.Amount) {
	for _, a := range m {
		sum += a
	}
	return sum
}

func everything(*request.Booked, *pricing.Posted) bool { return true }

// Pain 80, E39, A79: whatever was repriced before, a run ends at what the book says, attempt by attempt; it moves what the preview
// has said; a second run changes nothing, and the next book is booked as a difference to this one.
func TestARunEndsAtWhatTheBookSaysAndTheNextOneChangesNothing(t *testing.T) {
	for seed := range uint64(3) {
		c := newCounter(t, seed, 150)
		for _, c.book = range []anyBook{{factor: 20_000, without: []string{"claude-sonnet-4-5"}}, {factor: 30_000}, {factor: 20_000}} {
			booked, owed, _ := c.owed(everything)
			preview := c.must(RepriceScope{}, false)
			if preview.Difference != sumOf(owed)-sumOf(booked) || preview.Requests == 0 || preview.Applied {
				t.Fatalf("seed %d: the preview says %s, it is %s", seed, preview.Difference, sumOf(owed)-sumOf(booked))
			}
			if again, _, _ := c.owed(everything); !maps.Equal(again, booked) {
				t.Fatal("a preview has booked something")
			}
			done := c.must(RepriceScope{}, true)
			if done.RepriceSums != preview.RepriceSums || !slices.Equal(done.Lines, preview.Lines) || done.Run != "run" {
				t.Fatalf("seed %d:\nbooked  %+v\npreview %+v", seed, done.RepriceSums, preview.RepriceSums)
			}
			now, owed, _ := c.owed(everything)
			if !maps.Equal(now, owed) {
				t.Fatalf("seed %d: what is booked is not what the book says", seed)
			}
			head, _ := c.store.Head(t.Context())
			if second := c.must(RepriceScope{}, true); second.Requests != 0 || second.To != head {
				t.Fatalf("seed %d: a second run: %+v", seed, second.RepriceSums)
			}
			if after, _ := c.store.Head(t.Context()); after != head {
				t.Fatalf("seed %d: a second run has appended %d facts", seed, after-head)
			}
		}
	}
}

// A run that is cut short has booked whole requests, each once; the next one books the others.
func TestARunThatWasCutShortIsGoneOnWith(t *testing.T) {
	for _, died := range []int{1, 2, 3} {
		c := newCounter(t, 7, 500)
		c.book = anyBook{factor: 20_000}
		whole := c.must(RepriceScope{}, false)
		c.fails = died // the first is the look at the closings
		cut, err := c.run(RepriceScope{}, true)
		if !errors.Is(err, errDied) || cut.Requests != int64(died-1)*repriceBatch {
			t.Fatalf("%d requests, %v", cut.Requests, err)
		}
		c.fails = -1
		rest := c.must(RepriceScope{}, true)
		if cut.Requests+rest.Requests != whole.Requests || cut.Difference+rest.Difference != whole.Difference ||
			cut.UpstreamDifference+rest.UpstreamDifference != whole.UpstreamDifference {
			t.Errorf("%+v and %+v are not %+v", cut.RepriceSums, rest.RepriceSums, whole.RepriceSums)
		}
		if now, owed, _ := c.owed(everything); !maps.Equal(now, owed) {
			t.Error("what is booked is not what the book says")
		}
	}
}

// A store that fails stops a run, which says so; nothing is kept back to be booked later.
func TestARunEndsWithTheStore(t *testing.T) {
	c := newCounter(t, 8, 300)
	c.book = anyBook{factor: 20_000}
	whole := c.must(RepriceScope{}, false)
	kept := c.store
	c.full = &full{Store: kept, left: 1}
	cut, err := c.run(RepriceScope{}, true)
	if !errors.Is(err, events.ErrUnavailable) || cut.Requests == 0 || cut.Requests >= whole.Requests {
		t.Fatalf("%v: %+v", err, cut)
	}
	c.full = nil
	rest := c.must(RepriceScope{}, true)
	if cut.Requests+rest.Requests != whole.Requests || cut.Difference+rest.Difference != whole.Difference {
		t.Errorf("%+v and %+v are not %+v", cut.RepriceSums, rest.RepriceSums, whole.RepriceSums)
	}
	if now, owed, _ := c.owed(everything); !maps.Equal(now, owed) {
		t.Error("what is booked is not what the book says")
	}
}

// full is a store whose disk is full after some commits.
type full struct {
	events.Store
	left int
}

func (f *full) Append(ctx context.Context, batch []events.Append, low events.Position) ([]events.Result, error) {
	if f.left--; f.left < 0 {
		return nil, fmt.Errorf("%w: no space left on device", events.ErrUnavailable)
	}
	return f.Store.Append(ctx, batch, low)
}

// What earlier repricings have told counts, also where they are too many to be kept.
func TestEarlierRepricingsCountHoweverManyThereAre(t *testing.T) {
	c := newCounter(t, 12, 150)
	c.book = anyBook{factor: 20_000}
	c.must(RepriceScope{}, true)
	var kept, many repricedSet
	if err := kept.fill(t.Context(), c.store, span{first: 1}); err != nil {
		t.Fatal(err)
	}
	many.n = repricedKept
	if err := many.fill(t.Context(), c.store, span{first: 1}); err != nil {
		t.Fatal(err)
	}
	if len(kept.told) == 0 || many.told != nil {
		t.Fatalf("%d and %d", len(kept.told), len(many.told))
	}
	for stream := range kept.told {
		if !kept.has(stream) || !many.has(stream) {
			t.Fatalf("%s was repriced", stream)
		}
	}
	for _, late := range []repricedSet{kept, many} {
		r := &Repricer{Store: c.store, Now: time.Now}
		p := newPass(r, RepriceScope{}, &PriceBook{Book: c.book})
		p.late, p.span = late, span{1, 1 << 40, 1 << 40}
		if err := p.all(t.Context()); err != nil || p.out.Requests != 0 || p.out.Read == 0 {
			t.Errorf("%v: %+v", err, p.out)
		}
	}
}

// A scope takes attempts, not requests; all scopes together are everything.
func TestAScopeTakesWhatItNames(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 0))
	c := newCounter(t, 3, 200)
	c.book = anyBook{factor: 20_000}
	middle := time.Date(2026, 3, 1, 22, 15, 0, 0, time.UTC)
	for _, s := range []struct {
		RepriceScope
		of func(*request.Booked, *pricing.Posted) bool
	}{
		{RepriceScope{Unpriced: true}, func(_ *request.Booked, p *pricing.Posted) bool { return p.Charge.Unpriced }},
		{RepriceScope{Key: "key-b"}, func(b *request.Booked, _ *pricing.Posted) bool { return b.Ask().Key == "key-b" }},
		{RepriceScope{Upstream: "relay"}, func(_ *request.Booked, p *pricing.Posted) bool { return p.Call.Upstream == "relay" }},
		{RepriceScope{Model: "gpt-*"}, func(b *request.Booked, p *pricing.Posted) bool {
			resolved, _ := path.Match("gpt-*", p.Call.Model)
			named, _ := path.Match("gpt-*", b.Ask().Model)
			return resolved || named
		}},
		{RepriceScope{Since: middle}, func(b *request.Booked, _ *pricing.Posted) bool { return !b.AdmittedAt.Before(middle) }},
		{RepriceScope{Until: middle}, func(b *request.Booked, _ *pricing.Posted) bool { return b.AdmittedAt.Before(middle) }},
	} {
		booked, owed, _ := c.owed(s.of)
		all, _, _ := c.owed(everything)
		preview := c.must(s.RepriceScope, false)
		if preview.Difference != sumOf(owed)-sumOf(booked) || preview.Requests == 0 {
			t.Errorf("%+v: the preview says %s, it is %s", s.RepriceScope, preview.Difference, sumOf(owed)-sumOf(booked))
		}
		if rng.IntN(2) == 0 || s.Since != (time.Time{}) {
			continue
		}
		c.must(s.RepriceScope, true)
		maps.Copy(all, owed)
		if now, _, _ := c.owed(everything); !maps.Equal(now, all) {
			t.Errorf("%+v has changed something else", s.RepriceScope)
		}
	}
}

// Days that are closed keep what they are; what would change is told by day.
func TestNothingOfAClosedDayIsBooked(t *testing.T) {
	c := newCounter(t, 9, 200)
	c.book = anyBook{factor: 20_000}
	_, _, first := c.owed(everything)
	all := slices.Sorted(maps.Values(first))
	border := all[len(all)/2]
	c.books.Evolve(&books.Closed{Day: "2026-02-27", Span: books.Span{First: 1, Last: 0, Through: 0}})
	c.books.Evolve(&books.Closed{Day: "2026-03-01", Span: books.Span{First: 1, Last: int64(border), Through: int64(border) + 50}})
	c.books.Evolve(&books.Removed{Day: "2026-02-27"})
	whole, shown := c.must(RepriceScope{}, false), c.must(RepriceScope{Since: time.Date(2026, 2, 27, 1, 0, 0, 0, time.UTC)}, true)
	if whole.Requests == 0 || whole.ClosedThrough != "2026-03-01" || shown.RepriceSums != whole.RepriceSums {
		t.Errorf("%+v and %+v", whole, shown)
	}
	if len(shown.Refused) != 2 || shown.Refused[0].Requests != 0 || shown.Refused[1].Requests == 0 || shown.Refused[1].Day != "2026-03-01" {
		t.Errorf("%+v", shown.Refused)
	}
	_ = c.store.Find(t.Context(), events.Query{Type: "request.repriced", After: all[len(all)-1]}, func(row *events.Committed) bool {
		if f := row.Facts[0].(*request.Repriced); f.Reprice == "run" && first[row.Request] <= border {
			t.Errorf("%s is of a closed day", row.Request)
		}
		return true
	})
}
