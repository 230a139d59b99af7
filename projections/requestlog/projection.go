// Package requestlog is the request log: one row per request, written when it is admitted (or rejected) and completed
// when it ends. Rows are thin: columns for what is searched and one JSON column with what else was not empty. Bodies are
// never in it.
package requestlog

import (
	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
)

// Columns of the table, in order.
const (
	colPosition = iota // of the request's first fact: rows are written in its order, at the end of the table
	colRequest
	colAt
	colKey
	colModel
	colResolved
	colUpstream
	colOutcome // "" while in progress
	colStatus
	colCost
	colUpstreamCost
	colDuration
	colDetail
)

// Requests is the table of the log.
var Requests = &projections.Table{
	Name: "requests",
	Key:  1,
	Columns: []projections.Column{
		{Name: "position", Kind: projections.KindInt},
		{Name: "request", Kind: projections.KindText},
		{Name: "at", Kind: projections.KindMicros},
		{Name: "key", Kind: projections.KindText},
		{Name: "model", Kind: projections.KindText},
		{Name: "resolved_model", Kind: projections.KindText},
		{Name: "upstream", Kind: projections.KindText},
		{Name: "outcome", Kind: projections.KindText},
		{Name: "status", Kind: projections.KindInt},
		{Name: "cost", Kind: projections.KindMoney},
		{Name: "upstream_cost", Kind: projections.KindMoney},
		{Name: "duration_us", Kind: projections.KindMicros},
		{Name: "detail", Kind: projections.KindJSON},
	},
} // without indexes: see Spans, and Marks

// Projection is the fold. The zero value is ready.
type Projection struct{}

// Name implements projections.Projection.
func (Projection) Name() string { return "requestlog" }

// Version implements projections.Projection.
func (Projection) Version() int { return 6 } // 6: spans, with ids

// Tables implements projections.Projection.
func (Projection) Tables() []*projections.Table { return []*projections.Table{Requests, Spans} }

// Needs implements projections.Selective: all that requests tell.
func (Projection) Needs() []string {
	return []string{
		"request.rejected", "request.admitted", "request.queued", "request.resumed", "attempt.dispatched", "attempt.failed",
		"request.progressed", "request.settled", "request.repriced", "books.removed", "books.trimmed",
	}
}

// Fold writes the row of the fact's request as far as it is known; what one linger brings to a request is one write.
func (Projection) Fold(story *request.Story, fact events.Fact, at projections.Place, out *projections.Changes) {
	switch f := fact.(type) {
	case *books.Removed:
		out.Cut(projections.Cut{Table: Requests, From: f.First, To: f.Last})
		unspan(f.First, f.Last, out)
	case *books.Trimmed:
		out.Cut(projections.Cut{Table: Requests, To: f.Last})
		unspan(0, f.Last, out)
	}
	if story == nil || at.More || at.First == 0 {
		return
	}
	_, waiting := fact.(*request.Queued)
	first := int64(at.First)
	span(first, story.AdmittedAt.UnixMicro(), story.ID, out)
	out.PutLater(Requests, first, func(row []projections.Value) []projections.Value {
		return appendRow(row, story, first, waiting)
	})
}

// appendRow appends the values of a story's row. waiting says that its last fact put it into a queue.
func appendRow(row []projections.Value, story *request.Story, first int64, waiting bool) []projections.Value {
	var model, upstream, outcome string
	var status int
	duration := projections.Null()
	if final := story.Final(); final != nil {
		model, upstream = final.Dispatched.ResolvedModel, final.Dispatched.Upstream
	}
	switch {
	case story.Settled != nil:
		outcome, status = string(story.Settled.Outcome), story.Settled.Status
		duration = projections.Int(story.Settled.DurationUS)
	case story.Rejected != nil:
		outcome, status = string(story.Rejected.Outcome()), story.Rejected.Status
		duration = projections.Int(story.Rejected.DurationUS)
	}
	cost, upstreamCost := costs(story)
	l := line{at: story.AdmittedAt.UnixMicro(), status: int64(status), cost: cost, owed: upstreamCost}
	if story.Settled != nil {
		l.ttft = story.Settled.TTFTUS
	}
	asked := ask(story)
	return append(row,
		projections.Int(first),
		projections.Text(story.ID),
		projections.Micros(story.AdmittedAt),
		projections.Text(asked.Key),
		projections.Text(asked.Model),
		projections.Text(model),
		projections.Text(upstream),
		projections.Text(outcome),
		projections.Int(int64(status)),
		projections.Money(cost),
		projections.Money(upstreamCost),
		duration,
		projections.Text(encode(story, asked, l, waiting)),
	)
}

// Open implements projections.Opener: lines go with their events, and no closing brings them back.
func (Projection) Open(*books.Closed, *projections.Changes) error { return nil }

// ask is what the client wanted, never nil.
func ask(story *request.Story) *request.Ask {
	switch {
	case story.Admitted != nil:
		return &story.Admitted.Ask
	case story.Rejected != nil:
		return &story.Rejected.Ask
	}
	return &request.Ask{}
}

// costs are the sums over all attempts.
func costs(story *request.Story) (cost, upstream money.Amount) {
	for i := range story.Attempts {
		if f := story.Attempts[i].Failed; f != nil {
			cost, upstream = cost+f.Cost, upstream+f.UpstreamCost
		}
	}
	if s := story.Settled; s != nil {
		cost, upstream = cost+s.Cost, upstream+s.UpstreamCost
	}
	return cost, upstream
}
