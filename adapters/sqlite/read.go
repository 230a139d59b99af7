package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/cockroachdb/errors"
	"github.com/ncruces/go-sqlite3"

	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
)

// readers is how many queries of a read model run at once.
const readers = 4

// ReadModel keeps the rows of projections in a database file of its own. The file holds nothing that the events do not
// tell: it is written with synchronous=NORMAL, may lose its last commits on a power cut, and may be deleted while
// nobody uses it.
type ReadModel struct {
	path    string
	options connOptions
	temp    string // folder to remove at the end; "" unless this is a shadow that ends with its program
	shadow  bool   // only ever read whole: its tables have no secondary indexes
	pool    *pool

	mu     sync.Mutex // guards what follows: the writer
	closed bool
	w      *conn // nil after a fault that it may not have survived; the next write opens another
}

// OpenReadModel opens or creates the file and makes the tables of the projections that are missing. Tables of another
// version of a projection are left for Reset. What programs that died have left in its folder of shadows is removed: nobody else
// may use it.
func OpenReadModel(path string, list ...projections.Projection) (*ReadModel, error) {
	m := newReadModel(path)
	if err := sweepShadows(path, list); err != nil {
		return nil, err
	}
	if err := m.open(list); err != nil {
		return nil, err
	}
	return m, nil
}

// shadowFolder is how the name of a shadow's folder begins.
const shadowFolder = "penstock-shadow-"

// OpenShadow makes an empty read model in a new folder inside dir ("" is that of the system), to fold events into and
// be compared with the living one. Close removes it.
func OpenShadow(dir string, list ...projections.Projection) (*ReadModel, error) {
	temp, err := os.MkdirTemp(dir, shadowFolder)
	if err != nil {
		return nil, errors.Wrap(err, "make folder of shadow read model")
	}
	m := newReadModel(filepath.Join(temp, "read.db"))
	m.temp, m.shadow, m.options.Synchronous = temp, true, "OFF"
	if err := m.open(list); err != nil {
		return nil, errors.CombineErrors(err, os.RemoveAll(temp))
	}
	return m, nil
}

func newReadModel(path string) *ReadModel {
	return &ReadModel{
		path: path, options: connOptions{Synchronous: "NORMAL", CacheKiB: 16 << 10}, pool: newPool(path, connOptions{}, readers),
	}
}

// open makes the tables of the projections; after an error the model is closed.
func (m *ReadModel) open(list []projections.Projection) error {
	err := m.write(context.Background(), func() error { return m.setUp(list) })
	if err == nil {
		return nil
	}
	if isDamaged(err) {
		err = errors.Wrap(err, "the file is damaged; it may be deleted, its rows are rebuilt from the events")
	}
	return errors.CombineErrors(err, m.Close())
}

func isDamaged(err error) bool {
	return errors.Is(err, sqlite3.CORRUPT) || errors.Is(err, sqlite3.NOTADB)
}

// setUp creates what is missing.
func (m *ReadModel) setUp(list []projections.Projection) error {
	err := m.w.Exec(`CREATE TABLE IF NOT EXISTS checkpoints (
		projection TEXT PRIMARY KEY,
		version    INTEGER NOT NULL,
		position   INTEGER NOT NULL,
		tables     TEXT NOT NULL -- space-separated
	) STRICT`)
	if err != nil {
		return err
	}
	for _, p := range list {
		at, err := checkpoint(m.w, p.Name())
		if err != nil {
			return err
		}
		if at.Version != 0 && at.Version != p.Version() {
			continue
		}
		if err := m.createWhole(p); err != nil {
			return err
		}
		at.Projection, at.Version = p.Name(), p.Version()
		if err := m.setCheckpoint(at, p); err != nil {
			return err
		}
	}
	return nil
}

func (m *ReadModel) create(p projections.Projection) error {
	for _, t := range p.Tables() {
		if err := t.Check(); err != nil {
			return err
		}
		if err := m.w.Exec(createTable(t)); err != nil {
			return errors.Wrapf(err, "create table %s", t.Name)
		}
	}
	return nil
}

func (m *ReadModel) createWhole(p projections.Projection) error {
	if err := m.create(p); err != nil {
		return err
	}
	return m.index(p)
}

func (m *ReadModel) anewWhole(p projections.Projection) error {
	if err := m.anew(p); err != nil {
		return err
	}
	return m.index(p)
}

// index makes the secondary indexes. A shadow, which is only ever read whole, has none.
func (m *ReadModel) index(p projections.Projection) error {
	if m.shadow {
		return nil
	}
	for _, t := range p.Tables() {
		for _, index := range t.Indexes {
			if err := m.w.Exec(createIndex(t, index)); err != nil {
				return errors.Wrapf(err, "create index of %s on %v", t.Name, index)
			}
		}
	}
	return nil
}

// Commit implements projections.ReadModel.
func (m *ReadModel) Commit(ctx context.Context, changes *projections.Changes, steps []projections.Step) error {
	return m.write(ctx, func() error {
		made, err := m.made(steps)
		if err != nil || made {
			return err
		}
		for cut := range changes.Cuts() {
			if err := cutRows(m.w, cut); err != nil {
				return errors.Wrapf(err, "take rows away from %s", cut.Table.Name)
			}
		}
		w := rowWriter{c: m.w}
		for c := range changes.All() {
			if err := w.change(c); err != nil {
				return err
			}
		}
		if err := w.flush(); err != nil {
			return err
		}
		return m.step(steps)
	})
}

