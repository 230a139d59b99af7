package projections

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/penstock/penstock/events"
)

// ErrOtherWriter stops a runner: the stored rows are ahead of all that it has written, or of another version, so that somebody
// else writes them.
var ErrOtherWriter = errors.New("another process writes the read models; this one has stopped writing them until it is started again")

// comeBack begins from the rows as they are stored, after a commit that did not follow on them (why). There are three ways to
// that. The server has failed over to a replica that lacks the last commits, or somebody has restored the rows: they are
// behind. A commit of which nobody knew the fate had gone through, and more was folded since: they are where it led. Somebody
// else writes: they are anywhere else, and nothing is written any more.
func (r *Runner) comeBack(ctx context.Context, why error) error {
	stored, err := r.o.Model.Checkpoints(ctx)
	if err != nil {
		return fmt.Errorf("read checkpoints: %w", err)
	}
	for _, p := range r.folder.projections {
		if p.done == maxPosition { // it stands still
			continue
		}
		at := find(stored, p.Name())
		switch other := at.Version != 0 && at.Version != p.Version(); {
		case other, at.Position > p.done && !slices.Contains(r.tried, at.Position):
			r.ousted = fmt.Errorf("%w: %s is at %d in version %d, this process is at %d in version %d",
				ErrOtherWriter, p.Name(), at.Position, at.Version, p.done, p.Version())
			r.o.Logger.Error("projections have stopped", "error", r.ousted)
			return r.ousted
		case at.Position < p.done:
			r.o.Logger.Warn("rows were set back, what they lack is folded again", "projection", p.Name(), "position", at.Position, "was", p.done)
		}
	}
	before := r.folder
	if _, err := r.place(ctx); err != nil {
		return fmt.Errorf("begin again after %w: %w", why, err)
	}
	before.drop()
	r.tried = r.tried[:0]
	return nil
}

// place makes a folder that goes on from the stored rows. head is where the store ends.
func (r *Runner) place(ctx context.Context) (head events.Position, err error) {
	removed, err := removedBy(ctx, r.o.Store, maxPosition)
	if err != nil {
		return 0, err
	}
	if head, err = r.o.Store.Head(ctx); err != nil {
		return 0, fmt.Errorf("read head: %w", err)
	}
	tracked, err := r.checkpoints(ctx, removed, head)
	if err != nil {
		return 0, err
	}
	f := newFolder(r.o.Store, tracked)
	f.spoiled = r.spoil
	if err := f.begin(ctx, removed); err != nil {
		return 0, err
	}
	if err := f.prime(ctx, head); err != nil {
		return 0, err
	}
	r.folder = f
	return head, nil
}
