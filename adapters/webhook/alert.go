package webhook

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// Names of alerts. They are messages, not facts: each can be made again from the facts that gave rise to it. Those of
// the store, of balances and of webhooks are the exception: the node alone tells them, to whom it can reach then.
const (
	BreakerOpened    = "alert.breaker_opened"
	BreakerClosed    = "alert.breaker_closed"
	Unpriced         = "alert.unpriced"
	PriceInherited   = "alert.price_inherited" // a service tier without a price was charged at the ordinary one
	UsageClamped     = "alert.usage_clamped"   // an upstream reported more than can be
	StoreUnavailable = "alert.store_unavailable"
	StoreAvailable   = "alert.store_available"
	BalanceLow       = "alert.balance_low"     // of a user, below the setting alerts.balance_low
	WebhookGaveUp    = "alert.webhook_gave_up" // told to the other webhooks, by the node alone
	WebhookMissed    = "alert.webhook_missed"  // retention has taken away what one had not read yet; by the node alone
)

// AlertNames lists the names of all alerts.
func AlertNames() []string {
	return []string{BreakerOpened, BreakerClosed, Unpriced, PriceInherited, UsageClamped, StoreUnavailable, StoreAvailable, BalanceLow, WebhookGaveUp, WebhookMissed}
}

// Alert tells an operator that something needs a look, or no longer does.
type Alert struct {
	Name string
	Over bool // good news
	At   time.Time
	Data any // becomes the JSON of the line's data
}

// Occasion is where and when a fact was stored.
type Occasion struct {
	At                     time.Time
	Request, Key, Upstream string
}

