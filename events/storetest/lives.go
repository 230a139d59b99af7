package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// Lives writes the lives of requests to an oracle and to another store, as clocks, ids and callers make them at worst: ids of other
// times than the rows, to the microsecond where a store may draw a line; clocks that go back and leap; ids that are much alike, or are
// none; texts that are no UTF-8; rows of very many facts and of very many bytes; conflicts and repeats in the middle of a batch; two
// writers on the same data; removals a few rows at a time, with appends in between. Both must say the same to every reading. open
// opens the same data each time. check looks at what the store keeps beside its rows.
//
// trouble, which may be nil, makes the next call fail, perhaps: with a context that ends, or a fault of the store. heal is called
// behind that call, with the head that there was before if it has failed: nothing of it may be stored then, nor come to light later.
func Lives(t *testing.T, seed uint64, oracle events.Store, open func(t *testing.T) events.Store, check func(t *testing.T),
	trouble func(r *rand.Rand) (ctx context.Context, heal func(failed bool, head events.Position)),
) {
	l := &lives{
		trouble:      trouble,
		differential: &differential{T: t, Rand: rand.New(rand.NewPCG(seed, 13)), oracle: oracle, other: open(t)},
		now:          start.UnixMicro(), at: map[string]*life{},
	}
	second := open(t)
	for round := range 36 {
		switch l.IntN(8) {
		case 0, 1:
			l.other, second = second, l.other
		case 2:
			require.NoError(t, l.other.Close())
			l.other = open(t)
		case 3:
			l.other = open(t) // the one before is dropped as it is
		}
		l.tick()
		l.write()
		if round%3 == 0 {
			l.read(3)
		}
		if round%9 == 8 {
			l.remove()
			l.read(6)
		}
	}
	l.other = second
	l.read(25)
	l.chains()
	check(t)
}

// life is what the test knows of a stream.
type life struct {
	name    string
	version int64
	id      int64 // the time in the id, microseconds; 0: there is none
	first   events.Position
	gone    bool // nothing may be appended any more
}

type lives struct {
	*differential
	trouble func(*rand.Rand) (context.Context, func(bool, events.Position))
	now     int64 // of the clock, microseconds

	removable bool // all requests can be removed from every store, also from one that spells some texts in its own way
	list      []*life
	at        map[string]*life
	named     int
	past      []events.Append
	lines     []int64 // times at which rows are, or a store may draw a line
}

// tick moves the clock on, and sometimes where it should not go.
func (l *lives) tick() {
	l.now += l.Int64N(20_000_000)
	switch l.IntN(24) {
	case 0:
		l.now -= l.Int64N(200_000_000)
	case 1:
		l.now += l.Int64N(400_000_000)
	case 2:
		l.now += 86_400_000_000
	}
}

// begin makes a new stream.
func (l *lives) begin() *life {
	l.named++
	a := &life{}
	switch l.IntN(12) {
	case 0:
		a.name = fmt.Sprintf("request/%d", l.named)
	case 1:
		a.name = l.pick("upstream/", "request/", "catalog/key/", "") + l.odd() + fmt.Sprint(l.named)
	case 2:
		a.name = "request/" + strings.ToUpper(l.uuid(a))
		a.id = 0
	case 3:
		id := []byte(l.uuid(a))
		id[14] = "1468"[l.IntN(4)]
		a.name, a.id = "request/"+string(id), 0
	case 4:
		a.name, a.id = "request/"+l.uuid(a)+l.pick("0", " ", "x", "\x00"), 0
	default:
		a.name = "request/" + l.uuid(a)
	}
	if l.at[a.name] != nil || l.removable && !plainRequest(a.name) {
		return l.begin()
	}
	l.at[a.name] = a
	l.list = append(l.list, a)
	return a
}

// plainRequest says that a stream is none of a request, or one with a name that every store spells like that.
func plainRequest(stream string) bool {
	return !strings.HasPrefix(stream, events.RequestStreams) || utf8.ValidString(stream) && strings.IndexByte(stream, 0) < 0
}

