package events

import (
	"context"
	"errors"
)

// FindReadable finds as Store.Find does, and goes on behind rows that cannot be decoded. unreadable hears of each of them, in its
// place; it may be nil.
func FindReadable(ctx context.Context, s Store, q Query, yield func(*Committed), unreadable func(*DecodeError)) error {
	for {
		err := s.Find(ctx, q, func(c *Committed) bool {
			q.After = c.Last()
			yield(c)
			return true
		})
		var bad *DecodeError
		if !errors.As(err, &bad) {
			return err
		}
		if q.After = bad.Last; unreadable != nil {
			unreadable(bad)
		}
	}
}
