package penstock

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/adapters/outbound"
	"github.com/penstock/penstock/adapters/proxy"
	"github.com/penstock/penstock/adapters/secrets"
	"github.com/penstock/penstock/adapters/socket"
	"github.com/penstock/penstock/adapters/telemetry"
	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/limit"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
)

// listen comes first, so that a busy address is found before anything is touched.
func (g *Gateway) listen() (data, control net.Listener, err error) {
	if data, err = net.Listen("tcp", g.config.Listen); err != nil {
		return nil, nil, errors.Wrapf(err, "data plane can not listen on %s", g.config.Listen)
	}
	if control, err = net.Listen("tcp", g.config.AdminListen); err != nil {
		data.Close()
		return nil, nil, errors.Wrapf(err, "admin API can not listen on %s", g.config.AdminListen)
	}
	g.proxyAddr, g.adminAddr = data.Addr(), control.Addr()
	return data, control, nil
}

// openData opens what is on disk.
func (g *Gateway) openData(ctx context.Context) error {
	dir := g.config.DataDir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return errors.Wrap(err, "data folder")
	}
	var err error
	if g.lock, err = lockFolder(dir); err != nil {
		return err
	}
	if g.backend, err = backendOf(g.config.Store, dir, g.config.StoreVFS); err != nil {
		return err
	}
	if g.store, g.spool, err = openDrained(logProgress(ctx, g.log, time.Now, 0), g.backend, dir, g.config.SpoolMax, g.log); err != nil {
		return err
	}
	token, origin, err := secrets.LoadToken(dir, g.config.AdminToken)
	if err != nil {
		return errors.Wrap(err, "admin token")
	}
	if origin.Loose {
		g.log.Warn("admin token can be read by others", "path", origin.Path)
	}
	g.adminToken = string(token)
	key, origin, err := secrets.LoadKey(dir, g.config.SecretKey)
	if err != nil {
		return errors.Wrap(err, "secret key")
	}
	if origin.Loose {
		g.log.Warn("secret key can be read by others", "path", origin.Path)
	}
	sealer, err := secrets.NewSealer(key)
	if err != nil {
		return err
	}
	defaults, _ := catalog.ProfileSettings(g.config.Profile) // the configuration has been checked
	if g.catalogue, err = actors.LoadCatalogue(ctx, g.store, vault{sealer}, &defaults); err != nil {
		return unmade(err, origin)
	}
	if g.accounts, err = actors.OpenLedger(ctx, g.store); err != nil {
		return err
	}
	for _, bad := range g.catalogue.Snapshot().Skipped {
		g.log.Warn("configuration is out of force", "resource", bad.Ref.String(), "field", bad.Field, "reason", bad.Reason)
	}
	return nil
}

// progressEvery is how often it is logged how far something is.
const progressEvery = 5 * time.Second

// unmade takes a secret key away that was made just now and opens nothing of what is stored: whoever found it later would take it
// for the key, and keep a copy of it.
func unmade(err error, key secrets.Origin) error {
	var unopened *actors.UnopenedError
	if !key.Generated || !errors.As(err, &unopened) {
		return err
	}
	return errors.CombineErrors(errors.Wrapf(err, "there is no %s", key.Path), os.Remove(key.Path))
}

// briefly is how many events are read by any start, in no time: nobody need hear of them.
const briefly = 20_000

// logProgress logs the progress of what is done in the context before a gateway is ready (projections.Watch): its beginning
// and its end, and now and then how far it is; of work on more than so many events only.
func logProgress(ctx context.Context, log *slog.Logger, now func() time.Time, over events.Position) context.Context {
	var seen projections.Running
	var last time.Time
	return projections.Watch(ctx, func(p projections.Progress) {
		if p.To-p.From <= over {
			return
		}
		at := now()
		begun := p.Projection != seen.Projection
		if begun {
			seen.Begun = at
		}
		seen.Progress = p
		log := log.With("what", p.Projection)
		switch {
		case begun:
			log.Info("work before the start begins", "events", p.To-p.From)
		case p.Position >= p.To:
			log.Info("work before the start is done", "events", p.To-p.From, "took", at.Sub(seen.Begun).Round(time.Millisecond).String())
		case at.Sub(last) >= progressEvery:
			log.Info("work before the start", "done", p.Position-p.From, "events", p.To-p.From,
				"per_second", int64(seen.PerSecond(at)), "left", seen.Left(at).Round(time.Second).String())
		default:
			return
		}
		last = at
	})
}

// openBooks opens the read models and brings them up to date. Those of another version of the program are rebuilt while
// the gateway works.
func (g *Gateway) openBooks(ctx context.Context) error {
	var err error
	if g.model, err = g.backend.openModel(ctx); err != nil {
		return errors.Wrap(err, "read models")
	}
	g.runner = projections.NewRunner(projections.Options{
		Store: g.store, Model: g.model, Projections: projectionList(), Logger: g.log, Board: &g.replays,
	})
	return errors.Wrap(g.runner.Start(logProgress(ctx, g.log, time.Now, briefly)), "read models")
}

