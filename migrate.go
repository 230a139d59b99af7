package penstock

import (
	"context"
	"os"
	"path/filepath"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/adapters/postgres"
	"github.com/penstock/penstock/adapters/sqlite"
)

// Migrate brings the schema of an event store up to this version, as Open does too, and names the migrations, such as
// "0002_feed", in order; none when it was up to date. dryRun only names them. It is refused while a gateway uses the data
// folder, and for a store of a newer version. store is as in Config. Whoever watches in the
// context (projections.Watch) is told how far events are that have to be moved.
func Migrate(ctx context.Context, dir, store string, dryRun bool) (names []string, err error) {
	b, err := backendOf(store, dir, "")
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(dir); err == nil || !dryRun {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, errors.Wrap(err, "data folder")
		}
		lock, err := lockFolder(dir)
		if err != nil {
			return nil, err
		}
		defer lock.Close()
	}
	if names, err = b.pending(ctx); err != nil || dryRun || len(names) == 0 {
		return names, err
	}
	s, err := b.openStore(ctx)
	if err != nil {
		return nil, errors.Wrap(err, "event store")
	}
	return names, s.Close()
}

func (b embedded) pending(context.Context) ([]string, error) {
	return sqlite.Pending(filepath.Join(b.dir, eventsFile))
}

func (b server) pending(ctx context.Context) ([]string, error) { return postgres.Pending(ctx, b.dsn) }
