// Package penstock is a gateway for LLM APIs as a library: Open wires the stores, actors, projections and servers of
// one gateway. It is used by cmd/penstock, by tests and by programs that embed the gateway; several may live in one
// process.
package penstock

import (
	"context"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/adapters/outbound"
	"github.com/penstock/penstock/adapters/proxy"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/node"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
)

// Config of a gateway. The zero value of a field means its default.
type Config struct {
	DataDir     string // folder of stores, keys and the lock; created with mode 0700; required
	Listen      string // data plane, default ":8080"
	AdminListen string // control plane, default "127.0.0.1:8081"
	AdminToken  string // default: generated into the data folder
	SecretKey   string // seals upstream credentials; default: generated into the data folder
	Store       string // "sqlite" (default), or postgres://user:password@host/database
	Durability  string // "settled", "dispatched" (default), "overlapped" or "relaxed"
	Profile     string // set of defaults, of catalog.Profiles; "penstock" (default)
	Version     string // of the program, for /metrics and events
	BodyMax     int    // bytes of a request body, default 100 MiB
	Rooms       int    // requests that may be open at once, default 16384
	// OnStoreDown is "spool" (default with PostgreSQL): requests are served during an outage, their events wait in the
	// data folder; or "reject" (default with the embedded store): requests are refused.
	OnStoreDown string
	SpoolMax    int64 // bytes that may wait there, default 1 GiB
	Logger      *slog.Logger
	Egress      outbound.Egress // the way out; the zero value goes straight
	// Bootstrap is applied when the catalogue is empty.
	Bootstrap []actors.Wish
	// Ready is called once the gateway serves, before it says so in its log.
	Ready func(*Gateway)

	// StoreVFS is the virtual file system of the event store; tests make it fail.
	StoreVFS string
}

// names of the files in the data folder.
const (
	eventsFile = "events.db"
	readFile   = "read.db"
)

// DrainTime bounds how long a gateway that stops waits for the requests under way.
const DrainTime = 30 * time.Second

// Gateway is a running gateway.
type Gateway struct {
	config Config
	log    *slog.Logger
	node   string
	lock   *os.File

	backend    backend
	store      eventStore
	spool      *events.Spool
	model      readModel
	catalogue  *actors.Catalogue
	accounts   *actors.Ledger // what users were given
	journal    *events.Journal
	runner     *projections.Runner
	system     *actors.System
	affinity   *actors.Affinity
	transport  *outbound.Transport
	proxy      *proxy.Server
	admin      *admin.Server
	proxyAddr  net.Addr
	adminAddr  net.Addr
	adminToken string
	out        outlets
	ledger     bookkeeping
	replays    projections.Board

	life context.Context // ends when the gateway begins to shut down
	end  context.CancelFunc

	outcomes  outcomes
	recovered int
	draining  atomic.Bool
	serving   sync.WaitGroup // the servers
	closeOnce sync.Once
	closeErr  error
	failed    chan error // a server that ended by itself
}

// Open starts a gateway: it recovers what an earlier process left open and listens when all is in place. The errors
// name what is wrong: a busy address, a folder that another gateway uses, accounts that the secret key does not open.
func Open(c Config) (*Gateway, error) { return OpenContext(context.Background(), c) }

// OpenContext is Open until the context ends: work that comes first, such as a migration, can take minutes. Its error is then that of
// the context, nothing is lost, and the next start goes on from there. A gateway that is open lives on without the context.
func OpenContext(ctx context.Context, c Config) (*Gateway, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	g := &Gateway{config: c, log: c.Logger, node: nodeName(), failed: make(chan error, 2)}
	g.life, g.end = context.WithCancel(context.Background())
	if err := g.open(ctx); err != nil {
		g.shut()
		if ctx.Err() != nil {
			err = errors.CombineErrors(ctx.Err(), err)
		}
		return nil, err
	}
	return g, nil
}

func (c Config) withDefaults() (Config, error) {
	fill := func(s *string, otherwise string) {
		if *s == "" {
			*s = otherwise
		}
	}
	fill(&c.Listen, ":8080")
	fill(&c.AdminListen, "127.0.0.1:8081")
	fill(&c.Store, "sqlite")
	fill(&c.Durability, string(actors.AtDispatch))
	fill(&c.Profile, catalog.DefaultProfile)
	fill(&c.Version, "devel")
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.DataDir == "":
		return c, errors.New("data folder is not set")
	case !slices.Contains(catalog.Profiles(), c.Profile):
		return c, errors.Newf("profile: %q is none of %s", c.Profile, strings.Join(catalog.Profiles(), ", "))
	case c.SpoolMax < 0:
		return c, errors.Newf("spool_max: %d is not a number of bytes", c.SpoolMax)
	}
	b, err := backendOf(c.Store, c.DataDir, "")
	if err != nil {
		return c, err
	}
	fill(&c.OnStoreDown, b.onStoreDown())
	if c.OnStoreDown != spoolOnStoreDown && c.OnStoreDown != rejectOnStoreDown {
		return c, errors.Newf("on_store_down: %q is neither spool nor reject", c.OnStoreDown)
	}
	switch actors.Durability(c.Durability) {
	case actors.AtSettlement, actors.AtDispatch, actors.Overlapped, actors.Relaxed:
	default:
		return c, errors.Newf("durability: %q is none of settled, dispatched, overlapped, relaxed", c.Durability)
	}
	return c, nil
}

