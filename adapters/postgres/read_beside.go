package postgres

import (
	"context"
	"fmt"
	"hash/fnv"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/projections"
)

// The schema of a shadow that takes the place of living rows is known by its name, with the projection and its version,
// and its comment.
const (
	besidePrefix = "read_rebuild_"
	besideMark   = "rows that are folded again to take the place of the living ones; removed when they have"
)

func besideSchema(p projections.Projection) string {
	return fmt.Sprintf("%s%s_v%d", besidePrefix, p.Name(), p.Version())
}

// besideLock is the second number of the lock of such a schema.
func besideLock(schema string) int32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(schema)) // never fails
	return int32(h.Sum32())
}

// shadowSchema is a read model in a schema beside the living one.
type shadowSchema struct{ *ReadModel }

// Beside implements projections.ReadModel. The shadow is a schema, which keeps what was committed when the program is
// killed. Its tables are not logged: after a crash of the server they are empty, all at once, and so is their
// checkpoint. It waits for a program that has it open.
func (m *ReadModel) Beside(ctx context.Context, p projections.Projection) (projections.Shadow, error) {
	at := *m.at
	at.schema = besideSchema(p)
	at.name = "shadow " + at.schema + " of " + m.at.name
	if err := m.sweepBeside(ctx, func(schema string) bool {
		return schema != at.schema && isOf(schema, p)
	}); err != nil {
		return nil, err
	}
	hold, err := at.connect(ctx, writerSettings(true))
	if err != nil {
		return nil, errors.Wrapf(err, "open %s", at.name)
	}
	const lock = "SELECT pg_advisory_lock($1, $2)"
	if _, err = hold.Exec(ctx, "SET lock_timeout = 0"); err == nil {
		_, err = hold.Exec(ctx, lock, lockBeside, besideLock(at.schema))
	}
	if err != nil {
		hangUp(hold)
		return nil, errors.Wrapf(err, "open %s", at.name)
	}
	s, err := newReadModel(ctx, &at, hold)
	if err != nil {
		hangUp(hold)
		return nil, err
	}
	s.mark, s.keep = besideMark, true
	if err := s.setUp(ctx, []projections.Projection{p}); err != nil { // Close leaves what may not be ours
		return nil, errors.CombineErrors(err, s.Close())
	}
	return shadowSchema{s}, nil
}

// isOf says that a schema is of a projection, of whatever version.
func isOf(schema string, p projections.Projection) bool {
	var version int
	n, err := fmt.Sscanf(schema, besidePrefix+p.Name()+"_v%d", &version)
	return n == 1 && err == nil
}

// letGo leaves a shadow to whoever opens it next. The end of the connection would do that too, a little later.
func (m *ReadModel) letGo() {
	ctx, cancel := context.WithTimeout(context.Background(), readCleanMax)
	defer cancel()
	_, _ = m.hold.Exec(ctx, "SELECT pg_advisory_unlock($1, $2)", lockBeside, besideLock(m.at.schema))
	hangUp(m.hold)
}

// Discard implements projections.Shadow.
func (s shadowSchema) Discard() error {
	s.keep = false
	return s.Close()
}

// sweepBeside drops the shadows that are not to be kept, as far as nobody has them open.
func (m *ReadModel) sweepBeside(ctx context.Context, unwanted func(schema string) bool) error {
	return m.sweep(ctx, besidePrefix, besideMark, lockBeside, func(schema string) (int32, bool) {
		return besideLock(schema), unwanted(schema)
	})
}

// sweepUnwanted drops the shadows that no projection of the list would go on with.
func (m *ReadModel) sweepUnwanted(ctx context.Context, list []projections.Projection) error {
	wanted := map[string]bool{}
	for _, p := range list {
		wanted[besideSchema(p)] = true
	}
	return m.sweepBeside(ctx, func(schema string) bool { return !wanted[schema] })
}

// Serves implements projections.ReadModel.
func (m *ReadModel) Serves(ctx context.Context, p projections.Projection) (bool, error) {
	tables, err := readTables(p)
	if err != nil {
		return false, err
	}
	for _, t := range tables {
		var q readQuery
		q.sql.WriteString(`SELECT attname::text COLLATE "C", atttypid::bigint FROM pg_attribute
			WHERE attrelid = to_regclass(` + q.arg(m.table(t.Name)) + `) AND attnum > 0 AND NOT attisdropped`)
		kinds := map[string]uint32{}
		err := m.each(ctx, &q, func(row []projections.Value) error {
			kinds[row[0].Text()] = uint32(row[1].Int())
			return nil
		})
		if err != nil {
			return false, err
		}
		for i, c := range t.Columns {
			if kinds[c.Name] != t.kinds[i].oid {
				return false, nil
			}
		}
	}
	return true, nil
}
