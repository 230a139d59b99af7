package postgres

import (
	"context"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/migrations"
)

// Pending names the migrations that opening the event store would apply, such as "0002_feed". It changes nothing. A
// database of a newer version is refused as OpenStore refuses it.
func Pending(ctx context.Context, dsn string) (names []string, err error) {
	at, err := parseReadAddress(dsn, "", nil)
	if err != nil {
		return nil, err
	}
	// Names are looked for where the store looks for them.
	delete(at.pool.ConnConfig.RuntimeParams, "search_path")
	c, err := at.connect(ctx, nil)
	if err != nil {
		return nil, errors.Wrap(err, "event store")
	}
	defer hangUp(c)
	n, err := schemaNumber(ctx, c)
	if err != nil {
		return nil, errors.Wrap(err, "event store")
	}
	pending, err := migrations.Pending(migrations.FS, "postgres", n)
	for _, m := range pending {
		names = append(names, m.String())
	}
	return names, errors.Wrap(err, "event store")
}
