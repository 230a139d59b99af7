package postgres

import (
	"context"
	"maps"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/projections"
)

var _ projections.Tended = (*ReadModel)(nil)

// Tend implements projections.Tended: VACUUM (ANALYZE) of each table. Without it queries go by guesses and look at every row for
// whether it may be seen, until autovacuum comes by, which may be switched off. It holds up neither readers nor commits. A table
// that somebody else is working on (an index that is made, a vacuum) is passed over. Close ends it.
func (m *ReadModel) Tend(ctx context.Context, p projections.Projection) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.life, cancel)()
	settings := writerSettings(false)
	maps.Copy(settings, map[string]string{"lock_timeout": readGiveWayMax, "application_name": "penstock vacuum"})
	c, err := m.at.connect(ctx, settings)
	if err != nil {
		return errors.Wrapf(err, "read model %s", m.at.name)
	}
	defer hangUp(c)
	for _, t := range p.Tables() {
		_, failed := c.PgConn().Exec(ctx, "VACUUM (ANALYZE) "+m.table(t.Name)).ReadAll()
		err = errors.CombineErrors(err, errors.Wrapf(failed, "vacuum table %s", t.Name))
		if c.IsClosed() || ctx.Err() != nil {
			break
		}
	}
	return errors.Wrapf(err, "read model %s", m.at.name)
}
