package storetest

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// Search fills a store with some blocks of the search index beside an oracle, with conflicts, repeats, rows of very many
// facts, a second writer, a store that is opened anew, and removals in between, and wants the same answers to random
// filters. open opens the same data each time. check looks at the index itself.
func Search(t *testing.T, seed uint64, oracle events.Store, open func(t *testing.T) events.Store, check func(t *testing.T)) {
	s := &searched{differential: &differential{
		T: t, Rand: rand.New(rand.NewPCG(seed, 11)), oracle: oracle, other: open(t), versions: map[string]int64{},
	}}
	second := open(t)
	for round := 0; head(t, oracle) < 4*events.BlockSize; round++ {
		switch s.IntN(6) {
		case 0:
			s.other, second = second, s.other
		case 1:
			require.NoError(t, s.other.Close())
			s.other = open(t)
		}
		s.fill()
		if round%3 == 0 {
			s.ask(6)
		}
	}
	s.ask(40)
	check(t)
	for first := range events.Position(3) {
		s.remove(events.Removal{First: first*events.BlockSize + 9, Last: (first + 1) * events.BlockSize, Through: head(t, oracle)})
		s.ask(20)
		s.fill()
	}
	check(t)
	s.ask(40)
}

// Remake is the statement by which a store's migration, in the folder dir, makes the search index from the events.
func Remake(t testing.TB, migrations fs.FS, dir string) string {
	t.Helper()
	file, err := fs.ReadFile(migrations, path.Join(dir, "0004_blocks.sql"))
	require.NoError(t, err)
	_, query, found := strings.Cut(string(file), "INSERT INTO blocks (block, kind, value, offsets)\n")
	require.True(t, found)
	query, _, found = strings.Cut(query, ";\n")
	require.True(t, found)
	return query
}

type searched struct {
	*differential
	streams int
	last    []events.Append
	removed bool
}

// fill appends a batch of some hundred rows; a part of it is refused.
func (s *searched) fill() {
	batch := make([]events.Append, 0, 400)
	for range 200 + s.IntN(200) {
		kind := s.IntN(40)
		if s.removed && kind < 2 { // nothing may be appended any more to what is gone
			kind = 4
		}
		switch kind {
		case 0:
			batch = append(batch, one(s.fresh(fmt.Sprintf("request/%d", s.IntN(s.streams+1))))) // most are there already
		case 1:
			if len(s.last) > 0 {
				batch = append(batch, s.last[s.IntN(len(s.last))]) // a repeat
			}
		case 2:
			a := one(s.fresh(s.name()))
			a.Rows = append(a.Rows, s.fresh(s.name()), row(s, "node/a", 1<<40, 1)) // refused as a whole
			batch = append(batch, a)
		case 3:
			r := s.fresh("node/b")
			r.Version = events.AnyVersion
			batch = append(batch, one(r))
		default:
			batch = append(batch, one(s.fresh(s.name())))
		}
	}
	if s.IntN(8) == 0 {
		many := s.fresh(s.name())
		for range s.IntN(2 * events.BlockSize) {
			many.Facts = append(many.Facts, many.Facts[0])
		}
		require.NoError(s, events.Encode(&many))
		batch[s.IntN(len(batch))] = one(many)
	}
	s.last = clone(batch)
	mine, yours := clone(batch), clone(batch)
	want, err := s.oracle.Append(context.Background(), mine, 0)
	require.NoError(s, err)
	got, err := s.other.Append(context.Background(), yours, 0)
	require.NoError(s, err)
	for i := range want {
		require.Equal(s, want[i].First, got[i].First, "append %d", i)
	}
}

// name is that of a new stream, of one of several days.
func (s *searched) name() string {
	s.streams++
	if s.IntN(4) == 0 {
		return fmt.Sprintf("request/%d", s.streams)
	}
	ms := start.UnixMilli() + s.Int64N(9)*86_400_000
	return fmt.Sprintf("request/%08x-%04x-7000-8000-%012x", ms>>16, ms&0xffff, s.streams)
}

// fresh is a first row of a stream: keys, upstreams and types from frequent to rare.
func (s *searched) fresh(stream string) events.Row {
	r := events.Row{
		Stream: stream, At: start.Add(time.Duration(s.Int64N(1e12))),
		Key: s.often("k", 9), Upstream: s.often("u", 5), Facts: []events.Fact{&request.Resumed{Upstream: s.pick("here", "there")}},
	}
	switch s.IntN(50) {
	case 0:
		r.Facts = []events.Fact{&request.Progressed{N: 1}}
	case 1, 2, 3:
		r.Facts = append(r.Facts, &request.Dispatched{N: 1}, &request.Resumed{})
	case 4, 5, 6, 7:
		r.Facts = []events.Fact{&request.Settled{}} // of a higher schema
	}
	require.NoError(s, events.Encode(&r))
	return r
}

// often is one of the names, each half as frequent as the one before, or none.
func (s *searched) often(name string, names int) string {
	for i := range names {
		if s.IntN(2) == 0 {
			return fmt.Sprint(name, i)
		}
	}
	return ""
}

func (s *searched) ask(questions int) {
	h := int64(head(s, s.oracle))
	for range questions {
		q := events.Query{
			Key: s.pick("", s.often("k", 9), "k8", "nobody"), Upstream: s.pick("", "", s.often("u", 5)),
			Type:         s.pick("", "", "request.resumed", "request.progressed", "attempt.dispatched", "request.settled", "request", "resumed"),
			StreamPrefix: s.pick("", "", "", "node/", "request/1"), Text: s.pick("", "", "", "there"),
			Newest: s.IntN(2) == 0, Limit: s.IntN(3) * s.IntN(200),
			After:   events.Position(s.Int64N(h+2)) * events.Position(s.IntN(2)),
			Through: events.Position(s.Int64N(h+2)) * events.Position(s.IntN(2)),
		}
		if s.IntN(3) == 0 {
			q.Since = start.Add(time.Duration(s.Int64N(1e12)))
		}
		if s.IntN(3) == 0 {
			q.Until = start.Add(time.Duration(s.Int64N(1e12)))
		}
		var want, got []committed
		require.NoError(s, s.oracle.Find(context.Background(), q, collect(&want)))
		require.NoError(s, s.other.Find(context.Background(), q, collect(&got)))
		require.Equal(s, len(want), len(got), "%+v", q)
		for i := range want {
			require.Equal(s, want[i].Position, got[i].Position, "row %d of %+v", i, q)
		}
		if len(want) > 0 {
			i := s.IntN(len(want))
			require.Equal(s, want[i], got[i], "%+v", q)
		}
	}
}

func (s *searched) remove(r events.Removal) {
	s.removed = true
	for _, store := range []events.Store{s.oracle, s.other} {
		for n := 1; n > 0; {
			var err error
			n, err = store.Remove(context.Background(), r, 1000)
			require.NoError(s, err)
		}
	}
}
