package penstock

import (
	"context"
	"fmt"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
)

// retain takes away what the settings allow: first it says so, then projections follow, then rows go. What was said is done
// also when more can not be said: where an archive can not be written because the disk is full, that makes room.
func (c *closer) retain(ctx context.Context, book *books.Ledger, version int64) error {
	failed := c.release(ctx, book, version)
	c.note(book)
	if len(book.Removed) == 0 || ctx.Err() != nil {
		return failed
	}
	if err := c.settled(ctx); err != nil {
		return errors.CombineErrors(failed, err)
	}
	return errors.CombineErrors(failed, c.removeAll(ctx, book))
}

// release says what may go from now on. A day whose archive can not be written holds up only those after it.
func (c *closer) release(ctx context.Context, book *books.Ledger, version int64) error {
	settings, err := c.settings()
	if err != nil {
		return err
	}
	folder, err := c.folder()
	if err != nil {
		return err
	}
	today := c.now().UTC()
	for _, f := range book.Forget(today, settings.RetentionEvents) {
		gone := &books.Removed{Day: f.Day, Span: f.Span}
		if folder != "" && f.Archive == nil { // the folder was set later
			if gone.Archive, err = c.archive(ctx, folder, &f); err != nil {
				return unarchived(err, f.Day)
			}
		}
		if err := c.say(ctx, book, &version, gone); err != nil {
			return err
		}
		c.log.Info("events of a closed day are taken away", "day", f.Day, "events", f.Facts)
	}
	if f := book.Trim(today, settings.RetentionLog); f != nil {
		return c.say(ctx, book, &version, &books.Trimmed{Day: f.Day, Last: f.Last})
	}
	return nil
}

// removeAll takes away the rows of all days of which that was said, as far as they are still there.
func (c *closer) removeAll(ctx context.Context, book *books.Ledger) error {
	var days []*books.Closed
	for i := range book.Closed {
		if f := &book.Closed[i]; book.Removed[f.Day] {
			days = append(days, f)
		}
	}
	r := newRemoving(days)
	for _, f := range days {
		r.day(ctx, f)
		if err := c.remove(ctx, f.Span, func(n int) { r.took(ctx, n) }); err != nil {
			return errors.Wrapf(err, "take away the events of %s", f.Day)
		}
	}
	return nil
}

// remove takes away the rows of a span that are still there. It rests as long as it works.
func (c *closer) remove(ctx context.Context, s books.Span, took func(rows int)) error {
	r := events.Removal{First: events.Position(s.First), Last: events.Position(s.Last), Through: events.Position(s.Through)}
	for {
		begun := time.Now()
		n, err := c.removeSome(ctx, r)
		if n == 0 || err != nil {
			return err
		}
		took(n)
		rest := time.NewTimer(time.Since(begun))
		select {
		case <-rest.C:
		case <-ctx.Done():
			rest.Stop()
			return ctx.Err()
		}
	}
}

func (c *closer) removeSome(ctx context.Context, r events.Removal) (int, error) {
	if err := patiently(ctx, c.replays.TryLock); err != nil {
		return 0, err
	}
	defer c.replays.Unlock()
	return c.chain.Remove(ctx, r, removalBatch)
}

// removing counts what is taken away of some days, for those who watch. What an earlier process has taken of them already
// is counted when their turn is over.
type removing struct {
	projections.Progress
	begun, days int
	through     events.Position // rows of the days up to the one at hand
}

func newRemoving(days []*books.Closed) *removing {
	r := &removing{Progress: projections.Progress{Projection: removingEvents, Unit: "rows"}, days: len(days)}
	for _, f := range days {
		r.To += events.Position(f.Rows)
	}
	return r
}

// day goes on to the next one.
func (r *removing) day(ctx context.Context, f *books.Closed) {
	r.begun++
	r.Part = fmt.Sprintf("%s, day %d of %d", f.Day, r.begun, r.days)
	r.Position = r.through
	r.through += events.Position(f.Rows)
	projections.Tell(ctx, r.Progress)
}

// took counts rows of the day.
func (r *removing) took(ctx context.Context, n int) {
	r.Position = min(r.Position+events.Position(n), r.through)
	projections.Tell(ctx, r.Progress)
}