// uuid is a UUIDv7 of about the time of the clock, or of another one.
func (l *lives) uuid(a *life) string {
	ms := l.now / 1000
	switch l.IntN(16) {
	case 0:
		ms += l.Int64N(200_000) - 100_000
	case 1:
		ms = []int64{0, 1, 1<<48 - 1, 1 << 47, ms - 86_400_000, ms + 86_400_000, 60_000, 1000}[l.IntN(8)]
	}
	a.id = ms * 1000
	mark := []int64{int64(l.named), 7, 0xffffffff, l.Int64N(1 << 32)}[l.IntN(4)] // the last 8 digits, of many the same
	return fmt.Sprintf("%08x-%04x-7%03x-8%03x-%04x%08x", ms>>16, ms&0xffff, l.IntN(4096), l.IntN(4096), l.named&0xffff, mark)
}

func (l *lives) odd() string {
	return l.pick("a", "é\"", "\\", "x\\\"y\\", "\x00", "\xff\xfe", "\x1f\n\t\b", " ", "null,", "]\n[", "\u2028", "\\u0041", "/", strings.Repeat("long ", 60))
}

// when is the time of a row: that of the clock, or one at which a store may draw a line for the stream.
func (l *lives) when(a *life) (at int64) {
	at = l.now + l.Int64N(2_000_000) - 500_000
	switch n := l.IntN(14); {
	case n == 0 && a.id > 0:
		at = a.id - 1_000_000 + l.Int64N(3) - 1
	case n == 1 && a.id > 0:
		at = a.id + 60_000_000 + l.Int64N(3) - 1
	case n == 2 && a.id > 0:
		at = a.id + l.Int64N(3) - 1
	case n == 3:
		at -= l.Int64N(90_000_000)
	case n == 4 && l.IntN(60) == 0:
		at = []int64{0, -1, -62_135_596_800_000_000, 253_402_300_799_999_999}[l.IntN(4)]
	}
	const most = 253_402_300_799_999_999 // the end of the year 9999
	at = min(at, most)
	if l.lines = append(l.lines, at); len(l.lines) > 300 {
		l.lines = l.lines[100:]
	}
	return at
}

// row is one of a stream, mostly its next.
func (l *lives) row(a *life, version int64) events.Row {
	r := events.Row{
		Stream: a.name, Version: version, At: time.UnixMicro(l.when(a)).UTC(), Terminal: l.IntN(4) == 0,
		Key: l.pick("", "k1", "k2", "k1", "k1", l.odd()), Upstream: l.pick("", "u1", "u2", l.odd()), Node: l.pick("n", "n", l.odd()),
	}
	switch own, is := strings.CutPrefix(a.name, events.RequestStreams); {
	case is && l.IntN(12) > 0:
		r.Request = own
	case l.IntN(3) == 0 && len(l.list) > 0:
		r.Request = strings.TrimPrefix(l.list[l.IntN(len(l.list))].name, events.RequestStreams)
	}
	switch l.IntN(12) {
	case 0:
		r.Version = events.AnyVersion
	case 1:
		r.Version += l.Int64N(4) - 1
	}
	facts := 1 + l.IntN(3)
	switch l.IntN(500) {
	case 0:
		facts = l.IntN(2 * events.BlockSize)
	case 1:
		facts = events.BlockSize
	case 2, 3, 4, 5, 6, 7, 8, 9:
		facts = l.IntN(500)
	}
	r.Facts = append(r.Facts, l.fact())
	for len(r.Facts) < facts {
		r.Facts = append(r.Facts, r.Facts[0])
	}
	if l.IntN(30) == 0 {
		r.Facts[0] = &request.Resumed{Upstream: strings.Repeat("é", 1+l.IntN(1<<(8+l.IntN(10))))}
	}
	require.NoError(l, events.Encode(&r))
	return r
}

