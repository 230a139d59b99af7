package penstock

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/adapters/telemetry"
	"github.com/penstock/penstock/adapters/webhook"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/events"
)

// outlets are the ways by which facts leave the gateway as they happen: the feed with its readers, webhooks, alerts.
// None of them is waited for by anybody. The zero value has none.
type outlets struct {
	bell  events.Bell
	feed  events.Feed
	hooks *webhook.Manager

	watch  webhook.Watch // of the journal's writer
	alerts chan webhook.Alert
	stop   context.CancelFunc
	done   sync.WaitGroup
}

const (
	alertsMax  = 256         // that wait to be logged
	faultEvery = time.Second // between looks at whether the store takes appends
)

// openFeed comes before the journal, which rings its bell.
func (g *Gateway) openFeed(context.Context) error {
	g.out.feed = g.store.Feed(&g.out.bell, g.log)
	g.out.alerts = make(chan webhook.Alert, alertsMax)
	return nil
}

// openOutlets starts webhooks and the log of alerts, once the journal runs.
func (g *Gateway) openOutlets() {
	ctx, stop := context.WithCancel(context.Background())
	g.out.stop = stop
	g.out.hooks = webhook.New(webhook.Options{
		Feed: g.out.feed, Secret: g.catalogue.Credential, Logger: g.log, Version: g.config.Version, Node: g.node,
	})
	g.reconfigureHooks(g.catalogue.Snapshot())
	g.out.done.Go(func() { g.logAlerts(ctx) })
	g.out.done.Go(func() { g.watchStore(ctx) })
}

// closeOutlets ends them while the store is still open.
func (g *Gateway) closeOutlets(ctx context.Context) error {
	g.out.stop()
	g.out.done.Wait()
	return g.out.hooks.Close(ctx)
}

func (g *Gateway) reconfigureHooks(s *catalog.Snapshot) {
	g.out.hooks.Reconfigure(s.Webhooks(), events.Position(s.Revision))
}

// pushed is what the outlets make of a commit. It runs in the journal's writer: no IO, no waiting.
func (o *outlets) pushed(batch []*events.Committed) {
	for _, c := range batch {
		for _, f := range c.Facts {
			a, ok := o.watch.Consider(f, webhook.Occasion{At: c.At, Request: c.Request, Key: c.Key, Upstream: c.Upstream})
			if !ok {
				continue
			}
			select {
			case o.alerts <- a:
			default: // a log that does not keep up; webhooks make their own from the facts
			}
		}
	}
	o.bell.Ring()
}

// logAlerts writes alerts to the log.
func (g *Gateway) logAlerts(ctx context.Context) {
	for {
		select {
		case a := <-g.out.alerts:
			g.logAlert(a)
		case <-ctx.Done():
			return
		}
	}
}

// alert tells of what only this node knows.
func (g *Gateway) alert(a webhook.Alert) {
	g.logAlert(a)
	g.out.hooks.Alert(a)
}

// logAlert writes the data as webhooks get it, in a log of text, too.
func (g *Gateway) logAlert(a webhook.Alert) {
	data, err := json.Marshal(a.Data)
	shown := telemetry.Redact(string(data)) // a log does so with texts only; an upstream may have said a key
	var is any = json.RawMessage(shown)
	if err != nil || !json.Valid([]byte(shown)) {
		is = shown
	}
	if a.Over {
		g.log.Info("alert is over", "alert", a.Name, "data", is)
		return
	}
	g.log.Warn("alert", "alert", a.Name, "data", is)
}

// watchStore alerts when the store stops taking appends, when requests are refused because of that, and when all is well again.
func (g *Gateway) watchStore(ctx context.Context) {
	tick := time.NewTicker(faultEvery)
	defer tick.Stop()
	told := ""
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		is, fault := g.storeState()
		if is == told || is == webhook.Served && told == webhook.Refused { // a spool that is full has room for moments
			continue
		}
		told = is
		a := webhook.Alert{Name: webhook.StoreAvailable, Over: true, At: time.Now().UTC(), Data: webhook.StoreState{Node: g.node}}
		if fault != nil {
			a.Name, a.Over, a.Data = webhook.StoreUnavailable, false, webhook.StoreState{Node: g.node, Requests: is, Error: fault.Error()}
		}
		g.alert(a)
	}
}

// storeState is what becomes of new requests while the store is away, and why; "" and nil while it is not.
func (g *Gateway) storeState() (requests string, fault error) {
	if fault = g.journal.Refusal(); fault != nil {
		return webhook.Refused, fault
	}
	if fault = g.journal.Fault(); fault != nil {
		return webhook.Served, fault
	}
	return "", nil
}

// hookState is how webhooks fare, for the admin API.
type hookState struct{ *outlets }

func (h hookState) WebhookStatus(ctx context.Context, id string) (admin.WebhookStatus, error) {
	s, ok := h.hooks.Status(id)
	if !ok {
		return admin.WebhookStatus{}, errors.Wrapf(admin.ErrNotFound, "webhook %s", id)
	}
	w := admin.WebhookStatus{ID: s.ID, Active: s.Active, Position: s.Position, Delivered: s.Delivered, GivenUp: s.GivenUp,
		Missed: s.Missed, FailingSince: s.FailingSince, LastError: s.LastError}
	groups, err := h.feed.Checkpoints(ctx)
	if err != nil {
		return w, err
	}
	for _, c := range groups { // of an earlier process, or moved on by what is left out
		if c.Group == webhook.Group(id) {
			w.Position = max(w.Position, c.Position)
		}
	}
	head, err := h.feed.Head(ctx)
	w.Lag = max(0, int64(head-w.Position))
	return w, err
}

// checkHooks refuses webhooks that ask for something that there is not: they would be silent for ever.
func checkHooks(changes []admin.Change) error {
	var faults []error
	for _, c := range changes {
		w, ok := c.Resource.(*catalog.Webhook)
		if !ok {
			continue
		}
		for i, e := range w.Events {
			f := events.FeedFilter{Types: []string{e}}
			if f.CheckTypes(webhook.Names()...) != nil {
				faults = append(faults, &catalog.InvalidError{Ref: catalog.Ref{Kind: catalog.KindWebhook, ID: w.ID},
					Field: "events[" + strconv.Itoa(i) + "]", Reason: "there is no event or alert " + e})
			}
		}
	}
	return errors.Join(faults...)
}
