package projections

import (
	"time"

	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// Projection is a fold of events into row changes. Its methods are pure: the same facts in the same order give the
// same rows, whenever and however often they are folded.
type Projection interface {
	// Name is that of the checkpoint: one short noun, for ever.
	Name() string
	// Version rises with every change of Tables or Fold; rows of another version are thrown away and rebuilt.
	Version() int
	Tables() []*Table
	// Fold emits the row changes that follow from one fact. story is that of the fact's request, the fact included;
	// nil for a fact that belongs to no request. It must not be kept, except by what is given to Changes.PutLater: when
	// that is called, the story may tell of later facts, too.
	Fold(story *request.Story, fact events.Fact, at Place, out *Changes)
}

// Place says where a fact stands.
type Place struct {
	Position events.Position
	First    events.Position // of the request's first fact; 0 without a request, or when that fact is not stored any more
	More     bool            // further facts of the same append follow, so that a row may wait for them
	At       time.Time
	Stream   string
	Node     string
}
