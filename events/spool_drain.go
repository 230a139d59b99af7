package events

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// drainer carries a spool into the store, group by group. Groups come in order, and one that failed comes again before
// anything behind it, so that the store has a beginning of the spool at any time, and the streams stay in order.
type drainer struct {
	store Store
	spool *Spool
	low   func() Position

	most      int              // appends of the next group; falls when the store fails, for a group may be too much for it
	doubtful  int64            // so many appends at the beginning of the spool may be stored already
	unordered map[[32]byte]int // appends of unnumbered rows that were stored, by content
	hasher    Hasher
}

// step stores the next group; an empty one says that there is none. A failure of the store wraps ErrUnavailable; any other
// error is one of the spool.
func (d *drainer) step(ctx context.Context, most int) (group []spooled, results []Result, err error) {
	if d.most = min(d.most, most); d.most == 0 {
		d.most = most
	}
	if group, err = d.spool.read(d.most); err != nil || len(group) == 0 {
		return nil, nil, err
	}
	results = make([]Result, len(group))
	if d.doubtful > 0 {
		if err := d.resolve(ctx, group, results); err != nil {
			return nil, nil, d.failed(err, len(group))
		}
	}
	var batch []Append
	var places []int
	for i := range group {
		if results[i].First == 0 {
			batch, places = append(batch, group[i].Append), append(places, i)
		}
	}
	if len(batch) > 0 {
		stored, err := d.store.Append(ctx, batch, d.low())
		if err != nil {
			return nil, nil, d.failed(err, len(group))
		}
		for k, i := range places {
			results[i] = stored[k]
			group[i].Append = batch[k] // with its versions
		}
	}
	d.remember(group)
	d.doubtful = max(0, d.doubtful-int64(len(group)))
	d.most *= 2
	if err := d.spool.took(group); err != nil {
		d.spool.log.Error("a file of the spool can not be removed", "error", err)
	}
	return group, results, nil
}

func (d *drainer) failed(err error, n int) error {
	d.doubtful = max(d.doubtful, int64(n))
	d.most = max(1, n/2)
	return unavailable(err)
}

func unavailable(err error) error {
	if errors.Is(err, ErrUnavailable) {
		return err
	}
	return errors.Join(ErrUnavailable, err)
}

// resolve finds, among appends that may be stored, those of which the store alone can not tell. Rows with a version are
// told by their place in the stream: the store answers their repetition with the position that they have. Rows of
// actors and nodes come without one, and a store remembers for a while at best which of them it has numbered: they are looked
// for by their content, which has a time in microseconds. The k-th append of one content is stored when the stream has k.
func (d *drainer) resolve(ctx context.Context, group []spooled, results []Result) error {
	found := map[string]map[[32]byte][]place{} // by stream and content, in order
	seen := map[[32]byte]int{}
	for i := range group {
		if !group[i].unnumbered {
			continue
		}
		r := &group[i].Rows[0]
		if found[r.Stream] == nil {
			places, err := d.lookUp(ctx, group, r.Stream)
			if err != nil {
				return err
			}
			found[r.Stream] = places
		}
		content := d.content(r)
		k := d.unordered[content] + seen[content]
		seen[content]++
		if places := found[r.Stream][content]; k < len(places) {
			results[i].First, r.Version = places[k].at, places[k].version
		}
	}
	return nil
}

// place of a stored row.
type place struct {
	at      Position
	version int64
}

// lookUp reads the rows of a stream from the time of those in the group.
func (d *drainer) lookUp(ctx context.Context, group []spooled, stream string) (map[[32]byte][]place, error) {
	q := Query{Stream: stream}
	for i := range group {
		if r := &group[i].Rows[0]; r.Stream == stream && group[i].unnumbered {
			if q.Since.IsZero() || r.At.Before(q.Since) {
				q.Since = r.At
			}
			if end := r.At.Add(time.Microsecond); end.After(q.Until) {
				q.Until = end
			}
		}
	}
	places := map[[32]byte][]place{}
	err := FindReadable(ctx, d.store, q, func(c *Committed) {
		content := d.content(&c.Row)
		places[content] = append(places[content], place{c.Position, c.Version})
	}, nil) // what cannot be read is none of ours
	return places, err
}

// content is what tells a row from others of its stream.
func (d *drainer) content(r *Row) [32]byte {
	plain := *r
	plain.Version = AnyVersion
	return d.hasher.Row(0, &plain)
}

// contentsMax bounds the contents that are remembered. They matter only to rows of the same microsecond.
const contentsMax = 1 << 14

func (d *drainer) remember(group []spooled) {
	if d.unordered == nil || len(d.unordered) > contentsMax {
		d.unordered = map[[32]byte]int{}
	}
	for i := range group {
		if r := &group[i].Rows[0]; group[i].unnumbered {
			d.unordered[d.content(r)]++
		}
	}
}

// Drain stores what an earlier process has left in its spool, before anything else is read from the store or appended to
// it, and removes it. It must be called with an empty spool too, before the spool is given to a journal. The error wraps
// ErrSpoolForeign for another store than the one that the spool is from, and ErrUnavailable when the store fails; what is
// stored then is not stored again by the next try, nor after a crash.
func (s *Spool) Drain(ctx context.Context, store Store) (drained int64, err error) {
	if err := s.belongsTo(ctx, store); err != nil {
		return 0, fmt.Errorf("drain the spool: %w", err)
	}
	if s.Len() == 0 {
		return 0, nil
	}
	low, err := store.LowWater(ctx, 0) // still right: what begins now comes behind it
	if err != nil {
		return 0, fmt.Errorf("drain the spool: %w", unavailable(err))
	}
	d := &drainer{store: store, spool: s, low: func() Position { return low }}
	for s.Len() > 0 {
		d.doubtful = s.Len()
		group, results, err := d.step(ctx, drainMax)
		if err != nil {
			return drained, fmt.Errorf("drain the spool: %w", err)
		}
		for i := range group {
			if results[i].Err != nil {
				logRefused(s.log, group[i].Append, results[i].Err)
			}
		}
		drained += int64(len(group))
	}
	return drained, s.clear()
}

// belongsTo refuses the spool of another store, and takes the name of this one. A store is named by the hash of its first
// commit, which no removal takes away: addresses change, and a spool stays behind when another store is set. A store that
// was empty has no name yet: what it left in a spool goes to any. The journal asks again after the first commit.
func (s *Spool) belongsTo(ctx context.Context, store Store) error {
	var origin [32]byte
	err := store.Chain(ctx, 0, func(c *Commit, _ []RawRow) bool { origin = c.Hash; return false })
	if err != nil {
		return unavailable(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.segments {
		if g.origin != [32]byte{} && g.origin != origin {
			return fmt.Errorf("%w: %s: its store begins with %x, this one with %x", ErrSpoolForeign, g.name, g.origin[:4], origin[:4])
		}
	}
	s.origin = origin
	return nil
}

// named says that the store has a name.
func (s *Spool) named() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.origin != [32]byte{}
}

// drainMax bounds the appends of one group of Drain.
const drainMax = 512
