package penstock

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/adapters/postgres"
	"github.com/penstock/penstock/adapters/socket"
	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/ledger"
	"github.com/penstock/penstock/projections/requestlog"
	"github.com/penstock/penstock/projections/stats"
)

// eventStore is an event store that can be moved, with the feed over it.
type eventStore interface {
	events.Store
	events.Movable
	Feed(*events.Bell, *slog.Logger) events.Feed
}

// readModel is a read model that answers all questions.
type readModel interface {
	projections.ReadModel
	requestlog.Reader
	billing.Reader
	stats.Reader
	ledger.Reader
}

// backend is where events and read models are kept.
type backend interface {
	kind() string                                      // for people
	onStoreDown() string                               // default of Config.OnStoreDown
	openStore(ctx context.Context) (eventStore, error) // whoever watches in the context hears of work that it has to do first
	openModel(ctx context.Context) (readModel, error)
	pending(ctx context.Context) ([]string, error) // names of migrations
	openShadow(p projections.Projection) func() (projections.ReadModel, error)
}

// backendOf reads the store setting: "sqlite", or a PostgreSQL connection string.
func backendOf(store, dir, vfs string) (backend, error) {
	switch {
	case store == "" || store == "sqlite":
		return embedded{dir, vfs}, nil
	case strings.HasPrefix(store, "postgres://"), strings.HasPrefix(store, "postgresql://"):
		return server{dsn: store}, nil
	}
	return nil, errors.New("store: must be sqlite or postgres://user:password@host/database")
}

// embedded keeps both in files of the data folder.
type embedded struct{ dir, vfs string }

func (embedded) kind() string        { return "sqlite" }
func (embedded) onStoreDown() string { return rejectOnStoreDown }

// toPages is the name in the progress of an event store whose rows are moved to pages while it opens.
const toPages = "events to pages"

func (b embedded) openStore(ctx context.Context) (eventStore, error) {
	path := filepath.Join(b.dir, eventsFile)
	if err := private(path); err != nil {
		return nil, err
	}
	s, err := sqlite.OpenStore(path, sqlite.StoreOptions{VFS: b.vfs, Opening: ctx, Moving: func(from, at, to events.Position) {
		projections.Tell(ctx, projections.Progress{Projection: toPages, From: from, Position: at, To: to})
	}})
	if err != nil {
		return nil, err // not s: a nil pointer in the interface would not be nil
	}
	return s, nil
}

func (b embedded) openModel(context.Context) (readModel, error) {
	path := filepath.Join(b.dir, readFile)
	if err := private(path); err != nil {
		return nil, err
	}
	m, err := sqlite.OpenReadModel(path, projectionList()...)
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (b embedded) openShadow(p projections.Projection) func() (projections.ReadModel, error) {
	return func() (projections.ReadModel, error) { return sqlite.OpenShadow(b.dir, p) }
}

// server keeps both in a PostgreSQL database.
type server struct{ dsn string }

func (server) kind() string        { return "postgres" }
func (server) onStoreDown() string { return spoolOnStoreDown }

func (b server) openStore(ctx context.Context) (eventStore, error) {
	s, err := postgres.OpenStore(ctx, b.dsn, postgres.StoreOptions{Socket: socket.Direct})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (b server) openModel(ctx context.Context) (readModel, error) {
	m, err := postgres.Socket(socket.Direct).OpenReadModel(ctx, b.dsn, projectionList()...)
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (b server) openShadow(p projections.Projection) func() (projections.ReadModel, error) {
	return func() (projections.ReadModel, error) {
		return postgres.Socket(socket.Direct).OpenShadow(context.Background(), b.dsn, p)
	}
}
