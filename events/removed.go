package events

import (
	"context"
	"fmt"

	"github.com/penstock/penstock/domain/books"
)

// Finder searches events, as a Store does.
type Finder interface {
	Find(ctx context.Context, q Query, yield func(*Committed) bool) error
}

// EachRemoved visits what retention may have taken away, with the position at which it was said: it says so before it does. Only
// such facts are read: the closings in the same stream are large.
func EachRemoved(ctx context.Context, s Finder, visit func(*books.Removed, Position)) error {
	err := s.Find(ctx, Query{Stream: books.Stream, Type: "books.removed"}, func(c *Committed) bool {
		for i, f := range c.Facts {
			if f, ok := f.(*books.Removed); ok {
				visit(f, c.Position+Position(i))
			}
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("read what was removed: %w", err)
	}
	return nil
}
