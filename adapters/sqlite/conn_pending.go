package sqlite

import (
	"io/fs"
	"os"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/migrations"
)

// Pending names the migrations that opening the event store would apply, such as "0002_feed": all of them when there is
// no file yet, and the one whose move of rows to pages was broken off. It changes nothing. A file of a newer version is refused
// as OpenStore refuses it.
func Pending(path string) (names []string, err error) {
	at, moving := int64(0), false
	switch info, err := os.Stat(path); {
	case err == nil && info.Size() > 0:
		if at, moving, err = numberOf(path); err != nil {
			return nil, errors.Wrapf(err, "event store %s", path)
		}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, errors.Wrap(err, "event store")
	}
	if moving {
		names = append(names, pagesMigration)
	}
	pending, err := migrations.Pending(migrations.FS, "sqlite", at)
	for _, m := range pending {
		names = append(names, m.String())
	}
	return names, errors.Wrapf(err, "event store %s", path)
}

// numberOf is the number of the last migration that a file has seen. moving: rows are still to be moved to pages.
func numberOf(path string) (n int64, moving bool, err error) {
	c, err := openConn(path, connOptions{QueryOnly: true})
	if err != nil {
		return 0, false, err
	}
	left := int64(0)
	if n, err = schemaNumber(c); err == nil {
		left, err = c.integer(countAppended)
	}
	return n, left > 0, errors.CombineErrors(err, c.close())
}