// UnpricedUsage is the data of an alert Unpriced.
type UnpricedUsage struct {
	Request  string `json:"request,omitempty"`
	Key      string `json:"key,omitempty"`
	Upstream string `json:"upstream,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// OddPrice is the data of the alerts PriceInherited and UsageClamped.
type OddPrice struct {
	Request     string `json:"request,omitempty"`
	Key         string `json:"key,omitempty"`
	Upstream    string `json:"upstream,omitempty"`
	Price       string `json:"price_version,omitempty"`
	ServiceTier string `json:"service_tier,omitempty"`
}

// StoreState is the data of the alerts of the store.
type StoreState struct {
	Node     string `json:"node"`
	Requests string `json:"requests,omitempty"` // what becomes of new ones: Served, from the spool, or Refused
	Error    string `json:"error,omitempty"`
}

// Values of StoreState.Requests.
const (
	Served  = "served"
	Refused = "refused"
)

// LowBalance is the data of an alert BalanceLow, in USD.
type LowBalance struct {
	User    string       `json:"user"`
	Balance money.Amount `json:"balance"` // credits and adjustments without what was spent
	Limit   money.Amount `json:"limit"`   // below which it is told of
}

// LostDelivery is the data of an alert WebhookGaveUp.
type LostDelivery struct {
	Webhook string `json:"webhook"`
	First   string `json:"first_position"`
	Last    string `json:"last_position"`
	Lines   int    `json:"lines"`
	Head    bool   `json:"head,omitempty"` // no fact was lost but a head of the chain at that position
	Error   string `json:"error"`
}

// MissedEvents is the data of an alert WebhookMissed: of the facts from First to Last those of requests are gone.
type MissedEvents struct {
	Webhook string `json:"webhook"`
	First   string `json:"first_position"`
	Last    string `json:"last_position"`
	Next    string `json:"next_position"` // the first one that is still there
}

// moneyQuiet is how long the same trouble with prices or usage is not told of again for one upstream.
const moneyQuiet = time.Hour

// Watch makes alerts from facts: a small process manager. It goes by the times of the facts, never by the clock, so
// that the same facts give the same alerts. The zero value is ready and knows of nothing; it belongs to one goroutine.
type Watch struct {
	open map[guard]bool // breakers that are known to be open
	told map[trouble]time.Time
}

// trouble is an alert about money at one upstream.
type trouble struct{ alert, upstream string }

// guard is one breaker: that of an upstream, or of one account and model of it.
type guard struct {
	upstream string
	breaker.Key
}

// openMax bounds the breakers that are known to be open; callers name models. Beyond it alerts may be told twice.
const openMax = 4096

func (w *Watch) note(g guard) {
	if w.open == nil || len(w.open) >= openMax {
		w.open = map[guard]bool{}
	}
	w.open[g] = true
}

// Consider takes facts in order; ok says that there is an alert. A fact that is none of its own costs a type switch.
func (w *Watch) Consider(f events.Fact, o Occasion) (a Alert, ok bool) {
	switch f := f.(type) {
	case *breaker.Opened: // also after each failed probe: told once
		g := guard{f.Upstream, breaker.Key{Account: f.Account, Model: f.Model}}
		if w.open[g] {
			return a, false
		}
		w.note(g)
		return Alert{Name: BreakerOpened, At: o.At, Data: f}, true
	case *breaker.Closed:
		delete(w.open, guard{f.Upstream, breaker.Key{Account: f.Account, Model: f.Model}})
		return Alert{Name: BreakerClosed, Over: true, At: o.At, Data: f}, true
	case *request.Settled:
		if f.Unpriced || f.Inherited || f.Clamped {
			return w.money(o, f.UnpricedReason, OddPrice{o.Request, o.Key, o.Upstream, f.PriceVersion, f.ServiceTier},
				f.Unpriced, f.Inherited, f.Clamped)
		}
	case *request.Failed:
		if f.Unpriced || f.Inherited || f.Clamped {
			o.Upstream = "" // that of the row is where the next attempt went
			return w.money(o, f.UnpricedReason, OddPrice{o.Request, o.Key, "", f.PriceVersion, f.ServiceTier},
				f.Unpriced, f.Inherited, f.Clamped)
		}
	}
	return a, false
}

// money tells of the first trouble of an attempt that was not told of lately.
func (w *Watch) money(o Occasion, reason string, odd OddPrice, unpriced, inherited, clamped bool) (Alert, bool) {
	for _, c := range [...]struct {
		is   bool
		name string
		data any
	}{
		{unpriced, Unpriced, UnpricedUsage{o.Request, o.Key, o.Upstream, reason}},
		{inherited, PriceInherited, odd},
		{clamped, UsageClamped, odd},
	} {
		it := trouble{c.name, o.Upstream}
		if last, known := w.told[it]; !c.is || known && o.At.Sub(last) < moneyQuiet {
			continue
		}
		if w.told == nil {
			w.told = map[trouble]time.Time{}
		}
		w.told[it] = o.At
		return Alert{Name: c.name, At: o.At, Data: c.data}, true
	}
	return Alert{}, false
}

// source is a fact that Consider takes an interest in.
type source struct {
	must   [][]byte // of which its JSON must hold one; nil: nothing
	alerts []string // that need it
}

var (
	breakerAlerts = []string{BreakerOpened, BreakerClosed}
	moneyAlerts   = []string{Unpriced, PriceInherited, UsageClamped}
	moneyMarks    = [][]byte{[]byte(`"unpriced":true`), []byte(`"price_inherited":true`), []byte(`"usage_clamped":true`)}
	sources       = map[string]source{
		"upstream.opened": {alerts: breakerAlerts},
		"upstream.closed": {alerts: breakerAlerts},
		"request.settled": {must: moneyMarks, alerts: moneyAlerts},
		"attempt.failed":  {must: moneyMarks, alerts: moneyAlerts},
	}
)

// holds says that a fact of this kind may give an alert, by its JSON.
func (s *source) holds(payload []byte) bool {
	for _, mark := range s.must {
		if bytes.Contains(payload, mark) {
			return true
		}
	}
	return s.must == nil
}

// message is Consider for a message of a feed.
func (w *Watch) message(m *message.Message) (a Alert, ok bool, err error) {
	from, known := sources[m.Metadata.Get(events.MetaType)]
	if !known || !from.holds(m.Payload) {
		return a, false, nil
	}
	at, err := time.Parse(time.RFC3339Nano, m.Metadata.Get(events.MetaAt))
	if err != nil {
		return a, false, errors.Wrapf(err, "message %s", m.UUID)
	}
	f, err := events.FactOf(m)
	if err != nil {
		return a, false, errors.Wrapf(err, "message %s", m.UUID)
	}
	a, ok = w.Consider(f, Occasion{At: at, Request: m.Metadata.Get(events.MetaRequest),
		Key: m.Metadata.Get(events.MetaKey), Upstream: m.Metadata.Get(events.MetaUpstream)})
	return a, ok, nil
}

// line is the alert in the form of a fact, in the place of the one that gave rise to it.
func (a Alert) line(of message.Metadata) ([]byte, error) {
	data, err := json.Marshal(a.Data)
	if err != nil {
		return nil, errors.Wrapf(err, "write %s", a.Name)
	}
	with := message.Metadata{events.MetaSchema: "1", events.MetaNode: of.Get(events.MetaNode),
		events.MetaPosition: of.Get(events.MetaPosition), events.MetaStream: of.Get(events.MetaStream), events.MetaVersion: of.Get(events.MetaVersion)}
	return events.LineOf(with, a.Name, a.At, data)
}
