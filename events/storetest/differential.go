package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// Differential does the same random work, determined by the seed, with an oracle and with another store, and wants the
// same answers, hashes included. open opens the other store on the same data each time; it is called again in the
// middle, at times after Close and at times without, as after a crash.
func Differential(t *testing.T, seed uint64, oracle events.Store, open func(t *testing.T) events.Store) {
	d := &differential{T: t, Rand: rand.New(rand.NewPCG(seed, 7)), oracle: oracle, other: open(t), versions: map[string]int64{}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("to repeat: go test -run '%s$' in this package", t.Name())
		}
	})
	for range 40 {
		switch {
		case d.IntN(12) == 0:
			require.NoError(t, d.other.Close())
			d.other = open(t)
		case d.IntN(12) == 0:
			d.other = open(t) // the one before is dropped as it is
		case d.IntN(8) == 0:
			require.NoError(t, d.oracle.Probe(context.Background()))
			require.NoError(t, d.other.Probe(context.Background()))
		}
		d.append()
		d.compare()
	}
}

type differential struct {
	*testing.T
	*rand.Rand
	oracle, other events.Store
	versions      map[string]int64 // roughly: what the streams have reached
	past          []events.Append
}

func (d *differential) append() {
	batch := make([]events.Append, d.IntN(12))
	for i := range batch {
		if len(d.past) > 0 && d.IntN(6) == 0 {
			batch[i] = d.past[d.IntN(len(d.past))] // a retry, or a conflict
			continue
		}
		batch[i] = d.some()
	}
	low := events.Position(d.Int64N(50))
	mine, yours := clone(batch), clone(batch)
	want, err := d.oracle.Append(context.Background(), mine, low)
	require.NoError(d, err)
	got, err := d.other.Append(context.Background(), yours, low)
	require.NoError(d, err)
	for i := range want {
		require.Equal(d, want[i].First, got[i].First, "append %d", i)
		require.Equal(d, errors.Is(want[i].Err, events.ErrConflict), errors.Is(got[i].Err, events.ErrConflict), "append %d: %v", i, got[i].Err)
	}
	require.Equal(d, mine, yours, "the versions of the rows")
	for i, a := range batch {
		for _, r := range a.Rows {
			if want[i].Err == nil {
				d.versions[r.Stream] += int64(len(r.Facts))
			}
		}
		if len(d.past) < 200 {
			d.past = append(d.past, a)
		}
	}
}

// some makes an append of one to three rows; most of them expect about the right version.
func (d *differential) some() (a events.Append) {
	for range 1 + d.IntN(4)*d.IntN(2) {
		stream := fmt.Sprintf([]string{"request/%d", "upstream/%d", "catalog/key/%d"}[d.IntN(3)], d.IntN(6))
		r := events.Row{
			Stream: stream, Version: d.versions[stream] + d.Int64N(2)*(d.Int64N(5)-2), Terminal: d.IntN(5) == 0,
			At: start.Add(time.Duration(d.Int64N(1e12))), Node: d.pick("", "n1", "n2"),
			Request: d.pick("", "0", "1", "2"), Key: d.pick("", "k1", "k2"), Upstream: d.pick("", "u1", "u2"),
		}
		if r.Version < 0 || d.IntN(5) == 0 {
			r.Version = events.AnyVersion
		}
		for range 1 + d.IntN(3) {
			r.Facts = append(r.Facts, d.fact())
		}
		require.NoError(d, events.Encode(&r))
		a.Rows = append(a.Rows, r)
	}
	for range d.IntN(5) / 4 {
		a.Secrets = append(a.Secrets, events.Secret{
			ID: d.pick("acc1", "acc2"), Version: 1 + d.Int64N(6), Sealed: []byte(d.pick("", "s1", "\x00s2")), Digest: []byte("d"),
		})
	}
	return a
}

func (d *differential) fact() events.Fact {
	switch d.IntN(4) {
	case 0:
		return &request.Admitted{Ask: request.Ask{Model: d.pick("", "m", "größe\"\n")}, Plan: []request.Candidate{{Upstream: "u"}}}
	case 1:
		return &request.Dispatched{N: d.IntN(3), Upstream: "u", Account: d.pick("a", "b")}
	case 2:
		return &request.Queued{Upstreams: []string{}, Ticket: d.Uint64(), Deadline: start}
	}
	return &request.Progressed{N: d.IntN(9)}
}

func (d *differential) pick(of ...string) string { return of[d.IntN(len(of))] }

// compare asks both stores the same questions.
func (d *differential) compare() {
	ctx := context.Background()
	h := head(d, d.oracle)
	require.Equal(d, h, head(d, d.other))
	at := events.Position(d.Int64N(int64(h) + 3))
	stream, from := fmt.Sprintf("request/%d", d.IntN(6)), d.Int64N(6)
	q := events.Query{
		Request: d.pick("", "", "0", "1"), Key: d.pick("", "", "k1"), Upstream: d.pick("", "", "u2"), Stream: d.pick("", "", "", stream),
		Type: d.pick("", "", "request.queued"), Text: d.pick("", "", "", `"upstreams":[`, "u2", "é"),
		Through: events.Position(d.Int64N(int64(h)+3)) * events.Position(d.IntN(2)), Newest: d.IntN(2) == 0, Limit: d.IntN(9), After: at * events.Position(d.IntN(2)),
	}
	if d.IntN(2) == 0 {
		q.Since = start.Add(time.Duration(d.Int64N(1e12)))
	}
	if d.IntN(2) == 0 {
		q.Until = start.Add(time.Duration(d.Int64N(1e12)))
	}
	for what, read := range map[string]func(events.Store, func(*committed) bool) error{
		"after":                    func(s events.Store, y func(*committed) bool) error { return s.After(ctx, at, y) },
		"stream":                   func(s events.Store, y func(*committed) bool) error { return s.Stream(ctx, stream, from, y) },
		fmt.Sprintf("find %+v", q): func(s events.Store, y func(*committed) bool) error { return s.Find(ctx, q, y) },
	} {
		var want, got []committed
		require.NoError(d, read(d.oracle, collect(&want)))
		require.NoError(d, read(d.other, collect(&got)))
		require.Equal(d, want, got, what)
	}
	wantLow, err := d.oracle.LowWater(ctx, at)
	require.NoError(d, err)
	gotLow, err := d.other.LowWater(ctx, at)
	require.NoError(d, err)
	require.Equal(d, wantLow, gotLow, "low water at %d", at)
	id, version := d.pick("acc1", "acc2"), d.Int64N(7)
	wantSecret, err := d.oracle.Secret(ctx, id, version)
	require.NoError(d, err)
	gotSecret, err := d.other.Secret(ctx, id, version)
	require.NoError(d, err)
	require.Equal(d, wantSecret, gotSecret)
}

// clone copies what a store may write to: the rows' versions.
func clone(batch []events.Append) []events.Append {
	out := make([]events.Append, len(batch))
	for i, a := range batch {
		out[i] = events.Append{Rows: append([]events.Row(nil), a.Rows...), Secrets: a.Secrets}
	}
	return out
}