// made says that all steps have been made before.
func (m *ReadModel) made(steps []projections.Step) (bool, error) {
	made := 0
	for _, s := range steps {
		at, err := checkpoint(m.w, s.Projection)
		switch {
		case err != nil:
			return false, err
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

func (m *ReadModel) step(steps []projections.Step) error {
	for _, step := range steps {
		if err := m.w.exec(`INSERT INTO checkpoints (projection, version, position, tables) VALUES (?, ?, ?, '')
			ON CONFLICT DO UPDATE SET version = excluded.version, position = excluded.position`, func(b *binder) {
			b.text(step.Projection)
			b.integer(int64(step.Version))
			b.integer(int64(step.To))
		}); err != nil {
			return err
		}
	}
	return nil
}

func (m *ReadModel) setCheckpoint(at projections.Checkpoint, p projections.Projection) error {
	if err := m.step([]projections.Step{{Projection: at.Projection, Version: at.Version, To: at.Position}}); err != nil {
		return err
	}
	names := make([]string, 0, 4)
	for _, t := range p.Tables() {
		names = append(names, t.Name)
	}
	return m.w.exec(`UPDATE checkpoints SET tables = ? WHERE projection = ?`, func(b *binder) {
		b.text(strings.Join(names, " "))
		b.text(p.Name())
	})
}

// Checkpoints implements projections.ReadModel.
func (m *ReadModel) Checkpoints(ctx context.Context) (list []projections.Checkpoint, err error) {
	err = m.pool.read(ctx, func(c *conn) error {
		return c.each(`SELECT projection, version, position FROM checkpoints ORDER BY projection`, nil, func(s *sqlite3.Stmt) bool {
			list = append(list, projections.Checkpoint{
				Projection: s.ColumnText(0), Version: s.ColumnInt(1), Position: events.Position(s.ColumnInt64(2)),
			})
			return true
		})
	})
	return list, errors.Wrapf(err, "read checkpoints of %s", m.path)
}

// checkpoint reads one, with version and position 0 when there is none.
func checkpoint(c *conn, projection string) (projections.Checkpoint, error) {
	at := projections.Checkpoint{Projection: projection}
	err := c.each(`SELECT version, position FROM checkpoints WHERE projection = ?`, func(b *binder) { b.text(projection) }, func(s *sqlite3.Stmt) bool {
		at.Version, at.Position = s.ColumnInt(0), events.Position(s.ColumnInt64(1))
		return false
	})
	return at, err
}

// Reset implements projections.ReadModel.
func (m *ReadModel) Reset(ctx context.Context, p projections.Projection) error {
	return m.write(ctx, func() error {
		if err := m.anewWhole(p); err != nil {
			return err
		}
		return m.setCheckpoint(projections.Checkpoint{Projection: p.Name(), Version: p.Version()}, p)
	})
}

// anew drops the tables of a projection, those of an older version too, and creates them, without secondary indexes.
func (m *ReadModel) anew(p projections.Projection) error {
	var names []string
	if err := m.w.each(`SELECT tables FROM checkpoints WHERE projection = ?`, func(b *binder) { b.text(p.Name()) }, func(s *sqlite3.Stmt) bool {
		names = strings.Fields(s.ColumnText(0))
		return false
	}); err != nil {
		return err
	}
	for _, t := range p.Tables() {
		names = append(names, t.Name)
	}
	for _, name := range names {
		if err := m.w.Exec(`DROP TABLE IF EXISTS ` + sqlite3.QuoteIdentifier(name)); err != nil {
			return errors.Wrapf(err, "drop table %s", name)
		}
	}
	return m.create(p)
}

// Replace implements projections.ReadModel. Who reads meanwhile sees the old rows.
func (m *ReadModel) Replace(ctx context.Context, p projections.Projection, with projections.Snapshot, at projections.Checkpoint) error {
	return m.write(ctx, func() error {
		if err := m.anew(p); err != nil {
			return err
		}
		w := rowWriter{c: m.w}
		for _, t := range p.Tables() {
			if err := w.copy(ctx, t, with); err != nil {
				return errors.Wrapf(err, "copy table %s", t.Name)
			}
		}
		if err := m.index(p); err != nil { // sorted at once: less work than row by row
			return err
		}
		return m.setCheckpoint(at, p)
	})
}

// write runs f in a transaction of the writing connection, which is opened anew after a fault.
func (m *ReadModel) write(ctx context.Context, f func() error) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer func() { err = errors.Wrapf(err, "read model %s", m.path) }()
	if m.closed {
		return errClosed
	}
	if m.w == nil {
		if m.w, err = openConn(m.path, m.options); err != nil {
			return err
		}
	}
	alive, err := m.w.writeWithin(ctx, f)
	if !alive {
		_ = m.w.close() // what matters is err
		m.w = nil
	}
	return err
}

// Close closes the file; a shadow is removed.
func (m *ReadModel) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	m.pool.close()
	var err error
	if m.w != nil {
		err = m.w.close()
	}
	if m.temp != "" {
		err = errors.CombineErrors(err, os.RemoveAll(m.temp))
	}
	return err
}
