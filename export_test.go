package penstock

import "context"

// Drain begins or ends the refusing of requests, as Close does first.
func (g *Gateway) Drain(on bool) { g.draining.Store(on) }

// StopActors ends everything that admits requests, as a fault of this program might.
func (g *Gateway) StopActors(ctx context.Context) error { return g.system.Stop(ctx) }
