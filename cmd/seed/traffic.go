package main

import (
	"context"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections/history"
)

const (
	blockRequests = 4000 // of one history, all of which end in it
	parallel      = 64   // requests that are open at once
	commitAppends = 4096
	factsPerRow   = 1.75 // about, of these histories
)

// traffic says what to store.
type traffic struct {
	facts int64
	seed  uint64
	keys  int
	days  int
}

// amount is what was stored.
type amount struct{ facts, requests int64 }

// block is a history with what is to be known of it.
type block struct {
	appends []events.Append
	facts   int64
	err     error
}

// fill stores block after block; the next one is made meanwhile.
func (t *traffic) fill(ctx context.Context, store events.Store) (stored amount, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	blocks := make(chan block, 1)
	go func() {
		defer close(blocks)
		t.blocks(ctx, blocks)
	}()
	for b := range blocks {
		if b.err != nil {
			return stored, b.err
		}
		if err := keep(ctx, store, b.appends, events.Position(stored.facts+1)); err != nil {
			return stored, err
		}
		stored.facts += b.facts
		stored.requests += blockRequests
	}
	return stored, ctx.Err()
}

// keep stores the appends of a block that begins at the position.
func keep(ctx context.Context, store events.Store, appends []events.Append, first events.Position) error {
	for len(appends) > 0 {
		batch := appends[:min(commitAppends, len(appends))]
		appends = appends[len(batch):]
		results, err := store.Append(ctx, batch, first)
		if err != nil {
			return err
		}
		for i, r := range results {
			if r.Err != nil {
				return errors.Wrapf(r.Err, "append to %s", batch[i].Rows[0].Stream)
			}
		}
	}
	return nil
}

// blocks makes histories one after the other in time, until they have as many facts as are wanted.
func (t *traffic) blocks(ctx context.Context, to chan<- block) {
	span := time.Duration(t.days) * 24 * time.Hour
	h := history.History{
		Requests: blockRequests, Parallel: parallel, Keys: t.keys, ASCII: true,
		Start: time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC).Add(-span),
		Step:  max(time.Microsecond, time.Duration(float64(span)/(float64(t.facts)/factsPerRow))),
	}
	for n, facts := uint64(0), int64(0); facts < t.facts; n++ {
		h.Seed = t.seed + n<<32
		b := block{}
		b.appends, b.err = h.Appends()
		for i := range b.appends {
			row := &b.appends[i].Rows[0]
			b.facts += int64(len(row.Facts))
			if row.At.After(h.Start) {
				h.Start = row.At
			}
		}
		facts += b.facts
		select {
		case to <- b:
		case <-ctx.Done():
			return
		}
		if b.err != nil {
			return
		}
	}
}
