package requestlog

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
)

// FromRow is the entry that a row of Requests tells.
func FromRow(row []projections.Value) (Entry, error) {
	if len(row) != len(Requests.Columns) {
		return Entry{}, fmt.Errorf("requestlog: a row has %d columns, not %d", len(row), len(Requests.Columns))
	}
	var d detail
	if err := json.Unmarshal([]byte(row[colDetail].Text()), &d); err != nil {
		return Entry{}, fmt.Errorf("requestlog: row %d: detail: %w", row[colPosition].Int(), err)
	}
	e := Entry{
		RequestID: row[colRequest].Text(), ClientRequestID: d.ClientRequestID, UpstreamRequestID: d.UpstreamRequestID,
		At: row[colAt].Time(), State: InProgress, Position: events.Position(row[colPosition].Int()),
		Key: row[colKey].Text(), User: d.User, Group: d.Group, Method: d.Method, Path: d.Path, Dialect: d.Dialect,
		Capability: d.Capability, Model: row[colModel].Text(), ResolvedModel: row[colResolved].Text(),
		UpstreamModel: d.UpstreamModel, Stream: d.Stream, Session: d.Session, Client: d.Client, ClientProfile: d.ClientProfile,
		Status: int(row[colStatus].Int()), Outcome: row[colOutcome].Text(), Code: d.Code, Reason: d.Reason,
		FailureStage: d.Stage, Sent: d.Sent, Upstream: row[colUpstream].Text(), Affinity: d.Affinity,
		Attempts: make([]Attempt, 0, len(d.Attempts)), Excluded: append([]Exclusion{}, d.Excluded...),
		Usage: d.Usage, UsageSource: d.Source, Cost: row[colCost].Money(), UpstreamCost: row[colUpstreamCost].Money(),
		TTFTMS: measured(d.TTFTUS), ClientGone: d.ClientGone,
	}
	if e.Outcome != "" {
		e.State = Done
	}
	if !row[colDuration].IsNull() {
		e.DurationMS = millis(row[colDuration].Int())
	}
	by := d.billed
	if e.UsageSource == "" {
		e.UsageSource = pricing.None
	}
	for i, t := range d.Attempts {
		e.Attempts = append(e.Attempts, t.attempt(i+1))
		e.Usage = e.Usage.Plus(t.Usage)
		e.Account = t.Account
		e.Unpriced = e.Unpriced || t.Unpriced
		by = t.billed
	}
	e.price(by)
	e.Queue = d.Queue.queue()
	return e, nil
}

// price tells how the last attempt was priced.
func (e *Entry) price(by billed) {
	e.UsageClamped, e.ServiceTier = by.Clamped, by.ServiceTier
	e.PriceVersion, e.PriceOrigin, e.PriceInherited = by.PriceVersion, by.PriceOrigin, by.Inherited
	e.Unpriced, e.UnpricedReason = e.Unpriced || by.Unpriced, by.UnpricedReason
}

func (t *try) attempt(n int) Attempt {
	a := Attempt{
		N: n, Upstream: t.Upstream, Account: t.Account, Status: t.Status, Class: t.Class,
		StartedAt: time.UnixMicro(t.At).UTC(), TTFTMS: measured(t.TTFTUS), Usage: t.Usage, Cost: t.Cost, UpstreamCost: t.Cost,
		UsageClamped: t.Clamped, ServiceTier: t.ServiceTier, PriceVersion: t.PriceVersion, PriceOrigin: t.PriceOrigin,
		PriceInherited: t.Inherited, Unpriced: t.Unpriced,
	}
	if t.Owed != nil {
		a.UpstreamCost = *t.Owed
	}
	if t.Class != "" || t.TookUS > 0 {
		a.DurationMS = millis(t.TookUS)
	}
	return a
}

func (w *wait) queue() *Queue {
	if w == nil {
		return nil
	}
	q := &Queue{State: w.State, Upstream: w.Upstream, Position: w.Position, Ticket: w.Ticket}
	if w.State != "waiting" {
		q.WaitedMS = millis(w.WaitedUS)
	}
	return q
}

// millis rounds microseconds to whole milliseconds.
func millis(us int64) *int64 {
	ms := (us + 500) / 1000
	return &ms
}

// measured is millis, or nil when nothing was measured.
func measured(us int64) *int64 {
	if us == 0 {
		return nil
	}
	return millis(us)
}
