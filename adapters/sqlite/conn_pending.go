package sqlite

import (
	"io/fs"
	"os"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/migrations"
)

// Pending names the migrations that opening the event store would apply, such as "0002_feed": all of them when there is
// no file yet. It changes nothing. A file of a newer version is refused as OpenStore refuses it.
func Pending(path string) (names []string, err error) {
	at := int64(0)
	switch info, err := os.Stat(path); {
	case err == nil && info.Size() > 0:
		if at, err = numberOf(path); err != nil {
			return nil, errors.Wrapf(err, "event store %s", path)
		}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, errors.Wrap(err, "event store")
	}
	pending, err := migrations.Pending(migrations.FS, "sqlite", at)
	for _, m := range pending {
		names = append(names, m.String())
	}
	return names, errors.Wrapf(err, "event store %s", path)
}

func numberOf(path string) (int64, error) {
	c, err := openConn(path, connOptions{QueryOnly: true})
	if err != nil {
		return 0, err
	}
	n, err := schemaNumber(c)
	return n, errors.CombineErrors(err, c.close())
}