func nodeName() string {
	if h, err := os.Hostname(); err == nil && h != "" {
		return h
	}
	return "penstock"
}

func (g *Gateway) open(ctx context.Context) error {
	wanted := context.AfterFunc(ctx, g.end)
	defer wanted()
	proxyListener, adminListener, err := g.listen()
	if err != nil {
		return err
	}
	undo := func() { proxyListener.Close(); adminListener.Close() }
	for _, step := range []func(context.Context) error{g.openData, g.openBooks, g.openFeed, g.recover, g.openLedger, g.openPlanes, g.bootstrap} {
		err := step(ctx)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			undo()
			return err
		}
	}
	if !wanted() {
		undo()
		return ctx.Err()
	}
	g.journal.Record("node/"+g.node, "", &node.Started{
		Node: g.node, Version: g.config.Version, Recovered: g.recovered, Durability: g.config.Durability,
	})
	g.keepBooks()
	g.serving.Go(func() { g.serve("data plane", func() error { return g.proxy.Serve(proxyListener) }) })
	g.serving.Go(func() { g.serve("admin API", func() error { return g.admin.Serve(adminListener) }) })
	if g.config.Ready != nil {
		g.config.Ready(g)
	}
	g.log.Info("ready", "listen", g.proxyAddr.String(), "admin", g.adminAddr.String(), "data", g.config.DataDir,
		"durability", g.config.Durability, "recovered", g.recovered, "version", g.config.Version)
	return nil
}

// refused records what anonymous traffic was refused beyond what is recorded one by one.
func (g *Gateway) refused(address string, count int, minute time.Time) {
	g.journal.Record("node/"+g.node, "", &node.AuthRefused{Address: address, Count: count, Minute: minute.Format(time.RFC3339)})
}

func (g *Gateway) serve(name string, run func() error) {
	if err := run(); err != nil && !g.draining.Load() {
		g.log.Error("server ended", "server", name, "error", err)
		g.failed <- err
	}
}

// Addr is the address of the data plane, AdminAddr that of the admin API.
func (g *Gateway) Addr() string { return g.proxyAddr.String() }

// AdminAddr is the address of the admin API.
func (g *Gateway) AdminAddr() string { return g.adminAddr.String() }

// Instance is what /health of the admin API says in the header admin.InstanceHeader: it names this gateway until it ends.
func (g *Gateway) Instance() string { return g.admin.Instance() }

// AdminToken is the bearer token of the admin API.
func (g *Gateway) AdminToken() string { return g.adminToken }

// Ledger is where money and subscriptions are given to users.
func (g *Gateway) Ledger() *actors.Ledger { return g.accounts }

// Failed gets an error when a server ends by itself.
func (g *Gateway) Failed() <-chan error { return g.failed }

// Close stops admitting, lets the requests under way finish until the context ends, settles everything and gives back
// all that the gateway holds. A nil error means that every request has been settled and stored.
func (g *Gateway) Close(ctx context.Context) error {
	g.closeOnce.Do(func() { g.closeErr = g.close(ctx) })
	return g.closeErr
}

func (g *Gateway) close(ctx context.Context) error {
	g.draining.Store(true)
	err := g.proxy.Shutdown(ctx)
	if err != nil && errors.Is(err, context.DeadlineExceeded) {
		g.log.Warn("requests are cut", "in_flight", g.proxy.InFlight())
		err = g.proxy.Cut(3 * time.Second)
	}
	g.journal.Record("node/"+g.node, "", &node.Stopped{Node: g.node})
	return errors.CombineErrors(err, g.shut())
}

// shut closes what is open, from the outside in.
func (g *Gateway) shut() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var err error
	try := func(open bool, what string, f func() error) {
		if open {
			err = errors.CombineErrors(err, errors.Wrap(f(), what))
		}
	}
	g.end()
	g.stopBooks()
	try(g.admin != nil, "admin API", func() error { return g.admin.Close(ctx) })
	g.serving.Wait()
	if g.proxy != nil {
		g.proxy.Close()
	}
	try(g.system != nil, "actors", func() error { return g.system.Stop(ctx) })
	if g.transport != nil {
		g.transport.Close()
	}
	try(g.out.hooks != nil, "webhooks", func() error { return g.closeOutlets(ctx) })
	try(g.journal != nil, "journal", func() error { return g.journal.Close(ctx) })
	away := g.journal != nil && g.journal.Stats().Spooling // everything is in the spool: the next start goes on from there
	try(g.ledger.stop != nil && !away, "head of the chain", func() error { return g.ledger.closer.keep(ctx) })
	try(g.runner != nil, "read models", func() error { return g.stopRunner(ctx, away) })
	try(g.model != nil, "read models", func() error { return g.model.Close() })
	try(g.spool != nil, "spool", func() error { return g.spool.Close() })
	try(g.store != nil, "event store", func() error { return g.store.Close() })
	try(g.lock != nil, "lock", func() error { return g.lock.Close() })
	return err
}
