// Package billing is the bill: one entry per attempt that was sent, with its own usage and cost, and sums of them by
// day. What was not sent is never in it. Everything is a sum of what the facts say; no price is looked up here.
package billing

import (
	"time"

	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
)

// Entries has one row per attempt that was sent, by the position of the fact that ended it. A request that ends after
// its last attempt had failed on its own gets one more, which counts no attempt. Rows are never changed; they go with the
// events of their request.
var Entries = &projections.Table{
	Name: "bill_entries",
	Key:  1,
	Columns: []projections.Column{
		{Name: "position", Kind: projections.KindInt},
		{Name: "request", Kind: projections.KindText},
		{Name: "n", Kind: projections.KindInt},
		{Name: "at", Kind: projections.KindMicros},
		{Name: "key", Kind: projections.KindText},
		{Name: "user", Kind: projections.KindText},
		{Name: "group", Kind: projections.KindText},
		{Name: "model", Kind: projections.KindText},
		{Name: "upstream", Kind: projections.KindText},
		{Name: "account", Kind: projections.KindText},
		{Name: "price_version", Kind: projections.KindText},
		{Name: "requests", Kind: projections.KindInt}, // 1 for the settlement, so that sums count requests
		{Name: "attempts", Kind: projections.KindInt},
		{Name: "input", Kind: projections.KindInt},
		{Name: "cached_input", Kind: projections.KindInt},
		{Name: "cache_write_5m", Kind: projections.KindInt},
		{Name: "cache_write_1h", Kind: projections.KindInt},
		{Name: "output", Kind: projections.KindInt},
		{Name: "reasoning", Kind: projections.KindInt},
		{Name: "cost", Kind: projections.KindMoney},
		{Name: "upstream_cost", Kind: projections.KindMoney},
		{Name: "unpriced_requests", Kind: projections.KindInt},
		{Name: "began", Kind: projections.KindInt}, // position of the request's first fact
	},
	Indexes: [][]string{{"at"}},
}

// Days has the sums of Entries per day and dimension.
var Days = &projections.Table{
	Name: "bill_days",
	Key:  8,
	Columns: []projections.Column{
		{Name: "day", Kind: projections.KindInt}, // since 1970, UTC
		{Name: "key", Kind: projections.KindText},
		{Name: "user", Kind: projections.KindText},
		{Name: "group", Kind: projections.KindText},
		{Name: "model", Kind: projections.KindText},
		{Name: "upstream", Kind: projections.KindText},
		{Name: "account", Kind: projections.KindText},
		{Name: "price_version", Kind: projections.KindText},
		{Name: "requests", Kind: projections.KindInt},
		{Name: "attempts", Kind: projections.KindInt},
		{Name: "input", Kind: projections.KindInt},
		{Name: "cached_input", Kind: projections.KindInt},
		{Name: "cache_write_5m", Kind: projections.KindInt},
		{Name: "cache_write_1h", Kind: projections.KindInt},
		{Name: "output", Kind: projections.KindInt},
		{Name: "reasoning", Kind: projections.KindInt},
		{Name: "cost", Kind: projections.KindMoney},
		{Name: "upstream_cost", Kind: projections.KindMoney},
		{Name: "unpriced_requests", Kind: projections.KindInt},
	},
}

// Sums are the columns that both tables sum, in order: those of a Line.
var Sums = []string{
	"requests", "attempts", "input", "cached_input", "cache_write_5m", "cache_write_1h", "output", "reasoning",
	"cost", "upstream_cost", "unpriced_requests",
}

// Projection is the fold. The zero value is ready.
type Projection struct{}

// Name implements projections.Projection.
func (Projection) Name() string { return "billing" }

// Version implements projections.Projection.
func (Projection) Version() int { return 2 }

// Tables implements projections.Projection.
func (Projection) Tables() []*projections.Table { return []*projections.Table{Entries, Days} }

// Needs implements projections.Selective.
func (Projection) Needs() []string {
	return []string{"attempt.failed", "request.settled", "books.removed"}
}

