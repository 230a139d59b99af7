package projections

import (
	"context"

	"github.com/penstock/penstock/events"
)

// Progress says how far a replay is.
type Progress struct {
	Projection string
	Position   events.Position // folded and written
	To         events.Position // where it ends
}

type watchKey struct{}

// Watch lets f know of the progress of replays that run in the context, after each of their commits. f is called by the
// goroutine that folds, and holds it up.
func Watch(ctx context.Context, f func(Progress)) context.Context {
	return context.WithValue(ctx, watchKey{}, f)
}

func tell(ctx context.Context, p Progress) {
	if f, ok := ctx.Value(watchKey{}).(func(Progress)); ok {
		f(p)
	}
}
