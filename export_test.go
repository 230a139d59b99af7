package penstock

import (
	"context"
	"log/slog"
	"time"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/adapters/webhook"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/events"
)

// LogProgress is what Open logs of work on more than so many events that it has to do first.
func LogProgress(ctx context.Context, log *slog.Logger, now func() time.Time, over events.Position) context.Context {
	return logProgress(ctx, log, now, over)
}

// Drain begins or ends the refusing of requests, as Close does first.
func (g *Gateway) Drain(on bool) { g.draining.Store(on) }

// HoldReplays is a replay that runs until release.
func (g *Gateway) HoldReplays() (release func()) {
	g.ledger.closer.replays.RLock()
	return g.ledger.closer.replays.RUnlock
}

// HoldBooks is a closing that somebody else has asked for and that works until release.
func (g *Gateway) HoldBooks() (release func()) {
	g.ledger.closer.turn.Lock()
	return g.ledger.closer.turn.Unlock
}

// StopActors ends everything that admits requests, as a fault of this program might.
func (g *Gateway) StopActors(ctx context.Context) error { return g.system.Stop(ctx) }

// LowBalances are the alerts about balances as they are seen one after the other.
func LowBalances() func([]actors.AccountView, money.Amount) []webhook.LowBalance {
	return new(lowBalances).of
}
