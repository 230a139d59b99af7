package penstock

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/events"
)

// Backup writes the store as it is now; see admin.Backups. During an outage it is an error: what is in the spool would be missing.
func (g *Gateway) Backup(ctx context.Context, w io.Writer) error {
	if err := g.allStored(ctx); err != nil {
		return err
	}
	c := g.ledger.closer
	c.replays.RLock()
	defer c.replays.RUnlock()
	return g.heldUp(backUp(ctx, g.store, c.auditor, g.config.Version, w))
}

// allStored returns when everything that was appended before is in the store.
func (g *Gateway) allStored(ctx context.Context) error {
	for {
		if fault := g.journal.Diverted(); fault != nil {
			return admin.Unavailable(errors.Wrap(fault, "a backup needs the event store"))
		}
		err := within(ctx, settleMax, g.journal.Sync)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
}

// Backup writes the store of a gateway that does not run, with what it had left in its spool; see Gateway.Backup. It is refused while a
// gateway uses the data folder or the database, and when there is none. version is that of the program.
func Backup(ctx context.Context, dir, store, version string, w io.Writer) (err error) {
	b, err := backendOf(store, dir, "")
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, eventsFile)); err != nil && b.kind() == "sqlite" {
		return errors.Wrapf(err, "there is no gateway's data in %s", dir)
	}
	lock, err := lockFolder(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.CombineErrors(err, lock.Close()) }()
	log := slog.New(slog.DiscardHandler)
	s, spool, err := openDrained(ctx, b, dir, 0, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.CombineErrors(err, errors.CombineErrors(spool.Close(), s.Close())) }()
	a, err := openAuditor(dir, s, log)
	if err != nil {
		return err
	}
	return backUp(ctx, s, a, version, w)
}

// backUp writes a store. Nothing may be taken away meanwhile: the file has to say of what is gone that retention took it.
func backUp(ctx context.Context, store eventStore, a *auditor, version string, w io.Writer) error {
	_, err := events.Backup(ctx, store, events.BackupOptions{
		By: "penstock " + version, At: a.now().UTC(), Sign: func(h *events.Head) { h.Sign(a.key, a.now()) },
		InForce: func(ctx context.Context, at events.Position) (func(*events.Secret) bool, error) {
			return inForce(ctx, store, at)
		},
	}, w)
	if errors.Is(err, events.ErrNotIntact) {
		err = errors.WithHint(err, "it could not be restored; penstock audit verify says more, and audit export writes what is there")
	}
	return err
}

// inForce are the credentials of the configuration at a position: without their key a gateway does not start.
func inForce(ctx context.Context, store events.Store, at events.Position) (func(*events.Secret) bool, error) {
	state, err := actors.LoadState(ctx, upTo{store, at})
	if err != nil {
		return nil, err
	}
	versions := map[string]int64{}
	for _, r := range slices.Concat(state.List(catalog.KindAccount), state.List(catalog.KindWebhook)) {
		s := r.(catalog.Sealed)
		versions[s.SecretID()], _ = s.Secret()
	}
	return func(v *events.Secret) bool { return versions[v.ID] == v.Version }, nil
}

// upTo is a store as it was at a position, for searches that go forward.
type upTo struct {
	events.Store
	head events.Position
}

// Find implements events.Store.
func (u upTo) Find(ctx context.Context, q events.Query, yield func(*events.Committed) bool) error {
	if u.head == 0 {
		return nil
	}
	q.Through = u.head
	return u.Store.Find(ctx, q, yield)
}
