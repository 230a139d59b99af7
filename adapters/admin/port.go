// Package admin is the control plane: REST over net/http, described in OpenAPI. It decides nothing: it reads wishes,
// names what is wrong with them and shows what others know. What it needs of them is in this file; package penstock
// wires it.
package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/requestlog"
	"github.com/penstock/penstock/projections/stats"
)

// Errors that a port answers with; each has its status. Errors of package catalog keep their meaning.
var (
	ErrNotFound     = errors.New("not found")               // 404
	ErrRemoved      = errors.New("removed by retention")    // 410
	ErrArchive      = errors.New("no archive was written")  // 500, and the answer says why
	ErrPrecondition = errors.New("precondition failed")     // 412: the resource is at another version
	ErrConflict     = errors.New("conflict")                // 409: somebody else wrote at the same time
	ErrUnavailable  = errors.New("temporarily unavailable") // 503: the store takes no writes, or the gateway stops
)

// Unavailable is ErrUnavailable with the reason, which operators are told.
func Unavailable(reason error) error { return fmt.Errorf("%w: %w", ErrUnavailable, reason) }

// Conflict is ErrConflict with the reason.
func Conflict(reason error) error { return fmt.Errorf("%w: %w", ErrConflict, reason) }

// Match is the condition of a change on what is there now: a version from 1 on, or one of the constants.
type Match int64

// Conditions other than a version.
const (
	MatchAny    Match = 0  // no condition
	MatchExists Match = -1 // If-Match: *
	MatchAbsent Match = -2 // If-None-Match: *, and keys that are made
)

// Change is one wish about one resource.
type Change struct {
	Kind     catalog.Kind
	ID       string
	Resource catalog.Resource // the whole new value; nil removes
	Extras   catalog.Extras   // what is said beside the value, such as a credential in plain text
	Match    Match
}

// Options of Apply.
type Options struct {
	DryRun bool // decide and answer, store nothing
	Prune  bool // also remove every resource that the changes do not name
}

// Result is what became of one resource.
type Result string

// The results.
const (
	Created   Result = "created"
	Changed   Result = "changed"
	Unchanged Result = "unchanged"
	Removed   Result = "removed"
)

// Done is what became of one resource.
type Done struct {
	Kind     catalog.Kind    `json:"kind"`
	ID       string          `json:"id"`
	Result   Result          `json:"result" enum:"created,changed,unchanged,removed"`
	Position events.Position `json:"position"`         // of the fact; 0 for unchanged ones and dry runs
	Version  int64           `json:"version"`          // after the change; 0 for removed ones
	Fields   []string        `json:"fields,omitempty"` // of a changed one: what differs
}

// Outcome is what became of a list of changes.
type Outcome struct {
	Revision events.Position // of the catalogue that is in force now
	Done     []Done          // one per change in the order given, then what was pruned
}

// Stored is a resource with its version.
type Stored struct {
	Resource catalog.Resource
	Version  int64
}

// Catalog keeps the configuration. Apply returns when the facts are committed and in force on this node; it stores
// all changes in one append or none, and in whatever order they come: references are judged on the result.
type Catalog interface {
	// Apply's errors are those of package catalog (several may be joined), ErrPrecondition, ErrConflict and
	// ErrUnavailable.
	Apply(ctx context.Context, changes []Change, o Options) (Outcome, error)
	// Get wraps ErrNotFound.
	Get(ctx context.Context, kind catalog.Kind, id string) (Stored, error)
	// List gives resources with an id after the given one, in order of id, at most limit.
	List(ctx context.Context, kind catalog.Kind, after string, limit int) ([]Stored, error)
	Revision() events.Position
}

// Events reads the event store; events.Store does. Limit 0 of the query is no limit.
type Events interface{ events.Finder }

// Billing sums what was billed; billing.Reader does.
type Billing interface {
	Bill(ctx context.Context, q billing.Query) ([]billing.Line, error)
}

// Replay rebuilds read models from events. projection "" is all of them; a name that is none wraps ErrNotFound. With
// verify the rebuilt rows are compared with the live ones and thrown away.
type Replay interface {
	Replay(ctx context.Context, projection string, verify bool) ([]projections.Report, error)
}

// Replays tells of the replays that run at the moment; projections.Board does.
type Replays interface {
	Running() []projections.Running
}

// Past folds the events up to a moment into read models of their own and says what the books were then. projection "" is
// all of them; a name that is none wraps ErrNotFound. The query names the moment, see billing.Query.
type Past interface {
	Until(ctx context.Context, projection string, q billing.Query) ([]Standing, error)
}

// Live is what runs now. Unknown ids wrap ErrNotFound.
type Live interface {
	UpstreamStatus(ctx context.Context, id string) (actors.UpstreamStatus, error)
	// ForceBreaker opens or closes a breaker of an upstream. It wraps actors.ErrNoOwnBreaker when the upstream has none
	// for single accounts and models.
	ForceBreaker(ctx context.Context, id string, w actors.Switch) error
	// BlockAccount takes an account out of service until the given time; nil ends its block.
	BlockAccount(ctx context.Context, id string, until *time.Time) error
	// FreeLease cuts the attempt of a request that holds a slot (attempt 0: whichever does) and waits for its end until ctx
	// ends. It wraps actors.ErrNoLease when none does.
	FreeLease(ctx context.Context, upstream, request string, attempt int, reason string) (actors.FreedLease, error)
}

// Health is what /health shows.
type Health interface {
	Health(ctx context.Context) HealthReport
}

// HealthReport is the state of the gateway.
type HealthReport struct {
	Status      string          `json:"status" enum:"ok,degraded,unavailable"`
	Store       StoreHealth     `json:"store"`
	Projections []ProjectionLag `json:"projections"`
	Draining    bool            `json:"draining"`
}

// StoreHealth is the state of the event store.
type StoreHealth struct {
	Kind     string `json:"kind"`
	Spooling bool   `json:"spooling"` // appends wait in memory or on disk until the store comes back
	Spooled  int64  `json:"spooled"`
}

// ProjectionLag is how many positions a read model is behind.
type ProjectionLag struct {
	Name       string `json:"name"`
	Lag        int64  `json:"lag"`
	Rebuilding bool   `json:"rebuilding,omitempty" doc:"its rows are of another version of the program and stand still; the lag is that of those which will take their place"`
}

// Ports are all of them.
type Ports struct {
	Catalog Catalog
	Log     requestlog.Reader
	Events  Events
	Billing Billing
	Stats   stats.Reader
	Replay  Replay
	Live    Live
	Health  Health
}
