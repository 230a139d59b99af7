package penstock

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/adapters/secrets"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
)

// Offline is the data of a gateway that does not run, for operators. It holds the lock of the data folder, so that no
// gateway starts meanwhile. Read models that are behind, or of another version, are brought up to date when it opens.
type Offline struct {
	readings
	*closer
	dir     string
	secret  string
	lock    *os.File
	backend backend
	store   eventStore
}

// OpenOffline opens a data folder and the store that belongs to it, see Config. It is refused while a gateway uses
// them, and when there are none. secretKey is needed only by Unopened; "" is the key in the folder. Whoever watches in
// the context (projections.Watch) is told how far the read models are.
func OpenOffline(ctx context.Context, dir, store, secretKey string) (*Offline, error) {
	b, err := backendOf(store, dir, "")
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, eventsFile)); err != nil && b.kind() == "sqlite" {
		return nil, errors.Wrapf(err, "there is no gateway's data in %s", dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, errors.Wrap(err, "data folder")
	}
	lock, err := lockFolder(dir)
	if err != nil {
		return nil, err
	}
	o := &Offline{dir: dir, secret: secretKey, lock: lock, backend: b}
	if err := o.openStore(ctx); err != nil {
		return nil, errors.CombineErrors(err, o.Close())
	}
	model, err := b.openModel(ctx)
	if err != nil {
		return nil, errors.CombineErrors(errors.Wrap(err, "read models"), o.Close())
	}
	catchUp := func(ctx context.Context) error {
		if err := projections.Renew(ctx, o.store, model, projectionList()); err != nil {
			return errors.Wrap(err, "read models")
		}
		runner := projections.NewRunner(projections.Options{Store: o.store, Model: model, Projections: projectionList()})
		return errors.Wrap(errors.CombineErrors(runner.Start(ctx), runner.Stop(ctx)), "read models")
	}
	o.readings.model = model
	if err := catchUp(ctx); err != nil {
		return nil, errors.CombineErrors(err, o.Close())
	}
	if o.closer, err = newOfflineCloser(ctx, dir, o.store, catchUp); err != nil {
		return nil, errors.CombineErrors(err, o.Close())
	}
	o.readings = readings{model, current, o.closer, past{o.store, b, o.closer, &projections.Board{}}, func(string) error { return nil }}
	return o, nil
}

// openStore also stores what the gateway has left in its spool.
func (o *Offline) openStore(ctx context.Context) error {
	store, spool, err := openDrained(ctx, o.backend, o.dir, 0, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	o.store = store
	return spool.Close()
}

// current is readings.ready where nothing is appended.
func current(ctx context.Context) (context.Context, context.CancelFunc, error) {
	return ctx, func() {}, nil
}

// Find reads events; see events.Store.
func (o *Offline) Find(ctx context.Context, q events.Query, yield func(*events.Committed) bool) error {
	return o.store.Find(ctx, q, yield)
}

// Probe makes sure that the store takes a write.
func (o *Offline) Probe(ctx context.Context) error { return o.store.Probe(ctx) }

// Replay rebuilds read models, or verifies them; see admin.Replay.
func (o *Offline) Replay(ctx context.Context, projection string, verify bool) ([]projections.Report, error) {
	return replay(projection, func(p projections.Projection) (projections.Report, error) {
		if verify {
			return projections.Verify(ctx, o.store, o.model, p, o.backend.openShadow(p))
		}
		return projections.Rebuild(ctx, o.store, o.model, p, nil)
	})
}

// Until tells what the books were at a moment; see admin.Past.
func (o *Offline) Until(ctx context.Context, projection string, q billing.Query) ([]admin.Standing, error) {
	return o.past.Until(ctx, projection, q)
}

// Unopened names the accounts whose credential the secret key does not open.
func (o *Offline) Unopened(ctx context.Context) ([]string, error) {
	if o.secret == "" && !secrets.HasKey(o.dir) {
		return nil, errors.Newf("there is no secret key in %s", o.dir)
	}
	key, _, err := secrets.LoadKey(o.dir, o.secret)
	if err != nil {
		return nil, err
	}
	sealer, err := secrets.NewSealer(key)
	if err != nil {
		return nil, err
	}
	_, err = actors.LoadCatalogue(ctx, o.store, vault{sealer}, nil)
	var bad *actors.UnopenedError
	if errors.As(err, &bad) {
		return bad.Accounts, nil
	}
	return nil, err
}

// Upstreams are those of the catalogue.
func (o *Offline) Upstreams(ctx context.Context) ([]*catalog.Upstream, error) {
	state, err := actors.LoadState(ctx, o.store)
	if err != nil {
		return nil, err
	}
	var list []*catalog.Upstream
	for _, r := range state.List(catalog.KindUpstream) {
		list = append(list, r.(*catalog.Upstream))
	}
	return list, nil
}

// Close gives the data folder back.
func (o *Offline) Close() error {
	var err error
	if o.model != nil {
		err = o.model.Close()
	}
	if o.store != nil {
		err = errors.CombineErrors(err, o.store.Close())
	}
	return errors.CombineErrors(err, o.lock.Close())
}