// recover starts the journal and settles what dead processes left open.
func (g *Gateway) recover(ctx context.Context) error {
	open, err := actors.FindOpen(ctx, g.store)
	if err != nil {
		return err
	}
	head, err := g.store.Head(ctx)
	if err != nil {
		return errors.Wrap(err, "event store")
	}
	first := make(map[string]events.Position, len(open))
	for _, o := range open {
		first[o.Stream] = o.First
	}
	var spool *events.Spool
	if g.config.OnStoreDown == spoolOnStoreDown {
		spool = g.spool
	}
	g.journal = events.NewJournal(events.JournalOptions{
		Store: g.store, Logger: g.log, Node: g.node, Rooms: g.config.Rooms, Head: head, Open: first, Spool: spool,
		Push: func(batch []*events.Committed) {
			g.outcomes.count(batch)
			g.runner.Push(batch)
			g.out.pushed(batch)
		},
	})
	g.recovered = len(open)
	return actors.Abandon(g.journal, g.catalogue.Snapshot(), g.node, time.Now(), open)
}

// openPlanes makes the actors and the servers.
func (g *Gateway) openPlanes(ctx context.Context) error {
	g.system = actors.NewSystem(actors.Options{Logger: g.log, Now: time.Now, Recorder: g.journal, History: g.spent, Funds: g.accounts.Funds})
	g.system.Reconfigure(layoutOf(g.catalogue.Snapshot()))
	if err := g.restore(ctx); err != nil {
		return err
	}
	if err := g.system.RestoreRates(time.Now()); err != nil {
		return errors.Wrap(err, "rates of callers")
	}
	g.affinity = actors.NewAffinity(&g.catalogue.Snapshot().Settings.Scheduling)
	if err := g.affinity.Load(ctx, g.store, time.Now()); err != nil {
		return err
	}
	g.openOutlets()
	g.catalogue.Serve(g.journal, g.node, func(s *catalog.Snapshot) {
		g.system.Reconfigure(layoutOf(s))
		g.affinity.Limit(&s.Settings.Scheduling)
		g.reconfigureHooks(s)
	})
	g.accounts.Serve(g.journal, g.system, g.catalogue.Snapshot, g.node)
	g.out.done.Go(func() { g.watchBalances(g.life) })
	g.transport = outbound.New(g.config.Egress)
	g.transport.Socket = socket.Direct
	dispatcher := &actors.Dispatcher{
		System: g.system, Catalog: g.catalogue.Snapshot, Journal: g.journal, Transport: g.transport,
		Credential: g.catalogue.Credential, Durability: actors.Durability(g.config.Durability), Node: g.node, Logger: g.log,
		Now: time.Now, Random: rand.Uint64, Draining: g.draining.Load, Affinity: g.affinity,
	}
	var err error
	g.proxy, err = proxy.Open(proxy.Options{
		Dispatcher: dispatcher, Catalog: g.catalogue.Snapshot, Logger: g.log, Now: time.Now, BodyMax: g.config.BodyMax, Socket: socket.Direct,
		Refused: g.refused, Health: g.healthJSON,
	})
	if err != nil {
		return err
	}
	g.admin, err = admin.New(admin.Config{
		Token: g.adminToken, Version: g.config.Version, Ports: g.ports(), Metrics: telemetry.MetricsHandler(g), Logger: g.log,
		Feed: g.out.feed, Webhooks: hookState{&g.out}, Limits: keyLimits{g.system}, Ledger: g.treasury(g.readings()),
		Reprice: g.repricer(),
		Audit:   g.ledger.closer, Books: g.ledger.closer, Backups: g, Past: g, Replays: &g.replays,
	})
	return err
}

// restore brings breakers and blocks to where they were: a restart is no reason to trust a failing upstream again. What was
// removed since and added again has begun anew.
func (g *Gateway) restore(ctx context.Context) error {
	for _, prefix := range []string{"upstream/", "account/", "access/"} {
		err := g.store.Find(ctx, events.Query{StreamPrefix: prefix}, func(c *events.Committed) bool {
			for _, f := range c.Facts {
				if c.Position < g.since(c.Stream, f) {
					continue
				}
				if err := g.system.Restore(f, c.At); err != nil {
					g.log.Debug("breaker or block not restored", "stream", c.Stream, "error", err) // removed meanwhile
				}
			}
			return true
		})
		if err != nil {
			return errors.Wrap(err, "restore breakers and blocks")
		}
	}
	return nil
}

// since is the position at which that was added to the catalogue which a fact of a breaker, a block or a key's addresses is about.
func (g *Gateway) since(stream string, fact events.Fact) events.Position {
	kind, id, _ := strings.Cut(stream, "/")
	if kind == "access" {
		kind = string(catalog.KindKey)
	}
	at := g.catalogue.Since(catalog.Ref{Kind: catalog.Kind(kind), ID: id})
	if _, of, ok := breaker.KeyOf(fact); ok && of.Account != "" {
		at = max(at, g.catalogue.Since(catalog.Ref{Kind: catalog.KindAccount, ID: of.Account}))
	}
	return at
}

// spent is the history of all requests, once everything that was appended before is stored. It is an error when the store is away:
// what is on its way would be missing.
func (g *Gateway) spent(past limit.Past, yield func(*actors.Used)) error {
	ctx, cancel := context.WithTimeout(g.life, historyTime)
	defer cancel()
	for _, ready := range []func() error{g.journal.Diverted, func() error { return g.journal.Sync(ctx) }, g.journal.Diverted} {
		if err := ready(); err != nil {
			return err
		}
	}
	return actors.ReadHistory(ctx, g.store, past, yield)
}

// historyTime bounds the reading of what was spent before.
const historyTime = 10 * time.Minute

func (g *Gateway) bootstrap(ctx context.Context) error {
	if len(g.config.Bootstrap) == 0 || g.catalogue.Revision() != 0 {
		return nil
	}
	_, err := g.catalogue.Apply(ctx, g.config.Bootstrap, false, false)
	return errors.Wrap(err, "bootstrap")
}
