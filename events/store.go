package events

import (
	"context"
	"errors"
	"time"
)

// Errors of a store.
var (
	// ErrConflict refuses one append: its expected version is not the stream's, or the request has already ended.
	ErrConflict = errors.New("event stream is at another version")
	// ErrUnavailable is a fault of the store itself (full or failing disk, closed, locked): nothing of the batch
	// was stored, unless the error is ErrInDoubt as well. The same batch may be tried again.
	ErrUnavailable = errors.New("event store unavailable")
	// ErrInDoubt is an ErrUnavailable of an append whose commit may have gone through: the connection was lost while it was
	// under way, and the store cannot be asked. All of the batch is stored or nothing, and that is settled before any later
	// append is. One that repeats it is answered with the positions that it has, or stores it.
	ErrInDoubt error = inDoubt{}
)

type inDoubt struct{}

func (inDoubt) Error() string { return "the commit may have gone through" }
func (inDoubt) Unwrap() error { return ErrUnavailable }

// withoutDoubt is an error about a store as it concerns appends that have not been tried.
type withoutDoubt struct{ error }

func (w withoutDoubt) Is(target error) bool {
	return target != ErrInDoubt && errors.Is(w.error, target)
}
func (w withoutDoubt) As(target any) bool { return errors.As(w.error, target) }

// Result is what became of one append.
type Result struct {
	First Position // of the first row; 0 when Err is set
	Err   error    // nil or wraps ErrConflict
}

// Store is the event store. One writer at a time calls Append; reads may run beside it and never see half an append.
// SQLite, PostgreSQL and memory pass the suite in events/storetest.
type Store interface {
	// Append stores a batch in one commit. Each append stands or falls alone: a conflict is reported in its Result
	// and does not touch its neighbours. An error wraps ErrUnavailable and means that nothing was stored; with ErrInDoubt,
	// that nobody knows yet.
	// Rows must have been encoded. lowWater is the position below which no request is open (see LowWater).
	Append(ctx context.Context, batch []Append, lowWater Position) ([]Result, error)
	// Stream reads the rows of one stream with version ≥ from, in order. yield returning false ends it.
	Stream(ctx context.Context, stream string, from int64, yield func(*Committed) bool) error
	// After reads all rows with a fact after the position, in order of position, facts decoded.
	After(ctx context.Context, after Position, yield func(*Committed) bool) error
	// Find reads rows that match the filter, in order of position, at most q.Limit of them.
	Find(ctx context.Context, q Query, yield func(*Committed) bool) error
	// Head is the position of the last stored fact, 0 for an empty store.
	Head(ctx context.Context) (Position, error)
	// LowWater is a position at or below the first row of every request that was open when the commit that holds
	// position at (0 = the last) was made. Recovery and projections start their reading there.
	LowWater(ctx context.Context, at Position) (Position, error)
	// Secret returns one version of a sealed credential, nil when there is none; version 0 is the newest.
	Secret(ctx context.Context, id string, version int64) (*Secret, error)
	// Chain implements Chain over what is stored. It may be read beside a writer.
	Chain(ctx context.Context, after Position, yield func(*Commit, []RawRow) bool) error
	// Remove takes away at most limit rows of a removal in one commit and says how many: 0 when none is left. Where many can go
	// without holding up any append, it takes them all. Their
	// positions, numbers of facts and hashes stay, for Chain; no other reading shows them. It may be called again at any
	// time, also after a crash. Nothing may be appended any more to the streams that it is about.
	Remove(ctx context.Context, r Removal, limit int) (int, error)
	// Probe writes and commits something harmless: nil means that the store takes appends.
	Probe(ctx context.Context) error
	Close() error
}

// Removal names what retention takes away: all rows of the request streams whose first fact lies between First and Last,
// both included. The last fact of any of them is at Through. Other streams are never removed.
type Removal struct{ First, Last, Through Position }

// RequestStreams is the beginning of the names of request streams.
const RequestStreams = "request/"

// Query selects rows for an audit. Zero fields do not filter.
type Query struct {
	Stream       string
	StreamPrefix string // of the stream, such as "catalog/"
	Request      string
	Key          string
	Upstream     string
	Type         string // a row matches when one of its facts has this name; the caller sees all its facts
	Text         string // a row matches when its payload, the JSON as it is stored, holds it; no index helps
	Since        time.Time
	Until        time.Time // exclusive
	Through      Position  // ascending: no row that begins after it; Newest: none that begins before it. It bounds what is searched
	After        Position  // ascending: positions after it; Newest: positions before it, when set
	Newest       bool      // newest first
	Limit        int
}
