package postgres

import (
	"context"
	"fmt"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/migrations"
)

// Pending names the migrations that opening the event store would apply, such as "0002_feed". It changes nothing. A
// database of a newer version is refused as OpenStore refuses it.
func Pending(ctx context.Context, dsn string) (names []string, err error) {
	known, err := migrations.List(migrations.FS, "postgres")
	if err != nil {
		return nil, err
	}
	at, err := parseReadAddress(dsn, "")
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
	if last := known[len(known)-1].Number; n > last {
		return nil, errors.Wrapf(ErrNewerSchema, "event store: schema %d, this program knows %d", n, last)
	}
	for _, m := range known[n:] {
		names = append(names, fmt.Sprintf("%04d_%s", m.Number, m.Name))
	}
	return names, nil
}
