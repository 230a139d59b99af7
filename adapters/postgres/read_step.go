package postgres

import (
	"context"

	"github.com/cockroachdb/errors"
	"github.com/jackc/pgx/v5"

	"github.com/penstock/penstock/projections"
)

// made says that all steps have been made before. It locks their checkpoints until the transaction ends.
func (w *readWriter) made(ctx context.Context, steps []projections.Step) (bool, error) {
	names := make([]string, len(steps))
	for i, s := range steps {
		names[i] = s.Projection
	}
	stored, err := w.locked(ctx, names)
	if err != nil {
		return false, err
	}
	made := 0
	for _, s := range steps {
		at, known := stored[s.Projection]
		switch {
		case !known:
			return false, errors.Newf("the read model was not opened with projection %q", s.Projection)
		case at.Version != s.Version:
			return false, errors.Wrapf(projections.ErrCheckpoint, "%s is of version %d, not %d", s.Projection, at.Version, s.Version)
		case at.Position == s.From:
		case at.Position == s.To:
			made++
		default:
			return false, errors.Wrapf(projections.ErrCheckpoint, "%s is at %d, not at %d", s.Projection, at.Position, s.From)
		}
	}
	if made > 0 && made < len(steps) {
		return false, errors.Wrapf(projections.ErrCheckpoint, "%d of %d steps have been made", made, len(steps))
	}
	return made > 0, nil
}

// locked reads checkpoints and keeps everybody else from writing these projections. Rows are locked in order, so that
// two writers wait for each other in one direction only.
func (w *readWriter) locked(ctx context.Context, names []string) (map[string]projections.Checkpoint, error) {
	rows, err := w.conn.Query(ctx, "SELECT projection, version, position FROM "+w.table(checkpointsTable)+
		" WHERE projection = ANY($1) ORDER BY projection FOR UPDATE", names)
	if err != nil {
		return nil, errors.Wrap(err, "lock checkpoints")
	}
	stored, err := collectCheckpoints(rows)
	return stored, errors.Wrap(err, "lock checkpoints")
}

// collectCheckpoints reads rows of projection, version and position.
func collectCheckpoints(rows pgx.Rows) (map[string]projections.Checkpoint, error) {
	stored := map[string]projections.Checkpoint{}
	var at projections.Checkpoint
	_, err := pgx.ForEachRow(rows, []any{&at.Projection, &at.Version, (*int64)(&at.Position)}, func() error {
		stored[at.Projection] = at
		return nil
	})
	return stored, err
}

// checkpoint reads one, with version and position 0 when there is none.
func (w *readWriter) checkpoint(ctx context.Context, projection string) (projections.Checkpoint, error) {
	stored, err := w.locked(ctx, []string{projection})
	at := stored[projection]
	at.Projection = projection
	return at, err
}

// step moves checkpoints that are there.
func (w *readWriter) step(ctx context.Context, steps []projections.Step) error {
	var names []string
	var versions, positions []int64
	for _, s := range steps {
		names = append(names, s.Projection)
		versions = append(versions, int64(s.Version))
		positions = append(positions, int64(s.To))
	}
	_, err := w.conn.Exec(ctx, "UPDATE "+w.table(checkpointsTable)+` AS have SET version = step.version, position = step.position
		FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS step (projection, version, position)
		WHERE have.projection = step.projection`, names, versions, positions)
	return errors.Wrap(err, "write checkpoints")
}

// setCheckpoint writes a checkpoint, with the names of the tables that belong to the projection.
func (w *readWriter) setCheckpoint(ctx context.Context, at projections.Checkpoint, p projections.Projection) error {
	names := []string{}
	for _, t := range p.Tables() {
		names = append(names, t.Name)
	}
	_, err := w.conn.Exec(ctx, "INSERT INTO "+w.table(checkpointsTable)+` (projection, version, position, tables)
		VALUES ($1, $2, $3, $4) ON CONFLICT (projection) DO UPDATE
		SET version = excluded.version, position = excluded.position, tables = excluded.tables`,
		p.Name(), at.Version, int64(at.Position), names)
	return errors.Wrap(err, "write checkpoint")
}
