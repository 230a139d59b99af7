// Package ledger is the ledger as it is shown: what operators have booked, and what repricings have moved. What callers spend
// is not stored here again: it is what the bill says. Postings of usage are those of the bill; a repricing is in the bill on
// the day of use, and in the ledger on the day on which it was posted.
package ledger

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/domain/ledger"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
)

// Entries has one row per credit, adjustment, grant and revocation. Rows are never changed and never go.
var Entries = &projections.Table{
	Name: "ledger_entries",
	Key:  1,
	Columns: []projections.Column{
		{Name: "position", Kind: projections.KindInt},
		{Name: "at", Kind: projections.KindMicros},
		{Name: "user", Kind: projections.KindText},
		{Name: "kind", Kind: projections.KindText}, // see Kind
		{Name: "id", Kind: projections.KindText},   // of the credit, the adjustment or the subscription
		{Name: "amount", Kind: projections.KindMoney},
		{Name: "note", Kind: projections.KindText},
		{Name: "subscription", Kind: projections.KindJSON}, // of a grant, else NULL
	},
	Indexes: [][]string{{"user"}},
}

// Repriced has by how much repricings have changed what was used, by the day on which that was posted and the day of use.
// The bill has the same differences on the day of use.
var Repriced = &projections.Table{
	Name: "ledger_repriced",
	Key:  8,
	Columns: []projections.Column{
		{Name: "day", Kind: projections.KindInt}, // since 1970, UTC: of posting
		{Name: "of", Kind: projections.KindInt},  // of use
		{Name: "reprice", Kind: projections.KindText},
		{Name: "key", Kind: projections.KindText},
		{Name: "user", Kind: projections.KindText},
		{Name: "model", Kind: projections.KindText}, // resolved
		{Name: "upstream", Kind: projections.KindText},
		{Name: "paid_by", Kind: projections.KindText},
		{Name: "attempts", Kind: projections.KindInt},
		{Name: "cost", Kind: projections.KindMoney},
		{Name: "upstream_cost", Kind: projections.KindMoney},
	},
}

// Projection is the fold. The zero value is ready.
type Projection struct{}

// Name implements projections.Projection.
func (Projection) Name() string { return "ledger" }

// Version implements projections.Projection.
func (Projection) Version() int { return 1 }

// Tables implements projections.Projection.
func (Projection) Tables() []*projections.Table { return []*projections.Table{Entries, Repriced} }

// Needs implements projections.Selective.
func (Projection) Needs() []string {
	return []string{"balance.credited", "balance.adjusted", "subscription.granted", "subscription.revoked", "request.repriced"}
}

// Fold writes an entry for everything that an operator has booked, and adds up what repricings have moved. Nothing goes with
// the events of a closed day: facts of the ledger stay, and sums stand for the repricings.
func (Projection) Fold(story *request.Story, fact events.Fact, at projections.Place, out *projections.Changes) {
	switch f := fact.(type) {
	case *ledger.Credited:
		entry(at, f.User, Credit, f.ID, f.Amount, f.Note, projections.Null(), out)
	case *ledger.Adjusted:
		entry(at, f.User, Adjustment, f.ID, f.Amount, f.Note, projections.Null(), out)
	case *ledger.Granted:
		entry(at, f.User, Grant, f.Subscription.ID, 0, f.Note, subscribed(f.Subscription), out)
	case *ledger.Revoked:
		entry(at, f.User, Revocation, f.ID, 0, f.Note, projections.Null(), out)
	case *request.Repriced:
		if story != nil {
			repriced(story, f, at, out)
		}
	}
}

// subscribed is a subscription as JSON. What can not be written, such as a time that has no form in it, is null.
func subscribed(s ledger.Subscription) projections.Value {
	text, err := json.Marshal(s, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return projections.Text("null")
	}
	return projections.Text(string(text))
}

func entry(at projections.Place, user string, kind Kind, id string, amount money.Amount, note string, subscription projections.Value, out *projections.Changes) {
	text := projections.Text
	out.Append(Entries, projections.Int(int64(at.Position)), projections.Micros(at.At), text(user), text(string(kind)), text(id),
		projections.Money(amount), text(note), subscription)
}

func repriced(story *request.Story, f *request.Repriced, at projections.Place, out *projections.Changes) {
	text, number := projections.Text, projections.Int
	asked := story.Ask()
	for i := range f.Changes {
		c := &f.Changes[i]
		if story.Failed(c.N) == nil && story.Settled == nil {
			continue // what it costs could not be read, so that the bill does not have it either
		}
		if c.Is == c.Was {
			continue // told for what it says of its request: nothing is moved
		}
		sent := story.Sent(c.N)
		out.Add(Repriced, number(billing.DayOf(at.At)), number(billing.DayOf(c.At)), text(f.Reprice), text(asked.Key), text(asked.User),
			text(sent.PricedModel(asked.Model)), text(sent.Upstream), text(story.PaidBy()), number(1),
			projections.Money(c.Is.Cost-c.Was.Cost), projections.Money(c.Is.UpstreamCost-c.Was.UpstreamCost))
	}
}