// write appends a batch, of which parts are refused or known already.
func (l *lives) write() {
	batch := make([]events.Append, 1+l.IntN(200)>>(2*l.IntN(3)))
	seen := map[string]int64{} // within the batch
	for i := range batch {
		if len(l.past) > 0 && l.IntN(20) == 0 {
			batch[i] = l.past[l.IntN(len(l.past))]
			continue
		}
		a := &batch[i]
		for range 1 + l.IntN(4)/3*l.IntN(4) {
			s := l.some()
			r := l.row(s, s.version+seen[s.name])
			seen[s.name] += int64(len(r.Facts))
			a.Rows = append(a.Rows, r)
		}
		if l.IntN(30) == 0 {
			a.Secrets = append(a.Secrets, events.Secret{ID: l.odd(), Version: 1 + l.Int64N(3), Sealed: []byte(l.odd()), Digest: []byte("d")})
		}
	}
	mine, yours := clone(batch), clone(batch)
	low := events.Position(l.Int64N(50))
	want, err := l.oracle.Append(context.Background(), mine, low)
	require.NoError(l, err)
	var got []events.Result
	l.despite(func(ctx context.Context) error {
		got, err = l.other.Append(ctx, yours, low)
		return err
	}, func() { require.Equal(l, clone(batch), yours, "versions are the caller's until rows are stored") })
	for i := range want {
		require.Equal(l, want[i].First, got[i].First, "append %d: %q, %v", i, batch[i].Rows[0].Stream, got[i].Err)
		require.Equal(l, errors.Is(want[i].Err, events.ErrConflict), errors.Is(got[i].Err, events.ErrConflict), "append %d: %v", i, got[i].Err)
		at := want[i].First
		for j := range mine[i].Rows {
			r := &mine[i].Rows[j]
			require.Equal(l, r.Version, yours[i].Rows[j].Version, "append %d, row %d", i, j)
			if s := l.at[r.Stream]; want[i].Err == nil {
				if r.Version == 0 {
					s.first = at
				}
				s.version = max(s.version, r.Version+int64(len(r.Facts)))
				at += events.Position(len(r.Facts))
			}
		}
		if l.IntN(4) == 0 {
			l.past = append(l.past, batch[i])
		}
	}
	if len(l.past) > 120 {
		l.past = l.past[60:]
	}
}

// despite does what changes the other store, at times in trouble. untouched is called where it has failed, and it is done again.
func (l *lives) despite(do func(context.Context) error, untouched func()) {
	if l.trouble == nil || l.IntN(3) > 0 {
		require.NoError(l, do(context.Background()))
		return
	}
	before := head(l, l.other)
	ctx, heal := l.trouble(l.Rand)
	err := do(ctx)
	if heal(err != nil, before); err == nil {
		return
	}
	require.ErrorIs(l, err, events.ErrUnavailable)
	require.NotErrorIs(l, err, events.ErrInDoubt)
	require.Equal(l, before, head(l, l.other), "%v", err)
	untouched()
	require.NoError(l, do(context.Background()))
}

// some is a new stream, a recent one, or any other.
func (l *lives) some() *life {
	n := len(l.list)
	switch k := l.IntN(10); {
	case k < 4 || n == 0:
		return l.begin()
	case k < 8:
		n = min(n, 12)
	}
	if s := l.list[len(l.list)-1-l.IntN(n)]; !s.gone {
		return s
	}
	return l.begin()
}

// remove takes away the requests that began in a range, a few rows at a time, while others go on.
func (l *lives) remove() {
	h := head(l, l.oracle)
	r := events.Removal{First: 1 + events.Position(l.Int64N(int64(h))), Through: h}
	r.Last = r.First + events.Position(l.Int64N(int64(h-r.First)+1))
	removed := func(a events.Append) bool {
		for i := range a.Rows {
			if l.at[a.Rows[i].Stream].gone {
				return true
			}
		}
		return false
	}
	for _, a := range l.list {
		a.gone = a.gone || strings.HasPrefix(a.name, events.RequestStreams) && r.First <= a.first && a.first <= r.Last
	}
	kept := l.past[:0]
	for _, a := range l.past {
		if !removed(a) {
			kept = append(kept, a)
		}
	}
	l.past = kept
	for left := 2; left > 0; {
		left = 0
		for range 1 + l.IntN(4) {
			n, err := l.oracle.Remove(context.Background(), r, 1+l.IntN(1<<l.IntN(10)))
			require.NoError(l, err)
			left += n
			l.despite(func(ctx context.Context) error {
				n, err = l.other.Remove(ctx, r, 1+l.IntN(1<<l.IntN(10)))
				return err
			}, func() {})
			left += n
		}
		if l.tick(); l.IntN(4) == 0 {
			l.write()
		}
	}
}
