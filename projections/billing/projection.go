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
// its last attempt had failed on its own gets one more, which counts no attempt. A row is written anew when its request is
// repriced; they go with the events of their request.
var Entries = &projections.Table{
	Name: "bill_entries",
	Key:  1,
	Columns: append([]projections.Column{
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
		{Name: "price_origin", Kind: projections.KindText}, // manual or synced; "" before it was told
		{Name: "paid_by", Kind: projections.KindText},      // balance, subscription/<id>, or ""
	}, append(sumColumns(), // requests is 1 for the settlement, so that sums count requests
		projections.Column{Name: "began", Kind: projections.KindInt}, // position of the request's first fact
	)...),
	Indexes: [][]string{{"at"}},
}

// Days has the sums of Entries per day and dimension.
var Days = &projections.Table{
	Name: "bill_days",
	Key:  10,
	Columns: append([]projections.Column{
		{Name: "day", Kind: projections.KindInt}, // since 1970, UTC
		{Name: "key", Kind: projections.KindText},
		{Name: "user", Kind: projections.KindText},
		{Name: "group", Kind: projections.KindText},
		{Name: "model", Kind: projections.KindText},
		{Name: "upstream", Kind: projections.KindText},
		{Name: "account", Kind: projections.KindText},
		{Name: "price_version", Kind: projections.KindText},
		{Name: "price_origin", Kind: projections.KindText}, // manual or synced; "" before it was told
		{Name: "paid_by", Kind: projections.KindText},      // balance, subscription/<id>, or ""
	}, sumColumns()...),
}

// Sums are the columns that both tables sum, in order: those of a Line.
var Sums = []string{
	"requests", "attempts",
	"input", "cached_input", "cache_write_5m", "cache_write_1h", "output", "reasoning",
	"audio_input", "audio_output", "image_input", "image_output", "images", "web_searches", "file_searches",
	"cost", "upstream_cost", "unpriced_requests",
}

func sumColumns() []projections.Column {
	columns := make([]projections.Column, len(Sums))
	for i, name := range Sums {
		columns[i] = projections.Column{Name: name, Kind: projections.KindInt}
		if name == "cost" || name == "upstream_cost" {
			columns[i].Kind = projections.KindMoney
		}
	}
	return columns
}

// sum is the values of Sums.
type sum struct {
	requests, attempts int64
	usage              pricing.Usage
	cost, upstreamCost money.Amount
	unpriced           int64
}

// classes are the counts of a usage, in the order of Sums.
func classes(u *pricing.Usage) [13]*int64 {
	return [...]*int64{
		&u.Input, &u.CachedInput, &u.CacheWrite5m, &u.CacheWrite1h, &u.Output, &u.Reasoning,
		&u.AudioInput, &u.AudioOutput, &u.ImageInput, &u.ImageOutput, &u.Images, &u.WebSearches, &u.FileSearches,
	}
}

// append appends the sum as values.
func (s *sum) append(row []projections.Value) []projections.Value {
	row = append(row, projections.Int(s.requests), projections.Int(s.attempts))
	for _, n := range classes(&s.usage) {
		row = append(row, projections.Int(*n))
	}
	return append(row, projections.Money(s.cost), projections.Money(s.upstreamCost), projections.Int(s.unpriced))
}

// minus takes the sum away.
func (s *sum) minus() sum {
	less := sum{-s.requests, -s.attempts, s.usage, -s.cost, -s.upstreamCost, -s.unpriced}
	for _, n := range classes(&less.usage) {
		*n = -*n
	}
	return less
}

// sumOf reads values of Sums; NULL is 0.
func sumOf(row []projections.Value) sum {
	s := sum{requests: row[0].Int(), attempts: row[1].Int()}
	row = row[2:]
	for i, n := range classes(&s.usage) {
		*n = row[i].Int()
	}
	row = row[len(classes(&s.usage)):]
	s.cost, s.upstreamCost, s.unpriced = row[0].Money(), row[1].Money(), row[2].Int()
	return s
}

// Projection is the fold. The zero value is ready.
type Projection struct{}

// Name implements projections.Projection.
func (Projection) Name() string { return "billing" }

// Version implements projections.Projection.
func (Projection) Version() int { return 4 } // 4: who paid

// Tables implements projections.Projection.
func (Projection) Tables() []*projections.Table { return []*projections.Table{Entries, Days} }

