package requestlog

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/penstock/penstock/domain/money"
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
		Key: row[colKey].Text(), User: d.User, Group: d.Group, Method: string(d.Method), Path: string(d.Path), Dialect: string(d.Dialect),
		Capability: string(d.Capability), Model: row[colModel].Text(), ResolvedModel: row[colResolved].Text(),
		UpstreamModel: d.UpstreamModel, Stream: d.Stream, Session: d.Session, Client: d.Client, ClientProfile: string(d.ClientProfile),
		Status: int(row[colStatus].Int()), Outcome: row[colOutcome].Text(), Code: string(d.Code), Reason: string(d.Reason),
		FailureStage: string(d.Stage), Sent: d.Other != (len(d.Attempts) > 0), Upstream: row[colUpstream].Text(), Affinity: string(d.Affinity),
		Attempts: make([]Attempt, 0, len(d.Attempts)), Excluded: append([]Exclusion{}, d.Excluded...),
		Usage: d.Usage.usage(), UsageSource: pricing.Source(d.Source), Cost: row[colCost].Money(), UpstreamCost: row[colUpstreamCost].Money(),
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
	l := line{at: e.At.UnixMicro()}
	if len(d.Attempts) == 1 {
		l.status, l.ttft, l.cost, l.owed = int64(e.Status), d.TTFTUS, e.Cost, e.UpstreamCost
	}
	for i := range d.Attempts {
		t := &d.Attempts[i]
		if i+1 == len(d.Attempts) {
			t.Upstream = e.Upstream
		}
		a := t.attempt(i+1, l, len(d.Attempts) == 1)
		e.Attempts = append(e.Attempts, a)
		e.Usage = e.Usage.Plus(a.Usage)
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
	e.UsageClamped, e.ServiceTier = by.Clamped, string(by.ServiceTier)
	e.PriceVersion, e.PriceOrigin, e.PriceInherited = by.PriceVersion, pricing.Origin(by.PriceOrigin), by.Inherited
	e.Unpriced, e.UnpricedReason = e.Unpriced || by.Unpriced, string(by.UnpricedReason)
}

// attempt is the n-th one. usual is what it says where nothing was written.
func (t *try) attempt(n int, usual line, only bool) Attempt {
	a := Attempt{
		N: n, Upstream: t.Upstream, Account: t.Account, Status: int(orElse(t.Status, usual.status)), Class: string(t.Class),
		StartedAt: time.UnixMicro(usual.at + t.After).UTC(), TTFTMS: measured(orElse(t.TTFTUS, usual.ttft)), Usage: t.Usage.usage(),
		Cost:         money.Amount(orElse(t.Cost, int64(usual.cost))),
		UsageClamped: t.Clamped, ServiceTier: string(t.ServiceTier), PriceVersion: t.PriceVersion, PriceOrigin: pricing.Origin(t.PriceOrigin),
		PriceInherited: t.Inherited, Unpriced: t.Unpriced,
	}
	if !only {
		usual.owed = a.Cost
	}
	a.UpstreamCost = money.Amount(orElse(t.Owed, int64(usual.owed)))
	if t.Class != "" || t.TookUS > 0 {
		a.DurationMS = millis(t.TookUS)
	}
	return a
}

func orElse(n *int64, otherwise int64) int64 {
	if n == nil {
		return otherwise
	}
	return *n
}

func (w *wait) queue() *Queue {
	if w == nil {
		return nil
	}
	q := &Queue{State: string(w.State), Upstream: w.Upstream, Position: w.Position, Ticket: w.Ticket}
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
