package postgres

import (
	"context"
	"sync"

	"github.com/cockroachdb/errors"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
)

// ReadSchema is the schema of the living rows.
const ReadSchema = "read"

// ReadModel keeps the rows of projections in tables of a schema of their own, in the types that an auditor's SQL
// wants: amounts in USD as numeric(38,10), moments as timestamptz, texts ordered by bytes. Nothing in it is not told by
// the events. A lost connection is opened anew by the next call.
//
// Texts of an index that are longer than 256 bytes are stored as their beginning and a digest.
type ReadModel struct {
	at   *readAddress
	pool *pgxpool.Pool
	hold *pgx.Conn // of a shadow: while it lives, nobody else removes the schema
	mark string    // of a shadow: comment of its schema
	keep bool      // of a shadow: Close leaves it
	life context.Context
	end  context.CancelFunc

	mu     sync.Mutex // guards what follows
	closed bool
	known  map[string]*readTable // by name
	w      *readWriter           // nil after a fault that its connection may not have survived
}

// OpenReadModel makes the schema "read" of the database and the tables of the projections, as far as they are missing,
// and removes the shadows of programs that have died. Tables of another version of a projection are left for Reset. The
// database must be in UTF8. dsn is a URL or key=value pairs; connect_timeout is 5 s when it says nothing.
func OpenReadModel(ctx context.Context, dsn string, list ...projections.Projection) (*ReadModel, error) {
	return Socket(nil).OpenReadModel(ctx, dsn, list...)
}

// OpenReadModel is that of the package, with connections through the socket.
func (s Socket) OpenReadModel(ctx context.Context, dsn string, list ...projections.Projection) (*ReadModel, error) {
	at, err := parseReadAddress(dsn, ReadSchema, s)
	if err != nil {
		return nil, err
	}
	m, err := newReadModel(ctx, at, nil)
	if err != nil {
		return nil, err
	}
	err = m.setUp(ctx, list)
	if err == nil {
		err = m.sweepShadows(ctx)
	}
	if err == nil {
		err = m.sweepUnwanted(ctx, list)
	}
	if err != nil {
		return nil, errors.CombineErrors(err, m.Close())
	}
	return m, nil
}

func newReadModel(ctx context.Context, at *readAddress, hold *pgx.Conn) (*ReadModel, error) {
	pool, err := pgxpool.NewWithConfig(ctx, at.readers())
	if err != nil {
		return nil, errors.Wrapf(err, "read model %s", at.name)
	}
	m := &ReadModel{at: at, pool: pool, hold: hold, known: map[string]*readTable{}}
	m.life, m.end = context.WithCancel(context.Background())
	return m, nil
}

// setUp creates what is missing.
func (m *ReadModel) setUp(ctx context.Context, list []projections.Projection) error {
	return m.transact(ctx, readCommitMax, func(ctx context.Context, w *readWriter) error {
		if err := w.createSchema(ctx, m.mark); err != nil {
			return err
		}
		for _, p := range list {
			at, err := w.checkpoint(ctx, p.Name())
			if err != nil {
				return err
			}
			if at.Version != 0 && at.Version != p.Version() {
				continue
			}
			if err := w.create(ctx, p); err != nil {
				return err
			}
			at.Version = p.Version()
			if err := w.setCheckpoint(ctx, at, p); err != nil {
				return err
			}
		}
		return nil
	})
}

// Commit implements projections.ReadModel.
func (m *ReadModel) Commit(ctx context.Context, changes *projections.Changes, steps []projections.Step) error {
	return m.transact(ctx, readCommitMax, func(ctx context.Context, w *readWriter) error {
		made, err := w.made(ctx, steps)
		if err != nil || made {
			return err
		}
		if err := w.write(ctx, changes); err != nil {
			return err
		}
		return w.step(ctx, steps)
	})
}

// Reset implements projections.ReadModel. It waits some seconds for those who read the old tables, and fails when
// they go on.
func (m *ReadModel) Reset(ctx context.Context, p projections.Projection) error {
	return m.transact(ctx, readCommitMax, func(ctx context.Context, w *readWriter) error {
		if _, err := w.locked(ctx, []string{p.Name()}); err != nil {
			return err
		}
		if err := w.anew(ctx, p); err != nil {
			return err
		}
		return w.setCheckpoint(ctx, projections.Checkpoint{Projection: p.Name(), Version: p.Version()}, p)
	})
}

// Checkpoints implements projections.ReadModel.
func (m *ReadModel) Checkpoints(ctx context.Context) (list []projections.Checkpoint, err error) {
	var q readQuery
	q.sql.WriteString("SELECT projection, version::bigint, position FROM " + m.table(checkpointsTable) + " ORDER BY projection")
	err = m.each(ctx, &q, func(row []projections.Value) error {
		list = append(list, projections.Checkpoint{
			Projection: row[0].Text(), Version: int(row[1].Int()), Position: events.Position(row[2].Int()),
		})
		return nil
	})
	return list, err
}

func (m *ReadModel) table(name string) string { return tableIn(m.at.schema, name) }

// Close ends what runs. A shadow is removed.
func (m *ReadModel) Close() error {
	m.end()
	m.mu.Lock()
	already := m.closed
	m.closed = true
	m.dropWriter()
	m.mu.Unlock()
	if already {
		return nil
	}
	m.pool.Close()
	switch {
	case m.keep:
		m.letGo()
	case m.hold != nil:
		return m.dropShadow()
	}
	return nil
}
