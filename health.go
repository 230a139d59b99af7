package penstock

import (
	"context"
	"encoding/json"
	"sync/atomic"

	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/adapters/telemetry"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// Health is the state of the gateway: unavailable when it takes no requests because of the store, degraded while the spool
// is in use, read models fail or are rebuilt, or the gateway drains.
func (g *Gateway) Health(context.Context) admin.HealthReport {
	r := admin.HealthReport{Status: "ok", Draining: g.draining.Load()}
	r.Store.Kind = g.backend.kind()
	for _, l := range g.runner.Lag() {
		r.Projections = append(r.Projections, admin.ProjectionLag{Name: l.Name, Lag: l.Behind, Rebuilding: l.Rebuilding})
	}
	j := g.journal.Stats()
	if r.Draining || g.runner.Err() != nil || g.runner.Rebuilding("") != nil || j.Spooling {
		r.Status = "degraded"
	}
	r.Store.Spooling, r.Store.Spooled = j.Spooling, j.Spooled
	if g.journal.Refusal() != nil {
		r.Status, r.Store.Spooling, r.Store.Spooled = "unavailable", true, j.Spooled+int64(j.Queued)
	}
	return r
}

func (g *Gateway) healthJSON() ([]byte, bool) {
	r := g.Health(context.Background())
	b, err := json.Marshal(r)
	return b, err == nil && r.Status != "unavailable"
}

// outcomes counts ended requests since the start.
type outcomes struct {
	completed, failed, rejected, cancelled, abandoned atomic.Uint64
}

func (o *outcomes) of(x request.Outcome) *atomic.Uint64 {
	switch x {
	case request.Completed:
		return &o.completed
	case request.FailedOutcome:
		return &o.failed
	case request.Cancelled:
		return &o.cancelled
	case request.Abandoned:
		return &o.abandoned
	}
	return &o.rejected
}

func (o *outcomes) count(batch []*events.Committed) {
	for _, c := range batch {
		for _, f := range c.Facts {
			switch f := f.(type) {
			case *request.Settled:
				o.of(f.Outcome).Add(1)
			case *request.Rejected:
				o.of(f.Outcome()).Add(1)
			}
		}
	}
}

// Figures are those of /metrics.
func (g *Gateway) Figures(context.Context) telemetry.Figures {
	j := g.journal.Stats()
	f := telemetry.Figures{
		Version: g.config.Version, StoreKind: g.backend.kind(), StoreUp: g.journal.Fault() == nil, Draining: g.draining.Load(),
		Requests: map[string]uint64{}, InFlight: int(j.Rooms),
		Journal: telemetry.Journal{Queued: j.Queued, Spooled: j.Spooled, Commits: uint64(j.Commits), Events: uint64(j.Facts)},
	}
	for _, o := range []request.Outcome{request.Completed, request.FailedOutcome, request.RejectedOut, request.Cancelled, request.Abandoned} {
		f.Requests[string(o)] = g.outcomes.of(o).Load()
	}
	for _, u := range g.catalogue.Snapshot().Upstreams() {
		x, _ := g.system.Board().Figures(u.ID)
		f.Upstreams = append(f.Upstreams, telemetry.Upstream{
			ID: u.ID, Slots: u.Slots, Held: x.Held, Waiting: x.Waiting, Breaker: x.Breaker.String(),
		})
	}
	a := g.affinity.Counts()
	f.Affinity = telemetry.Affinity{
		Bindings: a.Bindings, Changes: map[string]uint64{"created": a.Created, "moved": a.Moved},
		Lookups: map[string]uint64{"miss": a.Miss, "hit": a.Hit, "migrated": a.Migrated, "pinned": a.Pinned, "escaped": a.Escaped},
	}
	for _, l := range g.runner.Lag() {
		f.Projections = append(f.Projections, telemetry.Projection{Name: l.Name, Lag: l.Behind})
	}
	return f
}

// Priced says that the catalogue has a price. Without one everything is served and nothing is charged.
func (g *Gateway) Priced() bool {
	prices, _ := g.catalogue.List(catalog.KindPrice)
	return len(prices) > 0
}
