package actors_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/adapters/memory"
	ledgerbooks "github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/domain/limit"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections/closing"
	"github.com/penstock/penstock/projections/history"
)

// payer is whose money was spent, by whom.
type payer struct{ key, user, group, paidBy, upstream string }

// moment is what was spent at one time.
type moment struct {
	payer
	at time.Time
}

// spendings are sums, without those that come to nothing.
type spendings[K comparable] map[K]money.Amount

func (s spendings[K]) add(k K, a money.Amount) {
	if s[k] += a; s[k] == 0 {
		delete(s, k)
	}
}

// spentSince adds up what a history tells: of the time from a moment on one by one, and of all of it.
func spentSince(t *testing.T, store events.Store, past limit.Past) (exact spendings[moment], all spendings[payer]) {
	t.Helper()
	exact, all = spendings[moment]{}, spendings[payer]{}
	post := func(u *actors.Used, p payer, a money.Amount) {
		if all.add(p, a); !u.Settled.Before(past.Since) {
			exact.add(moment{p, u.Settled}, a)
		}
	}
	err := actors.ReadHistory(t.Context(), store, past, func(u *actors.Used) {
		post(u, payer{u.Key, u.User, u.Group, u.PaidBy, ""}, u.Cost)
		for _, x := range u.Upstreams {
			post(u, payer{upstream: x.Upstream}, x.Cost)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return exact, all
}

// stories adds up the same by the stories of all requests, as a reader of the log would.
func stories(t *testing.T, store events.Store, since time.Time) (exact spendings[moment], all spendings[payer]) {
	t.Helper()
	of := map[string]*request.Story{}
	err := store.After(t.Context(), 0, func(c *events.Committed) bool {
		if c.Request == "" {
			return true
		}
		if of[c.Stream] == nil {
			of[c.Stream] = &request.Story{ID: c.Request}
		}
		for _, f := range c.Facts {
			of[c.Stream].Evolve(f, c.At)
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	exact, all = spendings[moment]{}, spendings[payer]{}
	for _, s := range of {
		if s.Settled == nil || !s.Settled.Sent {
			continue
		}
		ask := s.Ask()
		who := payer{ask.Key, ask.User, ask.Group, s.PaidBy(), ""}
		post := func(p payer, a money.Amount) {
			if all.add(p, a); !s.EndedAt.Before(since) {
				exact.add(moment{p, s.EndedAt}, a)
			}
		}
		post(who, s.Settled.Cost)
		for i := range s.Attempts {
			at := payer{upstream: s.Attempts[i].Dispatched.Upstream}
			if f := s.Attempts[i].Failed; f != nil {
				post(who, f.Cost)
				post(at, f.UpstreamCost)
			}
			if i == len(s.Attempts)-1 {
				post(at, s.Settled.UpstreamCost)
			}
		}
	}
	return exact, all
}

// closeDays closes all days that can be closed.
func closeDays(t *testing.T, store events.Store) (closed []*ledgerbooks.Closed) {
	t.Helper()
	ctx, first := context.Background(), events.Position(1)
	var begins time.Time
	newest := func(until time.Time) (row *events.Committed) {
		err := store.Find(ctx, events.Query{StreamPrefix: events.RequestStreams, Until: until, Newest: !until.IsZero(), Limit: 1},
			func(c *events.Committed) bool { row = c; return true })
		if err != nil || row == nil {
			t.Fatal(err, row)
		}
		return row
	}
	begins = newest(time.Time{}).At.Truncate(24 * time.Hour)
	for day := begins; ; day = day.Add(24 * time.Hour) {
		last := newest(day.Add(24 * time.Hour)).Position
		f, err := closing.Of(ctx, store, ledgerbooks.DayOf(day), first, last)
		if errors.Is(err, ledgerbooks.ErrOpen) || len(closed) > 0 && f.Last == closed[len(closed)-1].Last {
			return closed
		}
		if err != nil {
			t.Fatal(err)
		}
		tellBooks(t, store, int64(len(closed)), f)
		closed, first = append(closed, f), last+1
	}
}

func tellBooks(t *testing.T, store events.Store, version int64, fact any) {
	t.Helper()
	row := events.Row{Stream: ledgerbooks.Stream, Version: version, At: time.Now().UTC(), Facts: []any{fact}}
	if err := events.Encode(&row); err != nil {
		t.Fatal(err)
	}
	results, err := store.Append(context.Background(), []events.Append{{Rows: []events.Row{row}}}, 0)
	if err != nil || results[0].Err != nil {
		t.Fatal(err, results)
	}
}

// What a restart reads is what was spent, to the last digit, by whom, of whose money and when, repricings included: of the time whose
// moments count one by one, and of all that was before in sums, whatever of it was closed and taken away (pains 15, 22).
func TestWhatARestartReadsIsWhatWasSpent(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			defer actors.ReadStreamsOneByOne(seed < 3)()
			appends, err := history.History{Seed: seed, Requests: 500, Step: 15 * time.Minute, Unended: int(seed % 3), Repriced: true}.Appends()
			if err != nil {
				t.Fatal(err)
			}
			store := memory.NewStore()
			for _, a := range appends {
				if r, err := store.Append(t.Context(), []events.Append{a}, 0); err != nil || r[0].Err != nil {
					t.Fatal(err, r)
				}
			}
			first, last := appends[0].Rows[0].At, appends[len(appends)-1].Rows[0].At
			horizons := []time.Time{{}, first, last, last.Add(time.Hour)}
			for i := range 5 {
				horizons = append(horizons, first.Add(last.Sub(first)*time.Duration(i)/5))
			}
			type want struct {
				exact spendings[moment]
				all   spendings[payer]
			}
			wants := map[time.Time]want{}
			for _, since := range horizons {
				exact, all := stories(t, store, since)
				wants[since] = want{exact, all}
			}
			check := func(says string, horizons []time.Time) {
				t.Helper()
				for _, since := range horizons {
					exact, all := spentSince(t, store, limit.Past{Since: since, Whole: true})
					if w := wants[since]; !maps.Equal(all, w.all) || !maps.Equal(exact, w.exact) {
						t.Errorf("%s, since %s: %d and %d spendings, want %d and %d", says, since, len(exact), len(all), len(w.exact), len(w.all))
					}
					exact, _ = spentSince(t, store, limit.Past{Since: since})
					if w := wants[since]; !maps.Equal(exact, w.exact) {
						t.Errorf("%s, only since %s: %d spendings, want %d", says, since, len(exact), len(w.exact))
					}
				}
			}
			check("nothing is closed", horizons)
			if len(wants[time.Time{}].all) < 10 || len(wants[time.Time{}].exact) < 100 {
				t.Fatal("the history has nothing to show")
			}
			closed := closeDays(t, store)
			if len(closed) < 4 {
				t.Fatalf("only %d days are closed", len(closed))
			}
			check("all is closed", horizons)
			// Of a day that is taken away only sums are left: it counts as of its end, so that only what comes after it is exact.
			gone := closed[:len(closed)/2]
			for i, f := range gone {
				tellBooks(t, store, int64(len(closed)+i), &ledgerbooks.Removed{Day: f.Day, Span: f.Span})
				n, err := store.Remove(t.Context(), events.Removal{
					First: events.Position(f.First), Last: events.Position(f.Last), Through: events.Position(f.Through),
				}, 1+i*1000)
				if err != nil || n == 0 {
					t.Fatal(n, err)
				}
			}
			var end time.Time
			for _, f := range gone {
				for _, l := range f.Lines {
					if day, err := ledgerbooks.ParseDay(l.Day); err != nil {
						t.Fatal(err)
					} else if end.Before(day.Add(24 * time.Hour)) {
						end = day.Add(24 * time.Hour)
					}
				}
			}
			check("a half is taken away", slices.DeleteFunc(horizons, func(at time.Time) bool { return at.Before(end) }))
		})
	}
}

// A balance is not read from the first event on, at every start, once days are closed: their sums are enough.
func TestClosedDaysAreReadBySums(t *testing.T) {
	appends, err := history.History{Seed: 1, Requests: 400, Step: 15 * time.Minute}.Appends()
	if err != nil {
		t.Fatal(err)
	}
	store := &reads{Store: memory.NewStore()}
	for _, a := range appends {
		if r, err := store.Append(t.Context(), []events.Append{a}, 0); err != nil || r[0].Err != nil {
			t.Fatal(err, r)
		}
	}
	closeDays(t, store)
	last := appends[len(appends)-1].Rows[0].At
	past := limit.Past{Since: last.Add(24 * time.Hour), Whole: true}
	store.rows = 0
	if _, all := spentSince(t, store, past); len(all) == 0 {
		t.Fatal("nothing was spent")
	}
	if store.rows > len(appends)/8 {
		t.Errorf("%d of %d rows were read", store.rows, len(appends))
	}
}

// A day that was repriced is read twice, and not once for each of its requests: nothing is served before, nor changed meanwhile, and a
// query for each of a million takes longer than a start may.
func TestWhatWasRepricedIsNotLookedForOneByOne(t *testing.T) {
	for _, requests := range []int{20, 2000} {
		appends, err := history.History{Seed: 1, Requests: requests, Step: time.Second, Repriced: true}.Appends()
		if err != nil {
			t.Fatal(err)
		}
		store := &reads{Store: memory.NewStore()}
		for _, a := range appends {
			if r, err := store.Append(t.Context(), []events.Append{a}, 0); err != nil || r[0].Err != nil {
				t.Fatal(err, r)
			}
		}
		if _, all := spentSince(t, store, limit.Past{Whole: true}); len(all) == 0 {
			t.Fatal("nothing was spent")
		}
		if store.finds > 10 || store.rows > 2*len(appends) {
			t.Errorf("%d requests: %d rows were read in %d queries", requests, store.rows, store.finds)
		}
	}
}

// reads counts the rows of requests that are read, and how often it was asked.
type reads struct {
	*memory.Store
	rows, finds int
}

func (s *reads) Find(ctx context.Context, q events.Query, yield func(*events.Committed) bool) error {
	s.finds++
	return s.Store.Find(ctx, q, func(c *events.Committed) bool {
		if c.Request != "" {
			s.rows++
		}
		return yield(c)
	})
}

// The difference that a repricing makes to a settlement behind the end of its last attempt is that of the last attempt's upstream, as live.
func TestALateEndThatIsRepricedIsReadAsItsUpstreams(t *testing.T) {
	store := memory.NewStore()
	at, version := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC), int64(0)
	tell := func(terminal bool, facts ...any) {
		t.Helper()
		row := events.Row{Stream: "request/r", Version: version, Terminal: terminal, At: at, Request: "r", Key: "k", Facts: facts}
		if err := events.Encode(&row); err != nil {
			t.Fatal(err)
		}
		if results, err := store.Append(t.Context(), []events.Append{{Rows: []events.Row{row}}}, 0); err != nil || results[0].Err != nil {
			t.Fatal(err, results)
		}
		version += int64(len(facts))
	}
	tell(true, &request.Admitted{Ask: request.Ask{Key: "k", Model: "m"}, Plan: []request.Candidate{{Upstream: "a"}}},
		&request.Dispatched{N: 1, Upstream: "a", Account: "a1"}, &request.Failed{N: 1, Class: "http_5xx", Next: "stop"},
		&request.Settled{Outcome: request.FailedOutcome, Status: 502, Sent: true, Attempts: 1, Cost: 10, UpstreamCost: 5})
	tell(false, &request.Repriced{Reprice: "run", Cost: 4, UpstreamCost: 2, Changes: []request.Repricing{{
		Position: 4, At: at, Was: request.Charge{Cost: 10, UpstreamCost: 5}, Is: request.Charge{Cost: 14, UpstreamCost: 7},
	}}})
	_, want := stories(t, store, time.Time{})
	if _, got := spentSince(t, store, limit.Past{Whole: true}); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
