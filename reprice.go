package penstock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
)

// repricer prices ended requests anew, and shows how far it is.
type repricer struct {
	*actors.Repricer
	g *Gateway
}

var _ admin.Reprice = repricer{}

func (g *Gateway) repricer() repricer {
	return repricer{&actors.Repricer{
		Store: g.store, Journal: g.journal, Prices: g.priceBook, Books: g.ledger.closer.still, System: g.system, Node: g.node,
		Now: time.Now, Logger: g.log,
		Progress: func(ctx context.Context, from, at, to events.Position) {
			projections.Tell(ctx, projections.Progress{Projection: "reprice", From: from, Position: at, To: to})
		},
	}, g}
}

// priceBook is the one in force. Its version is a digest of the ids and versions of all prices.
func (g *Gateway) priceBook() actors.PriceBook {
	for {
		before := g.catalogue.Revision()
		snap := g.catalogue.Snapshot()
		list, versions := g.catalogue.List(catalog.KindPrice)
		if before != g.catalogue.Revision() { // changed in between
			continue
		}
		sum := sha256.New()
		for i, p := range list {
			fmt.Fprintf(sum, "%s@%d\n", p.Ident(), versions[i])
		}
		return actors.PriceBook{Book: snap, Version: hex.EncodeToString(sum.Sum(nil))[:12], Revision: before}
	}
}

// Preview implements admin.Reprice.
func (r repricer) Preview(ctx context.Context, s actors.RepriceScope) (*actors.Repricing, error) {
	ctx, done := r.g.replays.Watch(ctx, "reprice", "reprice")
	defer done()
	out, err := r.Repricer.Preview(ctx, s)
	return out, unavailable(err)
}

// Apply implements admin.Reprice. What was booked before an error is in the error's text, and in the log.
func (r repricer) Apply(ctx context.Context, run string, s actors.RepriceScope, expect actors.RepriceExpect) (*actors.Repricing, error) {
	ctx, done := r.g.replays.Watch(ctx, "reprice", "reprice")
	defer done()
	out, err := r.Repricer.Apply(ctx, run, s, expect)
	if out != nil {
		r.g.log.Info("repriced", "run", run, "requests", out.Requests, "difference", out.Difference.String(),
			"upstream_difference", out.UpstreamDifference.String(), "prices", out.Prices, "error", err)
	}
	if err != nil && out != nil && out.Requests > 0 {
		err = errors.Wrapf(err, "%d requests were booked before, run it again for the others", out.Requests)
	}
	return out, unavailable(err)
}

// unavailable says of a journal that has ended what the API says of a store that is away.
func unavailable(err error) error {
	if errors.Is(err, events.ErrClosed) || errors.Is(err, events.ErrUnavailable) {
		return admin.Unavailable(err)
	}
	return err
}
