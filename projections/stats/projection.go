// Package stats is the statistics: sums per hour, upstream, model and key, small enough to be read whole.
package stats

import (
	"time"

	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
)

// Hours has the sums of one hour, by the time at which things ended. An attempt counts where it went, a request where
// its last attempt went; upstream is "" for one that was not sent.
var Hours = &projections.Table{
	Name: "stats_hours",
	Key:  4,
	Columns: append([]projections.Column{
		{Name: "hour", Kind: projections.KindInt}, // since 1970, UTC
		{Name: "upstream", Kind: projections.KindText},
		{Name: "model", Kind: projections.KindText}, // resolved
		{Name: "key", Kind: projections.KindText},
	}, sumColumns()...),
}

// Sums are the summed columns of Hours, in order.
var Sums = []string{
	"requests", "completed", "failed", "rejected", "cancelled", "abandoned", "attempts", "failed_attempts",
	"input_tokens", "output_tokens", "cost", "ttft_us", "ttft_count", "duration_us", "duration_count",
}

func sumColumns() []projections.Column {
	columns := make([]projections.Column, len(Sums))
	for i, name := range Sums {
		columns[i] = projections.Column{Name: name, Kind: projections.KindInt}
	}
	return columns
}

// Places in Sums.
const (
	sumRequests = iota
	sumCompleted
	sumFailed
	sumRejected
	sumCancelled
	sumAbandoned
	sumAttempts
	sumFailedAttempts
	sumInput
	sumOutput
	sumCost
	sumTTFT
	sumTTFTCount
	sumDuration
	sumDurationCount
	sums
)

// outcomes says which sum counts an outcome.
var outcomes = map[request.Outcome]int{
	request.Completed: sumCompleted, request.FailedOutcome: sumFailed, request.RejectedOut: sumRejected,
	request.Cancelled: sumCancelled, request.Abandoned: sumAbandoned,
}

// Projection is the fold. The zero value is ready.
type Projection struct{}

// Name implements projections.Projection.
func (Projection) Name() string { return "stats" }

// Version implements projections.Projection.
func (Projection) Version() int { return 2 } // 2: tokens of sound and pictures count as output too

// Tables implements projections.Projection.
func (Projection) Tables() []*projections.Table { return []*projections.Table{Hours} }

// Needs implements projections.Selective.
func (Projection) Needs() []string {
	return []string{"request.rejected", "attempt.failed", "request.settled", "request.repriced", "books.removed"}
}

// Fold counts what ended.
func (Projection) Fold(story *request.Story, fact events.Fact, at projections.Place, out *projections.Changes) {
	if f, ok := fact.(*books.Removed); ok {
		cut(f, out)
	}
	if story == nil {
		return
	}
	var a adding
	switch f := fact.(type) {
	case *request.Rejected:
		// The model of a request that got no plan is whatever the client wrote: as a key of sums it would know no bound.
		a.sum[sumRequests], a.sum[outcomes[f.Outcome()]] = 1, 1
	case *request.Failed:
		a.sum[sumAttempts], a.sum[sumFailedAttempts] = 1, 1
		a.spent(f.Usage, f.Cost)
		if i := f.N - 1; i >= 0 && i < len(story.Attempts) {
			a.to(story, &story.Attempts[i])
		}
	case *request.Settled:
		a.settled(story, f)
	case *request.Repriced:
		reprice(story, f, out)
		return
	default:
		return
	}
	a.write(story.Ask().Key, at.At, out)
}

// reprice adds the differences to the hours in which the attempts ended.
func reprice(story *request.Story, f *request.Repriced, out *projections.Changes) {
	for i := range f.Changes {
		c := &f.Changes[i]
		if c.Is.Cost == c.Was.Cost {
			continue
		}
		a := adding{model: story.Ask().Model}
		if n := c.N - 1; n >= 0 && n < len(story.Attempts) {
			a.to(story, &story.Attempts[n])
		}
		a.sum[sumCost] = int64(c.Is.Cost - c.Was.Cost)
		a.write(story.Ask().Key, c.At, out)
	}
}

// adding is what one fact adds to an hour.
type adding struct {
	upstream, model string
	sum             [sums]int64
}

func (a *adding) settled(story *request.Story, f *request.Settled) {
	a.model = story.Ask().Model
	final := story.Final()
	if final != nil {
		a.to(story, final)
	}
	if f.Sent && (final == nil || final.Failed == nil) {
		a.sum[sumAttempts] = 1
		if f.Outcome == request.FailedOutcome || f.Outcome == request.Abandoned {
			a.sum[sumFailedAttempts] = 1
		}
	}
	a.sum[sumRequests] = 1
	if i, known := outcomes[f.Outcome]; known {
		a.sum[i] = 1
	}
	a.spent(f.Usage, f.Cost)
	if f.Status < 200 || f.Status > 299 {
		return
	}
	a.sum[sumDuration], a.sum[sumDurationCount] = f.DurationUS, 1
	if f.TTFTUS > 0 {
		a.sum[sumTTFT], a.sum[sumTTFTCount] = f.TTFTUS, 1
	}
}

func (a *adding) to(story *request.Story, attempt *request.Attempt) {
	a.upstream, a.model = attempt.Dispatched.Upstream, attempt.Dispatched.PricedModel(story.Ask().Model)
}

func (a *adding) spent(u pricing.Usage, cost money.Amount) {
	a.sum[sumInput], a.sum[sumOutput], a.sum[sumCost] = u.InputTotal(), u.OutputTotal(), int64(cost)
}

func (a *adding) write(key string, at time.Time, out *projections.Changes) {
	row := [4 + sums]projections.Value{
		projections.Int(HourOf(at)), projections.Text(a.upstream), projections.Text(a.model), projections.Text(key),
	}
	for i, n := range a.sum {
		row[4+i] = projections.Int(n)
	}
	out.Add(Hours, row[:]...)
}

const hourMicros = int64(time.Hour / time.Microsecond)

// HourOf is the number of the hour, from 1970.
func HourOf(t time.Time) int64 {
	us := t.UnixMicro()
	hour := us / hourMicros
	if us%hourMicros < 0 {
		hour--
	}
	return hour
}

// HourTime is the start of the hour of that number.
func HourTime(hour int64) time.Time { return time.UnixMicro(hour * hourMicros).UTC() }

// FromSums makes figures of the values of Sums, in order; NULL is 0.
func FromSums(row []projections.Value) Figures {
	n := func(i int) int64 { return row[i].Int() }
	return Figures{
		Requests: n(sumRequests), Errors: n(sumFailed) + n(sumRejected) + n(sumAbandoned),
		Completed: n(sumCompleted), Failed: n(sumFailed), Rejected: n(sumRejected), Cancelled: n(sumCancelled),
		Abandoned: n(sumAbandoned), Attempts: n(sumAttempts), FailedAttempts: n(sumFailedAttempts),
		InputTokens: n(sumInput), OutputTokens: n(sumOutput), Cost: row[sumCost].Money(),
		TTFTMS: average(n(sumTTFT), n(sumTTFTCount)), DurationMS: average(n(sumDuration), n(sumDurationCount)),
	}
}

// average of microseconds in milliseconds, nil of nothing.
func average(us, count int64) *float64 {
	if count == 0 {
		return nil
	}
	ms := float64(us) / float64(count) / 1000
	return &ms
}
