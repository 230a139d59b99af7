package penstock

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/adapters/postgres"
	"github.com/penstock/penstock/adapters/secrets"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
)

// RestoreOptions say where a backup goes. The zero value of a field means what it means in Config.
type RestoreOptions struct {
	DataDir   string
	Store     string
	SecretKey string
	Heads     []events.Head // ends of the chain that are known from elsewhere, whose signatures were checked
}

// restoring is the name in the progress of a restore.
const restoring = "restoring"

// Restore fills the empty store of a gateway that does not run from a backup, of whichever kind of store. All of it is there in the end or,
// after an error and whenever the process dies before, nothing. It is refused while a gateway uses the data folder or the database, when there
// is something in the store, and when the secret key does not open the credentials that are in force. Whoever watches in the context
// (projections.Watch) is told how far it is. The next start makes the read models.
func Restore(ctx context.Context, o RestoreOptions, from io.Reader) (r events.Restored, err error) {
	b, err := backendOf(o.Store, o.DataDir, "")
	if err != nil {
		return r, err
	}
	file, err := events.ReadBackup(from)
	if err != nil {
		return r, err
	}
	if err := os.MkdirAll(o.DataDir, 0o700); err != nil {
		return r, errors.Wrap(err, "data folder")
	}
	lock, err := lockFolder(o.DataDir)
	if err != nil {
		return r, errors.WithHint(err, "stop the gateway before its store is restored")
	}
	defer func() { err = errors.CombineErrors(err, lock.Close()) }()
	if err := o.opens(file.InForce()); err != nil {
		return r, err
	}
	known, err := o.known(file)
	if err != nil {
		return r, err
	}
	store, err := b.openStore(ctx)
	if errors.Is(err, postgres.ErrInUse) {
		err = errors.WithHint(err, "stop the gateway before its store is restored")
	}
	if err != nil {
		return r, errors.Wrap(err, "event store")
	}
	defer func() { err = errors.CombineErrors(err, store.Close()) }()
	r, err = fill(ctx, b, store, file, append(known, o.Heads...))
	switch {
	case errors.Is(err, events.ErrBackup) && len(known) > 0:
		err = errors.WithHintf(err, "it was held against %s, too: move that file away if it is about another store", filepath.Join(o.DataDir, headsFile))
	case errors.Is(err, events.ErrNotEmpty):
		err = errors.WithHint(err, "a backup is restored into a data folder (--data) or a database (--store) in which no gateway has run yet")
	}
	return r, err
}

// fill fills a store if it is empty. What read models there are is of other events then.
func fill(ctx context.Context, b backend, store eventStore, file *events.ExportFile, heads []events.Head) (r events.Restored, err error) {
	head, err := store.Head(ctx)
	if err == nil && head > 0 {
		err = errors.Wrapf(events.ErrNotEmpty, "it has events up to position %d", head)
	}
	if err != nil {
		return r, err
	}
	model, err := b.openModel(ctx)
	if err == nil {
		err = errors.CombineErrors(projections.Forget(ctx, model, projectionList()), model.Close())
	}
	if err != nil {
		return r, errors.Wrap(err, "read models")
	}
	p := projections.Progress{Projection: restoring, To: file.Backup().Position}
	told := 0
	return events.Restore(ctx, store, file, heads, func(at events.Position) {
		if told++; told%tellEvery == 0 {
			p.Position = min(at, p.To)
			projections.Tell(ctx, p)
		}
	})
}

// opens refuses a backup with credentials in force that the secret key does not open, as a start would. It makes no key.
func (o *RestoreOptions) opens(sealed []*events.Secret) error {
	if len(sealed) == 0 {
		return nil
	}
	const remedy = "copy secret.key from the data folder that the backup is of, or set PENSTOCK_SECRET_KEY to the key that was in use there"
	if o.SecretKey == "" && !secrets.HasKey(o.DataDir) {
		return errors.WithHint(errors.Newf("the backup has %d sealed credentials, and there is no secret key in %s", len(sealed), o.DataDir), remedy)
	}
	key, _, err := secrets.LoadKey(o.DataDir, o.SecretKey)
	if err != nil {
		return errors.Wrap(err, "secret key")
	}
	sealer, err := secrets.NewSealer(key)
	if err != nil {
		return err
	}
	var bad []string
	for _, v := range sealed {
		if _, err := sealer.Open(v.ID, v.Version, v.Sealed); err != nil {
			bad = append(bad, v.ID)
		}
	}
	if len(bad) > 0 {
		return errors.WithHint(&actors.UnopenedError{Accounts: bad}, remedy)
	}
	return nil
}

// known are the heads that the data folder knows of the store. When they are behind the end of the backup, what is lost is for an
// operator to say: an audit would ask for it ever after.
func (o *RestoreOptions) known(file *events.ExportFile) ([]events.Head, error) {
	path := filepath.Join(o.DataDir, headsFile)
	text, err := os.ReadFile(path)
	heads, err := headsOf(path, text, err, events.Sum{})
	if err != nil {
		return nil, err
	}
	end := file.Backup().Position
	for i := range heads {
		if heads[i].Position > end {
			return nil, errors.WithHintf(errors.Newf("the backup ends at position %d, and %s knows of events up to position %d at least", end, path, heads[i].Position),
				"take a newer backup; or, if those events are lost, move that file away and keep it: it proves that they were there")
		}
	}
	return heads, nil
}
