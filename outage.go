package penstock

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/adapters/spool"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections/billing"
)

// Values of Config.OnStoreDown.
const (
	spoolOnStoreDown  = "spool"
	rejectOnStoreDown = "reject"
)

// spoolFolder is in the data folder; it is there only while something is in it, or was.
const spoolFolder = "spool"

// openDrained opens the event store and stores what an outage has left in the spool, before anything is read. A store that
// is still away then is an error: without it there is no catalogue, and nothing could be served. It is for whoever started
// the process to try again.
func openDrained(ctx context.Context, b backend, dir string, bytesMax int64, log *slog.Logger) (eventStore, *events.Spool, error) {
	sp, err := events.OpenSpool(events.SpoolOptions{Folder: spool.Folder(filepath.Join(dir, spoolFolder)), BytesMax: bytesMax, Logger: log})
	if err != nil {
		return nil, nil, spoolHint(err, dir)
	}
	waiting := sp.Len()
	store, err := b.openStore(ctx)
	if err != nil {
		err = errors.Wrap(err, "event store")
		if waiting > 0 {
			err = errors.Wrapf(err, "%d appends of the last outage wait in %s for the event store", waiting, filepath.Join(dir, spoolFolder))
		}
		return nil, nil, errors.CombineErrors(err, sp.Close())
	}
	drained, err := sp.Drain(ctx, store)
	if err != nil {
		return nil, nil, spoolHint(errors.CombineErrors(err, errors.CombineErrors(sp.Close(), store.Close())), dir)
	}
	if drained > 0 {
		log.Info("stored what the last outage had left in the spool", "appends", drained)
	}
	return store, sp, nil
}

// spoolHint says what to do with a spool that can not be stored: the gateway does not decide what may be lost.
func spoolHint(err error, dir string) error {
	folder := filepath.Join(dir, spoolFolder)
	switch {
	case errors.Is(err, events.ErrSpoolCorrupt):
		return errors.WithHintf(err, "nothing was thrown away; keep a copy of %s, and move that file out of it to start without the requests in it", folder)
	case errors.Is(err, events.ErrSpoolForeign):
		return errors.WithHintf(err, "set the store that was in use when it was written, or move %s elsewhere to start without the requests in it", folder)
	}
	return err
}

const (
	settleMax = 2 * time.Second // between looks at whether the store is still there, while somebody waits for what it has
	answerMax = 2 * time.Second // of a question about the read models during an outage
)

// ready returns when the read models have everything that was appended before. During an outage they are asked for what
// they have, within the context that comes back: there may be nobody to answer, or no room for what they lack.
func (g *Gateway) ready(ctx context.Context) (context.Context, context.CancelFunc, error) {
	for !g.journal.Stats().Spooling {
		err := within(ctx, settleMax, g.settledNow)
		if err == nil {
			return ctx, func() {}, nil
		}
		if ctx.Err() != nil {
			return nil, nil, err
		}
		if g.journal.Fault() != nil {
			break
		}
		if !errors.Is(err, context.DeadlineExceeded) && !g.journal.Stats().Spooling {
			return nil, nil, g.heldUp(err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, answerMax)
	return ctx, cancel, nil
}

// readable is ready for those who read the events, which an outage has taken away: then it is an error at once.
func (g *Gateway) readable(ctx context.Context) error {
	if fault := g.journal.Fault(); fault != nil && g.journal.Stats().Spooling {
		return admin.Unavailable(fault)
	}
	_, cancel, err := g.ready(ctx)
	if err == nil {
		cancel()
	}
	return err
}

// heldUp says of what has failed while events or rows can not be stored that it is for the time being.
func (g *Gateway) heldUp(err error) error {
	well := g.journal.Diverted() == nil && g.runner.Err() == nil
	if err == nil || well || errors.IsAny(err, admin.ErrUnavailable, billing.ErrQuery, context.Canceled) {
		return err
	}
	return admin.Unavailable(err)
}

func within(ctx context.Context, most time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return f(ctx)
}

// booksSettled is settledNow for those who add up what is there, or take it away: during an outage it is an error, and
// while a projection is rebuilt, which needs the events.
func (g *Gateway) booksSettled(ctx context.Context) error {
	if err := g.journal.Diverted(); err != nil {
		return err
	}
	if err := g.runner.Rebuilding(""); err != nil {
		return err
	}
	return g.settledNow(ctx)
}

// answer reads the read models once they have caught up, or during an outage as they are, and that of a projection that
// is rebuilt as it was before. projection "" is none of them.
func answer[Q, A any](ctx context.Context, b readings, projection string, q Q, read func(context.Context, Q) (A, error)) (A, error) {
	var none A
	if projection != "" {
		if err := b.serves(projection); err != nil {
			return none, err
		}
	}
	limited, cancel, err := b.ready(ctx)
	if err != nil {
		return none, err
	}
	defer cancel()
	a, err := read(limited, q)
	if err != nil && limited != ctx && !errors.Is(err, admin.ErrNotFound) {
		return none, admin.Unavailable(err)
	}
	return a, err
}

// stopRunner writes the rest of the read models, unless nobody is there to take it: the next start reads it from the store.
func (g *Gateway) stopRunner(ctx context.Context, away bool) error {
	if !away {
		return g.runner.Stop(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	if err := g.runner.Stop(ctx); err != nil {
		g.log.Info("the next start brings the read models up to date", "error", err)
	}
	return nil
}