// Needs implements projections.Selective.
func (Projection) Needs() []string {
	return []string{"attempt.failed", "request.settled", "request.repriced", "books.removed"}
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
		e := failedEntry(f)
		e.write(story, at, out)
	case *request.Settled:
		if f.Sent {
			e := settledEntry(story, f)
			e.write(story, at, out)
		}
	case *request.Repriced:
		reprice(story, f, at, out)
	}
}

// entry is what one fact adds to the bill.
type entry struct {
	sum
	n      int // attempt, from 1
	price  string
	origin pricing.Origin
}

func failedEntry(f *request.Failed) entry {
	e := entry{n: f.N, price: f.PriceVersion, origin: f.PriceOrigin}
	e.sum = sum{attempts: 1, usage: f.Usage, cost: f.Cost, upstreamCost: f.UpstreamCost}
	return e
}

func settledEntry(story *request.Story, f *request.Settled) entry {
	e := entry{n: len(story.Attempts), price: f.PriceVersion, origin: f.PriceOrigin}
	e.sum = sum{requests: 1, usage: f.Usage, cost: f.Cost, upstreamCost: f.UpstreamCost}
	if final := story.Final(); final == nil || final.Failed == nil {
		e.attempts = 1
	}
	if story.Unpriced() {
		e.unpriced = 1
	}
	return e
}

// reprice puts the entries of what a request costs now in the place of those that were, at their own times: a bill is by day
// of use. The story tells what it costs now.
func reprice(story *request.Story, f *request.Repriced, at projections.Place, out *projections.Changes) {
	unpriced := story.Unpriced()
	for i := range f.Changes {
		unpriced = unpriced || f.Changes[i].Was.Unpriced
	}
	for i := range f.Changes {
		c := &f.Changes[i]
		var is, was entry
		if failed := story.Failed(c.N); failed != nil {
			is = failedEntry(failed)
			was = is
		} else if story.Settled != nil {
			is = settledEntry(story, story.Settled)
			was = is
			if unpriced {
				was.unpriced = 1
			}
		} else {
			continue // its end could not be read
		}
		was.price, was.origin, was.cost, was.upstreamCost = c.Was.PriceVersion, c.Was.PriceOrigin, c.Was.Cost, c.Was.UpstreamCost
		was.sum = was.minus()
		used := projections.Place{Position: events.Position(c.Position), First: at.First, At: c.At}
		was.addDay(story, used, out)
		is.addDay(story, used, out)
		out.Put(Entries, is.row(nil, story, used)...)
	}
}

// room is that of a row of either table, for the stack.
type room [40]projections.Value

// write makes the row once: in Entries it has the time, and in Days, which begins there, the day in its place.
func (e *entry) write(story *request.Story, at projections.Place, out *projections.Changes) {
	const day = 3
	var room room
	row := e.row(room[:0], story, at)
	out.Append(Entries, row...)
	row[day] = projections.Int(DayOf(at.At))
	out.Add(Days, row[day:len(row)-1]...)
}

// row appends the entry's row of Entries.
func (e *entry) row(row []projections.Value, story *request.Story, at projections.Place) []projections.Value {
	text, number := projections.Text, projections.Int
	row = append(row, number(int64(at.Position)), text(story.ID), number(int64(e.n)), projections.Micros(at.At))
	return append(e.append(e.by(story, row)), number(int64(at.First)))
}

// addDay adds the entry to its day.
func (e *entry) addDay(story *request.Story, at projections.Place, out *projections.Changes) {
	var room room
	out.Add(Days, e.append(e.by(story, append(room[:0], projections.Int(DayOf(at.At)))))...)
}

// by appends what bills are grouped by.
func (e *entry) by(story *request.Story, row []projections.Value) []projections.Value {
	sent, asked, text := story.Sent(e.n), story.Ask(), projections.Text
	return append(row, text(asked.Key), text(asked.User), text(asked.Group), text(sent.PricedModel(asked.Model)), text(sent.Upstream), text(sent.Account),
		text(e.price), text(string(e.origin)), text(story.PaidBy()))
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
	s := sumOf(row[len(by):])
	l.Requests, l.Attempts, l.Usage = s.requests, s.attempts, s.usage
	l.Cost, l.UpstreamCost, l.UnpricedRequests = s.cost, s.upstreamCost, s.unpriced
	return l
}

// field is the place of a dimension in the line.
func (l *Line) field(name string) **string {
	return map[string]**string{
		"day": &l.Day, "key": &l.Key, "user": &l.User, "group": &l.Group, "model": &l.Model,
		"upstream": &l.Upstream, "account": &l.Account, "price_version": &l.PriceVersion,
		"price_origin": &l.PriceOrigin, "paid_by": &l.PaidBy,
	}[name]
}
