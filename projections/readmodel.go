package projections

import (
	"context"
	"errors"

	"github.com/penstock/penstock/events"
)

// ErrCheckpoint refuses a commit that does not follow on the stored checkpoint: somebody else writes the same rows.
var ErrCheckpoint = errors.New("read model is at another checkpoint")

// Checkpoint says up to where the rows of a projection tell the events.
type Checkpoint struct {
	Projection string
	Version    int
	Position   events.Position // of the last fact that is folded in; 0 before the first
}

// Step moves the checkpoint of a projection.
type Step struct {
	Projection string
	Version    int
	From       events.Position // where it must stand
	To         events.Position
}

// ReadModel stores rows and checkpoints. SQLite, PostgreSQL and memory pass the laws of projections/lawtest. It is
// made for a list of projections, whose tables exist from then on. Its methods may be called at once.
type ReadModel interface {
	// Commit stores changes and steps as one. Steps that have been made already make it do nothing, so a commit of
	// unknown fate may be repeated; other ones are refused with ErrCheckpoint.
	Commit(ctx context.Context, changes *Changes, steps []Step) error
	// Checkpoints are those that have been stored; a projection without one is at 0.
	Checkpoints(ctx context.Context) ([]Checkpoint, error)
	// Reset makes the tables of a projection anew, empty, and its checkpoint 0.
	Reset(ctx context.Context, p Projection) error
	// Replace swaps the rows of a projection for those of another read model's snapshot, and its checkpoint, as one.
	Replace(ctx context.Context, p Projection, with Snapshot, at Checkpoint) error
	// Snapshot is a consistent view of rows and checkpoints that commits do not change. It must be closed.
	Snapshot(ctx context.Context) (Snapshot, error)
	// Serves says that the stored tables of a projection, of whatever version, have all columns that its queries ask for.
	Serves(ctx context.Context, p Projection) (bool, error)
	// Beside opens the shadow of a projection, with the rows and the checkpoint that an interrupted rebuild has left in
	// it. One of another version is thrown away. Of one projection only one may be open.
	Beside(ctx context.Context, p Projection) (Shadow, error)
	Close() error
}

// Tended is a ReadModel whose server reads rows quickly only once it has looked at them, and does that by itself some time after
// they have come.
type Tended interface {
	// Tend has it look at the rows of a projection now. It is for after a Replace, when no snapshot from before is open. Nothing
	// but speed depends on it.
	Tend(ctx context.Context, p Projection) error
}

// tend is Tend of a read model that wants it.
func tend(ctx context.Context, m ReadModel, p Projection) error {
	if t, wants := m.(Tended); wants {
		return t.Tend(ctx, p)
	}
	return nil
}

// Shadow is a read model of one projection whose rows are to take the place of the living ones. It outlives the process
// that folds into it: Close keeps it.
type Shadow interface {
	ReadModel
	// Discard closes and removes it.
	Discard() error
}

// Snapshot is a frozen view. One goroutine may use it.
type Snapshot interface {
	Checkpoint(projection string) (Checkpoint, error) // at 0 when there is none
	// Scan reads all rows of a table in the order of its key.
	Scan(ctx context.Context, t *Table) (Rows, error)
	Close() error
}

// Rows are read one by one. It must be closed.
type Rows interface {
	// Next is the next row; it is valid until the call after. false: there is none, or Err says why.
	Next() ([]Value, bool)
	Err() error
	Close() error
}
