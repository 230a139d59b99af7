package webhook

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// Names of alerts. They are messages, not facts: each can be made again from the facts that gave rise to it. Those of
// the store and of webhooks are the exception: the node alone tells them, to whom it can reach then.
const (
	BreakerOpened    = "alert.breaker_opened"
	BreakerClosed    = "alert.breaker_closed"
	Unpriced         = "alert.unpriced"
	StoreUnavailable = "alert.store_unavailable"
	StoreAvailable   = "alert.store_available"
	WebhookGaveUp    = "alert.webhook_gave_up" // told to the other webhooks, by the node alone
)

// AlertNames lists the names of all alerts.
func AlertNames() []string {
	return []string{BreakerOpened, BreakerClosed, Unpriced, StoreUnavailable, StoreAvailable, WebhookGaveUp}
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

// StoreState is the data of the alerts of the store.
type StoreState struct {
	Node  string `json:"node"`
	Error string `json:"error,omitempty"`
}

// LostDelivery is the data of an alert WebhookGaveUp.
type LostDelivery struct {
	Webhook string `json:"webhook"`
	First   string `json:"first_position"`
	Last    string `json:"last_position"`
	Lines   int    `json:"lines"`
	Error   string `json:"error"`
}

// unpricedQuiet is how long usage without a price is not told of again for one upstream.
const unpricedQuiet = time.Hour

// Watch makes alerts from facts: a small process manager. It goes by the times of the facts, never by the clock, so
// that the same facts give the same alerts. The zero value is ready and knows of nothing; it belongs to one goroutine.
type Watch struct {
	open     map[guard]bool       // breakers that are known to be open
	unpriced map[string]time.Time // last told, by upstream
}

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
		if !f.Unpriced {
			return a, false
		}
		if told, known := w.unpriced[o.Upstream]; known && o.At.Sub(told) < unpricedQuiet {
			return a, false
		}
		if w.unpriced == nil {
			w.unpriced = map[string]time.Time{}
		}
		w.unpriced[o.Upstream] = o.At
		return Alert{Name: Unpriced, At: o.At, Data: UnpricedUsage{o.Request, o.Key, o.Upstream, f.UnpricedReason}}, true
	}
	return a, false
}

// source is a fact that Consider takes an interest in.
type source struct {
	must   []byte   // what its JSON must hold; nil: nothing
	alerts []string // that need it
}

var (
	breakerAlerts = []string{BreakerOpened, BreakerClosed}
	sources       = map[string]source{
		"upstream.opened": {alerts: breakerAlerts},
		"upstream.closed": {alerts: breakerAlerts},
		"request.settled": {must: []byte(`"unpriced":true`), alerts: []string{Unpriced}},
	}
)

// message is Consider for a message of a feed.
func (w *Watch) message(m *message.Message) (a Alert, ok bool, err error) {
	from, known := sources[m.Metadata.Get(events.MetaType)]
	if !known || !bytes.Contains(m.Payload, from.must) {
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
