package actors

import (
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/domain/dialect"
	"github.com/penstock/penstock/domain/limit"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// Used is what one request has used, by its facts.
type Used struct {
	Key, User, Group string
	Arrived          time.Time // to the millisecond
	Settled          time.Time
	Sent             bool
	Estimate         int64 // tokens that it was charged on arrival
	Tokens           int64 // really used, over all attempts; negative: not known
	Cost             money.Amount
	Upstreams        []UsedUpstream // one for each attempt
	summed           bool           // a sum over a closed day: no rate knows it
}

// UsedUpstream is what an attempt has cost at its upstream.
type UsedUpstream struct {
	Upstream string
	Cost     money.Amount
}

// History tells of all requests that were settled at or after a time. yield keeps nothing.
type History func(since time.Time, yield func(*Used)) error

// longest is how long before its settlement a request may have begun; what began earlier is told without its beginning.
const longest = 24 * time.Hour

// ReadHistory is the History of a store. The zero time is everything. A row that cannot be read tells nothing.
func ReadHistory(ctx context.Context, store events.Store, since time.Time, yield func(*Used)) error {
	r := historian{open: map[string]*Used{}, since: since, yield: yield}
	if err := r.removed(ctx, store); err != nil {
		return err
	}
	q := events.Query{StreamPrefix: events.RequestStreams}
	if !since.IsZero() {
		q.Since = since.Add(-longest)
	}
	return errors.Wrap(events.FindReadable(ctx, store, q, r.see, nil), "read what was spent")
}

// historian follows the streams of requests.
type historian struct {
	open  map[string]*Used
	gone  []books.Span // of days whose events are taken away: their sums count instead
	since time.Time
	yield func(*Used)
}

// removed tells of the days whose events retention has taken away, by the sums that stay. What was spent on a day counts as if
// it had been spent at its end: no limit forgets it early.
func (h *historian) removed(ctx context.Context, store events.Store) error {
	closed := map[string]*books.Closed{}
	return errors.Wrap(store.Find(ctx, events.Query{Stream: books.Stream}, func(c *events.Committed) bool {
		for _, fact := range c.Facts {
			switch f := fact.(type) {
			case *books.Closed:
				closed[f.Day] = f
			case *books.Removed:
				if day := closed[f.Day]; day != nil {
					delete(closed, f.Day)
					h.gone = append(h.gone, day.Span)
					h.sums(day)
				}
			}
		}
		return true
	}), "read what was spent on closed days")
}

func (h *historian) sums(f *books.Closed) {
	for i := range f.Lines {
		l := &f.Lines[i]
		day, err := time.Parse(time.DateOnly, l.Day)
		end := day.Add(24*time.Hour - time.Microsecond)
		if err != nil || end.Before(h.since) {
			continue
		}
		h.yield(&Used{
			Key: l.Key, User: l.User, Group: l.Group, Settled: end, Cost: l.Cost, Upstreams: []UsedUpstream{{l.Upstream, l.UpstreamCost}}, summed: true,
		})
	}
}

func (h *historian) see(c *events.Committed) {
	u := h.open[c.Stream]
	if u == nil {
		u = &Used{Key: c.Key, Arrived: arrival(c.Request, c.At), summed: slices.ContainsFunc(h.gone, func(s books.Span) bool {
			return s.Holds(int64(c.Position)) || c.Version > 0 && int64(c.Position) <= s.Through // its beginning is away already
		})}
		h.open[c.Stream] = u
	}
	for _, fact := range c.Facts {
		u.take(fact)
	}
	if !c.Terminal {
		return
	}
	delete(h.open, c.Stream)
	if u.Settled = c.At; u.Sent && !u.summed && !c.At.Before(h.since) {
		h.yield(u)
	}
}

func (u *Used) take(fact events.Fact) {
	switch f := fact.(type) {
	case *request.Admitted:
		u.Key, u.User, u.Group, u.Estimate = f.Key, f.User, f.Group, f.InputEstimate
		if end, _ := dialect.Route(f.Method, f.Path); end.Kind == dialect.CountTokens {
			u.Estimate = 0
		}
	case *request.Dispatched:
		u.Upstreams = append(u.Upstreams, UsedUpstream{Upstream: f.Upstream})
	case *request.Failed:
		u.spend(f.N, f.Cost, f.UpstreamCost)
		u.Tokens += f.Usage.Total()
	case *request.Settled:
		u.spend(f.Attempts, f.Cost, f.UpstreamCost)
		u.Sent = f.Sent
		if u.Tokens += f.Usage.Total(); u.Tokens == 0 && !known(f) {
			u.Tokens = -1
		}
	}
}

func (u *Used) spend(attempt int, cost, upstream money.Amount) {
	u.Cost += cost
	if attempt > 0 && attempt <= len(u.Upstreams) {
		u.Upstreams[attempt-1].Cost += upstream
	}
}

// known says that the usage of a settlement is what was used, also when that is nothing.
func known(s *request.Settled) bool { return s.UsageSource != "" && s.UsageSource != pricing.None }

// arrival is the moment that the id of a request tells, a UUID of version 7; else its first row's.
func arrival(id string, first time.Time) time.Time {
	var b [16]byte
	if n, err := hex.Decode(b[:], []byte(strings.ReplaceAll(id, "-", ""))); err != nil || n != 16 || b[6]>>4 != 7 {
		return first
	}
	var ms int64
	for _, x := range b[:6] {
		ms = ms<<8 | int64(x)
	}
	return time.UnixMilli(ms).UTC()
}

// share names.
const platformBudget = "platform"

func groupBudget(id string) string    { return "group/" + id }
func upstreamBudget(id string) string { return "upstream/" + id }

// learnPast tells rules that are new what was spent before them.
func (s *System) learnPast(callers []*callerRef, since time.Time, budgets budgetsMissing) {
	if len(budgets.names) > 0 && (len(callers) == 0 || budgets.since.Before(since)) {
		since = budgets.since
	}
	if len(callers)+len(budgets.names) == 0 || s.history == nil {
		return
	}
	spent := make(map[CallerID][]limit.Spent, len(callers))
	for _, r := range callers {
		spent[r.id] = nil
	}
	shared := make(map[string][]limit.Spent, len(budgets.names))
	for _, name := range budgets.names {
		shared[name] = nil
	}
	post := func(name string, cost money.Amount, at time.Time) {
		if list, asked := shared[name]; asked && cost != 0 {
			shared[name] = append(list, limit.Spent{At: at, Cost: cost})
		}
	}
	err := s.history(since, func(u *Used) {
		owner, alone := callerID(u.User, u.Key), callerID("", u.Key) // alone: the key has left its user since
		for _, id := range [...]CallerID{owner, alone} {
			if list, asked := spent[id]; asked && u.Cost != 0 {
				spent[id] = append(list, limit.Spent{Key: u.Key, At: u.Settled, Cost: u.Cost})
			}
			if owner == alone {
				break
			}
		}
		post(groupBudget(u.Group), u.Cost, u.Settled)
		post(platformBudget, u.Cost, u.Settled)
		for _, a := range u.Upstreams {
			post(upstreamBudget(a.Upstream), a.Cost, u.Settled)
		}
	})
	if err != nil {
		s.log.Error("limits do not know what was spent before", "error", err)
		return
	}
	for _, r := range callers {
		s.reported("caller", within(s, r.ref, func(d *callerDesk) {
			for _, x := range spent[r.id] {
				d.limits.Fill(x)
			}
			d.limits.Filled()
		}))
	}
	if len(budgets.names) > 0 {
		s.reported("budgets", within(s, *s.budgets.Load(), func(d *budgetDesk) {
			for name, list := range shared {
				if b := d.of[name]; b != nil {
					for _, x := range list {
						b.Fill(x.Cost, x.At)
					}
					b.Filled()
				}
			}
		}))
	}
}

func (s *System) reported(whose string, err error) {
	if err != nil {
		s.log.Error("limits do not know what was spent before", "of", whose, "error", err)
	}
}

// minute is how far back the windows of rates reach.
const minute = time.Minute

// RestoreRates brings the windows of rates to where they were: what was sent within the last minute counts from its
// arrival on, and what it has used beyond its estimate from its settlement on. Call it before there is traffic. Where nobody
// has such a window the history is not read.
func (s *System) RestoreRates(now time.Time) error {
	dir := s.dir.Load()
	if s.history == nil || !dir.rated {
		return nil
	}
	of := map[*callerRef][]Used{}
	err := s.history(now.Add(-minute-time.Second), func(u *Used) {
		if r := dir.keys[u.Key]; r != nil && !u.summed {
			of[r] = append(of[r], *u)
		}
	})
	for r, list := range of {
		err = errors.CombineErrors(err, within(s, r.ref, func(d *callerDesk) {
			for _, u := range list {
				if u.Tokens < 0 {
					u.Tokens = u.Estimate
				}
				if now.Sub(u.Arrived) <= minute {
					d.limits.Charge(u.Key, 1, min(u.Estimate, u.Tokens), u.Arrived)
				}
				d.limits.Charge(u.Key, 0, u.Tokens-u.Estimate, u.Settled)
			}
		}))
	}
	return err
}