// Fold writes an entry for every attempt that ended: a failed one with its own usage, the final one with that of the
// settlement. A request of which nothing was sent costs nothing and leaves no trace.
func (Projection) Fold(story *request.Story, fact events.Fact, at projections.Place, out *projections.Changes) {
	if f, ok := fact.(*books.Removed); ok {
		out.Cut(projections.Cut{Table: Entries, From: f.First, To: f.Through, Column: "began", Low: f.First, High: f.Last})
	}
	if story == nil {
		return
	}
	switch f := fact.(type) {
	case *request.Failed:
		e := entry{n: f.N, attempts: 1, usage: f.Usage, cost: f.Cost, upstreamCost: f.UpstreamCost, priceVersion: f.PriceVersion}
		e.write(story, at, out)
	case *request.Settled:
		if !f.Sent {
			return
		}
		e := entry{
			n: len(story.Attempts), requests: 1, usage: f.Usage, cost: f.Cost, upstreamCost: f.UpstreamCost,
			priceVersion: f.PriceVersion,
		}
		if final := story.Final(); final == nil || final.Failed == nil {
			e.attempts = 1
		}
		if f.Unpriced {
			e.unpriced = 1
		}
		e.write(story, at, out)
	}
}

// entry is what one fact adds to the bill.
type entry struct {
	n                  int // attempt, from 1
	requests, attempts int64
	usage              pricing.Usage
	cost, upstreamCost money.Amount
	priceVersion       string
	unpriced           int64
}

func (e *entry) write(story *request.Story, at projections.Place, out *projections.Changes) {
	var sent request.Dispatched
	if e.n >= 1 && e.n <= len(story.Attempts) {
		sent = story.Attempts[e.n-1].Dispatched
	}
	asked := story.Ask()
	model := sent.ResolvedModel
	if model == "" {
		model = asked.Model
	}
	text, number := projections.Text, projections.Int
	key, user, group, named := text(asked.Key), text(asked.User), text(asked.Group), text(model)
	upstream, account, price := text(sent.Upstream), text(sent.Account), text(e.priceVersion)
	u := &e.usage
	out.Append(Entries,
		number(int64(at.Position)), text(story.ID), number(int64(e.n)), projections.Micros(at.At),
		key, user, group, named, upstream, account, price,
		number(e.requests), number(e.attempts),
		number(u.Input), number(u.CachedInput), number(u.CacheWrite5m), number(u.CacheWrite1h), number(u.Output), number(u.Reasoning),
		projections.Money(e.cost), projections.Money(e.upstreamCost), number(e.unpriced), number(int64(at.First)),
	)
	out.Add(Days,
		number(DayOf(at.At)), key, user, group, named, upstream, account, price,
		number(e.requests), number(e.attempts),
		number(u.Input), number(u.CachedInput), number(u.CacheWrite5m), number(u.CacheWrite1h), number(u.Output), number(u.Reasoning),
		projections.Money(e.cost), projections.Money(e.upstreamCost), number(e.unpriced),
	)
}

// DayMicros is a day in microseconds.
const DayMicros = int64(24 * time.Hour / time.Microsecond)

// DayOf is the number of the day in UTC, from 1970.
func DayOf(t time.Time) int64 {
	us := t.UnixMicro()
	day := us / DayMicros
	if us%DayMicros < 0 {
		day--
	}
	return day
}

// DayText is the day of that number as a bill shows it.
func DayText(day int64) string { return time.UnixMicro(day * DayMicros).UTC().Format(time.DateOnly) }

// FromRow makes a line of a row that has the fields of by, days as numbers, followed by Sums.
func FromRow(by []string, row []projections.Value) Line {
	var l Line
	for i, name := range by {
		s := row[i].Text()
		if name == "day" {
			s = DayText(row[i].Int())
		}
		*l.field(name) = &s
	}
	s := row[len(by):]
	l.Requests, l.Attempts = s[0].Int(), s[1].Int()
	l.Usage = pricing.Usage{
		Input: s[2].Int(), CachedInput: s[3].Int(), CacheWrite5m: s[4].Int(), CacheWrite1h: s[5].Int(),
		Output: s[6].Int(), Reasoning: s[7].Int(),
	}
	l.Cost, l.UpstreamCost, l.UnpricedRequests = s[8].Money(), s[9].Money(), s[10].Int()
	return l
}

// field is the place of a dimension in the line.
func (l *Line) field(name string) **string {
	return map[string]**string{
		"day": &l.Day, "key": &l.Key, "user": &l.User, "group": &l.Group, "model": &l.Model,
		"upstream": &l.Upstream, "account": &l.Account, "price_version": &l.PriceVersion,
	}[name]
}
